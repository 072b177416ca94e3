//! The known state of each descriptor of this process.
//!
//! ```text
//!   0           unknown: not looked at yet, or inherited, or opened by an unseen call
//!   1           the kernel's: not a file, or a file that is not managed
//!   3           the kernel's, and a small file whose path the server cannot follow (`small`)
//!   5           the kernel's, and a new file that the server may get later (`new_files`)
//!   id * 4 + 2  managed: a stand-in for an open file description of the server's
//! ```
//!
//! Independent atomics: a program that races closing and use also races in the kernel. A fork
//! copies the table with the descriptors.

use libc::c_int;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Descriptors from this number are left to the kernel.
pub(crate) const LEN: usize = 1 << 16;

/// The state of `passing` for each descriptor. 0 for a new descriptor.
static STATE_WORDS: [AtomicU64; LEN] = [const { AtomicU64::new(0) }; LEN];
static ENTRIES: [AtomicU64; LEN] = [const { AtomicU64::new(0) }; LEN];
/// An upper limit of all managed descriptors ever.
static END: AtomicUsize = AtomicUsize::new(0);
/// An upper limit of all known descriptors ever.
static KNOWN_END: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    Unknown,
    /// Calls go to the kernel.
    Kernel,
    /// Calls go to the kernel. The library drops the file's pages at close.
    Passing,
    /// Calls go to the kernel while the new file is only written.
    New,
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
            5 => Entry::New,
            _ => Entry::Managed(word >> 2),
        }
    }

    fn word(self) -> u64 {
        match self {
            Entry::Unknown => 0,
            Entry::Kernel => 1,
            Entry::Passing => 3,
            Entry::New => 5,
            Entry::Managed(id) => id << 2 | 2,
        }
    }
}

#[inline]
pub(crate) fn entry(fd: c_int) -> Entry {
    ENTRIES.get(fd as usize).map_or(Entry::Kernel, |entry| Entry::from_word(entry.load(Relaxed)))
}

/// Returns the previous state.
pub(crate) fn set(fd: c_int, entry: Entry) -> Entry {
    let Some(slot) = ENTRIES.get(fd as usize) else { return Entry::Kernel };
    if STATE_WORDS[fd as usize].load(Relaxed) != 0 {
        STATE_WORDS[fd as usize].store(0, Relaxed);
    }
    if entry != Entry::Unknown {
        KNOWN_END.fetch_max(fd as usize + 1, Relaxed);
    }
    if let Entry::Managed(_) = entry {
        END.fetch_max(fd as usize + 1, Relaxed);
    }
    Entry::from_word(slot.swap(entry.word(), Relaxed))
}

/// Returns a descriptor's word of state, see `passing`.
#[inline]
pub(crate) fn state_word(fd: c_int) -> Option<&'static AtomicU64> {
    STATE_WORDS.get(fd as usize)
}

/// Makes entries of passing files plain kernel entries, so that a close does nothing more.
pub(crate) fn forget_passing() {
    for slot in &ENTRIES {
        let (before, now) = (Entry::Passing.word(), Entry::Kernel.word());
        if slot.load(Relaxed) == before {
            let _ = slot.compare_exchange(before, now, Relaxed, Relaxed);
        }
    }
}

/// Records that a managed file became the kernel's, if the descriptor is unchanged.
pub(crate) fn give_to_kernel(fd: c_int, id: u64) {
    // Otherwise the descriptor was closed meanwhile.
    let _ = replace(fd, Entry::Managed(id), Entry::Kernel);
}

/// Changes a state. Returns false if the state was not `before`.
pub(crate) fn replace(fd: c_int, before: Entry, now: Entry) -> bool {
    let Some(slot) = ENTRIES.get(fd as usize) else { return false };
    slot.compare_exchange(before.word(), now.word(), Relaxed, Relaxed).is_ok()
}

/// Returns true if a managed file may have this number. The C library's streams, and many children,
/// use 0, 1 and 2 without interposition.
pub(crate) fn can_manage(fd: c_int) -> bool {
    (3..LEN as c_int).contains(&fd)
}

/// Returns this process's stand-ins for a description, lowest first.
pub(crate) fn numbers_of(id: u64) -> impl Iterator<Item = c_int> {
    managed().filter(move |(_, found)| *found == id).map(|(fd, _)| fd)
}

/// Makes [`numbers`] include `fd`, a descriptor that has no entry.
pub(crate) fn note_number(fd: c_int) {
    KNOWN_END.fetch_max((fd as usize + 1).min(LEN), Relaxed);
}

pub(crate) fn numbers() -> impl Iterator<Item = c_int> {
    0..KNOWN_END.load(Relaxed) as c_int
}

/// Returns the managed descriptors, lowest first.
pub(crate) fn managed() -> impl Iterator<Item = (c_int, u64)> {
    (0..END.load(Relaxed) as c_int).filter_map(|fd| match entry(fd) {
        Entry::Managed(id) => Some((fd, id)),
        _ => None,
    })
}
