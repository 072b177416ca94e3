//! Counts the private copies of pages that the kernel made for the program, for the summary.
//!
//! **Ignored.** Processes that are killed or execute another program, a missing /proc, and pages
//! that were stored to and dropped before the count.
//!
//! Source: the kernel's documentation, "pagemap, from the userspace perspective".

use super::PAGE_BYTES;
use crate::channel::{Parcel, ask};
use crate::pieces::Piece;
use crate::{next, own, pieces, room};
use pagetide_run::wire::{Op, Request};

/// Pages per read.
const TOGETHER: usize = 512;
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// The page belongs to a file or to shared memory.
const OF_FILE: u64 = 1 << 61;

/// Reports the private pages in a range that is about to be unmapped.
pub(super) fn tell_in(start: usize, end: usize) {
    let mut at = start;
    while let Some(piece) = pieces::find(at, end).filter(|_| at < end) {
        at = at.max(piece.start);
        let part = Piece { start: at, len: piece.end().min(end) - at, ..piece };
        let len = if piece.has_own_pages { count(&part) } else { 0 };
        if len > 0 {
            // A server that is gone needs no report.
            let _ = ask(&Request { len, ..Request::new(Op::Unmap, piece.id) }, Parcel::default());
        }
        at = part.end();
    }
}

/// Returns the bytes of all private pages, at the end of the program.
pub(crate) fn count_all() -> u64 {
    let (mut at, mut sum) = (0, 0);
    while let Some((piece, next)) = pieces::from(at) {
        at = next;
        sum += if piece.has_own_pages { count(&piece) } else { 0 };
    }
    sum
}

fn count(piece: &Piece) -> u64 {
    let path = c"/proc/self/pagemap".as_ptr();
    let Ok(map) = room::open(libc::AT_FDCWD, path, libc::O_CLOEXEC) else { return 0 };
    let mut words = [0_u64; TOGETHER];
    let mut nr_own = 0;
    for first in (piece.start / PAGE_BYTES..piece.end() / PAGE_BYTES).step_by(TOGETHER) {
        let len = TOGETHER.min(piece.end() / PAGE_BYTES - first) * size_of::<u64>();
        let arguments =
            [map as usize, words.as_mut_ptr() as usize, len, first * size_of::<u64>(), 0, 0];
        // SAFETY: room for that many words (S20).
        let Ok(read) = (unsafe { next::system(libc::SYS_pread64, arguments) }) else { break };
        let own = words[..read / size_of::<u64>()].iter();
        nr_own +=
            own.filter(|word| **word & (PRESENT | SWAPPED) != 0 && **word & OF_FILE == 0).count();
    }
    own::close(map);
    (nr_own * PAGE_BYTES) as u64
}
