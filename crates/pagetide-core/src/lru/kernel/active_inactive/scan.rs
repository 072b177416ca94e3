//! The fate of a scanned folio: two decision tables, pure functions of flags and young bits.
//!
//! ```text
//!   inactive tail                                active tail
//!     locked in memory ........ stays              young, executable, file ... another trip
//!     young, seen before ...... active             anything else ............. inactive, and
//!     young, executable file .. active                                        marked WORKINGSET
//!     young ................... inactive head, marked REFERENCED
//!     else .................... reclaim (dirty ones: active, until they are clean)
//! ```
//!
//! REFERENCED alone never saves a folio: it only makes the next young bit count double. Active
//! folios are deactivated regardless of earlier use.
//!
//! Source: Linux 6.18's reclaim.

use crate::folio::Flags;
use crate::lru::Refusal;

/// The fate of a folio at the inactive tail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InactiveFate {
    /// Move to the active list's head, with these flags and ACTIVE.
    Activate(Flags),
    /// Move to the inactive list's head, with these flags.
    Keep(Flags),
    /// Evict if clean. A dirty folio continues with these flags.
    Reclaim(Flags),
}

/// Decides by the flags of a folio and the number of tables it was young in, with young bits now
/// clear.
pub fn inactive_fate(flags: Flags, nr_young: u32) -> InactiveFate {
    if flags.any(Flags::UNEVICTABLE) {
        return InactiveFate::Activate(flags);
    }
    let was_referenced = flags.any(Flags::REFERENCED);
    let is_executable_file = flags.any(Flags::EXEC) && !flags.any(Flags::ANON);
    if nr_young == 0 {
        return InactiveFate::Reclaim(flags.without(Flags::REFERENCED));
    }
    let seen = flags.with(Flags::REFERENCED);
    if was_referenced || nr_young > 1 || is_executable_file {
        InactiveFate::Activate(seen)
    } else {
        InactiveFate::Keep(seen)
    }
}

/// Returns the flags of a refused inactive folio. ACTIVE selects the list.
pub fn after_trial(flags: Flags, refusal: Refusal) -> Flags {
    let fate = match refusal {
        _ if flags.any(Flags::UNEVICTABLE) => InactiveFate::Activate(flags),
        Refusal::Busy => InactiveFate::Keep(flags),
        Refusal::Young => inactive_fate(flags, 1),
        // Write-back is tested before references.
        Refusal::Dirty if flags.any(Flags::WRITEBACK) => InactiveFate::Reclaim(flags),
        Refusal::Dirty => inactive_fate(flags, 0),
    };
    match fate {
        InactiveFate::Activate(flags) => flags.with(Flags::ACTIVE),
        InactiveFate::Keep(flags) => flags,
        InactiveFate::Reclaim(flags) if flags.any(Flags::DIRTY.with(Flags::WRITEBACK)) => {
            flags.with(Flags::RECLAIM).with(Flags::ACTIVE)
        }
        // Clean since the refusal, so no end of write-back will rotate it: try again soon.
        InactiveFate::Reclaim(flags) => flags,
    }
}

/// Returns the flags of an active folio after a look at its young bit (now clear): ACTIVE for
/// another trip, or deactivated and marked WORKINGSET.
pub fn after_look(flags: Flags, is_young: bool) -> Flags {
    let is_executable_file = flags.any(Flags::EXEC) && !flags.any(Flags::ANON);
    if is_young && is_executable_file {
        flags
    } else {
        flags.without(Flags::ACTIVE).with(Flags::WORKINGSET)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const R: Flags = Flags::REFERENCED;
    const ANON: Flags = Flags::ANON;
    const EXEC: Flags = Flags::EXEC;

    #[test]
    fn every_row_of_the_inactive_table() {
        let table = [
            (Flags::UNEVICTABLE.with(R), 3, InactiveFate::Activate(Flags::UNEVICTABLE.with(R))),
            (R, 1, InactiveFate::Activate(R)),
            (Flags::NONE, 2, InactiveFate::Activate(R)),
            (EXEC, 1, InactiveFate::Activate(EXEC.with(R))),
            (EXEC.with(ANON), 1, InactiveFate::Keep(EXEC.with(ANON).with(R))),
            (Flags::NONE, 1, InactiveFate::Keep(R)),
            (R, 0, InactiveFate::Reclaim(Flags::NONE)),
            (R.with(Flags::DIRTY), 0, InactiveFate::Reclaim(Flags::DIRTY)),
            (Flags::NONE, 0, InactiveFate::Reclaim(Flags::NONE)),
        ];
        for (flags, nr_young, fate) in table {
            assert_eq!(inactive_fate(flags, nr_young), fate, "{flags:?}, young in {nr_young}");
        }
    }

    #[test]
    fn anonymous_folio_needs_two_young_scans() {
        let first = inactive_fate(ANON, 1);
        assert_eq!(first, InactiveFate::Keep(ANON.with(R)));
        assert_eq!(inactive_fate(ANON.with(R), 1), InactiveFate::Activate(ANON.with(R)));
        assert_eq!(inactive_fate(ANON.with(R), 0), InactiveFate::Reclaim(ANON));
    }

    #[test]
    fn only_young_executable_files_stay_active() {
        let exec_anon = EXEC.with(ANON);
        let table = [
            (EXEC, true, EXEC.with(Flags::ACTIVE)),
            (EXEC, false, EXEC.with(Flags::WORKINGSET)),
            (ANON, true, ANON.with(Flags::WORKINGSET)),
            (exec_anon, true, exec_anon.with(Flags::WORKINGSET)),
            (Flags::NONE, false, Flags::WORKINGSET),
            (R, false, R.with(Flags::WORKINGSET)),
        ];
        for (flags, is_young, after) in table {
            assert_eq!(after_look(flags.with(Flags::ACTIVE), is_young), after, "{flags:?}");
        }
    }

    #[test]
    fn refused_folios_go_where_the_table_says() {
        const ACTIVE: Flags = Flags::ACTIVE;
        const DIRTY: Flags = Flags::DIRTY;
        const WRITEBACK: Flags = Flags::WRITEBACK;
        let waits = Flags::RECLAIM.with(ACTIVE);
        let table = [
            (R, Refusal::Busy, R),
            (Flags::NONE, Refusal::Young, R),
            (R, Refusal::Young, R.with(ACTIVE)),
            (EXEC, Refusal::Young, EXEC.with(R).with(ACTIVE)),
            (DIRTY.with(R), Refusal::Dirty, DIRTY.with(waits)),
            (WRITEBACK.with(R), Refusal::Dirty, WRITEBACK.with(R).with(waits)),
            (R, Refusal::Dirty, Flags::NONE),
            (Flags::UNEVICTABLE, Refusal::Busy, Flags::UNEVICTABLE.with(ACTIVE)),
        ];
        for (flags, refusal, after) in table {
            assert_eq!(after_trial(flags, refusal), after, "{flags:?}, {refusal:?}");
        }
    }
}
