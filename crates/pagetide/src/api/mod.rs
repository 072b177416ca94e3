//! What users see: a page cache and how it is built, open files, groups, the frame allocator
//! alone, what all of them count, and the socket by which another process asks and steers.

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
