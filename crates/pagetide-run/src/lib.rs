//! A program under a memory limit: the server of its file I/O, and what both ends say to each
//! other.
//!
//! **Problem.** The programs people run cannot be changed, and their file I/O takes as much memory
//! as the kernel gives it. **Idea.** One process has the page cache and is the server; a library
//! that is loaded before the program's own sends it what would have been system calls.
//!
//! ```text
//!   program + libpagetide_preload.so --socket a thread--+
//!   its child                        --socket a thread--+--> Server --> PageCache --> files
//!   its child's child                --socket a thread--+
//! ```
//!
//! Each file is at each moment *ours* or *the kernel's*. Ours means proven exclusive: the server
//! has the only open file of it, with a lease, and the programs have stand-ins that the kernel lets
//! nothing be done by. Any other opener, in the run or outside, breaks the lease, and waits until
//! what is dirty is written back and nothing is kept; from then on the file is the kernel's, for
//! all, until the last of the run's programs has closed it.
//!
//! [`wire`] is what the server and the library inside the program say to each other, and
//! [`program`] what both look at before a program is executed; all else is the server's end. Of the
//! library `pagetide` it uses the public interface and [`pagetide::seam`].
//!
//! **Ignored.** Limits on what the kernel caches of its files; the run's end says how many those
//! were.

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
