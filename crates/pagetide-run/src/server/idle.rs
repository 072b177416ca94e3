//! Descriptions that no process is known to have, and which of them can be forgotten.
//!
//! **Problem.** A child that was forked just before its parent closed a descriptor has it still,
//! and we learn of that when it first uses it: in a second, or in a week. Until then its
//! description must be kept, with a descriptor or two of ours; and those keep a file's room on the
//! disk after its last name is gone, and its file system in use. **Idea.** After a last close a
//! thread looks at the descriptors of all processes of the tree: a description of whose file none
//! is open is forgotten.
//!
//! ```text
//!   last close --> [`Look`] --> a look, then a pause of 19 times as long: 5 % of a processor
//!   no room on a disk --------> one look at once, before that is said
//! ```
//!
//! ```text
//!   idle --100 ms--> look --open nowhere--> look again --open nowhere--> forgotten
//!                      ^---- open somewhere: again, after twice the time (10 s at most)
//! ```
//!
//! A write for which a disk has no room looks at once.
//!
//! Ignored: a descriptor that is on its way through a socket, and in no table, in both moments.

use super::Server;
use super::identity::lock;
use crate::descendants::processes_below_us;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A pause is so many times as long as the look before it.
const PAUSE_FACTOR: u32 = 19;
/// What is left is looked at again: a process says that it closes before it does. Twice as late
/// each time, up to so late.
const PAUSE_MAX: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(1);

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
        let is_any_left = server.forget_idle();
        let own = began.elapsed() * PAUSE_FACTOR;
        let next = if is_called { PAUSE_MIN } else { pause * 2 };
        pause = if is_any_left { next.max(own).min(PAUSE_MAX) } else { Duration::MAX };
        std::thread::sleep(own.min(PAUSE_MAX));
    }
}

/// Device and inode of every file that a process of the tree has open. Costs a look at every
/// descriptor of theirs.
pub(super) fn collect_open_files() -> BTreeSet<(u64, u64)> {
    processes_below_us().into_iter().flat_map(open_files_of).collect()
}

/// Whether a process of the tree has the file open, or only named.
pub(super) fn is_open_below_us(file: (u64, u64)) -> bool {
    processes_below_us().into_iter().any(|process| open_files_of(process).any(|one| one == file))
}

/// Whether a process of the tree has a descriptor that only names the file: a stand-in.
pub(super) fn is_named_below_us(file: (u64, u64)) -> bool {
    processes_below_us().into_iter().any(|process| {
        descriptors_of(process).any(|(number, one)| one == file && is_name(process, &number))
    })
}

/// Whether the descriptor was opened with `O_PATH`.
fn is_name(process: u32, number: &OsStr) -> bool {
    const O_PATH: u32 = 0o10000000;
    let number = number.to_string_lossy();
    let about = fs::read_to_string(format!("/proc/{process}/fdinfo/{number}")).unwrap_or_default();
    let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & O_PATH != 0)
}

fn open_files_of(process: u32) -> impl Iterator<Item = (u64, u64)> {
    descriptors_of(process).map(|(_, file)| file)
}

/// The number of each descriptor of a process, and the device and inode of its file.
fn descriptors_of(process: u32) -> impl Iterator<Item = (OsString, (u64, u64))> {
    let entries = fs::read_dir(format!("/proc/{process}/fd"));
    let entries = entries.into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let stat = fs::metadata(entry.path()).ok()?;
        Some((entry.file_name(), (stat.dev(), stat.ino())))
    })
}
