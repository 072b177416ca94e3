//! Whether a process still lives.
//!
//! ```text
//!   killed --> its descriptors are closed, the highest first --> its parent can wait for it
//!                our sockets  |  its pipes: their ends are seen     |  a pidfd is readable
//! ```
//!
//! So a process has ended for us as soon as the other end of its socket is closed: a thread waits
//! for each reply. A child of its may have that open for much longer; then the pidfd decides.
//!
//! Source: pidfd_open(2), poll(2).

use crate::errno::Errno;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
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
}

impl Life {
    /// Whether the process is known to have ended.
    pub(super) fn is_over(&self) -> bool {
        let Life::Watched(process) = self else { return matches!(self, Life::Over) };
        let mut looks = [PollFd::new(process, PollFlags::IN)];
        // What cannot be looked at is not known to have ended.
        let _ = retry_on_intr(|| poll(&mut looks, Some(&NOW)));
        !looks[0].revents().is_empty()
    }
}

/// A thread of a process, by its socket.
pub(super) struct Link {
    pub(super) socket: OwnedFd,
    pub(super) life: Arc<Life>,
}

impl Link {
    pub(super) fn is_of_same_process(&self, other: &Link) -> bool {
        Arc::ptr_eq(&self.life, &other.life)
    }

    /// Whether the process has ended.
    pub(super) fn is_over(&self) -> bool {
        let mut looks = self.looks(PollFlags::empty());
        // What cannot be looked at is not known to have ended.
        let _ = retry_on_intr(|| poll(&mut looks, Some(&NOW)));
        matches!(*self.life, Life::Over) || has_ended(&looks)
    }

    /// Waits for a packet, or for the end of the process; returns whether that has come.
    pub(super) fn ends_before_packet(&self) -> bool {
        let mut looks = self.looks(PollFlags::IN);
        // What cannot be waited for here, is waited for as the packet is received.
        let _ = retry_on_intr(|| poll(&mut looks, None));
        has_ended(&looks)
    }

    /// What is polled: for the end of the process, and for packets where `wanted` says so.
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

/// Which of the processes have ended: one look for all.
pub(super) fn collect_ended(links: Vec<Arc<Link>>) -> Vec<Arc<Link>> {
    if links.is_empty() {
        return links;
    }
    let mut looks: Vec<_> = links.iter().map(|link| link.looks(PollFlags::empty())).collect();
    let _ = retry_on_intr(|| poll(looks.as_flattened_mut(), Some(&NOW)));
    let ended = looks.iter().map(has_ended);
    links.iter().zip(ended).filter(|(_, ended)| *ended).map(|(link, _)| link.clone()).collect()
}
