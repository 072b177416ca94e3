//! Clock2Q+: S3-FIFO with one bit, and a window in which a page that was just read earns nothing.
//!
//! ```text
//!   new --> window (5 %) --> small (5 %) --hit here--> main (90 %, CLOCK) --+
//!             hits there       |                        ^     ^-------------+  hit: once more
//!             do not count     v evicted                |
//!                            ghosts (50 % of memory) ---+ came back
//! ```
//!
//! Problem: the same block is often read several times in a row, and then never again; a queue that
//! counts such hits takes it for hot.
//!
//! Reading of the paper: the window is the younger half of the small queue, by admissions; a hit
//! after it is one bit. Here the window is a list of its own, and hits are logged in order, so that
//! each meets its page where it is. A page enters main without the bit. Which queue gives a victim,
//! and that pages which find small full go to main until something was evicted, is as in S3-FIFO.
//!
//! Do not use it for loops longer than memory, nor where the second access of a hot page follows
//! the first at once and the third after more than 10 % of memory came in.
//! Source: Zhai et al., "Clock2Q+: a simple and efficient replacement algorithm for metadata cache
//! in VMware vSAN", VLDB 2026 (arXiv 2511.21958).

use super::ghosts::Ghosts;
use super::segmented::{Ghost, SegmentRule, Segmented, Segments};
use crate::folio::Folios;
use crate::ids::FrameId;
use crate::lru::AccessRule;

const WINDOW: usize = 0;
const SMALL: usize = 1;
const MAIN: usize = 2;

/// Window's and small's share of memory together, in percent.
const SMALL_PERCENT: u64 = 10;
/// Ghosts as a share of memory, in percent.
const GHOST_PERCENT: u64 = 50;

/// The rule of Clock2Q+.
#[derive(Debug)]
pub struct Clock2QPlusRule {
    window_max: u64,
    small_max: u64,
    main_max: u64,
    ghosts: Ghosts,
    /// The evictions, or demotions, have begun.
    is_warm: bool,
}

/// Clock2Q+ with its paper's parameters.
pub type Clock2QPlus = Segmented<Clock2QPlusRule>;

impl SegmentRule for Clock2QPlusRule {
    const ACCESS: AccessRule = AccessRule::LogEach;
    /// The look that takes the bit, and the one that finds none.
    const TURNS: u64 = 2;

    fn new(nr_frames: u64) -> Clock2QPlusRule {
        let small_max = (nr_frames * SMALL_PERCENT / 100).max(1);
        Clock2QPlusRule {
            window_max: small_max / 2,
            small_max,
            main_max: nr_frames - small_max,
            ghosts: Ghosts::new((nr_frames * GHOST_PERCENT / 100).max(1)),
            is_warm: false,
        }
    }

    fn admit(
        &mut self,
        segments: &mut Segments,
        folios: &Folios,
        frame: FrameId,
        is_recalled: bool,
    ) {
        let nr_small = segments.len(WINDOW) + segments.len(SMALL);
        if is_recalled || !self.is_warm && nr_small >= self.small_max {
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
        self.ghosts.take(ghost.token)
    }

    fn victim_from(&mut self, segments: &mut Segments, _folios: &Folios) -> usize {
        if segments.len(MAIN) > self.main_max {
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
        self.is_warm = true;
        (from != MAIN).then(|| Ghost { token: self.ghosts.push(), is_second: false })
    }

    fn demoted(&mut self) {
        self.is_warm = true;
    }

    fn validate(&self, _segments: &Segments) {
        self.ghosts.validate();
    }
}
