//! All managed memory: the frames' mapping, the arena, raw copies, and memory shared with other
//! processes.

pub(crate) mod addresses;
pub(crate) mod arena;
mod copy;
pub(crate) mod frames;
pub(crate) mod heap;
pub mod huge_buffer;
pub(crate) mod kernel_mapping;
pub(crate) mod mapped;
pub mod miss_ring;
pub(crate) mod numbers;
pub mod shared;
pub(crate) mod target;
pub mod window;
