//! Changes that are being made, and whether the process that asked for them still lives.
//!
//! **Problem.** A process is killed while its packet is here. Its parent's wait returns, and the
//! packet changes the file after that, as if the dead wrote on. **Idea.** A change is listed before
//! its process is looked at, and is not made if that has ended. A request waits for the changes
//! that are listed for processes that have ended by now.
//!
//! ```text
//!   writer   sends a packet, is killed           here   listed --> alive? --> made --> struck off
//!   parent   wait returns --> any request  --------->   listed for a dead process? waits for it
//! ```
//!
//! **Invariants.** A request that was sent after its sender saw a process end finds each change of
//! that process either made or never to be made: one that was not listed yet is looked at later,
//! when the process has ended. A listed change waits for no turn, so a request that has one may
//! wait for it.
//!
//! **Ignored.** A process whose number is another's by the time its greeting is read.

use super::identity::lock;
use crate::errno::Errno;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Whether a process still lives.
pub(super) enum Life {
    /// Its descriptor is readable once the process can be waited for.
    Watched(OwnedFd),
    /// It had ended before it was looked at.
    Over,
    /// It cannot be looked at: it is of another name space, or descriptors are short.
    Unknown,
}

impl Life {
    /// That of a process by the system's number.
    pub(super) fn of(pid: i32) -> Life {
        let Some(pid) = Pid::from_raw(pid) else { return Life::Unknown };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => Life::Watched(process),
            Err(Errno::SRCH) => Life::Over,
            Err(_) => Life::Unknown,
        }
    }

    fn is_over(&self) -> bool {
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        match self {
            Life::Watched(process) => {
                let look = || poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&NOW));
                retry_on_intr(look).is_ok_and(|nr| nr > 0)
            }
            Life::Over => true,
            Life::Unknown => false,
        }
    }
}

/// The changes that are being made now.
#[derive(Default)]
pub(super) struct Changes {
    listed: Mutex<Listed>,
    ended: Condvar,
}

#[derive(Default)]
struct Listed {
    authors: Vec<Arc<Life>>,
    /// Requests that wait for the end of one: without them, no wake-up is paid for.
    nr_waiting: usize,
}

/// What a request is made by: a process, and what it waits for.
#[derive(Clone, Copy)]
pub(super) struct Author<'a> {
    changes: &'a Changes,
    life: &'a Arc<Life>,
}

/// A change that is being made, until dropped.
pub(super) struct Change<'a>(Author<'a>);

impl<'a> Author<'a> {
    pub(super) fn new(changes: &'a Changes, life: &'a Arc<Life>) -> Author<'a> {
        Author { changes, life }
    }

    /// Begins a change. The caller has the turns it needs, and waits for none until it has made it.
    ///
    /// # Errors
    /// The process has ended: it is not to be made.
    pub(super) fn begin(self) -> Result<Change<'a>, Errno> {
        lock(&self.changes.listed).authors.push(Arc::clone(self.life));
        let change = Change(self);
        if self.life.is_over() { Err(Errno::SRCH) } else { Ok(change) }
    }

    /// Waits for what is being changed for other processes that have ended. The caller holds
    /// turns at most.
    pub(super) fn settle(self) {
        let has_ended = |life: &Arc<Life>| !Arc::ptr_eq(life, self.life) && life.is_over();
        let mut listed = lock(&self.changes.listed);
        while listed.authors.iter().any(has_ended) {
            listed.nr_waiting += 1;
            let waited = self.changes.ended.wait(listed);
            listed = waited.unwrap_or_else(PoisonError::into_inner);
            listed.nr_waiting -= 1;
        }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let Author { changes, life } = self.0;
        let mut listed = lock(&changes.listed);
        if let Some(at) = listed.authors.iter().position(|one| Arc::ptr_eq(one, life)) {
            listed.authors.swap_remove(at);
        }
        if listed.nr_waiting > 0 {
            changes.ended.notify_all();
        }
    }
}
