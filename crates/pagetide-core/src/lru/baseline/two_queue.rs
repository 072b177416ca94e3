//! 2Q: a page is hot if it returns after its first eviction.
//!
//! ```text
//!   new --> A1in (FIFO, 25 %) --evicted--> A1out (ghosts, 50 % of memory)
//!                                             | came back
//!                                             v
//!                                Am (LRU, the rest) --evicted--> gone
//! ```
//!
//! Reading of the paper: the full version, with its sizes. Hits in A1in do nothing. A1in gives up
//! pages only while over its size.
//!
//! Weak if memory is small for the working set: a quarter is always on probation. Source: Johnson
//! and Shasha, "2Q: a low overhead high performance buffer management replacement algorithm", VLDB
//! 1994.

use super::ghosts::Ghosts;
use super::segmented::{Ghost, SegmentRule, Segmented, Segments};
use crate::folio::Folios;
use crate::ids::FrameId;
use crate::lru::AccessRule;

const A1IN: usize = 0;
const AM: usize = 1;

/// A1in's share of memory, in percent.
const IN_PERCENT: u64 = 25;
/// A1out's length as a share of memory, in percent.
const OUT_PERCENT: u64 = 50;

/// The rule of 2Q.
#[derive(Debug)]
pub struct TwoQueueRule {
    in_max: u64,
    out: Ghosts,
}

/// 2Q, full version.
pub type TwoQueue = Segmented<TwoQueueRule>;

impl SegmentRule for TwoQueueRule {
    const ACCESS: AccessRule = AccessRule::LogEach;
    const TURNS: u64 = 1;

    fn new(nr_frames: u64) -> TwoQueueRule {
        let in_max = (nr_frames * IN_PERCENT / 100).max(1);
        TwoQueueRule { in_max, out: Ghosts::new((nr_frames * OUT_PERCENT / 100).max(1)) }
    }

    fn admit(
        &mut self,
        segments: &mut Segments,
        folios: &Folios,
        frame: FrameId,
        is_recalled: bool,
    ) {
        segments.push(folios, if is_recalled { AM } else { A1IN }, frame);
    }

    fn touch(&mut self, segments: &mut Segments, folios: &Folios, frame: FrameId) {
        if Segments::of(folios, frame) == AM {
            segments.shift(folios, AM, frame);
        }
    }

    fn recall(&mut self, ghost: Ghost) -> bool {
        self.out.take(ghost.token)
    }

    fn victim_from(&mut self, segments: &mut Segments, _folios: &Folios) -> usize {
        if segments.len(A1IN) > self.in_max || segments.len(AM) == 0 { A1IN } else { AM }
    }

    fn leave(&mut self, _segments: &Segments, from: usize) -> Option<Ghost> {
        (from == A1IN).then(|| Ghost { token: self.out.push(), is_second: false })
    }

    fn validate(&self, _segments: &Segments) {
        self.out.validate();
    }
}
