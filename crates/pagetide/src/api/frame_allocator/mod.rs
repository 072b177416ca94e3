//! The frame allocator alone: memory in blocks of 1 to 1024 frames, for any number of threads.
//!
//! **Problem.** A program with its own cache, arena or network stack needs the layer below the page
//! cache: self-tuning per-CPU lists, and large blocks that stay available.
//!
//! **Idea.** The page cache's zone and lists, over separate memory. Dropping a block frees it. A
//! block can be split and joined (`block`).
//!
//! ```text
//!   FrameAllocator --alloc(order)--> FrameBlock --drop--> FrameAllocator
//!                                     |      ^
//!                                     split, join
//! ```
//!
//! **Data and invariants.** A block borrows its allocator, so that the memory outlives the block. A
//! block gives out its address, never a reference. An allocation fails only if no block of its
//! order can be made from all free frames.
//!
//! **Ignored.** Reclaim, and so watermarks. Background threads: the program calls
//! [`FrameAllocator::tick`] a few times a second, or the lists never shrink by themselves.

mod block;
mod stats;

pub use block::{FrameBlock, FrameBlocks, JoinError};
pub use stats::FrameAllocatorStats;

use crate::engine::errors::BuildError;
use crate::engine::limits::high_fraction;
use crate::memory::frames::shared_zone::{PcpSettings, SharedZone};
use pagetide_core::ids::Order;
use pagetide_core::knobs::MEMORY_MIN;
use pagetide_core::page_alloc::{AllocRequest, PcpTuning, Zone, ZoneConfig};
use pagetide_core::units::{Bytes, Millis};
use pagetide_sys::{ArenaOptions, FrameArena, current_cpu, read_monotonic_ns};
use std::fmt;
use std::sync::Arc;

/// Settings of a [`FrameAllocator`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct FrameAllocatorBuilder {
    memory: Bytes,
    tuning: PcpTuning,
    options: ArenaOptions,
    nr_cpus: Option<u32>,
    fraction: u16,
}

impl FrameAllocatorBuilder {
    /// Sets the memory, rounded down to whole frames, at least 64K. Required.
    pub fn memory(self, memory: Bytes) -> FrameAllocatorBuilder {
        FrameAllocatorBuilder { memory, ..self }
    }

    /// Sets how the per-CPU lists find their length, by default `refill`.
    pub fn pcp_tuning(self, tuning: PcpTuning) -> FrameAllocatorBuilder {
        FrameAllocatorBuilder { tuning, ..self }
    }

    /// Lets all per-CPU lists together hold one in `fraction` frames, at least 8, and turns their
    /// tuning off. 0, the default, leaves it on.
    pub fn percpu_pagelist_high_fraction(self, fraction: u16) -> FrameAllocatorBuilder {
        FrameAllocatorBuilder { fraction, ..self }
    }

    /// Touches all memory while building. Off by default.
    pub fn pretouch(mut self, pretouch: bool) -> FrameAllocatorBuilder {
        self.options.pretouch = pretouch;
        self
    }

    /// Advises the system to back each aligned 2 MiB with a huge page on first touch, as blocks of
    /// order 9 and 10 are. Faster accesses, but memory grows in steps of 2 MiB. On by default.
    pub fn huge_pages(mut self, huge_pages: bool) -> FrameAllocatorBuilder {
        self.options.huge_pages = huge_pages;
        self
    }

    /// Sets the number of per-CPU lists, by default one for each possible CPU. With fewer, CPUs
    /// share.
    pub fn nr_cpus(self, nr_cpus: u32) -> FrameAllocatorBuilder {
        FrameAllocatorBuilder { nr_cpus: Some(nr_cpus.max(1)), ..self }
    }

