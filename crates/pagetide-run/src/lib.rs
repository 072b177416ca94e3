//! Runs a program under a memory limit: the server of the program's file I/O, and the protocol
//! between the server and the program.
//!
//! **Problem.** Users cannot change the programs they run, and the kernel gives the programs' file
//! I/O as much memory as is free. **Idea.** One process has the page cache and is the server. A
//! library, loaded into the program with `LD_PRELOAD`, sends file I/O to the server instead of
//! making system calls.
//!
//! ```text
//!   program + libpagetide_preload.so --socket a thread--+
//!   its child                        --socket a thread--+--> Server --> PageCache --> files
//!   its child's child                --socket a thread--+
//! ```
//!
//! At each moment a file is either *managed* or *the kernel's*. The server manages a file only with
//! exclusive access: the server has the only open file description of the file, with a lease. The
//! programs hold stand-ins: descriptors without any I/O in the kernel. Any other opener, in the run
//! or outside, breaks the lease. The opener waits until dirty pages are written back and all pages
//! are dropped. From then on the kernel serves the file to all, until the last program of the run
//! has closed the file.
//!
//! [`wire`] is the protocol between the server and the library in the program. [`program`] inspects
//! executables before they start, for both ends. All other modules belong to the server. This crate
//! uses the public interface of the library `pagetide`, and [`pagetide::seam`].
//!
//! **Ignored.** Limits on the kernel's page cache for the files left to the kernel. The summary at
//! the end of a run counts these files.

pub mod program;
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
    run::{Ended, Prepared, Program, RunError},
    server::{Listener, Say, Server, Serving},
};
