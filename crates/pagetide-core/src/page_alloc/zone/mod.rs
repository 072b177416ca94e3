//! The zone: the frames behind one lock, and the rules for taking them.
//!
//! **Problem.** The buddy allocator would hand out its last frame to any caller. Reclaim and large
//! folios need some left, and a live cache grows and shrinks while frames are in use.
//!
//! **Idea.** Every way out passes one check against the watermarks; batches for per-CPU lists are
//! checked once, at their start, so that one lock hold moves a batch. A shrink (`zone/resize.rs`)
//! takes *free* frames out of service, whichever they are.
//!
//! ```text
//!             alloc, alloc_bulk (check)              take_free
//!  callers <---------------------------- [ free ] -------------> [ offline ]
//!  per-CPU lists ----------------------> [      ] <-------------
//!             free, free_bulk                        give_back
//!
//!  managed = all frames - offline        NR_FREE = frames in the buddy lists, and no others
//! ```
//!
//! **Data and invariants.** `NR_FREE` falls when a batch leaves for a per-CPU list and rises when a
//! drain brings it back: frames on per-CPU lists are not free. Watermarks follow the managed frames
//! only when the caller says so, after a resize.
//!
//! Source: the page allocator specification, sections 1 to 3. Resizing is our own, and simpler than
//! memory hotplug: nothing in use is moved.

use super::buddy::Buddy;
use super::frame_table::FrameTable;
use super::free_blocks::FreeBlocks;
use super::watermark::{SCALE_FACTOR_DEFAULT, WatermarkInputs, WatermarkLevel, Watermarks};
use crate::ids::{FrameId, Order};
use alloc::sync::Arc;

/// How to lay out a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneConfig {
    /// Frames the zone can ever have: the arena's length. 1 to [`FRAMES_MAX`](super::FRAMES_MAX).
    pub nr_frames: u32,
    /// Frames in service at the start; the others are offline until [`Zone::give_back`].
    pub nr_online: u32,
    /// Distance between watermarks, in 1/10000 of the zone; default 10, at most 3000.
    pub scale_factor: u32,
}

impl ZoneConfig {
    /// All of `nr_frames` in service, and Linux's default factor.
    pub const fn with_frames(nr_frames: u32) -> ZoneConfig {
        ZoneConfig { nr_frames, nr_online: nr_frames, scale_factor: SCALE_FACTOR_DEFAULT }
    }
}

/// What one allocation asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocRequest {
    /// The block is 2^order frames.
    pub order: Order,
    /// The level that must stay free; `None` ignores the watermarks (reclaim itself only).
    pub level: Option<WatermarkLevel>,
}

impl AllocRequest {
    /// One block on the fast path: down to LOW.
    pub const fn fast(order: Order) -> AllocRequest {
        AllocRequest { order, level: Some(WatermarkLevel::Low) }
    }

    /// The same request at another level.
    pub const fn at(self, level: Option<WatermarkLevel>) -> AllocRequest {
        AllocRequest { level, ..self }
    }
}

/// What went through a zone since it was made. Blocks in units of calls, frames in base pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZoneStats {
    /// Allocating calls that got something: each was one hold of the zone's lock.
    pub nr_alloc_visits: u64,
    /// Frames they took.
    pub nr_frames_taken: u64,
    /// Blocks they took them in.
    pub nr_blocks_taken: u64,
    /// Freeing calls: each was one hold of the zone's lock.
    pub nr_free_visits: u64,
    /// Frames they brought back.
    pub nr_frames_returned: u64,
    /// Blocks they brought them back in.
    pub nr_blocks_returned: u64,
    /// Blocks in use that were cut into smaller ones.
    pub nr_blocks_split: u64,
    /// Blocks that were made of two in use.
    pub nr_blocks_joined: u64,
}

/// The frames behind one lock.
///
/// # Concurrency
/// No lock inside: the world wraps the zone in one. The [`FrameTable`] is shared without it.
///
/// # Cost
/// 8 bytes a frame, in the frame table; the zone itself is under 2 KiB.
#[derive(Debug)]
pub struct Zone {
    buddy: Buddy,
    watermarks: Watermarks,
    config: ZoneConfig,
    stats: ZoneStats,
}

