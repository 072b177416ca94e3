//! What each descriptor of this process is, as far as we know.
//!
//! ```text
//!   0           unknown: not looked at yet, or inherited, or opened by a call unseen
//!   1           the kernel's: not a file, or a file that is not managed
//!   3           the kernel's, and a small file that it had not cached before (`small`)
//!   id * 4 + 2  managed: a stand-in for an open file description of the server's
//! ```
//!
//! Plain atomics, each for itself: a program that closes a descriptor in one thread and uses it in
//! another has that race with the kernel as well. A fork copies the table with the descriptors.

use libc::c_int;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Descriptors from here on are left to the kernel.
pub(crate) const LEN: usize = 1 << 16;

static ENTRIES: [AtomicU64; LEN] = [const { AtomicU64::new(0) }; LEN];
/// No managed descriptor was ever at or above it.
static END: AtomicUsize = AtomicUsize::new(0);
/// No descriptor at or above it was ever looked at.
static KNOWN_END: AtomicUsize = AtomicUsize::new(0);

/// What a descriptor is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// Not looked at yet.
    Unknown,
    /// Calls go to the kernel.
    Kernel,
    /// Calls go to the kernel, which forgets the file's pages when this is closed.
    Passing,
    /// Calls go to the server, for this description.
    Managed(u64),
}

impl Entry {
    #[inline]
    fn from_word(word: u64) -> Entry {
        match word {
            0 => Entry::Unknown,
            1 => Entry::Kernel,
            3 => Entry::Passing,
            _ => Entry::Managed(word >> 2),
        }
    }

    fn word(self) -> u64 {
        match self {
            Entry::Unknown => 0,
            Entry::Kernel => 1,
            Entry::Passing => 3,
            Entry::Managed(id) => id << 2 | 2,
        }
    }
}

/// What we know of `fd`.
#[inline]
pub(crate) fn entry(fd: c_int) -> Entry {
    ENTRIES.get(fd as usize).map_or(Entry::Kernel, |entry| Entry::from_word(entry.load(Relaxed)))
}

/// Remembers what `fd` is; returns what it was.
pub(crate) fn set(fd: c_int, entry: Entry) -> Entry {
    let Some(slot) = ENTRIES.get(fd as usize) else { return Entry::Kernel };
    if entry != Entry::Unknown {
        KNOWN_END.fetch_max(fd as usize + 1, Relaxed);
    }
    if let Entry::Managed(_) = entry {
        END.fetch_max(fd as usize + 1, Relaxed);
    }
    Entry::from_word(slot.swap(entry.word(), Relaxed))
}

/// Nothing is to be done any more as a descriptor is closed.
pub(crate) fn forget_passing() {
    for slot in &ENTRIES {
        let (before, now) = (Entry::Passing.word(), Entry::Kernel.word());
        if slot.load(Relaxed) == before {
            let _ = slot.compare_exchange(before, now, Relaxed, Relaxed);
        }
    }
}

/// Remembers that what was managed is the kernel's, if it still is what it was.
pub(crate) fn give_to_kernel(fd: c_int, id: u64) {
    if let Some(slot) = ENTRIES.get(fd as usize) {
        let (before, now) = (Entry::Managed(id).word(), Entry::Kernel.word());
        // Otherwise it was closed meanwhile, and may be anything.
        let _ = slot.compare_exchange(before, now, Relaxed, Relaxed);
    }
}

/// Whether a managed file may have this number: the C library's own streams, and many a program's
/// children, use 0, 1 and 2 without asking us.
pub(crate) fn can_manage(fd: c_int) -> bool {
    (3..LEN as c_int).contains(&fd)
}

/// The numbers of this process's stand-ins for a description, lowest first.
pub(crate) fn numbers_of(id: u64) -> impl Iterator<Item = c_int> {
    managed().filter(move |(_, found)| *found == id).map(|(fd, _)| fd)
}

/// Makes [`numbers`] include `fd`, of which nothing else is known.
pub(crate) fn note_number(fd: c_int) {
    KNOWN_END.fetch_max((fd as usize + 1).min(LEN), Relaxed);
}

/// Each number that a descriptor which was looked at may have.
pub(crate) fn numbers() -> impl Iterator<Item = c_int> {
    0..KNOWN_END.load(Relaxed) as c_int
}

/// The managed descriptors, lowest first.
pub(crate) fn managed() -> impl Iterator<Item = (c_int, u64)> {
    (0..END.load(Relaxed) as c_int).filter_map(|fd| match entry(fd) {
        Entry::Managed(id) => Some((fd, id)),
        _ => None,
    })
}
