//! What a fork leaves of mappings: a child keeps the addresses, and maps its own at the first
//! touch.

use super::place::reserve;
use crate::pieces;

/// Before fork: no thread is changing the table.
extern "C" fn before_fork() {
    pieces::hold();
}

extern "C" fn in_parent() {
    pieces::let_go();
}

/// A child has none of the mappings: it keeps the addresses, and maps its own at the first touch.
extern "C" fn in_child() {
    pieces::forget_stores();
    let mut at = 0;
    while let Some((piece, next)) = pieces::held_from(at) {
        at = next;
        reserve(&piece);
    }
    pieces::let_go();
}

/// Has each fork see to the pieces.
pub(super) fn watch_forks() -> bool {
    // SAFETY: functions of this library, which is never unloaded (S36).
    unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) == 0 }
}