const _: () = assert!(size_of::<Zone>() <= 2048);

impl Zone {
    /// Lays a zone out: the online frames are free, in blocks as large as they can be.
    ///
    /// # Panics
    /// When `nr_frames` is 0 or above [`FRAMES_MAX`](super::FRAMES_MAX), `nr_online` is above it,
    /// or `scale_factor` is above 3000.
    ///
    /// # Cost
    /// O(frames).
    pub fn new(config: ZoneConfig) -> Zone {
        let buddy = Buddy::new(config.nr_frames, config.nr_online);
        let watermarks = Watermarks::for_zone(&watermark_inputs(&config, config.nr_online));
        Zone { buddy, watermarks, config, stats: ZoneStats::default() }
    }

    /// The words of this zone's frames, for the per-CPU lists.
    pub fn table(&self) -> &Arc<FrameTable> {
        &self.buddy.table
    }

    /// Frames the zone can ever have.
    pub fn nr_frames(&self) -> u32 {
        self.buddy.nr_frames()
    }

    /// Frames in service: free, on per-CPU lists, or handed out.
    pub fn nr_managed(&self) -> u32 {
        self.buddy.nr_frames() - self.buddy.nr_offline as u32
    }

    /// Free frames (`NR_FREE`): those on per-CPU lists are not.
    pub fn nr_free(&self) -> u64 {
        self.buddy.nr_free
    }

    /// Whether memory is left that nothing competes for: more than twice what background reclaim
    /// keeps free.
    pub fn is_ample(&self) -> bool {
        self.nr_free() > 2 * self.watermarks.mark(WatermarkLevel::High)
    }

    /// Free blocks per order.
    pub fn free_blocks(&self) -> &FreeBlocks {
        &self.buddy.blocks
    }

    /// The levels.
    pub fn watermarks(&self) -> &Watermarks {
        &self.watermarks
    }

    /// What went through.
    pub fn stats(&self) -> &ZoneStats {
        &self.stats
    }

    /// Whether the watermarks allow `request` now.
    pub fn check(&self, request: &AllocRequest) -> bool {
        let Some(level) = request.level else { return true };
        self.watermarks.check(request.order, level, self.buddy.nr_free, &self.buddy.blocks)
    }

    /// Takes one block, past the per-CPU lists. `None` when the watermarks or the lists say no, and
    /// for an order above [`Order::MAX`]: no block is that large.
    ///
    /// # Cost
    /// O(orders).
    pub fn alloc(&mut self, request: &AllocRequest) -> Option<FrameId> {
        let mut taken = None;
        self.alloc_bulk(request, 1, |_, frame| taken = Some(frame));
        taken
    }

    /// Takes up to `nr_blocks` blocks, and gives each to `visit` as an allocated block.
    ///
    /// Returns the blocks taken: 0 when the watermarks say no or the order is above [`Order::MAX`],
    /// fewer when the lists run dry. The watermarks are checked once, before the first block.
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

    /// Takes up to `nr_blocks` blocks for a request that [`Zone::admit`] let in.
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

    /// Returns one block, past the per-CPU lists.
    ///
    /// # Panics
    /// When the block is not one this zone handed out at that order: a double free, a foreign
    /// frame.
    pub fn free(&mut self, frame: FrameId, order: Order) {
        let mut block = Some((frame, order));
        self.free_bulk(|_| block.take());
    }

    /// Returns blocks until `next` has no more. `next` owns each until it returns it.
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

    /// Walks every frame, list and count.
    ///
    /// # Cost
    /// O(frames): for tests, and the lab between steps.
    pub fn validate(&self) {
        self.buddy.validate();
        assert!(self.buddy.nr_free <= u64::from(self.nr_managed()), "more free than managed");
    }

    /// Checks `request`, and whether it finds the zone at or under HIGH: then the per-CPU lists are
    /// told to give frames back, before reclaim has to.
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

    /// Frames have left: notes at once that HIGH was crossed, as Linux's next allocation would,
    /// since ours may be a hit that does not come here.
    fn note_fall(&self) {
        if !self.buddy.table.is_below_high() {
            self.look_at_high();
        }
    }

    /// Notes whether one more frame can be had without going under HIGH.
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
