//! SIEVE: a queue with a moving hand. Spared pages keep their place.
//!
//! Problem: CLOCK moves a hit page among new pages, so the hand needs a whole turn to find unused
//! ones.
//!
//! ```text
//!   add --> head .... spared . spared . HAND .... tail
//!                                <-- the hand moves; pages do not
//! ```
//!
//! Reading of the paper: algorithm 1, with one visited bit. A refused folio goes to the old end,
//! behind the hand, which would otherwise stay there.
//!
//! Weak on repeated scans (no ghosts), and if a working set shifts. Source: Zhang, Yang, Yue,
//! Vigfusson and Rashmi, "SIEVE is simpler than LRU", NSDI 2024.

use super::queue::{Queue, QueueRule};
use crate::folio::{Flags, Folios};
use crate::ids::FrameId;
use crate::list::FolioList;
use crate::lru::{AccessRule, Refusal};

/// The rule of SIEVE.
#[derive(Debug, Default)]
pub struct SieveRule {
    /// The next candidate, on the list. `None` stands for the old end.
    hand: Option<FrameId>,
}

/// SIEVE with one visited bit.
pub type Sieve = Queue<SieveRule>;

impl QueueRule for SieveRule {
    const ACCESS: AccessRule = AccessRule::ReferenceBit;
    /// One turn to clear the bits, one to find a clear bit.
    const TURNS: u64 = 2;

    fn next(&mut self, list: &FolioList, folios: &Folios) -> Option<FrameId> {
        let frame = self.hand.or(list.tail())?;
        self.hand = list.younger(folios, frame);
        Some(frame)
    }

    fn spares(folios: &Folios, frame: FrameId) -> bool {
        folios[frame].clear(Flags::REFERENCED).any(Flags::REFERENCED)
    }

    fn keep(_list: &mut FolioList, _folios: &Folios, _frame: FrameId) {}

    fn before_removal(&mut self, list: &FolioList, folios: &Folios, frame: FrameId) {
        if self.hand == Some(frame) {
            self.hand = list.younger(folios, frame);
        }
    }

    fn put_back(list: &mut FolioList, folios: &Folios, frame: FrameId, refusal: Refusal) {
        if refusal == Refusal::Young {
            folios[frame].set(Flags::REFERENCED);
        }
        list.push_tail(folios, frame);
    }

    fn validate(&self, list: &FolioList, folios: &Folios) {
        let is_listed = |hand| list.iter(folios).any(|frame| frame == hand);
        assert!(self.hand.is_none_or(is_listed), "the hand points at {:?}: not listed", self.hand);
    }
}
