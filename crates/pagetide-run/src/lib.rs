//! Runs a program under a memory limit: the server of its file I/O, and the protocol.
//!
//! **Problem.** Unmodified programs use as much page cache as is free. **Idea.** One process, the
//! server, has the page cache. A library, loaded with `LD_PRELOAD`, sends file I/O to the server
//! instead of making system calls.
//!
//! ```text
//!   program + libpagetide_preload.so --socket a thread--+
//!   its child                        --socket a thread--+--> Server --> PageCache --> files
//!   its child's child                --socket a thread--+
//! ```
//!
//! At each moment a file is either *managed* or *the kernel's*. The server manages a file only with
//! exclusive access: it has the only open file description, with a lease. Programs hold stand-ins:
//! descriptors without I/O in the kernel. Any other opener, in the run or outside, breaks the lease
//! and waits until dirty pages are written back and all pages are dropped. From then on the kernel
//! serves the file to all, until the last program of the run has closed the file.
//!
//! [`wire`] is the protocol. [`program`] inspects executables before they start, for both ends. All
//! other modules belong to the server. This crate uses the public interface of the library
//! `pagetide`, and [`pagetide::seam`].
//!
//! **Ignored.** Page cache limits for files left to the kernel. The summary of a run counts these
//! files.

pub mod program;
pub mod storage;
pub mod wire;

#[cfg(feature = "server")]
mod descendants;
#[cfg(feature = "server")]
mod errno;
#[cfg(feature = "server")]
mod filter;
#[cfg(feature = "server")]
mod job_control;
#[cfg(feature = "server")]
pub mod launch;
#[cfg(feature = "server")]
mod library;
#[cfg(feature = "server")]
mod limits;
#[cfg(feature = "server")]
mod run;
#[cfg(feature = "server")]
mod server;

#[cfg(feature = "server")]
pub use {
    filter::Filter,
    library::find_library,
    run::{Ended, Mappings, Prepared, Program, RunError},
    server::{Listener, Say, Server, Serving},
};
