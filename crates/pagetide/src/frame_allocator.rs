//! The frame allocator alone: memory in blocks of 1 to 1024 frames, for any number of threads.
//!
//! **Problem.** A program that has its own cache, arena or network stack wants what is under the
//! page cache: per-CPU lists that tune themselves, and large blocks that stay possible.
//!
//! **Idea.** The same zone and lists as the page cache's, over memory of their own; a block is
//! given back when it is dropped.
//!
//! ```text
//!   FrameAllocator --alloc(order)--> FrameBlock --drop--> FrameAllocator
//! ```
//!
//! **Data and invariants.** A block borrows its allocator, so that the memory outlives it. The
//! address of a block is given out, never a reference: what is there is the program's business.
//!
//! **Ignored.** Reclaim: when there is no frame, there is none. And threads of its own: somebody
//! calls [`FrameAllocator::tick`] a few times a second, or the lists never shrink by themselves.

use crate::errors::BuildError;
use crate::frames::shared_zone::{PcpSettings, SharedZone};
use pagetide_core::ids::{FrameId, Order};
use pagetide_core::knobs::MEMORY_MIN;
use pagetide_core::page_alloc::{
    AllocRequest, MigrateType, PcpTuning, Zone, ZoneConfig, ZoneStats,
};
use pagetide_core::units::{Bytes, Millis};
use pagetide_sys::{ArenaOptions, FrameArena, current_cpu, read_monotonic_ns};
use std::fmt;

/// Settings of a [`FrameAllocator`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct FrameAllocatorBuilder {
    memory: Bytes,
    tuning: PcpTuning,
    options: ArenaOptions,
    nr_cpus: Option<u32>,
}

impl FrameAllocatorBuilder {
    /// The memory there is; rounded down to whole frames, at least 64K. Must be called.
    pub fn memory(self, memory: Bytes) -> FrameAllocatorBuilder {
        FrameAllocatorBuilder { memory, ..self }
    }

    /// How the per-CPU lists find their length; `refill` unless set.
    pub fn pcp_tuning(self, tuning: PcpTuning) -> FrameAllocatorBuilder {
        FrameAllocatorBuilder { tuning, ..self }
    }

    /// Touches all memory while building. Off unless set.
    pub fn pretouch(mut self, pretouch: bool) -> FrameAllocatorBuilder {
        self.options.pretouch = pretouch;
        self
    }

    /// Asks for huge pages. On unless set.
    pub fn huge_pages(mut self, huge_pages: bool) -> FrameAllocatorBuilder {
        self.options.huge_pages = huge_pages;
        self
    }

    /// How many per-CPU lists there are; one for each CPU the machine can have unless set. With
    /// fewer, CPUs share.
    pub fn nr_cpus(self, nr_cpus: u32) -> FrameAllocatorBuilder {
        FrameAllocatorBuilder { nr_cpus: Some(nr_cpus.max(1)), ..self }
    }

    /// Reserves the memory.
    ///
    /// # Errors
    /// [`BuildError`]: no memory or too little was asked for, or the system refused.
    pub fn build(self) -> Result<FrameAllocator, BuildError> {
        match self.memory.0 {
            0 => return Err(BuildError::NoMemory),
            given if given < MEMORY_MIN => {
                return Err(BuildError::TooSmall { given: self.memory, least: Bytes(MEMORY_MIN) });
            }
            _ => {}
        }
        let nr_frames = u32::try_from(self.memory.whole_pages()).unwrap_or(u32::MAX);
        let arena = FrameArena::reserve(nr_frames, self.options)?;
        let zone = Zone::new(ZoneConfig::with_frames(nr_frames));
        let mut settings = PcpSettings::read(self.tuning);
        settings.nr_cpus = self.nr_cpus.unwrap_or(settings.nr_cpus);
        Ok(FrameAllocator { arena, zone: SharedZone::new(zone, settings) })
    }
}

/// Memory in blocks of 2^order frames of 4 KiB. See the module.
///
/// # Concurrency
/// Shared by reference between any number of threads. A block may be dropped on any thread.
pub struct FrameAllocator {
    arena: FrameArena,
    zone: SharedZone,
}

