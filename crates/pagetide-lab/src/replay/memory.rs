//! The memory a replay runs in: a group's limit, a machine's zone, or the zone of a recorded run.
//!
//! # Problem
//!
//! A question ("what would half the memory do?") wants a memory that holds exactly so many pages. A
//! recorded run had less plain a memory: watermarks, per-CPU lists that keep frames back, several
//! attempts before an allocation fails, pages that were dirty or in use when reclaim met them.
//! Repeating it page for page takes all of that.
//!
//! # Idea
//!
//! Three models behind four calls: take, free, drain, count.
//!
//! ```text
//!   Group        [ frame frame frame ... ]        reclaim when it is empty
//!   KernelGroup  charges against a limit          reclaim when a page or its nodes get none
//!   Machine      per-CPU list <--> core's zone    core's slow path says when to reclaim, and wakes
//!   Zone         per-CPU list <--> core's zone    the background, which only a machine has
//! ```
//!
//! # Data and invariants
//!
//! Frames free and frames in use together are the memory. The zone is laid out as the `pagetide`
//! crate lays it out; the replayed thread is CPU 0, and with one thread the others' lists stay
//! empty.
//!
//! # What it deliberately ignores
//!
//! Resizing: a record that spans one is repeated as if it had not happened.
//!
//! # Sources
//!
//! The page allocator specification; the memory-group flow of the kernel's reclaim.

mod kernel_group;
mod page_tree;

pub(super) use kernel_group::KernelGroup;
pub(super) use page_tree::Slot;

use super::Setup;
use crate::trace::DenseTrace;
use pagetide_core::ids::{CpuId, FrameId, Order};
use pagetide_core::lru::{LruConfig, Mechanism};
use pagetide_core::page_alloc::{
    AllocRequest, FRAMES_MAX, HighFraction, PageAllocator, PcpTuning, Starving, WatermarkLevel,
    Zone, ZoneConfig, ZoneSignals,
};
use pagetide_core::record::Header;

/// The CPU of the one thread there is.
const CPU: CpuId = CpuId(0);

/// What a replay runs in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// A limit of so many frames, all of which can hold pages. For questions: written pages are
    /// clean and guards gone before reclaim meets their pages, as the run would have had them
    /// elsewhere at another size.
    Group {
        /// The limit.
        nr_frames: u32,
    },
    /// A group's limit as the kernel accounts it: of so many pages, about 28 are the process's own,
    /// and nodes of the page cache's tree take one for every seven, those that hold only shadows
    /// included. Written pages and guards as in a group. The mechanism `shadow-limit` is honoured
    /// here, and nowhere else.
    KernelGroup {
        /// The limit.
        limit_pages: u32,
    },
    /// A machine of so many frames: a zone with watermarks, kept up by background reclaim. Some
    /// frames stay free. Written pages and guards as in a group; what is being filled is locked.
    Machine {
        /// The frames, those that stay free among them.
        nr_frames: u32,
    },
    /// The zone of a recorded run, with everything that stood in reclaim's way. For repeating it.
    Zone(ZoneMemory),
}

/// A recorded run's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneMemory {
    /// Frames in service.
    pub nr_frames: u32,
    /// Frames its tables were made for, at least as many.
    pub nr_frames_max: u32,
    /// CPUs it had lists for.
    pub nr_cpus: u32,
    /// How willing it was to evict anonymous pages, 0 to 200.
    pub swappiness: u8,
    /// How its lists found their length.
    pub pcp_tuning: PcpTuning,
    /// How much of the zone its lists could hold.
    pub pcp_fraction: HighFraction,
}

impl From<u32> for Memory {
    fn from(nr_frames: u32) -> Memory {
        Memory::Group { nr_frames }
    }
}

impl Memory {
    /// The memory of a recorded run; `None` when the header's numbers are no memory's: it is
    /// damaged, or of no run.
    pub fn of_record(header: &Header) -> Option<Memory> {
        let nr_frames = u32::try_from(header.memory_frames).ok()?;
        let nr_frames_max = u32::try_from(header.memory_frames_max).ok()?;
        let Header { nr_cpus, swappiness, pcp_tuning, .. } = *header;
        let pcp_fraction = HighFraction::new(header.pcp_high_fraction.into()).ok()?;
        let is_sane = 0 < nr_frames
            && nr_frames <= nr_frames_max
            && nr_frames_max <= FRAMES_MAX
            && (1..=CPUS_MAX).contains(&nr_cpus)
            && swappiness <= 200;
        is_sane.then_some(Memory::Zone(ZoneMemory {
            nr_frames,
            nr_frames_max,
            nr_cpus,
            swappiness,
            pcp_tuning,
            pcp_fraction,
        }))
    }

    /// Frames that can ever hold pages.
    pub fn nr_frames_max(self) -> u32 {
        match self {
            Memory::Group { nr_frames } | Memory::Machine { nr_frames } => nr_frames,
            Memory::KernelGroup { limit_pages } => kernel_group::nr_frames_max(limit_pages),
            Memory::Zone(zone) => zone.nr_frames_max,
        }
    }

    /// The recorded run's, or the usual one.
    pub(super) fn swappiness(self) -> u8 {
        match self {
            Memory::Zone(zone) => zone.swappiness,
            Memory::Group { .. } | Memory::KernelGroup { .. } | Memory::Machine { .. } => {
                LruConfig::file_only(0).swappiness
            }
        }
    }

