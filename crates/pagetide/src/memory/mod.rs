//! Memory and stores: frames, nodes of fast and slow memory, the compressed tier, files, io_uring,
//! and locks.

pub(crate) mod compressed;
pub(crate) mod frames;
pub(crate) mod io_pool;
pub(crate) mod locks;
pub(crate) mod node;
pub(crate) mod percpu;
pub(crate) mod store;
pub(crate) mod tier;
