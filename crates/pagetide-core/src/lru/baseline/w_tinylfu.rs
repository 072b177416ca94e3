//! W-TinyLFU: a page enters main only if accessed more often than its victim.
//!
//! ```text
//!   new --> window (LRU, 1 %) --candidate--> more frequent than probation's oldest?
//!                                               yes: it goes, the candidate joins probation
//!                                               no:  the candidate goes
//!
//!   main (99 %):  probation (LRU) --hit--> protected (LRU, 80 % of main)
//!                       ^--------- over 80 % --------+
//! ```
//!
//! Reading of the paper: static sizes, as shares of held memory ([`Held`]). A count-min sketch
//! ([`super::sketch`]) counts hits and misses. A tie evicts the candidate. No random admission, so
//! replays repeat. While frames are free, pages from the window join probation without a
//! comparison. Frames freed ahead by reclaim do not count as free.
//!
//! Weak if the working set shifts, and on pure recency, which gets 1 % of memory. Source: Einziger,
//! Friedman and Manes, "TinyLFU: a highly efficient cache admission policy", ACM Transactions on
//! Storage 13(4), 2017.

use super::held::Held;
use super::segmented::{SegmentRule, Segmented, Segments};
use super::sketch::Sketch;
use crate::folio::Folios;
use crate::ids::FrameId;
use crate::lru::AccessRule;

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;

/// The window's share of memory, in percent.
const WINDOW_PERCENT: u64 = 1;
/// The protected segment's share of main, in percent.
const PROTECTED_PERCENT: u64 = 80;

/// The rule of W-TinyLFU.
#[derive(Debug)]
pub struct WTinyLfuRule {
    held: Held,
    window_max: u64,
    protected_max: u64,
    sketch: Sketch,
}

/// W-TinyLFU with a window of 1 %.
pub type WTinyLfu = Segmented<WTinyLfuRule>;

impl WTinyLfuRule {
    fn admits(&self, folios: &Folios, candidate: FrameId, victim: FrameId) -> bool {
        let [candidate, victim] =
            [candidate, victim].map(|frame| self.sketch.estimate(folios[frame].page()));
        candidate > victim
    }

    fn follow_held(&mut self) {
        let held = u64::from(self.held.now());
        self.window_max = (held * WINDOW_PERCENT / 100).max(1);
        self.protected_max = held.saturating_sub(self.window_max) * PROTECTED_PERCENT / 100;
    }
}

impl SegmentRule for WTinyLfuRule {
    const ACCESS: AccessRule = AccessRule::LogEach;
    /// Twice, for candidates that join a list with looks already counted.
    const TURNS: u64 = 2;

    fn new(nr_frames: u64) -> WTinyLfuRule {
        let held = Held::new(u32::try_from(nr_frames).unwrap_or(u32::MAX));
        let sketch = Sketch::new(nr_frames);
        let mut rule = WTinyLfuRule { held, window_max: 0, protected_max: 0, sketch };
        rule.follow_held();
        rule
    }

    fn admit(
        &mut self,
        segments: &mut Segments,
        folios: &Folios,
        frame: FrameId,
        _is_recalled: bool,
    ) {
        self.sketch.increment(folios[frame].page());
        segments.push(folios, WINDOW, frame);
        let nr_ahead = segments.total().saturating_sub(self.held.now().into());
        while segments.len(WINDOW) > self.window_max + nr_ahead
            && let Some(oldest) = segments.tail(WINDOW)
        {
            segments.shift(folios, PROBATION, oldest);
        }
    }

    fn begin_pass(&mut self, nr_folios: u64) {
        self.held.begin(nr_folios);
        self.follow_held();
    }

    fn end_pass(&mut self, nr_folios: u64) {
        self.held.end(nr_folios);
        self.follow_held();
    }

    fn touch(&mut self, segments: &mut Segments, folios: &Folios, frame: FrameId) {
        self.sketch.increment(folios[frame].page());
        if Segments::of(folios, frame) == WINDOW {
            segments.shift(folios, WINDOW, frame);
            return;
        }
        segments.shift(folios, PROTECTED, frame);
        if segments.len(PROTECTED) > self.protected_max
            && let Some(oldest) = segments.tail(PROTECTED)
        {
            segments.shift(folios, PROBATION, oldest);
        }
    }

    fn victim_from(&mut self, segments: &mut Segments, folios: &Folios) -> usize {
        let main = if segments.len(PROBATION) > 0 { PROBATION } else { PROTECTED };
        let Some(victim) = segments.tail(main) else { return WINDOW };
        if segments.len(WINDOW) < self.window_max {
            return main;
        }
        match segments.tail(WINDOW) {
            Some(candidate) if self.admits(folios, candidate, victim) => {
                segments.shift(folios, PROBATION, candidate);
                main
            }
            _ => WINDOW,
        }
    }
}
