//! What a piece has locked in memory: kept by the server, or by the kernel.

use super::place::ask_only;
use crate::errno::Errno;
use crate::next;
use crate::pieces::Piece;
use pagetide_run::wire::{Op, Request};

/// A piece that has its pages locked has them no more.
pub(super) fn let_go(piece: &Piece) {
    if piece.is_locked {
        // A server that is gone keeps nothing.
        let _ = ask_only(&Request { total: 1, ..request(piece) });
    }
}

/// A piece is in another memory file now, or has another number there: what it has locked is locked
/// anew, and the old is let go.
pub(super) fn lock_again(before: &Piece, now: &Piece) {
    if now.is_locked {
        // Where there is too little room by now, its pages may leave.
        let _ = ask_only(&request(now));
        let_go(before);
    }
}

/// As mlock(2), past us.
pub(super) fn lock_by_kernel(start: usize, len: usize) -> Result<(), Errno> {
    // SAFETY: numbers: what is locked is what it was (S20).
    unsafe { next::system(libc::SYS_mlock, [start, len, 0, 0, 0, 0]) }.map(drop)
}

/// Asks for a piece's pages to stay.
pub(super) fn request(piece: &Piece) -> Request {
    let (offset, len) = (piece.offset as i64, piece.len as u64);
    Request { flags: piece.map, offset, len, ..Request::new(Op::Lock, piece.id) }
}
