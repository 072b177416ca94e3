//! The idle scan: the thread that forgets descriptions that no process holds.
//!
//! **Problem.** A child that is forked before its parent closes a descriptor still has the
//! descriptor. The server learns of the child only when the child sends its first request, which
//! may never happen. Until then the server must keep the description. A kept descriptor occupies
//! disk space after the file's last name is gone, keeps the file system busy, and keeps the file's
//! locks.
//!
//! **Idea.** A scan starts after a last close, and repeats while the server keeps a real descriptor
//! for a process. The scan asks `holders` about each such description, and forgets the descriptions
//! that no process holds.
//!
//! ```text
//!   last close --> [`Look`] --> a scan, then a pause of 19 times its duration: 5 % of a CPU
//!   disk full --------------> one scan at once, before the write fails
//! ```
//!
//! ```text
//!   idle --> search --no holder--> search again --no holder--> forgotten
//!              ^---- held: again after twice the pause (at most 1 s; 50 ms for a real descriptor)
//! ```
//!
//! **Ignored.** A descriptor in flight through a socket is in no process's table.

use super::Server;
use super::holders::{Closing, Descriptors, Held};
use super::identity::lock;
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Ratio of the pause to the scan before it. Limits the scan to 5 % of a CPU.
const PAUSE_FACTOR: u32 = 19;
/// Longest pause between two scans. A process announces a close before it closes, so a held
/// description is scanned again. The pause doubles with each scan.
const PAUSE_MAX: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// Longest pause while the server keeps a real descriptor, because that descriptor may hold a lock.
const PAUSE_OF_REAL: Duration = Duration::from_millis(50);

/// Kind of the descriptions that a scan could not forget.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Left {
    Nothing,
    Descriptions,
    RealDescriptors,
}

/// The signal that wakes the scan thread.
#[derive(Default)]
pub(super) struct Look {
    is_due: Mutex<bool>,
    changed: Condvar,
    /// Held during a scan. The scan releases descriptors at its end, and no other scan may end
    /// earlier.
    pub(super) turn: Mutex<()>,
}

impl Look {
    /// Wakes the scan thread: a description may have lost its last holder, or the server stops.
    pub(super) fn call(&self) {
        *lock(&self.is_due) = true;
        self.changed.notify_one();
    }

    /// Waits until the thread is called, or at most `most`. Returns true if the thread was called.
    fn wait(&self, most: Duration) -> bool {
        let is_due = lock(&self.is_due);
        let due = self.changed.wait_timeout_while(is_due, most, |is_due| !*is_due);
        std::mem::take(&mut *due.unwrap_or_else(PoisonError::into_inner).0)
    }
}

/// Runs the scan thread until the server stops. A scan runs when the thread is called, and again
/// while descriptions are left.
pub(super) fn look_on(server: &Server) {
    let mut pause = Duration::MAX;
    loop {
        let is_called = server.look.wait(pause);
        if server.is_stopping() {
            return;
        }
        let began = Instant::now();
        let left = server.forget_idle();
        let own = began.elapsed() * PAUSE_FACTOR;
        let next = if is_called { PAUSE_MIN } else { pause * 2 };
        pause = match left {
            Left::Nothing => Duration::MAX,
            Left::Descriptions => next.max(own).min(PAUSE_MAX),
            Left::RealDescriptors => next.max(own).min(PAUSE_OF_REAL.max(own)),
        };
        std::thread::sleep(own.min(PAUSE_MAX));
    }
}

impl Server {
    /// Forgets idle descriptions that no process holds, and releases their real descriptors.
    /// Returns the kind of descriptions that are left for the next scan.
    pub(super) fn forget_idle(&self) -> Left {
        let _turn = lock(&self.look.turn);
        let all: Vec<_> = lock(&self.descriptions).values().cloned().collect();
        let wanted: Vec<_> =
            all.into_iter().filter(|one| one.is_idle() || one.keeps_real()).collect();
        if wanted.is_empty() {
            return Left::Nothing;
        }
        let files: BTreeSet<_> = wanted.iter().map(|one| one.file.key.numbers()).collect();
        let look = || Descriptors::collect(|file| files.contains(&file));
        // Searches twice, because a child may be forked and its parent end during the first search.
        let looks = [look(), look()];
        let mut left = Left::Nothing;
        for one in wanted {
            let held = looks
                .iter()
                .map(|look| look.find_holder(&one, one.file.key.numbers(), Closing::Nothing));
            if held.into_iter().any(|held| held != Held::No) {
                let is_real = one.keeps_real();
                left = left.max(if is_real { Left::RealDescriptors } else { Left::Descriptions });
                continue;
            }
            one.let_go_of_real();
            if one.is_idle() {
                lock(&self.descriptions).remove(&one.id);
            }
        }
        left
    }
}
