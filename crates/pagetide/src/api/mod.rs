//! The public interface: page cache, files, groups, frame allocator, statistics, and the control
//! socket.

pub(crate) mod builder;
pub(crate) mod cache;
#[cfg(feature = "control")]
pub mod control;
pub(crate) mod file;
pub(crate) mod files;
pub(crate) mod frame_allocator;
pub(crate) mod group;
pub(crate) mod metrics;
pub(crate) mod resident;
pub mod seam;
pub(crate) mod stats;
