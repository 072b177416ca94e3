//! ARC: balances recency and frequency by ghost hits.
//!
//! ```text
//!        B1 (ghosts) <-- T1: seen once | T2: seen again --> B2 (ghosts)
//!   a return from B1: more for T1   ---- p ----   a return from B2: more for T2
//! ```
//!
//! Reading of the paper: figure 4, with `p` in 32 fractional bits. If the pass does not know the
//! incoming page, `p` moves one eviction late. Evictions limit |T1| + |B1| to memory, and all four
//! lists to twice that.
//!
//! Weak on loops longer than memory, and on a scan that reads each page twice, which enters T2.
//! Source: Megiddo and Modha, "ARC: a self-tuning, low overhead replacement cache", FAST 2003.

use super::ghosts::Ghosts;
use super::segmented::{Ghost, SegmentRule, Segmented, Segments};
use crate::folio::Folios;
use crate::ids::FrameId;
use crate::lru::AccessRule;

const T1: usize = 0;
const T2: usize = 1;

const FRACTION_BITS: u32 = 32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Incoming {
    Stranger,
    FromB1,
    FromB2,
}

/// The rule of ARC.
#[derive(Debug)]
pub struct ArcRule {
    nr_frames: u64,
    /// T1's target length, with [`FRACTION_BITS`] fractional bits.
    p: u64,
    b1: Ghosts,
    b2: Ghosts,
    incoming: Incoming,
}

/// ARC, without parameters.
pub type Arc = Segmented<ArcRule>;

impl ArcRule {
    /// Returns the step of `p`. `ghosts` is the length of the list hit.
    fn delta(ghosts: u64, others: u64) -> u64 {
        ((others << FRACTION_BITS) / ghosts.max(1)).max(1 << FRACTION_BITS)
    }
}

impl SegmentRule for ArcRule {
    const ACCESS: AccessRule = AccessRule::LogEach;
    const TURNS: u64 = 1;

    fn new(nr_frames: u64) -> ArcRule {
        ArcRule {
            nr_frames,
            p: 0,
            b1: Ghosts::new(nr_frames),
            b2: Ghosts::new(2 * nr_frames),
            incoming: Incoming::Stranger,
        }
    }

    fn admit(
        &mut self,
        segments: &mut Segments,
        folios: &Folios,
        frame: FrameId,
        is_recalled: bool,
    ) {
        segments.push(folios, if is_recalled { T2 } else { T1 }, frame);
    }

    fn touch(&mut self, segments: &mut Segments, folios: &Folios, frame: FrameId) {
        segments.shift(folios, T2, frame);
    }

    fn recall(&mut self, ghost: Ghost) -> bool {
        let (b1, b2) = (self.b1.len(), self.b2.len());
        self.incoming = Incoming::Stranger;
        if ghost.is_second {
            if self.b2.take(ghost.token) {
                self.incoming = Incoming::FromB2;
                self.p = self.p.saturating_sub(ArcRule::delta(b2, b1));
            }
        } else if self.b1.take(ghost.token) {
            self.incoming = Incoming::FromB1;
            self.p = (self.p + ArcRule::delta(b1, b2)).min(self.nr_frames << FRACTION_BITS);
        }
        self.incoming != Incoming::Stranger
    }

    fn expect_stranger(&mut self) {
        self.incoming = Incoming::Stranger;
    }

    fn victim_from(&mut self, segments: &mut Segments, _folios: &Folios) -> usize {
        let length = segments.len(T1) << FRACTION_BITS;
        let is_over = length > self.p || length == self.p && self.incoming == Incoming::FromB2;
        if segments.len(T1) > 0 && is_over || segments.len(T2) == 0 { T1 } else { T2 }
    }

    fn leave(&mut self, segments: &Segments, from: usize) -> Option<Ghost> {
        if self.incoming == Incoming::Stranger {
            let seen_once = segments.len(T1) + u64::from(from == T1) + self.b1.len();
            let seen_again = segments.len(T2) + u64::from(from == T2) + self.b2.len();
            if seen_once >= self.nr_frames {
                if self.b1.is_empty() {
                    return None;
                }
                self.b1.forget_oldest();
            } else if seen_once + seen_again >= 2 * self.nr_frames {
                self.b2.forget_oldest();
            }
        }
        let is_second = from == T2;
        let ghosts = if is_second { &mut self.b2 } else { &mut self.b1 };
        Some(Ghost { token: ghosts.push(), is_second })
    }

    fn validate(&self, _segments: &Segments) {
        self.b1.validate();
        self.b2.validate();
        assert!(self.p <= self.nr_frames << FRACTION_BITS, "p is more than memory");
    }
}
