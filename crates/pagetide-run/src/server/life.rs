//! Whether a process still lives.
//!
//! Source: pidfd_open(2), poll(2).

use crate::errno::Errno;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A process, as long as it lives and after that.
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

    pub(super) fn is_over(&self) -> bool {
        match self.look() {
            Some(look) => {
                retry_on_intr(|| poll(&mut [look.clone()], Some(&NOW))).is_ok_and(|nr| nr > 0)
            }
            None => matches!(self, Life::Over),
        }
    }

    /// What is polled for the process's end.
    fn look(&self) -> Option<PollFd<'_>> {
        match self {
            Life::Watched(process) => Some(PollFd::new(process, PollFlags::IN)),
            Life::Over | Life::Unknown => None,
        }
    }

    /// Waits for a packet of the process, or for its end; returns whether it has ended. A child may
    /// have the socket open for much longer.
    pub(super) fn ends_before_packet(&self, socket: BorrowedFd<'_>) -> bool {
        let Some(look) = self.look() else { return self.is_over() };
        let mut both = [PollFd::from_borrowed_fd(socket, PollFlags::IN), look];
        // What cannot be waited for here, is waited for as the packet is received.
        let _ = retry_on_intr(|| poll(&mut both, None));
        !both[1].revents().is_empty()
    }
}

/// Which of the processes have ended while they were watched: one look for all.
pub(super) fn collect_ended(mut lives: Vec<Arc<Life>>) -> Vec<Arc<Life>> {
    lives.retain(|life| life.look().is_some());
    let mut looks: Vec<PollFd<'_>> = lives.iter().filter_map(|life| life.look()).collect();
    if looks.is_empty() {
        return Vec::new();
    }
    // Where they cannot be looked at, none is known to have ended.
    let _ = retry_on_intr(|| poll(&mut looks, Some(&NOW)));
    let has_ended = looks.iter().map(|look| !look.revents().is_empty());
    lives.iter().zip(has_ended).filter(|(_, ended)| *ended).map(|(life, _)| life.clone()).collect()
}
