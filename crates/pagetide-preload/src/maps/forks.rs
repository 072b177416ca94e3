//! What a fork leaves of mappings: a child keeps the addresses, and maps its own at the first
//! touch.

use super::heirs;
use super::place::{keep_from_children, protect, reserve};
use crate::pieces::{self, Piece};
use crate::{own, process};
use std::cell::Cell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The number of the process that forks.
static FORKS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// This thread holds the table, over a fork.
    static IS_HELD: Cell<bool> = const { Cell::new(false) };
}

/// Before fork: no thread is changing the table. A child inherits what has pages of its own, out of
/// reach, as it will not be registered there.
extern "C" fn before_fork() {
    if !process::is_on() {
        return;
    }
    IS_HELD.set(true);
    FORKS.store(own::number(), Relaxed);
    pieces::hold();
    for_each(heirs::prepare);
    for_each(|piece| {
        if is_inherited(piece) && protect(piece.start, piece.len, libc::PROT_NONE).is_ok() {
            // A child that does not inherit it has none of it.
            let _ = keep_from_children(piece.start, piece.len, false);
        }
    });
}

extern "C" fn in_parent() {
    if !IS_HELD.replace(false) {
        return;
    }
    for_each(|piece| {
        if is_inherited(piece) {
            // What goes wrong leaves it out of reach.
            let _ = keep_from_children(piece.start, piece.len, true);
            if piece.process == own::number() {
                let _ = protect(piece.start, piece.len, piece.protection);
            }
        }
    });
    heirs::close_prepared();
    pieces::let_go();
}

/// A child has none of the mappings: it keeps the addresses, and maps its own at the first touch.
/// Addresses that the parent had only kept are inherited.
extern "C" fn in_child() {
    if !IS_HELD.replace(false) {
        return;
    }
    pieces::forget_threads();
    for_each(|piece| {
        if piece.has_own_pages {
            // What goes wrong leaves it to the child's children as well, out of reach.
            let _ = keep_from_children(piece.start, piece.len, true);
        } else if piece.process == FORKS.load(Relaxed) && !reserve(piece, libc::MAP_FIXED_NOREPLACE)
        {
            // Another handler of forks has mapped something there: that stays.
            pieces::held_remove(piece);
        }
    });
    pieces::let_go();
}

fn is_inherited(piece: &Piece) -> bool {
    piece.has_own_pages
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
