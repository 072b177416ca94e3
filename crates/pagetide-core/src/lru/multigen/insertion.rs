//! Which generation a folio enters.
//!
//! A generation is a statement about recency. A new folio's is guessed from how it came: what a
//! fault brought in is about to be used again; what a read call brought in may never be.
//!
//! ```text
//!   oldest                                                     youngest
//!   max-3             max-2              max-1                 max
//!   read, readahead   read again soon    faulted, unwritten    faulted again soon
//! ```
//!
//! "Again soon" is WORKINGSET, set on a refault of a folio that had saturated its references. The
//! guess is raised to the type's oldest generation: with four generations in use a cold folio joins
//! the one being evicted, and only an access or a refault gives it another chance.
//!
//! An anonymous folio has a copy in the swap store exactly while it is clean, which is what decides
//! here. Source: the multi-gen LRU specification, section 3, profile B.

use super::window::Window;
use crate::folio::Flags;

/// Why a folio is put on a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    /// It is new, or a reclaim pass gives it back.
    Added,
    /// Its write-back, which reclaim waited for, is done: it goes next.
    Rotated,
}

/// The generation that a folio with these flags enters.
pub(super) fn entered_seq(window: &Window, flags: Flags, entry: Entry) -> u64 {
    const UNWRITTEN: Flags = Flags::DIRTY.with(Flags::WRITEBACK);
    let workingset = flags.any(Flags::WORKINGSET);
    let steps_from_youngest = if flags.any(Flags::ACTIVE) {
        u64::from(!workingset)
    } else if entry == Entry::Rotated {
        3
    } else if flags.all(Flags::ANON.with(Flags::DIRTY))
        || flags.any(Flags::RECLAIM) && flags.any(UNWRITTEN)
    {
        1
    } else if workingset {
        2
    } else {
        3
    };
    (window.max_seq - steps_from_youngest).max(window.oldest(flags.page_type()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entered(min_seq: u64, flags: Flags, entry: Entry) -> u64 {
        let window = Window { max_seq: 10, min_seq: [min_seq; 2] };
        entered_seq(&window, flags, entry)
    }

    /// Specification, section 3, the vectors of profile B.
    #[test]
    fn the_specification_vectors_hold() {
        let (ws, active) = (Flags::WORKINGSET, Flags::ACTIVE);
        let unwritten_anon = Flags::ANON.with(Flags::DIRTY);
        assert_eq!(entered(7, active, Entry::Added), 9);
        assert_eq!(entered(7, active.with(ws), Entry::Added), 10);
        assert_eq!(entered(7, unwritten_anon, Entry::Added), 9);
        assert_eq!(entered(7, Flags::NONE, Entry::Added), 7);
        assert_eq!(entered(7, ws, Entry::Added), 8);
        assert_eq!(entered(8, Flags::NONE, Entry::Added), 8);
        assert_eq!(entered(9, unwritten_anon, Entry::Added), 9);
    }

    #[test]
    fn anon_with_a_copy_in_the_store_is_cold() {
        assert_eq!(entered(7, Flags::ANON, Entry::Added), 7);
    }

    #[test]
    fn folios_that_wait_for_the_flusher_stay_out_of_the_way() {
        let waiting = Flags::RECLAIM.with(Flags::WRITEBACK);
        assert_eq!(entered(7, waiting, Entry::Added), 9);
        assert_eq!(entered(7, Flags::RECLAIM, Entry::Added), 7, "clean again");
        assert_eq!(entered(7, waiting, Entry::Rotated), 7, "the rotation comes first");
        assert_eq!(entered(9, Flags::NONE, Entry::Rotated), 9);
    }
}
