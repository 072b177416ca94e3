//! Watermarks: how many frames stay free, and for whom.
//!
//! **Problem.** If every free frame may be handed out, the moment that frees more has none to work
//! with; if reclaim starts only then, every caller waits for it.
//!
//! **Idea.** Four levels of free frames. Ordinary requests stop at LOW, which wakes background
//! reclaim; that works until HIGH. Callers that may wait go down to MIN, urgent ones below it.
//!
//! ```text
//!  free frames
//!  |
//!  |---- PROMO = MIN + 3d   tiering demotes until here
//!  |---- HIGH  = MIN + 2d   background reclaim stops
//!  |---- LOW   = MIN + d    background reclaim starts; the fast path ends
//!  |---- MIN                direct reclaim; urgent requests may go to a half or 3/8 of it
//!  0
//!           all four rise together by the boost, after a fragmentation event
//! ```
//!
//! **Data and invariants.** MIN <= LOW <= HIGH <= PROMO < managed (for one frame and up). A check
//! fails on equality. Frames on per-CPU lists are not free frames and are not in any count here.
//!
//! **Tiny zones (ours).** Linux keeps at least 128 KiB free, which is twice what a page cache of 16
//! frames has. So MIN is at most a sixteenth of the zone (it bites below 4 MiB), and from 8 frames
//! up LOW, HIGH and PROMO lie at least one frame apart, so that background reclaim has a goal;
//! PROMO two above HIGH, as a promotion must leave more than HIGH free. Nothing of 16 MiB or more
//! is changed by these rules.
//!
//! **Deliberately ignored.** CMA (there is none) and a hand-set `min_free_kbytes`.
//!
//! Source: the page allocator specification, section 1 (Linux 6.18).

use super::free_blocks::FreeBlocks;
use super::migrate::{MigrateType, PAGEBLOCK_FRAMES};
use crate::ids::Order;
use crate::units::PAGE_BYTES;

/// Linux's default for `watermark_scale_factor`: the levels lie 0.1 % of the zone apart.
pub const SCALE_FACTOR_DEFAULT: u32 = 10;
/// The largest `watermark_scale_factor`: 30 % of the zone.
pub const SCALE_FACTOR_MAX: u32 = 3000;
/// Linux's default for `watermark_boost_factor`: boost up to 150 % of HIGH.
pub const BOOST_FACTOR_DEFAULT: u32 = 15000;
/// The denominator of both factors.
const FACTOR_UNIT: u64 = 10_000;
const PAGE_KBYTES: u64 = PAGE_BYTES as u64 / 1024;
/// The smallest zone whose levels are kept apart: MIN 0, LOW 1, HIGH 2, PROMO 4.
const FRAMES_FOR_DISTINCT_LEVELS: u64 = 8;

/// One of the levels of a zone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WatermarkLevel {
    /// Direct reclaim below it.
    Min = 0,
    /// Background reclaim from it.
    Low = 1,
    /// Background reclaim up to it.
    High = 2,
    /// Tiering makes room for promotions up to it.
    Promo = 3,
}

/// What the levels are derived from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatermarkInputs {
    /// Frames the zone manages.
    pub managed: u64,
    /// Frames in all zones of low memory together; `managed` when there is one zone.
    pub lowmem: u64,
    /// Distance between levels, in 1/10000 of the zone; at most [`SCALE_FACTOR_MAX`].
    pub scale_factor: u32,
    /// Upper bound of the boost, in 1/10000 of HIGH; 0 turns boosting off.
    pub boost_factor: u32,
}

impl WatermarkInputs {
    /// A machine with one zone of `managed` frames, and Linux's default factors.
    pub const fn single_zone(managed: u64) -> WatermarkInputs {
        WatermarkInputs {
            managed,
            lowmem: managed,
            scale_factor: SCALE_FACTOR_DEFAULT,
            boost_factor: BOOST_FACTOR_DEFAULT,
        }
    }
}

/// How far below a level a request may go, for lack of an alternative.
///
/// All false is the ordinary request. The fields add up, as Linux's allocation flags do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AllocRights {
    /// Urgent (`__GFP_HIGH`): half of the level is open to it.
    pub high: bool,
    /// The caller cannot wait for reclaim. With `high`, a further quarter of what is left is open;
    /// with `high` and above order 0, so are the pageblocks kept for such requests.
    pub non_blocking: bool,
    /// The caller is about to give its memory back: half of what is left is open.
    pub oom_victim: bool,
}

impl AllocRights {
    /// The ordinary request.
    pub const NONE: AllocRights =
        AllocRights { high: false, non_blocking: false, oom_victim: false };

    /// Whether the high-order reserve counts as free for this request.
    pub const fn has_reserves(self) -> bool {
        self.high || self.non_blocking || self.oom_victim
    }

    /// Whether a request of `order` draws on the high-order reserve first.
    pub const fn is_high_atomic(self, order: Order) -> bool {
        self.high && self.non_blocking && order.0 > 0
    }

    /// What is left of `mark` frames as the limit.
    const fn limit(self, mark: u64) -> u64 {
        let mut limit = mark;
        if self.high {
            limit -= limit / 2;
            if self.non_blocking {
                limit -= limit / 4;
            }
        }
        if self.oom_victim {
            limit -= limit / 2;
        }
        limit
    }
}

