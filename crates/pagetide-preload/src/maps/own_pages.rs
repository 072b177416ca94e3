//! Pages that the kernel has copied for the program: how much memory they are, for the summary.
//!
//! **Ignored.** Those of a process that is killed, or executes another program, and where there is
//! no /proc. A page that was stored to, and dropped before it was looked for.
//!
//! Source: the kernel's documentation, "pagemap, from the userspace perspective".

use super::PAGE_BYTES;
use crate::channel::{Parcel, ask};
use crate::pieces::Piece;
use crate::{next, own, pieces, room};
use pagetide_run::wire::{Op, Request};

/// Pages that are looked at together.
const TOGETHER: usize = 512;
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// It is of a file, or of shared memory.
const OF_FILE: u64 = 1 << 61;

/// Tells the server how much of the pieces in a range, which is about to go, is the program's own.
pub(super) fn tell_in(start: usize, end: usize) {
    let mut at = start;
    while let Some(piece) = pieces::find(at, end).filter(|_| at < end) {
        at = at.max(piece.start);
        let part = Piece { start: at, len: piece.end().min(end) - at, ..piece };
        let len = if piece.has_own_pages { count(&part) } else { 0 };
        if len > 0 {
            // A server that is gone has nothing more to say.
            let _ = ask(&Request { len, ..Request::new(Op::Unmap, piece.id) }, Parcel::default());
        }
        at = part.end();
    }
}

/// Bytes of all pieces that are the program's own, as it ends.
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
        // SAFETY: room for as many words (S20).
        let Ok(read) = (unsafe { next::system(libc::SYS_pread64, arguments) }) else { break };
        let own = words[..read / size_of::<u64>()].iter();
        nr_own +=
            own.filter(|word| **word & (PRESENT | SWAPPED) != 0 && **word & OF_FILE == 0).count();
    }
    own::close(map);
    (nr_own * PAGE_BYTES) as u64
}
