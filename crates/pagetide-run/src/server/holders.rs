//! Finds the processes that hold an open file description, to decide if the server may release it.
//!
//! **Problem.** The kernel keeps a lock of an open file description until the last descriptor of
//! that description is closed. If the server keeps a real descriptor too long, the lock also stays
//! too long. If the server drops a real descriptor too early, a process loses its file. The device
//! and inode number cannot decide, because other descriptions of the same file may be open.
//!
//! **Idea.** The server keeps one stand-in for each description. `kcmp` tells if a descriptor of
//! another process refers to the same open file as that stand-in:
//!
//! ```text
//!   /proc/PID/fd of every process below the run
//!     --> descriptors of the same device and inode   (cheap, excludes nearly all)
//!     --> kcmp with the server's stand-in            (exact)
//! ```
//!
//! A descriptor is still open while the process that closes it waits for the server's reply. The
//! close request names the descriptor, and the search ignores it.
//!
//! **Ignored.** A descriptor in flight through a socket is in no process's table.
//!
//! Source: kcmp(2), proc(5) "/proc/pid/fd".

use super::Server;
use super::description::Description;
use super::identity::lock;
use super::requests::OpenFile;
use super::served_file::ServedFile;
use crate::descendants::{processes_below_us, state_of};
use pagetide_sys::lease::is_open_file_of;
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// Descriptors that a search ignores, because the call that closes them waits for the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Closing {
    /// None.
    Nothing,
    /// One descriptor of a process.
    Descriptor(i32, RawFd),
    /// Every descriptor of a process.
    Process(i32),
}

impl Closing {
    fn has(self, pid: i32, number: RawFd) -> bool {
        match self {
            Closing::Nothing => false,
            Closing::Descriptor(process, descriptor) => (process, descriptor) == (pid, number),
            Closing::Process(process) => process == pid,
        }
    }
}

/// Result of a search for a holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Held {
    No,
    Yes,
    /// The kernel refuses to compare descriptors of a process, so the description must be kept.
    Unknown,
}

/// Looks for a process below the run that holds a stand-in of a description. Reads the descriptor
/// table of each process twice if the first search finds no holder.
pub(super) fn find_holder(one: &Description, file: (u64, u64), closing: Closing) -> Held {
    match Descriptors::collect(|other| other == file).find_holder(one, file, closing) {
        // A process may fork, and the parent may end, during the first search. A second search
        // decides.
        Held::No => Descriptors::collect(|other| other == file).find_holder(one, file, closing),
        held => held,
    }
}

/// Process id and descriptor number of each open descriptor below the run, by device and inode.
#[derive(Default)]
pub(super) struct Descriptors {
    of_files: BTreeMap<(u64, u64), Vec<(i32, RawFd)>>,
    /// True if a process hides its descriptors, as an undumpable process does. It may hold any
    /// description.
    is_one_hidden: bool,
}

impl Descriptors {
    /// Lists the descriptors of all files that `is_wanted` accepts.
    pub(super) fn collect(is_wanted: impl Fn((u64, u64)) -> bool) -> Descriptors {
        let mut found = Descriptors::default();
        for pid in processes_below_us().into_iter().map(u32::cast_signed) {
            let entries = fs::read_dir(format!("/proc/{pid}/fd"));
            found.is_one_hidden |= entries.is_err() && is_running(pid);
            for entry in entries.into_iter().flatten().flatten() {
                let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
                let file = fs::metadata(entry.path()).map(|stat| (stat.dev(), stat.ino()));
                if let (Some(number), Ok(file)) = (number, file)
                    && is_wanted(file)
                {
                    found.of_files.entry(file).or_default().push((pid, number));
                }
            }
        }
        found
    }

    /// Looks for a descriptor of the description `one`, which is of `file`.
    pub(super) fn find_holder(
        &self,
        one: &Description,
        file: (u64, u64),
        closing: Closing,
    ) -> Held {
        let mut is_refused = self.is_one_hidden;
        let descriptors = self.of_files.get(&file).into_iter().flatten();
        for &(pid, number) in descriptors.filter(|(pid, number)| !closing.has(*pid, *number)) {
            match is_open_file_of(one.stand_in.as_fd(), pid, number) {
                Some(true) => return Held::Yes,
                Some(false) => {}
                None => is_refused |= may_be_stand_in(pid, number),
            }
        }
        if is_refused { Held::Unknown } else { Held::No }
    }
}

/// Returns true if a descriptor may be a stand-in. Returns false if its flags show more access than
/// `O_PATH`.
fn may_be_stand_in(pid: i32, number: RawFd) -> bool {
    let about = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
    let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_none_or(|flags| OFlags::from_bits_retain(flags).contains(OFlags::PATH))
}

/// Returns true if the process has not ended. A zombie holds no descriptors.
fn is_running(pid: i32) -> bool {
    state_of(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

impl Server {
    /// Counts the real descriptors that the server holds for processes.
    pub(super) fn nr_reals(&self) -> u64 {
        let all: Vec<_> = lock(&self.descriptions).values().cloned().collect();
        all.iter().filter(|one| one.has_real()).count() as u64
    }

    /// Releases the real descriptor of each description that no process holds. Searches the
    /// processes once for each description with a real descriptor.
    pub(super) fn let_go_of_unheld(&self, closing: Closing) {
        let all: Vec<_> = lock(&self.descriptions).values().cloned().collect();
        for one in all.into_iter().filter(|one| one.keeps_real()) {
            self.let_go_if_unheld(&one, closing);
        }
    }

    /// Releases the real descriptors of the file that no process holds, because they prevent a
    /// lease. Returns true if any was released.
    pub(super) fn forget_settled(&self, file: &ServedFile) -> bool {
        let descriptions = file.descriptions().into_iter();
        let is_unheld = |one: &Arc<Description>| {
            one.keeps_real() && find_holder(one, file.key.numbers(), Closing::Nothing) == Held::No
        };
        let unheld: Vec<_> = descriptions.filter(is_unheld).collect();
        unheld.iter().for_each(|one| one.let_go_of_real());
        !unheld.is_empty()
    }

    /// Releases the real descriptor of a description if no process holds the description.
    pub(super) fn let_go_if_unheld(&self, one: &OpenFile, closing: Closing) {
        if !one.keeps_real() {
            return;
        }
        match find_holder(one, one.file.key.numbers(), closing) {
            Held::No => one.let_go_of_real(),
            Held::Yes => self.look.call(),
            Held::Unknown => self.say_once(
                "pagetide: the kernel refuses to compare descriptors of a program (kcmp, /proc): \
                 locks of files that the kernel has may stay until that program ends",
            ),
        }
    }

    /// Releases the real descriptors of other descriptions of the file that no process holds.
    /// Called before a lock is taken on `one`.
    pub(super) fn let_go_of_others(&self, one: &OpenFile) {
        for other in one.file.descriptions().into_iter().filter(|other| other.id != one.id) {
            if let Some(other) = self.find(other.id) {
                self.let_go_if_unheld(&other, Closing::Nothing);
            }
        }
    }
}
