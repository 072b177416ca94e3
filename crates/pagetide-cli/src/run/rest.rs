//! What is left when the program has ended: processes it has started, and not waited for.
//!
//! ```text
//!   pagetide run -- sh -c 'server & exit 3'
//!
//!   sh      |--------| exit 3
//!   server     |-------------------------------| its files are served, signals reach it
//!   run     |-------------------------------------| 3
//! ```
//!
//! They still need the page cache, so the run goes on; who waits is told why, and a signal ends it
//! by ending them. They are found by the doorbell they all have inherited: parents, groups and
//! sessions are theirs to change.

use super::launch::{Caught, Forwarder};
use crate::failure::Failure;
use crate::terminal;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Most that are still there are about to end. After so long, somebody wonders.
const SILENCE: Duration = Duration::from_secs(1);

/// All processes that can reach us.
#[derive(Clone)]
pub(super) struct Tree {
    /// The far end of the doorbell: a socket's number in the system.
    pub(super) inode: u64,
}

impl Tree {
    /// Those that inherit `doorbell`, or will.
    pub(super) fn of(doorbell: &OwnedFd) -> io::Result<Tree> {
        let inode = fs::metadata(format!("/proc/self/fd/{}", doorbell.as_raw_fd()))?.ino();
        Ok(Tree { inode })
    }

    /// Those that are there now. Costs a look at every descriptor of this user's processes.
    fn processes(&self) -> Vec<Pid> {
        let socket = PathBuf::from(format!("socket:[{}]", self.inode));
        let holds_it = |pid: &Pid| {
            // It may have ended meanwhile, or be somebody else's.
            let descriptors = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()));
            let mut links = descriptors.into_iter().flatten().flatten();
            links.any(|entry| fs::read_link(entry.path()).is_ok_and(|link| link == socket))
        };
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter_map(Pid::from_raw).filter(holds_it).collect()
    }

    /// Passes `signal` on to all of them. What a terminal sends to a group may not reach them, and
    /// shells have them ignore it: it asks them to end, in other words.
    fn tell(&self, signal: Signal) {
        let signal = match signal {
            Signal::INT | Signal::QUIT => Signal::TERM,
            signal => signal,
        };
        for process in self.processes() {
            // It may have ended already.
            let _ = kill_process(process, signal);
        }
    }
}

/// Waits until the last process of `tree` is gone: then nobody is left to send to `served`.
///
/// # Errors
/// Where signals cannot be caught.
pub(super) fn wait_for(tree: &Tree, served: &Receiver<()>) -> Result<(), Failure> {
    let told = tree.clone();
    let _forwarder = Caught::new()
        .and_then(|caught| Forwarder::start(caught, move |signal| told.tell(signal)))
        .map_err(|error| Failure::on("watch for signals", &error))?;
    if served.recv_timeout(SILENCE) == Err(RecvTimeoutError::Timeout) {
        let nr_left = tree.processes().len();
        terminal::note(&format!(
            "pagetide: the program has ended, and {nr_left} of its processes not yet: waiting for \
             them (a signal to this process ends them)"
        ));
        let _ = served.recv();
    }
    Ok(())
}
