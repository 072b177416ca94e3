//! The frame allocator alone: memory in blocks of 1 to 1024 frames, for any number of threads.
//!
//! **Problem.** A program that has its own cache, arena or network stack wants what is under the
//! page cache: per-CPU lists that tune themselves, and large blocks that stay possible.
//!
//! **Idea.** The same zone and lists as the page cache's, over memory of their own; a block is
//! given back when it is dropped, and can be split and joined before that (`block`).
//!
//! ```text
//!   FrameAllocator --alloc(order)--> FrameBlock --drop--> FrameAllocator
//!                                     |      ^
//!                                     split, join
//! ```
//!
//! **Data and invariants.** A block borrows its allocator, so that the memory outlives it. The
//! address of a block is given out, never a reference: what is there is the program's business. An
//! allocation fails only when no block of its order could be made, wherever the free frames lie.
//!
//! **Ignored.** Reclaim: when there is no frame, there is none, and so no watermark is kept to. And
//! threads of its own: the program calls [`FrameAllocator::tick`] a few times a second, or the
//! lists never shrink by themselves.

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
    /// The memory there is; rounded down to whole frames, at least 64K. Must be called.
    pub fn memory(self, memory: Bytes) -> FrameAllocatorBuilder {
        FrameAllocatorBuilder { memory, ..self }
    }

    /// How the per-CPU lists find their length; `refill` unless set.
    pub fn pcp_tuning(self, tuning: PcpTuning) -> FrameAllocatorBuilder {
        FrameAllocatorBuilder { tuning, ..self }
    }

    /// Lets the per-CPU lists together hold one in `fraction` frames, at least 8, and switches
    /// their tuning off; 0, unless set, leaves them tuned.
    pub fn percpu_pagelist_high_fraction(self, fraction: u16) -> FrameAllocatorBuilder {
        FrameAllocatorBuilder { fraction, ..self }
    }

    /// Touches all memory while building. Off unless set.
    pub fn pretouch(mut self, pretouch: bool) -> FrameAllocatorBuilder {
        self.options.pretouch = pretouch;
        self
    }

    /// Asks the system to back each aligned 2 MiB with a huge page when it is first touched: the
    /// blocks of order 9 and 10 are such pieces. Faster accesses, but memory comes in steps of
    /// 2 MiB. Advice only. On unless set.
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
    /// [`BuildError`]: no memory or too little was asked for, a fraction from 1 to 7, or the system
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

/// Memory in blocks of 2^order frames of 4 KiB. See the module.
///
/// # Concurrency
/// Shared by reference between any number of threads. A block may be dropped on any thread.
pub struct FrameAllocator {
    arena: Arc<FrameArena>,
    zone: SharedZone,
}

impl FrameAllocator {
    /// Starts collecting settings.
    pub fn builder() -> FrameAllocatorBuilder {
        FrameAllocatorBuilder {
            memory: Bytes(0),
            tuning: PcpTuning::default(),
            options: ArenaOptions { huge_pages: true, pretouch: false },
            nr_cpus: None,
            fraction: 0,
        }
    }

    /// Takes a block of 2^order frames; `None` when none could be made, whatever lists the free
    /// frames are on, and for orders above [`Order::MAX`], of which there are none: numbers that
    /// come from outside go through [`Order::new`].
    ///
    /// # Concurrency
    /// Frames whose return was complete before the call, and that no other call took since,
    /// are found.
    ///
    /// # Cost
    /// Some ten nanoseconds from this CPU's list (orders 0 to 3 and 9); otherwise the zone's lock.
    /// To fail costs a visit to every list.
    #[inline]
    pub fn alloc(&self, order: Order) -> Option<FrameBlock<'_>> {
        // Nothing here is reclaimed: there is nothing to keep frames for.
        let request = AllocRequest::fast(order).at(None);
        match self.zone.alloc(current_cpu(), &request) {
            Some(first) => Some(FrameBlock { allocator: self, first, order }),
            None => self.alloc_after_drain(&request),
        }
    }

    /// Other CPUs' lists hold frames: they are emptied before anything is allowed to fail, and keep
    /// nothing meanwhile, so that what is freed behind the drain's back is found, too.
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

    /// Lets the lists shrink by what they did not need, if a second has passed since the last call
    /// that did, and tells them the time. To be called a few times a second.
    pub fn tick(&self) {
        self.zone.tick(Millis(read_monotonic_ns() / 1_000_000));
    }

    /// What there is now. Takes every lock in turn; answers also after a panic in the allocator.
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
