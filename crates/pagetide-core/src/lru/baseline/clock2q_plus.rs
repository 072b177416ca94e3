//! Clock2Q+: S3-FIFO with one bit, and no hit credit for pages just read.
//!
//! ```text
//!   new --> window (5 %) --> small (5 %) --hit here--> main (90 %, CLOCK) --+
//!             hits there       |                        ^     ^-------------+  hit: once more
//!             do not count     v evicted                |
//!                            ghosts (50 % of memory) ---+ came back
//! ```
//!
//! Problem: a block read several times in a row, and then never again, looks hot.
//!
//! Reading of the paper: its window is the younger half of small, here a separate list. Hits are
//! logged in order, so that each finds its page on the right list. Main gives a victim while over
//! its share, else small. See [`super::small_queue`] for the start.
//!
//! Weak on loops longer than memory, and if the second access of a hot page follows at once and the
//! third after more than 10 % of memory. Source: Zhai et al., "Clock2Q+: a simple and efficient
//! replacement algorithm for metadata cache in VMware vSAN", VLDB 2026 (arXiv 2511.21958).

use super::segmented::{Ghost, SegmentRule, Segmented, Segments};
use super::small_queue::SmallQueue;
use crate::folio::Folios;
use crate::ids::FrameId;
use crate::lru::AccessRule;

const WINDOW: usize = 0;
const SMALL: usize = 1;
const MAIN: usize = 2;

/// Ghosts as a share of memory, in percent.
const GHOST_PERCENT: u64 = 50;

/// The rule of Clock2Q+.
#[derive(Debug)]
pub struct Clock2QPlusRule {
    window_max: u64,
    queue: SmallQueue,
}

/// Clock2Q+ with its paper's parameters.
pub type Clock2QPlus = Segmented<Clock2QPlusRule>;

impl SegmentRule for Clock2QPlusRule {
    const ACCESS: AccessRule = AccessRule::LogEach;
    /// One look takes the bit, the next finds none.
    const TURNS: u64 = 2;

    fn new(nr_frames: u64) -> Clock2QPlusRule {
        let queue = SmallQueue::new(nr_frames, (nr_frames * GHOST_PERCENT / 100).max(1));
        Clock2QPlusRule { window_max: queue.small_max / 2, queue }
    }

    fn admit(
        &mut self,
        segments: &mut Segments,
        folios: &Folios,
        frame: FrameId,
        is_recalled: bool,
    ) {
        let nr_small = segments.len(WINDOW) + segments.len(SMALL);
        if is_recalled || self.queue.overflows(nr_small) {
            return segments.push(folios, MAIN, frame);
        }
        segments.push(folios, WINDOW, frame);
        if segments.len(WINDOW) > self.window_max
            && let Some(oldest) = segments.tail(WINDOW)
        {
            segments.shift(folios, SMALL, oldest);
        }
    }

    fn touch(&mut self, _segments: &mut Segments, folios: &Folios, frame: FrameId) {
        if Segments::of(folios, frame) != WINDOW {
            folios[frame].update(|flags| Some(flags.with_refs(1)));
        }
    }

    fn recall(&mut self, ghost: Ghost) -> bool {
        self.queue.recall(ghost)
    }

    fn victim_from(&mut self, segments: &mut Segments, _folios: &Folios) -> usize {
        if self.queue.is_main_over(segments.len(MAIN)) {
            return MAIN;
        }
        [SMALL, WINDOW].into_iter().find(|it| segments.len(*it) > 0).unwrap_or(MAIN)
    }

    fn spares(&mut self, folios: &Folios, frame: FrameId) -> Option<usize> {
        (folios[frame].flags().refs() > 0).then(|| {
            folios[frame].update(|flags| Some(flags.with_refs(0)));
            MAIN
        })
    }

    fn leave(&mut self, _segments: &Segments, from: usize) -> Option<Ghost> {
        self.queue.warm();
        (from != MAIN).then(|| self.queue.leave_small())
    }

    fn demoted(&mut self) {
        self.queue.warm();
    }

    fn validate(&self, _segments: &Segments) {
        self.queue.validate();
    }
}
