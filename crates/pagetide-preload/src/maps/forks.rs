//! Mappings over a fork: a child keeps the addresses, and maps them at the first touch.

use super::heirs;
use super::place::{keep_from_children, protect, reserve};
use crate::pieces::{self, Piece};
use crate::{own, process};
use std::cell::Cell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

static FORKS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// True while this thread holds the table over a fork.
    static IS_HELD: Cell<bool> = const { Cell::new(false) };
}

/// Holds the table, and makes pieces with own pages inaccessible: a child inherits them, and has no
/// userfaultfd there.
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
            // On failure, the child inherits nothing.
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
            // On failure, the piece stays inaccessible.
            let _ = keep_from_children(piece.start, piece.len, true);
            if piece.process == own::number() {
                let _ = protect(piece.start, piece.len, piece.protection);
            }
        }
    });
    heirs::close_prepared();
    pieces::unhold();
}

/// Keeps the addresses in a child, which maps them at the first touch. Addresses that the parent
/// only reserved are inherited.
extern "C" fn in_child() {
    if !IS_HELD.replace(false) {
        return;
    }
    pieces::forget_threads();
    for_each(|piece| {
        if piece.has_own_pages {
            // On failure, the child's children inherit the piece as well, inaccessible.
            let _ = keep_from_children(piece.start, piece.len, true);
        } else if piece.process == FORKS.load(Relaxed) && !reserve(piece, libc::MAP_FIXED_NOREPLACE)
        {
            // Another fork handler has mapped something there, which stays.
            pieces::held_remove(piece);
        }
    });
    pieces::unhold();
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

pub(super) fn watch_forks() -> bool {
    // SAFETY: functions of this library, which is never unloaded (S36).
    unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) == 0 }
}