/// What an allocator holds and what went through it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameAllocatorStats {
    /// Frames in all.
    pub nr_managed: u64,
    /// Frames free in the zone.
    pub nr_free: u64,
    /// Frames on per-CPU lists: neither free nor in use.
    pub nr_listed: u64,
    /// Frames the lists may hold, now: the sum of their limits.
    pub nr_listed_max: u64,
    /// Visits to the zone that found its lock taken.
    pub nr_lock_waits: u64,
    /// What went through the zone's lock.
    pub zone: ZoneStats,
}

impl FrameAllocator {
    /// Starts collecting settings.
    pub fn builder() -> FrameAllocatorBuilder {
        FrameAllocatorBuilder {
            memory: Bytes(0),
            tuning: PcpTuning::default(),
            options: ArenaOptions { huge_pages: true, pretouch: false },
            nr_cpus: None,
        }
    }

    /// Takes a block of 2^order frames; `None` when there is none, even on other CPUs' lists.
    ///
    /// # Panics
    /// When the order is above [`Order::MAX`].
    ///
    /// # Cost
    /// Some ten nanoseconds from this CPU's list (orders 0 to 3 and 9); otherwise the zone's lock.
    #[inline]
    pub fn alloc(&self, order: Order) -> Option<FrameBlock<'_>> {
        let request = AllocRequest { migrate: MigrateType::Movable, ..Self::request(order) };
        match self.zone.alloc(current_cpu(), &request) {
            Some(first) => Some(FrameBlock { allocator: self, first, order }),
            None => self.alloc_after_drain(&request),
        }
    }

    /// Nothing here is reclaimed: there is nobody to keep frames for.
    const fn request(order: Order) -> AllocRequest {
        AllocRequest::fast(order).at(None)
    }

    /// Other CPUs' lists hold frames: they are emptied before anything is allowed to fail.
    #[cold]
    fn alloc_after_drain(&self, request: &AllocRequest) -> Option<FrameBlock<'_>> {
        self.zone.drain_lists();
        let first = self.zone.alloc(current_cpu(), request)?;
        Some(FrameBlock { allocator: self, first, order: request.order })
    }

    /// Returns all CPUs' lists to the zone, where blocks merge.
    pub fn drain(&self) {
        self.zone.drain_lists();
    }

    /// Lets the lists shrink by what they did not need, if a second has passed since the last call
    /// that did, and tells them the time. To be called a few times a second.
    pub fn tick(&self) {
        self.zone.tick(Millis(read_monotonic_ns() / 1_000_000));
    }

    /// What there is now. Takes every lock in turn.
    pub fn stats(&self) -> FrameAllocatorStats {
        let (nr_listed, nr_listed_max) = (self.zone.count_listed(), self.zone.sum_high());
        let zone = self.zone.lock_zone();
        FrameAllocatorStats {
            nr_managed: u64::from(zone.nr_managed()),
            nr_free: zone.nr_free(),
            nr_listed,
            nr_listed_max,
            nr_lock_waits: self.zone.nr_waits(),
            zone: *zone.stats(),
        }
    }
}

impl fmt::Debug for FrameAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameAllocator({:?})", self.arena)
    }
}

/// A block of 2^order frames, given back on drop.
#[must_use = "a block that is dropped is free again"]
pub struct FrameBlock<'a> {
    allocator: &'a FrameAllocator,
    first: FrameId,
    order: Order,
}

impl FrameBlock<'_> {
    /// Its first frame's number; a multiple of 2^order.
    pub fn first(&self) -> FrameId {
        self.first
    }

    /// Its order.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Its length in bytes.
    pub fn len_bytes(&self) -> usize {
        Bytes::from_pages(self.order.nr_frames().into()).0 as usize
    }

    /// Where it begins, aligned to a frame. [`FrameBlock::len_bytes`] bytes from there are mapped,
    /// readable and writable, and nobody else's until the block is dropped; their contents are
    /// whatever was there before.
    pub fn as_ptr(&self) -> *mut u8 {
        self.allocator.arena.address(self.first)
    }
}

impl Drop for FrameBlock<'_> {
    #[inline]
    fn drop(&mut self) {
        self.allocator.zone.free(current_cpu(), self.order, [self.first]);
    }
}

impl fmt::Debug for FrameBlock<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameBlock({} o{})", self.first, self.order.0)
    }
}

#[cfg(test)]
mod tests;
