//! What a fork leaves of mappings: a child keeps the addresses, and maps its own at the first
//! touch.

use super::place::{keep_from_children, protect, reserve};
use crate::own;
use crate::pieces::{self, Piece};

/// Before fork: no thread is changing the table. A child inherits what has pages of its own, out of
/// reach, as it will not be registered there.
extern "C" fn before_fork() {
    pieces::hold();
    for_each(|piece| {
        if is_inherited(piece) && protect(piece.start, piece.len, libc::PROT_NONE).is_ok() {
            // A child that does not inherit it has none of it.
            let _ = keep_from_children(piece.start, piece.len, false);
        }
    });
}

extern "C" fn in_parent() {
    for_each(|piece| {
        if is_inherited(piece) {
            // What goes wrong leaves it out of reach.
            let _ = keep_from_children(piece.start, piece.len, true);
            if piece.process == own::number() {
                let _ = protect(piece.start, piece.len, piece.protection);
            }
        }
    });
    pieces::let_go();
}

/// A child has none of the mappings: it keeps the addresses, and maps its own at the first touch.
extern "C" fn in_child() {
    pieces::forget_threads();
    for_each(|piece| {
        // What goes wrong leaves no mapping at the addresses, or one that is out of reach.
        if piece.has_own_pages {
            let _ = keep_from_children(piece.start, piece.len, true);
        } else {
            reserve(piece);
        }
    });
    pieces::let_go();
}

/// What a thread puts in place meanwhile is not: it decides what may be done there.
fn is_inherited(piece: &Piece) -> bool {
    piece.has_own_pages && !piece.is_moving
}

fn for_each(mut each: impl FnMut(&Piece)) {
    let mut at = 0;
    while let Some((piece, next)) = pieces::held_from(at) {
        at = next;
        each(&piece);
    }
}

/// Has each fork see to the pieces.
pub(super) fn watch_forks() -> bool {
    // SAFETY: functions of this library, which is never unloaded (S36).
    unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) == 0 }
}
