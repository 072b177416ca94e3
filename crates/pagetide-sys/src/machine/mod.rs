//! Linux's view of the machine: CPUs, nodes, devices, signals, rights, per-CPU locks.

#[cfg(feature = "run")]
pub mod caught;
pub(crate) mod cpu;
pub(crate) mod cpu_cache;
pub mod device;
#[cfg(feature = "run")]
pub mod inherited;
pub mod numa;
pub(crate) mod patience;
pub(crate) mod prefetch;
pub mod rights;
pub(crate) mod room;
pub mod sentinel;
pub mod signals;
pub(crate) mod try_lock;
