//! Locked memory of pieces: kept by the server, or by the kernel.

use super::place::ask_only;
use crate::errno::Errno;
use crate::next;
use crate::pieces::Piece;
use pagetide_run::wire::{Op, Request};

pub(super) fn unlock_piece(piece: &Piece) {
    if piece.is_locked {
        // A server that is gone keeps nothing.
        let _ = ask_only(&Request { total: 1, ..request(piece) });
    }
}

/// For a piece with a new memory file or number.
pub(super) fn lock_again(before: &Piece, now: &Piece) {
    if now.is_locked {
        // If the limit leaves too little room, the pages stay unlocked.
        let _ = ask_only(&request(now));
        unlock_piece(before);
    }
}

/// mlock(2), without interposition.
pub(super) fn lock_by_kernel(start: usize, len: usize) -> Result<(), Errno> {
    // SAFETY: numbers, and locking changes no contents (S20).
    unsafe { next::system(libc::SYS_mlock, [start, len, 0, 0, 0, 0]) }.map(drop)
}

pub(super) fn request(piece: &Piece) -> Request {
    let (offset, len) = (piece.offset as i64, piece.len as u64);
    Request { flags: piece.map, offset, len, ..Request::new(Op::Lock, piece.id) }
}
