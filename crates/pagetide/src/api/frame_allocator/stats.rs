//! Statistics of a frame allocator.

use pagetide_core::ids::Order;
use pagetide_core::page_alloc::{FreeBlocks, PCP_HUGE_ORDER, ZoneStats};
use pagetide_core::units::Bytes;
use std::fmt;

/// Counters and usage of an allocator. Prints as a few lines.
///
/// Zone and lists are read in turn: a concurrent call may count a frame twice or not at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct FrameAllocatorStats {
    /// Total frames.
    pub nr_managed: u64,
    /// Frames free in the zone.
    pub nr_free: u64,
    /// Number of per-CPU lists.
    pub nr_lists: u64,
    /// Frames on per-CPU lists: neither free nor in use.
    pub nr_listed: u64,
    /// Present sum of the lists' limits.
    pub nr_listed_max: u64,
    /// Visits to the zone that had to wait for its lock.
    pub nr_lock_waits: u64,
    /// Free blocks of the zone, by order.
    pub free_blocks: FreeBlocks,
    /// Traffic through the zone's lock.
    pub zone: ZoneStats,
}

impl FrameAllocatorStats {
    /// Returns the number of allocated frames.
    pub fn nr_in_use(&self) -> u64 {
        self.nr_managed.saturating_sub(self.nr_free + self.nr_listed)
    }
}

impl fmt::Display for FrameAllocatorStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FrameAllocatorStats { nr_managed, nr_free, nr_lists, nr_listed, .. } = *self;
        let zone = &self.zone;
        let memory = Bytes::from_pages(nr_managed);
        writeln!(
            f,
            "{memory} in {nr_managed} frames: {} in use, {nr_free} free",
            self.nr_in_use()
        )?;
        writeln!(
            f,
            "lists       {nr_lists} hold {nr_listed} frames, and may hold {}",
            self.nr_listed_max
        )?;
        writeln!(f, "{}", self.free_blocks)?;
        let huge = Bytes::from_pages(PCP_HUGE_ORDER.nr_frames().into());
        let (nr_thousandths, largest) =
            (self.free_blocks.unusable_index(PCP_HUGE_ORDER), self.free_blocks.largest());
        let largest = largest.map_or(0, Order::nr_frames);
        writeln!(
            f,
            "fragments   {}.{} % of the free frames in pieces under {huge}, the largest piece {}",
            nr_thousandths / 10,
            nr_thousandths % 10,
            Bytes::from_pages(largest.into())
        )?;
        writeln!(
            f,
            "zone        {} visits took {} frames, {} returned {}; {} found the lock taken",
            zone.nr_alloc_visits,
            zone.nr_frames_taken,
            zone.nr_free_visits,
            zone.nr_frames_returned,
            self.nr_lock_waits
        )?;
        write!(f, "blocks      {} split, {} joined", zone.nr_blocks_split, zone.nr_blocks_joined)
    }
}
