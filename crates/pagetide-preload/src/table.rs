//! What each descriptor of this process is, as far as we know.
//!
//! ```text
//!   0           unknown: not looked at yet, or inherited, or opened by somebody unseen
//!   1           the kernel's: not a file, or a file that is not managed
//!   id * 4 + 2  managed: an open file description of the server's
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

/// What a descriptor is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// Nobody has looked.
    Unknown,
    /// Calls go to the kernel.
    Kernel,
    /// Calls go to the server, for this description.
    Managed(u64),
}

/// What we know of `fd`.
#[inline]
pub(crate) fn entry(fd: c_int) -> Entry {
    match ENTRIES.get(fd as usize).map(|entry| entry.load(Relaxed)) {
        Some(0) => Entry::Unknown,
        Some(1) | None => Entry::Kernel,
        Some(word) => Entry::Managed(word >> 2),
    }
}

/// Remembers what `fd` is; returns what it was.
pub(crate) fn set(fd: c_int, entry: Entry) -> Entry {
    let Some(slot) = ENTRIES.get(fd as usize) else { return Entry::Kernel };
    let word = match entry {
        Entry::Unknown => 0,
        Entry::Kernel => 1,
        Entry::Managed(id) => {
            END.fetch_max(fd as usize + 1, Relaxed);
            id << 2 | 2
        }
    };
    match slot.swap(word, Relaxed) {
        0 => Entry::Unknown,
        1 => Entry::Kernel,
        before => Entry::Managed(before >> 2),
    }
}

/// Whether a managed file may have this number: the C library's own streams use 0, 1 and 2 without
/// asking us, 0 only where a program has one.
pub(crate) fn can_manage(fd: c_int) -> bool {
    match fd {
        0 => crate::calls::standard::input_is_plain(),
        _ => (3..LEN as c_int).contains(&fd),
    }
}

/// The managed descriptors, lowest first.
pub(crate) fn managed() -> impl Iterator<Item = (c_int, u64)> {
    (0..END.load(Relaxed) as c_int).filter_map(|fd| match entry(fd) {
        Entry::Managed(id) => Some((fd, id)),
        _ => None,
    })
}
