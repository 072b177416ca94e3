//! CLOCK: an approximation of LRU.
//!
//! A hit sets a bit. The hand (the old end) clears it and gives the page another trip. Weak on
//! frequent scans, like LRU. Source: Corbato, "A paging experiment with the Multics system", 1968.

use super::queue::{Queue, QueueRule};
use crate::folio::{Flags, Folios};
use crate::ids::FrameId;
use crate::lru::AccessRule;

/// The rule of CLOCK.
#[derive(Debug, Default)]
pub struct ClockRule;

/// CLOCK with one reference bit.
pub type Clock = Queue<ClockRule>;

impl QueueRule for ClockRule {
    const ACCESS: AccessRule = AccessRule::ReferenceBit;
    const TURNS: u64 = 2;

    fn spares(folios: &Folios, frame: FrameId) -> bool {
        folios[frame].clear(Flags::REFERENCED).any(Flags::REFERENCED)
    }
}
