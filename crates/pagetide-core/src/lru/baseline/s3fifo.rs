//! S3-FIFO: three static queues; most pages pass through a small one and are never seen again.
//!
//! ```text
//!   new --> small (10 %) --hit twice--> main (90 %) --+
//!             |                          ^    ^-------+  hit since the last look: minus one
//!             v evicted                  |
//!           ghosts (90 % of memory) -----+ came back
//! ```
//!
//! Reading of the paper: its parameters, 10 % small and ghosts for 90 %, both rounded down; the two
//! bits count hits to 3; two hits are needed to leave small for main ("accessed more than once" in
//! its algorithm 1), where the count starts at 0. Until something was evicted, pages that find
//! small full go straight to main, as its authors' simulator has it: main is not empty when the
//! evictions begin. Nor is main looked at, however long, until small has evicted a page once it is
//! its turn. A ghost hit leaves the ghost queue at once.
//!
//! Do not use it for loops longer than memory (main turns over with them), or where the working set
//! comes back just after 90 % of memory was evicted. Tables (guards) count one hit a look at most.
//! Source: Yang, Zhang, Qiu, Yue and Rashmi, "FIFO queues are all you need for cache eviction",
//! SOSP 2023.

use super::ghosts::Ghosts;
use super::segmented::{Ghost, SegmentRule, Segmented, Segments};
use crate::folio::{Flags, Folios};
use crate::ids::FrameId;
use crate::lru::AccessRule;

const SMALL: usize = 0;
const MAIN: usize = 1;

/// Small's share of memory, in percent.
const SMALL_PERCENT: u64 = 10;
/// Ghosts, as a share of memory, in percent. Rounded down, as small is: main has what is left.
const GHOST_PERCENT: u64 = 90;
/// Hits that take a page from small to main.
const HITS_TO_MAIN: u32 = 2;

/// The rule of S3-FIFO.
#[derive(Debug)]
pub struct S3FifoRule {
    small_max: u64,
    main_max: u64,
    ghosts: Ghosts,
    /// The evictions, or demotions, have begun.
    is_warm: bool,
    /// Small was chosen to give a page, and has given none yet.
    is_small_giving: bool,
}

/// S3-FIFO with its paper's parameters.
pub type S3Fifo = Segmented<S3FifoRule>;

impl SegmentRule for S3FifoRule {
    const ACCESS: AccessRule = AccessRule::CountHits;
    /// Three hits to use up, and the look that finds none.
    const TURNS: u64 = Flags::REFS_MAX as u64 + 1;

    fn new(nr_frames: u64) -> S3FifoRule {
        let small_max = (nr_frames * SMALL_PERCENT / 100).max(1);
        let ghosts = Ghosts::new(nr_frames * GHOST_PERCENT / 100);
        let main_max = nr_frames - small_max;
        S3FifoRule { small_max, main_max, ghosts, is_warm: false, is_small_giving: false }
    }

    fn admit(
        &mut self,
        segments: &mut Segments,
        folios: &Folios,
        frame: FrameId,
        is_recalled: bool,
    ) {
        let is_overflow = !self.is_warm && segments.len(SMALL) >= self.small_max;
        segments.push(folios, if is_recalled || is_overflow { MAIN } else { SMALL }, frame);
    }

    fn recall(&mut self, ghost: Ghost) -> bool {
        self.ghosts.take(ghost.token)
    }

    fn victim_from(&mut self, segments: &mut Segments, _folios: &Folios) -> usize {
        let is_main_due = segments.len(MAIN) > self.main_max && !self.is_small_giving;
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
        (self.is_warm, self.is_small_giving) = (true, false);
        (from == SMALL).then(|| Ghost { token: self.ghosts.push(), is_second: false })
    }

    fn demoted(&mut self) {
        (self.is_warm, self.is_small_giving) = (true, false);
    }

    fn validate(&self, _segments: &Segments) {
        self.ghosts.validate();
    }
}
