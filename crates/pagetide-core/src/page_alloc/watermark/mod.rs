//! Watermarks: how many frames stay free, and for which requests.
//!
//! **Problem.** If every free frame may be handed out, the moment that frees more has none to work
//! with; if reclaim starts only then, every caller waits for it.
//!
//! **Idea.** Four levels of free frames. Ordinary requests stop at LOW, which wakes background
//! reclaim; that works until HIGH. Callers that may wait go down to MIN.
//!
//! ```text
//!  free frames
//!  |
//!  |---- PROMO = MIN + 3d   tiering demotes until here
//!  |---- HIGH  = MIN + 2d   background reclaim stops
//!  |---- LOW   = MIN + d    background reclaim starts; the fast path ends
//!  |---- MIN                direct reclaim; a request that must not fail ignores it
//!  0
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
//! **Deliberately ignored.** CMA (there is none), a hand-set `min_free_kbytes`, urgent requests,
//! and the boost after a pageblock changes its type: frames are all of one type.
//!
//! Source: the page allocator specification, section 1 (Linux 6.18).

use super::free_blocks::FreeBlocks;
use crate::ids::Order;
use crate::units::PAGE_BYTES;

/// Linux's default for `watermark_scale_factor`: the levels lie 0.1 % of the zone apart.
pub const SCALE_FACTOR_DEFAULT: u32 = 10;
/// The largest `watermark_scale_factor`: 30 % of the zone.
pub const SCALE_FACTOR_MAX: u32 = 3000;
/// The denominator of the factor.
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
}

impl WatermarkInputs {
    /// A machine with one zone of `managed` frames, and Linux's default factor.
    pub const fn single_zone(managed: u64) -> WatermarkInputs {
        WatermarkInputs { managed, lowmem: managed, scale_factor: SCALE_FACTOR_DEFAULT }
    }
}

/// The levels of one zone, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watermarks {
    marks: [u64; 4],
}

impl Watermarks {
    /// Derives the levels.
    ///
    /// # Panics
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
        Watermarks { marks: [min, low, high, high + distance.max(2 * floor)] }
    }

    /// The level's frames.
    pub const fn mark(&self, level: WatermarkLevel) -> u64 {
        self.marks[level as usize]
    }

    /// Whether a block of `order` may be taken and leave more than the level's frames free.
    ///
    /// `nr_free` frames are free in the zone (`NR_FREE`: those on per-CPU lists are not), in these
    /// blocks; above order 0 one of them must be that large. Equality fails.
    ///
    /// # Cost
    /// O(1) at order 0; otherwise at most one look per order.
    pub fn check(
        &self,
        order: Order,
        level: WatermarkLevel,
        nr_free: u64,
        blocks: &FreeBlocks,
    ) -> bool {
        let nr_left = nr_free.saturating_sub(u64::from(order.nr_frames()) - 1);
        nr_left > self.mark(level) && (order == Order::BASE || blocks.has(order))
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
