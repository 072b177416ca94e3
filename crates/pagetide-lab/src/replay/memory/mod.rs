//! The memory of a replay: a group's limit, a machine's zone, or a recorded run's zone.
//!
//! **Problem.** A sizing question needs an exact page count. Repeating a record needs watermarks,
//! per-CPU lists, retries, dirty pages and pages in use. **Idea.** Models behind four calls: take,
//! free, drain, count.
//!
//! ```text
//!   Group        [ frame frame frame ... ]        reclaim when it is empty
//!   KernelGroup  charges against a limit          reclaim when a page or its nodes get none
//!   Machine      per-CPU list <--> core's zone    core's slow path reclaims, or wakes background
//!   Zone         per-CPU list <--> core's zone    the same without background reclaim
//!   Tiers        a zone a node, the fastest first
//! ```
//!
//! **Data and invariants.** Free plus used frames are the memory. The zone has the `pagetide`
//! crate's layout. The replayed thread is CPU 0, and other CPUs' lists stay empty.
//!
//! **Ignored.** Resizes in a record.
//!
//! **Source.** Linux 6.18's page allocator and memory cgroups.

mod kernel_group;
mod page_tree;
mod zone;

pub(super) use kernel_group::KernelGroup;
pub(super) use page_tree::Slot;
pub(super) use zone::ZoneFrames;

use crate::trace::DenseTrace;
use pagetide_core::ids::FrameId;
use pagetide_core::lru::{LruConfig, Mechanism, Switches};
use pagetide_core::page_alloc::{
    FRAMES_MAX, HighFraction, PageAllocator, PcpTuning, Starving, WatermarkLevel, Zone, ZoneConfig,
};
use pagetide_core::record::{Header, Reclaimer, RecordedNode, RecordedTiers};
use pagetide_core::tiering::Headroom;
use pagetide_core::units::Millis;

/// The memory of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// A limit of `nr_frames` page frames, for sizing questions. No page is dirty or pinned at
    /// reclaim.
    Group {
        /// The limit, in frames.
        nr_frames: u32,
    },
    /// A limit as the kernel charges a group. The process takes about 28 pages, and page-tree nodes
    /// (including shadow-only nodes) one for every seven. Writes and guards as in a group. Only
    /// this memory supports `shadow-limit`.
    KernelGroup {
        /// The limit, in pages.
        limit_pages: u32,
    },
    /// A machine: a zone with watermarks and background reclaim, so some frames stay free. Writes
    /// and guards as in a group. Pages are locked while filled.
    Machine {
        /// All frames, including free ones.
        nr_frames: u32,
    },
    /// The zone of a recorded run, for repetition with dirty and pinned pages.
    Zone(ZoneMemory),
    /// The fast and slow zones of a recorded run, for repetition.
    Tiers(TierMemory),
}

/// The memory of a recorded run with several tiers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TierMemory {
    /// The tiers, with the promotion and demotion settings.
    pub tiers: RecordedTiers,
    /// The whole memory. Lists and swappiness are the same for each node.
    pub whole: ZoneMemory,
}

/// The memory of a recorded run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneMemory {
    /// Frames in service.
    pub nr_frames: u32,
    /// Frames that the tables were made for, at least `nr_frames`.
    pub nr_frames_max: u32,
    /// CPUs with per-CPU lists.
    pub nr_cpus: u32,
    /// Preference for evicting anonymous pages, 0 to 200.
    pub swappiness: u8,
    /// Tuning of the per-CPU list lengths.
    pub pcp_tuning: PcpTuning,
    /// Share of the zone that the lists can hold.
    pub pcp_fraction: HighFraction,
}

impl From<u32> for Memory {
    fn from(nr_frames: u32) -> Memory {
        Memory::Group { nr_frames }
    }
}

impl Memory {
    /// Returns a memory of `nr_frames` with the recorded kind of reclaim, or a group if unknown.
    pub fn reclaimed_by(reclaimer: Option<Reclaimer>, nr_frames: u32) -> Memory {
        match reclaimer {
            Some(Reclaimer::Background) => Memory::Machine { nr_frames },
            Some(Reclaimer::Accesses) | None => Memory::Group { nr_frames },
        }
    }

