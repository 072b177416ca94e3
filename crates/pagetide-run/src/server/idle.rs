//! The thread that finds descriptions which no process holds any more.
//!
//! **Problem.** A child that is forked before its parent closes a descriptor still has the
//! descriptor. The server learns of the child when the child first asks something: in a second, in
//! a week, or never. Until then the server keeps the description. The kept descriptors occupy the
//! file's room on the disk after its last name is gone, keep its file system busy, and keep its
//! locks. **Idea.** After a last close, and while the server keeps a real descriptor for a process,
//! a thread asks `holders` about each such description, and forgets those that no process holds.
//!
//! ```text
//!   last close --> [`Look`] --> a look, then a pause of 19 times as long: 5 % of a processor
//!   no room on a disk --------> one look at once, before that is said
//! ```
//!
//! ```text
//!   idle --> look --held by none--> look again --held by none--> forgotten
//!              ^---- held: again, after twice the time (1 s at most; 50 ms for a real descriptor)
//! ```
//!
//! A write for which a disk has no room looks at once.
//!
//! Ignored: a descriptor that is on its way through a socket, in no table of any process.

use super::Server;
use super::holders::{Closing, Descriptors, Held};
use super::identity::lock;
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A pause is so many times as long as the look before it.
const PAUSE_FACTOR: u32 = 19;
/// What is left is looked at again: a process says that it closes before it does. Twice as late
/// each time, up to so late.
const PAUSE_MAX: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The longest pause while the server keeps a real descriptor, and with it perhaps a lock.
const PAUSE_OF_REAL: Duration = Duration::from_millis(50);

/// What a look left.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Left {
    Nothing,
    Descriptions,
    RealDescriptors,
}

/// What the thread that looks waits for.
#[derive(Default)]
pub(super) struct Look {
    is_due: Mutex<bool>,
    changed: Condvar,
    /// Held for a look: what it finds is let go when it ends, and no other look may end before.
    pub(super) turn: Mutex<()>,
}

impl Look {
    /// A description may be of use to no process; or the server stops.
    pub(super) fn call(&self) {
        *lock(&self.is_due) = true;
        self.changed.notify_one();
    }

    /// Waits to be called, or so long; returns whether it was called.
    fn wait(&self, most: Duration) -> bool {
        let is_due = lock(&self.is_due);
        let due = self.changed.wait_timeout_while(is_due, most, |is_due| !*is_due);
        std::mem::take(&mut *due.unwrap_or_else(PoisonError::into_inner).0)
    }
}

/// Looks whenever there is something to look for, until the server stops.
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
    /// Forgets descriptions that no process holds. Lets go of real descriptors of which no process
    /// holds a stand-in. Returns what is left to look for.
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
        // Twice: a child may be forked, and its parent gone, amid a look.
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
