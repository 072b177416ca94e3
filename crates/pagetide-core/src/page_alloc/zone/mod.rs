//! The zone: the frames behind one lock, and the rules for taking them.
//!
//! **Problem.** Reclaim and large folios need a reserve. A live cache must grow and shrink while
//! frames are in use.
//!
//! **Idea.** Every allocation checks the watermarks, a batch for per-CPU lists once. A shrink
//! (`zone/resize.rs`) takes *free* frames out of service.
//!
//! ```text
//!             alloc, alloc_bulk (check)              take_free
//!  callers <---------------------------- [ free ] -------------> [ offline ]
//!  per-CPU lists ----------------------> [      ] <-------------
//!             free, free_bulk                        give_back
//!
//!  managed = all frames - offline        NR_FREE = frames in the buddy lists
//! ```
//!
//! **Data and invariants.** Frames on per-CPU lists are not in `NR_FREE`. Watermarks follow a
//! resize only on request.
//!
//! **Source.** Linux 6.18's page allocator. Resizing is original.

use super::buddy::Buddy;
use super::frame_table::FrameTable;
use super::free_blocks::FreeBlocks;
use super::watermark::{SCALE_FACTOR_DEFAULT, WatermarkInputs, WatermarkLevel, Watermarks};
use crate::ids::{FrameId, Order};
use alloc::sync::Arc;

/// Layout of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneConfig {
    /// Frames of the arena. 1 to [`FRAMES_MAX`](super::FRAMES_MAX).
    pub nr_frames: u32,
    /// Frames initially in service. See [`Zone::give_back`].
    pub nr_online: u32,
    /// Distance between watermarks, in 1/10000 of the zone. Default 10, at most 3000.
    pub scale_factor: u32,
}

impl ZoneConfig {
    /// All `nr_frames` in service, with Linux's default factor.
    pub const fn with_frames(nr_frames: u32) -> ZoneConfig {
        ZoneConfig { nr_frames, nr_online: nr_frames, scale_factor: SCALE_FACTOR_DEFAULT }
    }
}

/// An allocation request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocRequest {
    /// Order of the block.
    pub order: Order,
    /// Watermark to keep. `None` ignores watermarks (reclaim only).
    pub level: Option<WatermarkLevel>,
}

impl AllocRequest {
    /// Requests one block down to LOW, for the fast path.
    pub const fn fast(order: Order) -> AllocRequest {
        AllocRequest { order, level: Some(WatermarkLevel::Low) }
    }

    /// Returns the request at another level.
    pub const fn at(self, level: Option<WatermarkLevel>) -> AllocRequest {
        AllocRequest { level, ..self }
    }
}

/// Counters since the zone's creation. Frames are base pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZoneStats {
    /// Successful allocating calls, one lock hold each.
    pub nr_alloc_visits: u64,
    /// Frames allocated.
    pub nr_frames_taken: u64,
    /// Blocks allocated.
    pub nr_blocks_taken: u64,
    /// Freeing calls, one lock hold each.
    pub nr_free_visits: u64,
    /// Frames freed.
    pub nr_frames_returned: u64,
    /// Blocks freed.
    pub nr_blocks_returned: u64,
    /// Splits of blocks in use.
    pub nr_blocks_split: u64,
    /// Joins of blocks in use.
    pub nr_blocks_joined: u64,
}

/// The frames behind one lock.
///
/// # Concurrency
/// The world wraps the zone in a lock. The [`FrameTable`] is shared without it.
///
/// # Cost
/// 8 bytes a frame, in the frame table.
#[derive(Debug)]
pub struct Zone {
    buddy: Buddy,
    watermarks: Watermarks,
    config: ZoneConfig,
    stats: ZoneStats,
}

const _: () = assert!(size_of::<Zone>() <= 2048);

impl Zone {
    /// Creates a zone. Online frames are free, in the largest blocks.
    ///
    /// # Panics
    /// If `nr_frames` is 0 or above [`FRAMES_MAX`](super::FRAMES_MAX), `nr_online` above
    /// `nr_frames`, or `scale_factor` above 3000.
    ///
    /// # Cost
    /// O(frames).
    pub fn new(config: ZoneConfig) -> Zone {
        let buddy = Buddy::new(config.nr_frames, config.nr_online);
        let watermarks = Watermarks::for_zone(&watermark_inputs(&config, config.nr_online));
        Zone { buddy, watermarks, config, stats: ZoneStats::default() }
    }

    /// Returns the zone's frame table, for the per-CPU lists.
    pub fn table(&self) -> &Arc<FrameTable> {
        &self.buddy.table
    }

    /// Returns all frames of the arena.
    pub fn nr_frames(&self) -> u32 {
        self.buddy.nr_frames()
    }

    /// Returns the frames in service: free, on per-CPU lists, or allocated.
    pub fn nr_managed(&self) -> u32 {
        self.buddy.nr_frames() - self.buddy.nr_offline as u32
    }

    /// Returns the free frames (`NR_FREE`), without per-CPU lists.
    pub fn nr_free(&self) -> u64 {
        self.buddy.nr_free
    }

