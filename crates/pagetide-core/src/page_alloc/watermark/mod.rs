//! Watermarks: the number of frames that stay free.
//!
//! **Problem.** Reclaim needs frames to work with, and must start before none is left.
//!
//! **Idea.** Four levels of free frames. Ordinary requests stop at LOW, which wakes background
//! reclaim up to HIGH. Callers that may wait go down to MIN.
//!
//! ```text
//!  free frames
//!  |
//!  |---- PROMO = MIN + 3d   tiering demotes up to here
//!  |---- HIGH  = MIN + 2d   background reclaim stops
//!  |---- LOW   = MIN + d    background reclaim starts, the fast path ends
//!  |---- MIN                direct reclaim, ignored by requests that must not fail
//!  0
//! ```
//!
//! **Data and invariants.** MIN <= LOW <= HIGH <= PROMO < managed (from one frame up). A check
//! fails on equality. Frames on per-CPU lists do not count as free.
//!
//! **Tiny zones (original).** Linux keeps at least 128 KiB free, twice the memory of a 16-frame
//! cache. Here MIN is at most a sixteenth of the zone (below 4 MiB). From 8 frames up, LOW, HIGH
//! and PROMO are at least one frame apart, and PROMO two above HIGH, because a promotion must leave
//! more than HIGH. Zones from 16 MiB up are unaffected.
//!
//! **Ignored.** CMA, a manual `min_free_kbytes`, urgent requests, and the pageblock boost.
//!
//! **Source.** Linux 6.18's page allocator, and `Documentation/admin-guide/sysctl/vm.rst`
//! (`min_free_kbytes`, `watermark_scale_factor`).

use super::free_blocks::FreeBlocks;
use crate::ids::Order;
use crate::units::PAGE_BYTES;

/// Linux's default `watermark_scale_factor`: levels 0.1 % of the zone apart.
pub const SCALE_FACTOR_DEFAULT: u32 = 10;
/// Largest `watermark_scale_factor`: 30 % of the zone.
pub const SCALE_FACTOR_MAX: u32 = 3000;
const FACTOR_UNIT: u64 = 10_000;
const PAGE_KBYTES: u64 = PAGE_BYTES as u64 / 1024;
/// Smallest zone with distinct levels: MIN 0, LOW 1, HIGH 2, PROMO 4.
const FRAMES_FOR_DISTINCT_LEVELS: u64 = 8;

/// A level of a zone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WatermarkLevel {
    /// Direct reclaim below.
    Min = 0,
    /// Background reclaim starts.
    Low = 1,
    /// Background reclaim stops.
    High = 2,
    /// Tiering frees up to here for promotions.
    Promo = 3,
}

/// Inputs of the levels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatermarkInputs {
    /// Frames managed by the zone.
    pub managed: u64,
    /// Frames in all low memory zones. Equals `managed` for one zone.
    pub lowmem: u64,
    /// Distance between levels, in 1/10000 of the zone, at most [`SCALE_FACTOR_MAX`].
    pub scale_factor: u32,
}

impl WatermarkInputs {
    /// One zone of `managed` frames, with Linux's default factor.
    pub const fn single_zone(managed: u64) -> WatermarkInputs {
        WatermarkInputs { managed, lowmem: managed, scale_factor: SCALE_FACTOR_DEFAULT }
    }
}

/// Levels of a zone, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watermarks {
    marks: [u64; 4],
}

impl Watermarks {
    /// Derives the levels.
    ///
    /// # Panics
    /// If `scale_factor` exceeds [`SCALE_FACTOR_MAX`], or `managed` exceeds `lowmem`.
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

    /// Returns the frames of a level.
    pub const fn mark(&self, level: WatermarkLevel) -> u64 {
        self.marks[level as usize]
    }

    /// Returns true if taking a block of `order` leaves more than the level's frames free.
    ///
    /// `nr_free` is `NR_FREE`, in `blocks`. Above order 0, a large enough block is needed.
    ///
    /// # Cost
    /// O(1) at order 0, otherwise O(orders).
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

/// Returns the KiB to keep free for `lowmem` frames: grows with the square root, from 128 KiB to
/// 256 MiB.
pub fn min_free_kbytes(lowmem: u64) -> u64 {
    let lowmem_kbytes = lowmem * PAGE_KBYTES;
    (16 * lowmem_kbytes).isqrt().clamp(128, 262_144)
}

#[cfg(test)]
mod tests;
