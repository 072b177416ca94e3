//! Searches the processes below the run for holders of open file descriptions.
//!
//! `kcmp` compares the open file description of another process's descriptor with the server's
//! stand-in. The device and inode number do not tell descriptions of the same file apart.
//!
//! ```text
//!   /proc/PID/fd of every process below the run
//!     --> descriptors of the same device and inode   (cheap, excludes nearly all)
//!     --> kcmp with the server's stand-in            (exact)
//! ```
//!
//! A process that closes a descriptor still has the descriptor while waiting for the reply. The
//! close request names the descriptor, and the search ignores that one.
//!
//! Source: kcmp(2), proc(5) "/proc/pid/fd".

use crate::descendants::{processes_below_us, state_of};
use crate::server::served_file::Description;
use pagetide_sys::lease::is_open_file_of;
use rustix::fs::OFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// Descriptors that a search ignores, because the closing call waits for the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::server) enum Closing {
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
    /// The kernel refuses to compare, so the description must be kept.
    Unknown,
}

/// Looks for a holder of each description among the processes below the run.
pub(super) fn find_holders(these: &[Arc<Description>], closing: Closing) -> Vec<Held> {
    let mut found = vec![Held::No; these.len()];
    // During the first search, a process may fork and the parent end. A second search decides.
    for _ in 0..2 {
        let unheld = || these.iter().zip(&found).filter(|(_, held)| **held == Held::No);
        let files: BTreeSet<_> = unheld().map(|(one, _)| one.file.key.numbers()).collect();
        if files.is_empty() {
            break;
        }
        let descriptors = Descriptors::collect(&files);
        for (one, held) in these.iter().zip(&mut found).filter(|(_, held)| **held == Held::No) {
            *held = descriptors.find_holder(one, closing);
        }
    }
    found
}

/// Process id and descriptor number of open descriptors below the run, by device and inode.
#[derive(Default)]
struct Descriptors {
    of_files: BTreeMap<(u64, u64), Vec<(i32, RawFd)>>,
    /// True if a process hides descriptors, for example an undumpable process. Such a process may
    /// hold any description.
    is_one_hidden: bool,
}

impl Descriptors {
    /// Lists the descriptors of these files.
    fn collect(files: &BTreeSet<(u64, u64)>) -> Descriptors {
        let mut found = Descriptors::default();
        for pid in processes_below_us().into_iter().map(u32::cast_signed) {
            let entries = fs::read_dir(format!("/proc/{pid}/fd"));
            found.is_one_hidden |= entries.is_err() && is_running(pid);
            for entry in entries.into_iter().flatten().flatten() {
                let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
                let file = fs::metadata(entry.path()).map(|stat| (stat.dev(), stat.ino()));
                if let (Some(number), Ok(file)) = (number, file)
                    && files.contains(&file)
                {
                    found.of_files.entry(file).or_default().push((pid, number));
                }
            }
        }
        found
    }

    fn find_holder(&self, one: &Description, closing: Closing) -> Held {
        let mut is_refused = self.is_one_hidden;
        let descriptors = self.of_files.get(&one.file.key.numbers()).into_iter().flatten();
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

/// Returns true if a descriptor is an `O_PATH` descriptor, or its flags cannot be read.
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