/// What a check looks at in the zone.
#[derive(Clone, Copy, Debug)]
pub struct FreeFrames<'a> {
    /// Free frames in the zone (`NR_FREE`): those on per-CPU lists are not.
    pub nr_free: u64,
    /// Of those, the ones in the high-order reserve.
    pub nr_high_atomic: u64,
    /// The free blocks themselves.
    pub blocks: &'a FreeBlocks,
}

/// The levels of one zone, and the boost on top of them. All in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watermarks {
    marks: [u64; 4],
    boost: u64,
    boost_factor: u32,
}

impl Watermarks {
    /// Derives the levels.
    ///
    /// # Panics
    ///
    /// When `scale_factor` is above [`SCALE_FACTOR_MAX`], or the zone is larger than all of low
    /// memory.
    pub fn for_zone(inputs: &WatermarkInputs) -> Watermarks {
        assert!(inputs.scale_factor <= SCALE_FACTOR_MAX, "watermark scale factor above 3000");
        let managed = inputs.managed;
        assert!(managed <= inputs.lowmem, "a zone larger than low memory");
        let pages_min = min_free_kbytes(inputs.lowmem) / PAGE_KBYTES;
        let share = (pages_min * managed).checked_div(inputs.lowmem).unwrap_or(0);
        let min = share.min(managed / 16);
        let scaled = managed * u64::from(inputs.scale_factor) / FACTOR_UNIT;
        let floor = u64::from(managed >= FRAMES_FOR_DISTINCT_LEVELS);
        let distance = (min / 4).max(scaled).max(floor);
        let [low, high] = [min + distance, min + 2 * distance];
        Watermarks {
            marks: [min, low, high, high + distance.max(2 * floor)],
            boost: 0,
            boost_factor: inputs.boost_factor,
        }
    }

    /// A level with the current boost: every comparison uses this one.
    pub const fn mark(&self, level: WatermarkLevel) -> u64 {
        self.marks[level as usize] + self.boost
    }

    /// A level without the boost: what per-CPU limits are derived from.
    pub const fn unboosted(&self, level: WatermarkLevel) -> u64 {
        self.marks[level as usize]
    }

    /// The boost now. Above zero, background reclaim has work whatever the level.
    pub const fn boost(&self) -> u64 {
        self.boost
    }

    /// Raises the boost after a fragmentation event in a zone of `managed` frames: an allocation
    /// claimed a pageblock that other types still use. Reclaim then frees whole pageblocks' worth.
    ///
    /// Zones under four pageblocks are left alone: one event would be a quarter of them.
    pub fn boost_after_fragmentation(&mut self, managed: u64) {
        let pageblock = u64::from(PAGEBLOCK_FRAMES);
        if self.boost_factor == 0 || managed < 4 * pageblock {
            return;
        }
        let high = self.unboosted(WatermarkLevel::High);
        let cap = pageblock.max(high * u64::from(self.boost_factor) / FACTOR_UNIT);
        self.boost = (self.boost + pageblock).min(cap);
    }

    /// Takes `seen` off the boost: what [`Watermarks::boost`] was when the reclaim pass began. A
    /// boost that came during the pass stays, for the next one.
    pub fn relieve_boost(&mut self, seen: u64) {
        self.boost = self.boost.saturating_sub(seen);
    }

    /// The same boost on levels derived anew, after the zone's size changed.
    pub(super) fn rederived(&self, inputs: &WatermarkInputs) -> Watermarks {
        Watermarks { boost: self.boost, ..Watermarks::for_zone(inputs) }
    }

    /// Whether a block of `order` may be taken and leave more than the level's frames free.
    ///
    /// Above order 0 there must also be a block that large on a list the request can use. Equality
    /// fails.
    ///
    /// # Cost
    ///
    /// O(1) at order 0; otherwise at most one look per order.
    pub fn check(
        &self,
        order: Order,
        level: WatermarkLevel,
        rights: AllocRights,
        free: &FreeFrames<'_>,
    ) -> bool {
        let mut unusable = u64::from(order.nr_frames()) - 1;
        if !rights.has_reserves() {
            unusable += free.nr_high_atomic;
        }
        if free.nr_free.saturating_sub(unusable) <= rights.limit(self.mark(level)) {
            return false;
        }
        let reserve_usable = rights.is_high_atomic(order) || rights.oom_victim;
        order == Order::BASE
            || MigrateType::REQUESTABLE.iter().any(|&migrate| free.blocks.has(order, migrate))
            || (reserve_usable && free.blocks.has(order, MigrateType::HighAtomic))
    }
}

/// Kibibytes to keep free on a machine with `lowmem` frames of low memory: it grows with the square
/// root, from 128 KiB to 256 MiB.
pub fn min_free_kbytes(lowmem: u64) -> u64 {
    let lowmem_kbytes = lowmem * PAGE_KBYTES;
    (16 * lowmem_kbytes).isqrt().clamp(128, 262_144)
}

#[cfg(test)]
mod tests;
