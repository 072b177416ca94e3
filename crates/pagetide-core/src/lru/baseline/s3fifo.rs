//! S3-FIFO: three static queues. Most pages pass through the small one and are never used again.
//!
//! ```text
//!   new --> small (10 %) --hit twice--> main (90 %) --+
//!             |                          ^    ^-------+  hit since the last look: minus one
//!             v evicted                  |
//!           ghosts (90 % of memory) -----+ came back
//! ```
//!
//! Reading of the paper: shares are rounded down. Two bits count hits to 3. Two hits move a page
//! from small to main, where the count restarts. As in the authors' simulator, small is scanned
//! until one of its pages is evicted. See [`super::small_queue`] for the start.
//!
//! Weak on loops longer than memory, and if the working set returns just after 90 % of memory was
//! evicted. Source: Yang, Zhang, Qiu, Yue and Rashmi, "FIFO queues are all you need for cache
//! eviction", SOSP 2023.

use super::segmented::{Ghost, SegmentRule, Segmented, Segments};
use super::small_queue::SmallQueue;
use crate::folio::{Flags, Folios};
use crate::ids::FrameId;
use crate::lru::AccessRule;

const SMALL: usize = 0;
const MAIN: usize = 1;

/// Ghosts as a share of memory, in percent.
const GHOST_PERCENT: u64 = 90;
/// Hits that take a page from small to main.
const HITS_TO_MAIN: u32 = 2;

/// The rule of S3-FIFO.
#[derive(Debug)]
pub struct S3FifoRule {
    queue: SmallQueue,
    /// True from the choice of small until one of its pages is evicted.
    is_small_giving: bool,
}

/// S3-FIFO with its paper's parameters.
pub type S3Fifo = Segmented<S3FifoRule>;

impl SegmentRule for S3FifoRule {
    const ACCESS: AccessRule = AccessRule::CountHits;
    /// Three hits to use up, then one look that finds none.
    const TURNS: u64 = Flags::REFS_MAX as u64 + 1;

    fn new(nr_frames: u64) -> S3FifoRule {
        let queue = SmallQueue::new(nr_frames, nr_frames * GHOST_PERCENT / 100);
        S3FifoRule { queue, is_small_giving: false }
    }

    fn admit(
        &mut self,
        segments: &mut Segments,
        folios: &Folios,
        frame: FrameId,
        is_recalled: bool,
    ) {
        let is_overflow = self.queue.overflows(segments.len(SMALL));
        segments.push(folios, if is_recalled || is_overflow { MAIN } else { SMALL }, frame);
    }

    fn recall(&mut self, ghost: Ghost) -> bool {
        self.queue.recall(ghost)
    }

    fn victim_from(&mut self, segments: &mut Segments, _folios: &Folios) -> usize {
        let is_main_due = self.queue.is_main_over(segments.len(MAIN)) && !self.is_small_giving;
        self.is_small_giving = !is_main_due && segments.len(SMALL) > 0;
        if self.is_small_giving { SMALL } else { MAIN }
    }

    fn spares(&mut self, folios: &Folios, frame: FrameId) -> Option<usize> {
        let flags = folios[frame].flags();
        let (is_spared, hits) = match flags.link() as usize {
            SMALL => (flags.refs() >= HITS_TO_MAIN, 0),
            _ => (flags.refs() > 0, flags.refs().saturating_sub(1)),
        };
        is_spared.then(|| {
            folios[frame].update(|flags| Some(flags.with_refs(hits)));
            MAIN
        })
    }

    fn leave(&mut self, _segments: &Segments, from: usize) -> Option<Ghost> {
        self.demoted();
        (from == SMALL).then(|| self.queue.leave_small())
    }

    fn demoted(&mut self) {
        self.queue.warm();
        self.is_small_giving = false;
    }

    fn validate(&self, _segments: &Segments) {
        self.queue.validate();
    }
}
