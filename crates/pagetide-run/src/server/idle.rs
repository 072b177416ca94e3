//! Descriptions that no process is known to have, and which of them can be forgotten.
//!
//! **Problem.** A child that was forked just before its parent closed a descriptor has it still, and
//! so has a program that was just executed; we hear of that when it first uses it, in a second, or in
//! a week. Until then its description must be kept, with a stand-in of ours to know it by; and a
//! stand-in keeps the blocks of a file that was removed. **Idea.** Soon after a description became
//! idle, look at the descriptors of all processes of the tree: a description of whose file none is
//! open, twice in a row, is forgotten.
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
use std::time::Duration;

const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Wakes the thread that looks.
#[derive(Default)]
pub(super) struct Looks {
    is_wanted: Mutex<bool>,
    wanted: Condvar,
}

impl Looks {
    /// A description became idle, or the server stops.
    pub(super) fn want(&self) {
        *lock(&self.is_wanted) = true;
        self.wanted.notify_one();
    }

    /// Waits until a look is wanted; with a time, no longer than that.
    fn wait(&self, at_most: Option<Duration>) {
        let is_wanted = lock(&self.is_wanted);
        let mut is_wanted = match at_most {
            None => self
                .wanted
                .wait_while(is_wanted, |is_wanted| !*is_wanted)
                .unwrap_or_else(PoisonError::into_inner),
            Some(at_most) => {
                let waited = self.wanted.wait_timeout(is_wanted, at_most);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        *is_wanted = false;
    }
}

/// Looks at idle descriptions until the server stops.
pub(super) fn watch(server: &Server) {
    let (mut pause, mut nr_left) = (PAUSE_MIN, 0);
    while !server.is_stopping() {
        server.looks.wait((nr_left > 0).then_some(pause));
        if server.is_stopping() {
            return;
        }
        if nr_left == 0 {
            // What is closed next is looked at in one go.
            std::thread::sleep(PAUSE_MIN);
        }
        let nr_before = nr_left;
        nr_left = server.forget_idle();
        pause = if nr_left == nr_before { (pause * 2).min(PAUSE_MAX) } else { PAUSE_MIN };
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
