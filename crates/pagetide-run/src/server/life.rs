//! Watches processes, to learn of their ends.
//!
//! ```text
//!   killed --> descriptors close, highest first --> the parent's wait returns
//!               our sockets  |  pipes: readers see the end   |  a pidfd is readable
//! ```
//!
//! A process counts as ended when the far end of a socket is closed, because each thread waits for
//! the reply to a request. If a child keeps that end open for longer, the pidfd decides.
//!
//! Source: pidfd_open(2), poll(2).

use crate::errno::Errno;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::sync::Arc;

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A watch of a process. May outlive the process.
pub(super) enum Life {
    /// A pidfd, readable once the parent can wait for the process.
    Watched(OwnedFd),
    /// The process ended before the watch began.
    Over,
    /// The process cannot be watched: another PID namespace, or no free descriptor.
    Unknown,
}

impl Life {
    /// Watches the process with the system's id `pid`.
    pub(super) fn of(pid: i32) -> Life {
        let Some(pid) = Pid::from_raw(pid) else { return Life::Unknown };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => Life::Watched(process),
            Err(Errno::SRCH) => Life::Over,
            Err(_) => Life::Unknown,
        }
    }
}

impl Life {
    /// Returns true if the process is known to have ended.
    pub(super) fn is_over(&self) -> bool {
        let Life::Watched(process) = self else { return matches!(self, Life::Over) };
        let mut looks = [PollFd::new(process, PollFlags::IN)];
        // A failed poll does not show an end.
        let _ = retry_on_intr(|| poll(&mut looks, Some(&NOW)));
        !looks[0].revents().is_empty()
    }
}

/// A thread of a process.
pub(super) struct Link {
    pub(super) socket: OwnedFd,
    pub(super) life: Arc<Life>,
}

impl Link {
    pub(super) fn is_of_same_process(&self, other: &Link) -> bool {
        Arc::ptr_eq(&self.life, &other.life)
    }

    pub(super) fn is_over(&self) -> bool {
        let mut looks = self.looks(PollFlags::empty());
        // A failed poll does not show an end.
        let _ = retry_on_intr(|| poll(&mut looks, Some(&NOW)));
        matches!(*self.life, Life::Over) || has_ended(&looks)
    }

    /// Waits for a packet or the process's end. Returns true if the process has ended.
    pub(super) fn ends_before_packet(&self) -> bool {
        let mut looks = self.looks(PollFlags::IN);
        // After a failed poll, the receive waits instead.
        let _ = retry_on_intr(|| poll(&mut looks, None));
        has_ended(&looks)
    }

    /// Returns the poll entries for the process's end, and for `wanted` events of the socket.
    fn looks(&self, wanted: PollFlags) -> [PollFd<'_>; 2] {
        let process = match &*self.life {
            Life::Watched(process) => PollFd::new(process, PollFlags::IN),
            Life::Over | Life::Unknown => PollFd::new(&self.socket, PollFlags::empty()),
        };
        [PollFd::new(&self.socket, wanted), process]
    }
}

fn has_ended([socket, process]: &[PollFd<'_>; 2]) -> bool {
    socket.revents().contains(PollFlags::HUP) || !process.revents().is_empty()
}

/// Returns the threads of ended processes, by a single poll.
pub(super) fn collect_ended(links: Vec<Arc<Link>>) -> Vec<Arc<Link>> {
    if links.is_empty() {
        return links;
    }
    let mut looks: Vec<_> = links.iter().map(|link| link.looks(PollFlags::empty())).collect();
    let _ = retry_on_intr(|| poll(looks.as_flattened_mut(), Some(&NOW)));
    let ended = looks.iter().map(has_ended);
    links.iter().zip(ended).filter(|(_, ended)| *ended).map(|(link, _)| link.clone()).collect()
}
