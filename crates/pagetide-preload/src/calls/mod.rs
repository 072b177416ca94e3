//! The functions that a program calls instead of the C library's, a file for each kind.
//!
//! Each follows one pattern: what is not managed goes on to the next definition untouched; what is
//! managed becomes a request; where the kernel has the file by now, the call goes on after all.
//! All keep the C contract of their name, and no more: they may be called from any thread, in a
//! signal's handler, between fork and exec.

mod aliases;
mod copy;
mod descriptors;
#[cfg(target_arch = "x86_64")]
mod exec_lists;
mod filling;
mod identity;
mod interfaces;
#[cfg(target_arch = "x86_64")]
mod jumps;
mod locks;
mod maps;
mod metadata;
mod open;
mod paths;
mod read_write;
pub(crate) mod spawn;
mod stdio;
pub(crate) mod streams;
mod waits;
