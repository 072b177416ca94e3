//! Memory and the stores behind it: frames, nodes of fast and slow memory, the compressed tier,
//! files and io_uring; and the locks that threads meet on.

// What loom explores: the frame allocator, with the locks of `sync`.
pub(crate) mod frames;
pub(crate) mod percpu;
pub(crate) mod sync;

#[cfg(not(loom))]
pub(crate) mod compressed;
#[cfg(not(loom))]
pub(crate) mod io_pool;
#[cfg(not(loom))]
pub(crate) mod locks;
#[cfg(not(loom))]
pub(crate) mod node;
#[cfg(not(loom))]
pub(crate) mod store;
#[cfg(not(loom))]
pub(crate) mod tier;
