//! What users see: a page cache and how it is built, open files, groups, the frame allocator
//! alone, and the errors of each.

pub(crate) mod builder;
pub(crate) mod cache;
pub(crate) mod errors;
pub(crate) mod file;
pub(crate) mod frame_allocator;
pub(crate) mod group;
pub(crate) mod open;
pub mod seam;
