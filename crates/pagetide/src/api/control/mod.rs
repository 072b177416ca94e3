//! Control from outside the process: a socket for each cache.
//!
//! Problem: an operator inspects and limits a cache without the program's help. Idea: a thread
//! answers the process's own user over a Unix socket, and takes no part in reads and writes.
//!
//! ```text
//!   ask ---> socket of the cache ---> server (limits) ---> act ---> PageCache
//!   Prometheus ---> port of the cache ---> server ---> metrics as text
//! ```
//!
//! Off unless a program starts it, as `pagetide run` does. `pagetide ctl` and `pagetide top` are
//! clients. Requests and answers are lines of [JSON](ControlRequest).
//!
//! ```
//! use pagetide::control::{Answer, Control, ControlRequest, ask};
//! use pagetide::{Bytes, PageCache};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let cache = PageCache::builder().memory(Bytes(8 << 20)).build()?;
//! # #[cfg(any())]
//! let control = Control::start(&cache, "search index")?;
//! # let control = Control::start_in(&folder.path().join("own"), &cache, "search index")?;
//! let answer = ask(control.path(), &ControlRequest::Stats, Duration::from_secs(1))?;
//! assert!(matches!(answer, Answer::Stats(stats) if stats.memory_bytes == 8 << 20));
//! # Ok(())
//! # }
//! ```

mod act;
mod client;
mod document;
mod door;
mod files;
mod http;
mod place;
mod request;

pub use client::{AskError, ask};
pub use document::{
    DumpedFile, FileDocument, GroupDocument, LatencyDocument, SettingDocument, SizeDocument,
    StatsDocument, TierDocument,
};
pub use http::MetricsServer;
pub use place::{SocketPlace, folder, list};
pub use request::{Answer, ControlRequest, REQUEST_BYTES_MAX};

use crate::api::cache::PageCache;
use door::{Door, Protocol};
use request::Reply;
use rustix::net::sockopt::socket_peercred;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

/// The socket of a cache. Keeps the cache alive. Removed when dropped.
///
/// # Concurrency
/// One thread executes the calls of [`PageCache`] for all clients in turn, under the usual locks.
/// Clients are this process's user, and root.
pub struct Control {
    path: PathBuf,
    _door: Door,
}

impl Control {
    /// Starts a socket in the user's [folder]. `name` is shown to people.
    ///
    /// # Errors
    /// The system's error for the folder, the socket or the thread.
    pub fn start(cache: &PageCache, name: &str) -> io::Result<Control> {
        Control::start_in(&folder(), cache, name)
    }

    /// Starts a socket in another folder, which is created, or must be private to this user.
    ///
    /// # Errors
    /// As [`Control::start`].
    pub fn start_in(folder: &Path, cache: &PageCache, name: &str) -> io::Result<Control> {
        let (listener, path) = place::listen_in(folder)?;
        let protocol = Lines { cache: cache.clone(), name: name.to_owned() };
        Ok(Control { path, _door: Door::open("pagetide-ctl", listener, protocol)? })
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Control({})", self.path.display())
    }
}

struct Lines {
    cache: PageCache,
    name: String,
}

impl Protocol for Lines {
    const REQUEST_BYTES_MAX: usize = REQUEST_BYTES_MAX;

    fn admits(&self, client: BorrowedFd<'_>) -> bool {
        let own = rustix::process::geteuid();
        socket_peercred(client).is_ok_and(|peer| peer.uid == own || peer.uid.is_root())
    }

    fn whole(&self, received: &[u8]) -> Option<usize> {
        received.iter().position(|byte| *byte == b'\n').map(|end| end + 1)
    }

    fn answer(&mut self, request: &[u8]) -> Vec<u8> {
        let answer = ControlRequest::decode(request)
            .and_then(|request| act::act(&self.cache, &self.name, &request));
        answer.map_or_else(Reply::Error, Reply::Ok).encode()
    }
}

#[cfg(test)]
mod tests;
