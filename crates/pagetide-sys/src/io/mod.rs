//! File I/O by plain calls and io_uring, queries of the kernel's page cache, and leases.

pub(crate) mod aligned;
pub(crate) mod file;
pub mod kernel_cache;
pub mod lease;
pub(crate) mod ring;