    /// Whether there is a background to wake.
    pub(super) fn has_background(self) -> bool {
        matches!(self, Memory::Machine { .. })
    }

    /// Whether folios are locked until their group's contents have come: where reclaim may meet
    /// them, which a group's limit as a plain question leaves out.
    pub(super) fn locks_fills(self) -> bool {
        !matches!(self, Memory::Group { .. } | Memory::KernelGroup { .. })
    }

    /// Whether what stood in reclaim's way in the recorded run does so again.
    pub(super) fn repeats_the_run(self) -> bool {
        matches!(self, Memory::Zone(_))
    }
}

/// More CPUs than any machine has: a damaged header must not ask for gigabytes of lists.
const CPUS_MAX: u32 = 1 << 16;

/// The frames that are not in use.
#[derive(Debug)]
pub(super) enum Frames {
    Group(Vec<FrameId>),
    KernelGroup(Box<KernelGroup>),
    Zone(Box<PageAllocator>),
}

impl Frames {
    pub(super) fn new(setup: &Setup, trace: &DenseTrace) -> Frames {
        match setup.memory {
            Memory::Group { nr_frames } => {
                Frames::Group((0..nr_frames).rev().map(FrameId).collect())
            }
            Memory::KernelGroup { limit_pages } => {
                let limits_shadows = setup.switches.has(Mechanism::ShadowLimit);
                Frames::KernelGroup(Box::new(KernelGroup::new(limit_pages, limits_shadows, trace)))
            }
            Memory::Machine { nr_frames } => {
                let zone = Zone::new(ZoneConfig::with_frames(nr_frames));
                Frames::Zone(Box::new(PageAllocator::new(zone, 1, HighFraction::DEFAULT)))
            }
            Memory::Zone(memory) => {
                let whole = ZoneConfig::with_frames(memory.nr_frames_max);
                let zone = Zone::new(ZoneConfig { nr_online: memory.nr_frames, ..whole });
                let ZoneMemory { nr_cpus, pcp_tuning, pcp_fraction, .. } = memory;
                Frames::Zone(Box::new(PageAllocator::with_tuning(
                    zone,
                    nr_cpus,
                    pcp_fraction,
                    pcp_tuning,
                )))
            }
        }
    }

    /// Takes a frame; a zone leaves `level`'s frames alone.
    pub(super) fn take(&mut self, level: Option<WatermarkLevel>) -> Option<FrameId> {
        match self {
            Frames::Group(free) => free.pop(),
            Frames::KernelGroup(group) => group.take(),
            Frames::Zone(allocator) => {
                allocator.alloc(CPU, &AllocRequest::fast(Order::BASE).at(level))
            }
        }
    }

    pub(super) fn free(&mut self, frame: FrameId) {
        match self {
            Frames::Group(free) => free.push(frame),
            Frames::KernelGroup(group) => group.free(frame),
            Frames::Zone(allocator) => allocator.free(CPU, frame, Order::BASE),
        }
    }

    /// Empties the per-CPU lists, where there are any; they keep nothing while the answer lives.
    pub(super) fn drain(&mut self) -> Option<Starving> {
        let Frames::Zone(allocator) = self else { return None };
        let starving = Starving::new(allocator.zone().table());
        allocator.drain_all();
        Some(starving)
    }

    /// Frames that background reclaim has to free until a zone is at its high watermark.
    pub(super) fn background_target(&self) -> u64 {
        match self {
            Frames::Group(_) | Frames::KernelGroup(_) => 0,
            Frames::Zone(allocator) => {
                let zone = allocator.zone();
                zone.watermarks().mark(WatermarkLevel::High).saturating_sub(zone.nr_free())
            }
        }
    }

    /// Tells the per-CPU lists that background reclaim is at work: they keep little meanwhile.
    pub(super) fn set_reclaim_active(&mut self, reclaim_active: bool) {
        if let Frames::Zone(allocator) = self {
            allocator.set_signals(ZoneSignals { reclaim_active, ..ZoneSignals::default() });
        }
    }

    /// Frames that hold pages, of a memory of at most `nr_frames_max`.
    pub(super) fn nr_used(&self, nr_frames_max: u32) -> u32 {
        match self {
            Frames::Group(free) => nr_frames_max - free.len() as u32,
            Frames::KernelGroup(group) => nr_frames_max - group.nr_free(),
            Frames::Zone(allocator) => {
                let nr_unused = allocator.zone().nr_free() + allocator.nr_in_pcps();
                allocator.zone().nr_managed() - nr_unused as u32
            }
        }
    }

    /// What the slot of the page of this rank holds changes, in the tree of its file.
    pub(super) fn change_slot(&mut self, rank: u32, before: Slot, after: Slot) {
        if let Frames::KernelGroup(group) = self {
            group.change(rank, before, after);
        }
    }

    /// Counts again; `slot` says what the slot of a page of this rank holds.
    pub(super) fn validate(&self, slot: impl Fn(u32) -> Slot) {
        match self {
            Frames::Group(_) => {}
            Frames::KernelGroup(group) => group.validate(slot),
            Frames::Zone(allocator) => allocator.validate(),
        }
    }
}