    /// Returns the memory of a recorded run, or `None` if the header is damaged or of no run.
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
        let whole =
            ZoneMemory { nr_frames, nr_frames_max, nr_cpus, swappiness, pcp_tuning, pcp_fraction };
        let Some(tiers) = header.tiers else { return is_sane.then_some(Memory::Zone(whole)) };
        let nodes = tiers.nodes.as_slice();
        let sum = |frames: fn(&RecordedNode) -> u32| -> u64 {
            nodes.iter().map(|node| u64::from(frames(node))).sum()
        };
        let is_whole = sum(|node| node.nr_frames) == header.memory_frames
            && sum(|node| node.nr_frames_max) == header.memory_frames_max;
        let is_node = |node: &RecordedNode| (1..=node.nr_frames_max).contains(&node.nr_frames);
        let has_several = nodes.len() > 1 && nodes.iter().all(is_node);
        let is_sane = is_sane && is_whole && has_several && tiers.topology().is_ok();
        is_sane.then_some(Memory::Tiers(TierMemory { tiers, whole }))
    }

    /// Returns the number of frames that can ever hold pages.
    pub fn nr_frames_max(self) -> u32 {
        match self {
            Memory::Group { nr_frames } | Memory::Machine { nr_frames } => nr_frames,
            Memory::KernelGroup { limit_pages } => kernel_group::nr_frames_max(limit_pages),
            Memory::Zone(zone) => zone.nr_frames_max,
            Memory::Tiers(memory) => memory.whole.nr_frames_max,
        }
    }

    pub(super) fn swappiness(self) -> u8 {
        match self {
            Memory::Zone(zone) => zone.swappiness,
            Memory::Tiers(memory) => memory.whole.swappiness,
            Memory::Group { .. } | Memory::KernelGroup { .. } | Memory::Machine { .. } => {
                LruConfig::file_only(0).swappiness
            }
        }
    }

    pub(super) fn has_background(self) -> bool {
        matches!(self, Memory::Machine { .. })
    }

    /// Returns true if folios stay locked while filled. A group skips the locks.
    pub(super) fn locks_fills(self) -> bool {
        !matches!(self, Memory::Group { .. } | Memory::KernelGroup { .. })
    }

    /// Returns true if dirty and pinned pages block reclaim as in the recorded run.
    pub(super) fn repeats_the_run(self) -> bool {
        matches!(self, Memory::Zone(_) | Memory::Tiers(_))
    }

    /// Returns the frames of each node, in service or not.
    pub(super) fn nodes(self) -> Vec<u32> {
        match self {
            Memory::Tiers(memory) => {
                memory.tiers.nodes.as_slice().iter().map(|node| node.nr_frames_max).collect()
            }
            _ => vec![self.nr_frames_max()],
        }
    }
}

/// Upper bound on the CPUs of a header, against damaged files.
const CPUS_MAX: u32 = 1 << 16;

#[derive(Debug)]
pub(super) enum Frames {
    Group(Vec<FrameId>),
    KernelGroup(Box<KernelGroup>),
    Zone(Box<ZoneFrames>),
}

impl Frames {
    pub(super) fn new(memory: Memory, switches: Switches, trace: &DenseTrace) -> Frames {
        match memory {
            Memory::Group { nr_frames } => {
                Frames::Group((0..nr_frames).rev().map(FrameId).collect())
            }
            Memory::KernelGroup { limit_pages } => {
                let limits_shadows = switches.has(Mechanism::ShadowLimit);
                Frames::KernelGroup(Box::new(KernelGroup::new(limit_pages, limits_shadows, trace)))
            }
            Memory::Machine { nr_frames } => {
                let zone = Zone::new(ZoneConfig::with_frames(nr_frames));
                let allocator = PageAllocator::new(zone, 1, HighFraction::DEFAULT);
                Frames::Zone(Box::new(ZoneFrames::new(allocator, 0)))
            }
            Memory::Zone(memory) | Memory::Tiers(TierMemory { whole: memory, .. }) => {
                Frames::of_zone(&memory, 0)
            }
        }
    }

