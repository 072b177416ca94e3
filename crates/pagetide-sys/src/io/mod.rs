//! A file's bytes, in and out: by plain calls and by io_uring, past the kernel's cache; what that
//! cache holds; and leases, which tell of other openers.

pub(crate) mod aligned;
pub(crate) mod file;
pub mod kernel_cache;
pub mod lease;
pub(crate) mod ring;