    /// Reserves the memory.
    ///
    /// # Errors
    /// [`BuildError`]: no memory or too little was requested, a fraction from 1 to 7, or the system
    /// refused.
    pub fn build(self) -> Result<FrameAllocator, BuildError> {
        match self.memory.0 {
            0 => return Err(BuildError::NoMemory),
            given if given < MEMORY_MIN => {
                return Err(BuildError::TooSmall { given: self.memory, least: Bytes(MEMORY_MIN) });
            }
            _ => {}
        }
        let fraction = high_fraction(self.fraction.into())?;
        let nr_frames = u32::try_from(self.memory.whole_pages()).unwrap_or(u32::MAX);
        let arena = FrameArena::reserve(nr_frames, self.options)?;
        let zone = Zone::new(ZoneConfig::with_frames(nr_frames));
        let machine = PcpSettings::read(self.tuning);
        let nr_cpus = self.nr_cpus.unwrap_or(machine.nr_cpus);
        let settings = PcpSettings { nr_cpus, fraction, ..machine };
        Ok(FrameAllocator { arena: Arc::new(arena), zone: SharedZone::new(zone, settings) })
    }
}

/// Memory in blocks of 2^order frames of 4 KiB.
///
/// # Concurrency
/// Thread-safe. A block may be dropped on any thread.
pub struct FrameAllocator {
    arena: Arc<FrameArena>,
    zone: SharedZone,
}

impl FrameAllocator {
    /// Returns a builder.
    pub fn builder() -> FrameAllocatorBuilder {
        FrameAllocatorBuilder {
            memory: Bytes(0),
            tuning: PcpTuning::default(),
            options: ArenaOptions { huge_pages: true, pretouch: false },
            nr_cpus: None,
            fraction: 0,
        }
    }

    /// Allocates a block of 2^order frames. Returns `None` if no such block can be made from all
    /// free frames, or if the order is above [`Order::MAX`] ([`Order::new`] checks untrusted
    /// numbers).
    ///
    /// # Concurrency
    /// Finds all frames freed before the call and not taken since.
    ///
    /// # Cost
    /// About ten nanoseconds from this CPU's list (orders 0 to 3 and 9), otherwise the zone's lock.
    /// A failure costs a visit to every list.
    #[inline]
    pub fn alloc(&self, order: Order) -> Option<FrameBlock<'_>> {
        // Without reclaim, there are no reserves to keep.
        let request = AllocRequest::fast(order).at(None);
        match self.zone.alloc(current_cpu(), &request) {
            Some(first) => Some(FrameBlock { allocator: self, first, order }),
            None => self.alloc_after_drain(&request),
        }
    }

    /// Empties all CPUs' lists before failing, and keeps them empty meanwhile, to find frames freed
    /// during the drain, too.
    #[cold]
    fn alloc_after_drain(&self, request: &AllocRequest) -> Option<FrameBlock<'_>> {
        if request.order > Order::MAX {
            return None;
        }
        let _starving = self.zone.starve();
        self.zone.drain_lists();
        let first = self.zone.alloc(current_cpu(), request)?;
        Some(FrameBlock { allocator: self, first, order: request.order })
    }

    /// Returns all CPUs' lists to the zone, where blocks merge.
    pub fn drain(&self) {
        self.zone.drain_lists();
    }

    /// Advances the lists' clock and shrinks unused lists, at most once a second. Call a few times
    /// a second.
    pub fn tick(&self) {
        self.zone.tick(Millis(read_monotonic_ns() / 1_000_000));
    }

    /// Returns present counts. Takes every lock in turn. Works also after a panic in the allocator.
    pub fn stats(&self) -> FrameAllocatorStats {
        let (nr_listed, nr_listed_max) = (self.zone.count_listed(), self.zone.sum_high());
        let zone = self.zone.look_at_zone();
        FrameAllocatorStats {
            nr_managed: u64::from(zone.nr_managed()),
            nr_free: zone.nr_free(),
            nr_lists: self.zone.nr_lists(),
            nr_listed,
            nr_listed_max,
            nr_lock_waits: self.zone.nr_waits(),
            free_blocks: *zone.free_blocks(),
            zone: *zone.stats(),
        }
    }
}

impl fmt::Debug for FrameAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameAllocator({:?})", self.arena)
    }
}

#[cfg(test)]
mod hammer_tests;
#[cfg(test)]
mod tests;