    /// Returns the free frames of a recorded zone, numbered from `first`.
    pub(super) fn of_zone(memory: &ZoneMemory, first: u32) -> Frames {
        let ZoneMemory { nr_frames, nr_frames_max, nr_cpus, pcp_tuning, pcp_fraction, .. } =
            *memory;
        let whole = ZoneConfig::with_frames(nr_frames_max);
        let zone = Zone::new(ZoneConfig { nr_online: nr_frames, ..whole });
        let allocator = PageAllocator::with_tuning(zone, nr_cpus, pcp_fraction, pcp_tuning);
        Frames::Zone(Box::new(ZoneFrames::new(allocator, first)))
    }

    /// Takes a frame. A zone keeps the frames of `level`.
    #[inline]
    pub(super) fn take(&mut self, level: Option<WatermarkLevel>) -> Option<FrameId> {
        match self {
            Frames::Group(free) => free.pop(),
            Frames::KernelGroup(group) => group.take(),
            Frames::Zone(zone) => zone.take(level),
        }
    }

    pub(super) fn free(&mut self, frame: FrameId) {
        match self {
            Frames::Group(free) => free.push(frame),
            Frames::KernelGroup(group) => group.free(frame),
            Frames::Zone(zone) => zone.free(frame),
        }
    }

    #[inline]
    pub(super) fn free_all(&mut self, frames: impl Iterator<Item = FrameId>) {
        match self {
            Frames::Group(free) => free.extend(frames),
            _ => frames.for_each(|frame| self.free(frame)),
        }
    }

    /// Empties the per-CPU lists. The lists keep nothing while the result lives.
    pub(super) fn drain(&mut self) -> Option<Starving> {
        let Frames::Zone(zone) = self else { return None };
        Some(zone.drain())
    }

    pub(super) fn tick(&mut self, now: Millis) {
        if let Frames::Zone(zone) = self {
            zone.tick(now);
        }
    }

    /// Returns the frames that background reclaim must free to reach `level`, limited by
    /// `room_below` (0: no limit).
    pub(super) fn background_target(&self, level: WatermarkLevel, room_below: u64) -> u64 {
        match self {
            Frames::Group(_) | Frames::KernelGroup(_) => 0,
            Frames::Zone(zone) => zone.background_target(level, room_below),
        }
    }

    pub(super) fn room_for_demoted(&self) -> u64 {
        match self {
            Frames::Group(_) | Frames::KernelGroup(_) => 0,
            Frames::Zone(zone) => zone.room_for_demoted(),
        }
    }

    pub(super) fn room(&self) -> Option<Headroom> {
        match self {
            Frames::Group(_) | Frames::KernelGroup(_) => None,
            Frames::Zone(zone) => Some(zone.room()),
        }
    }

    pub(super) fn set_reclaim_active(&mut self, reclaim_active: bool) {
        if let Frames::Zone(zone) = self {
            zone.set_reclaim_active(reclaim_active);
        }
    }

    pub(super) fn nr_used(&self, nr_frames_max: u32) -> u32 {
        match self {
            Frames::Group(free) => nr_frames_max - free.len() as u32,
            Frames::KernelGroup(group) => nr_frames_max - group.nr_free(),
            Frames::Zone(zone) => zone.nr_used(),
        }
    }

    pub(super) fn change_slot(&mut self, rank: u32, before: Slot, after: Slot) {
        if let Frames::KernelGroup(group) = self {
            group.change(rank, before, after);
        }
    }

    /// Recounts everything. `slot` returns the slot of a page by rank.
    pub(super) fn validate(&self, slot: impl Fn(u32) -> Slot) {
        match self {
            Frames::Group(_) => {}
            Frames::KernelGroup(group) => group.validate(slot),
            Frames::Zone(zone) => zone.validate(),
        }
    }
}