    /// Returns true if free memory is over twice the HIGH watermark.
    pub fn is_ample(&self) -> bool {
        self.nr_free() > 2 * self.watermarks.mark(WatermarkLevel::High)
    }

    /// Returns the free blocks per order.
    pub fn free_blocks(&self) -> &FreeBlocks {
        &self.buddy.blocks
    }

    /// Returns the watermarks.
    pub fn watermarks(&self) -> &Watermarks {
        &self.watermarks
    }

    /// Returns the counters.
    pub fn stats(&self) -> &ZoneStats {
        &self.stats
    }

    /// Returns true if the watermarks allow `request`.
    pub fn check(&self, request: &AllocRequest) -> bool {
        let Some(level) = request.level else { return true };
        self.watermarks.check(request.order, level, self.buddy.nr_free, &self.buddy.blocks)
    }

    /// Allocates one block. Returns `None` below the watermark, without a block, or above
    /// [`Order::MAX`].
    ///
    /// # Cost
    /// O(orders).
    pub fn alloc(&mut self, request: &AllocRequest) -> Option<FrameId> {
        let mut taken = None;
        self.alloc_bulk(request, 1, |_, frame| taken = Some(frame));
        taken
    }

    /// Allocates up to `nr_blocks` blocks and passes each to `visit`.
    ///
    /// Returns the number: 0 below the watermark or above [`Order::MAX`]. The watermark is checked
    /// once.
    pub fn alloc_bulk(
        &mut self,
        request: &AllocRequest,
        nr_blocks: u32,
        visit: impl FnMut(&FrameTable, FrameId),
    ) -> u32 {
        if request.order > Order::MAX || !self.admit(request) {
            return 0;
        }
        self.take_bulk(request, nr_blocks, visit)
    }

    pub(super) fn take_bulk(
        &mut self,
        request: &AllocRequest,
        nr_blocks: u32,
        mut visit: impl FnMut(&FrameTable, FrameId),
    ) -> u32 {
        let order = request.order;
        let mut nr_taken = 0;
        while nr_taken < nr_blocks {
            let Some(frame) = self.buddy.take(order) else { break };
            self.buddy.table.set_allocated(frame, order);
            visit(&self.buddy.table, frame);
            nr_taken += 1;
        }
        self.stats.nr_alloc_visits += u64::from(nr_taken > 0);
        self.stats.nr_frames_taken += u64::from(nr_taken) << order.0;
        self.stats.nr_blocks_taken += u64::from(nr_taken);
        self.note_fall();
        nr_taken
    }

    /// Frees one block.
    ///
    /// # Panics
    /// If this zone did not allocate the block at that order: a double free, a foreign frame.
    pub fn free(&mut self, frame: FrameId, order: Order) {
        let mut block = Some((frame, order));
        self.free_bulk(|_| block.take());
    }

    /// Frees blocks until `next` returns `None`. `next` owns each block until returned.
    pub fn free_bulk(&mut self, mut next: impl FnMut(&FrameTable) -> Option<(FrameId, Order)>) {
        self.stats.nr_free_visits += 1;
        while let Some((frame, order)) = next(&self.buddy.table) {
            self.buddy.table.assert_allocated(frame, order);
            self.buddy.put(frame, order);
            self.stats.nr_frames_returned += u64::from(order.nr_frames());
            self.stats.nr_blocks_returned += 1;
        }
        if self.buddy.table.is_below_high() {
            self.look_at_high();
        }
    }

    /// Checks every frame, list and count.
    ///
    /// # Cost
    /// O(frames), for tests and the lab.
    pub fn validate(&self) {
        self.buddy.validate();
        assert!(self.buddy.nr_free <= u64::from(self.nr_managed()), "more free than managed");
    }

    /// Checks `request`. At or below HIGH, tells the per-CPU lists to return frames.
    pub(super) fn admit(&mut self, request: &AllocRequest) -> bool {
        if request.level.is_some_and(|level| level <= WatermarkLevel::High)
            && !self.buddy.table.is_below_high()
        {
            if self.check(&request.at(Some(WatermarkLevel::High))) {
                return true;
            }
            self.buddy.table.pressure.set_below_high(true);
        }
        self.check(request)
    }

    /// Records a fall below HIGH at once, because the next allocation may be a list hit.
    fn note_fall(&self) {
        if !self.buddy.table.is_below_high() {
            self.look_at_high();
        }
    }

    fn look_at_high(&self) {
        let one = AllocRequest::fast(Order::BASE).at(Some(WatermarkLevel::High));
        let below_high = !self.check(&one);
        if below_high != self.buddy.table.is_below_high() {
            self.buddy.table.pressure.set_below_high(below_high);
        }
    }
}

fn watermark_inputs(config: &ZoneConfig, nr_managed: u32) -> WatermarkInputs {
    WatermarkInputs {
        scale_factor: config.scale_factor,
        ..WatermarkInputs::single_zone(u64::from(nr_managed))
    }
}

mod held;
mod resize;
pub(super) mod run;
#[cfg(test)]
mod tests;
