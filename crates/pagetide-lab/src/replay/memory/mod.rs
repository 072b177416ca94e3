//! The memory a replay runs in: a group's limit, a machine's zone, or the zone of a recorded run.
//!
//! **Problem.** A question ("what would half the memory do?") wants a memory that holds exactly so
//! many pages. A recorded run had less plain a memory: watermarks, per-CPU lists that keep frames
//! back, several attempts before an allocation fails, pages that were dirty or in use when reclaim
//! met them. Repeating it page for page takes all of that.
//!
//! **Idea.** Three models behind a few calls: take, free, drain, count.
//!
//! ```text
//!   Group        [ frame frame frame ... ]        reclaim when it is empty
//!   KernelGroup  charges against a limit          reclaim when a page or its nodes get none
//!   Machine      per-CPU list <--> core's zone    core's slow path says when to reclaim, and wakes
//!   Zone         per-CPU list <--> core's zone    the background, which only a machine has
//!   Tiers        a zone a node, the fastest first
//! ```
//!
//! **Data and invariants.** Frames free and frames in use together are the memory. The zone is laid
//! out as the `pagetide` crate lays it out; the replayed thread is CPU 0, and with one thread the
//! others' lists stay empty.
//!
//! **Ignored.** Resizing: a record that spans one is repeated as if it had not happened.
//!
//! **Sources.** The page allocator specification; the memory-group flow of the kernel's reclaim.

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
    /// The fast and slow memory of a recorded run, a zone each. For repeating it.
    Tiers(TierMemory),
}

/// The memory of a recorded run that had several kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TierMemory {
    /// The kinds, and how pages moved between them.
    pub tiers: RecordedTiers,
    /// All of it: lists and swappiness are the same for each node.
    pub whole: ZoneMemory,
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
    /// A memory of so many frames, in which room is made as in a recorded run; where that is not
    /// known, as in a group.
    pub fn reclaimed_by(reclaimer: Option<Reclaimer>, nr_frames: u32) -> Memory {
        match reclaimer {
            Some(Reclaimer::Background) => Memory::Machine { nr_frames },
            Some(Reclaimer::Accesses) | None => Memory::Group { nr_frames },
        }
    }

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

    /// Frames that can ever hold pages.
    pub fn nr_frames_max(self) -> u32 {
        match self {
            Memory::Group { nr_frames } | Memory::Machine { nr_frames } => nr_frames,
            Memory::KernelGroup { limit_pages } => kernel_group::nr_frames_max(limit_pages),
            Memory::Zone(zone) => zone.nr_frames_max,
            Memory::Tiers(memory) => memory.whole.nr_frames_max,
        }
    }

    /// The recorded run's, or the usual one.
    pub(super) fn swappiness(self) -> u8 {
        match self {
            Memory::Zone(zone) => zone.swappiness,
            Memory::Tiers(memory) => memory.whole.swappiness,
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
        matches!(self, Memory::Zone(_) | Memory::Tiers(_))
    }

    /// The frames of each kind of memory there is, in service or not.
    pub(super) fn nodes(self) -> Vec<u32> {
        match self {
            Memory::Tiers(memory) => {
                memory.tiers.nodes.as_slice().iter().map(|node| node.nr_frames_max).collect()
            }
            _ => vec![self.nr_frames_max()],
        }
    }
}

/// More CPUs than any machine has: a damaged header must not ask for gigabytes of lists.
const CPUS_MAX: u32 = 1 << 16;

/// The frames that are not in use.
#[derive(Debug)]
pub(super) enum Frames {
    Group(Vec<FrameId>),
    KernelGroup(Box<KernelGroup>),
    Zone(Box<ZoneFrames>),
}

impl Frames {
    /// Of a memory of one kind.
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

    /// A recorded run's zone, whose frames are numbered from `first`.
    pub(super) fn of_zone(memory: &ZoneMemory, first: u32) -> Frames {
        let ZoneMemory { nr_frames, nr_frames_max, nr_cpus, pcp_tuning, pcp_fraction, .. } =
            *memory;
        let whole = ZoneConfig::with_frames(nr_frames_max);
        let zone = Zone::new(ZoneConfig { nr_online: nr_frames, ..whole });
        let allocator = PageAllocator::with_tuning(zone, nr_cpus, pcp_fraction, pcp_tuning);
        Frames::Zone(Box::new(ZoneFrames::new(allocator, first)))
    }

    /// Takes a frame; a zone leaves `level`'s frames alone.
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

    /// Frees several, in their order.
    #[inline]
    pub(super) fn free_all(&mut self, frames: impl Iterator<Item = FrameId>) {
        match self {
            Frames::Group(free) => free.extend(frames),
            _ => frames.for_each(|frame| self.free(frame)),
        }
    }

    /// Empties the per-CPU lists, where there are any; they keep nothing while the answer lives.
    pub(super) fn drain(&mut self) -> Option<Starving> {
        let Frames::Zone(zone) = self else { return None };
        Some(zone.drain())
    }

    /// Tells the per-CPU lists the time.
    pub(super) fn tick(&mut self, now: Millis) {
        if let Frames::Zone(zone) = self {
            zone.tick(now);
        }
    }

    /// Frames that background reclaim has to free until a zone is at `level`; no more than there is
    /// room for below, if any.
    pub(super) fn background_target(&self, level: WatermarkLevel, room_below: u64) -> u64 {
        match self {
            Frames::Group(_) | Frames::KernelGroup(_) => 0,
            Frames::Zone(zone) => zone.background_target(level, room_below),
        }
    }

    /// Frames of a zone for what is demoted.
    pub(super) fn room_for_demoted(&self) -> u64 {
        match self {
            Frames::Group(_) | Frames::KernelGroup(_) => 0,
            Frames::Zone(zone) => zone.room_for_demoted(),
        }
    }

    /// How much room promotions find in a zone.
    pub(super) fn room(&self) -> Option<Headroom> {
        match self {
            Frames::Group(_) | Frames::KernelGroup(_) => None,
            Frames::Zone(zone) => Some(zone.room()),
        }
    }

    /// Tells the per-CPU lists that background reclaim is at work: they keep little meanwhile.
    pub(super) fn set_reclaim_active(&mut self, reclaim_active: bool) {
        if let Frames::Zone(zone) = self {
            zone.set_reclaim_active(reclaim_active);
        }
    }

    /// Frames that hold pages, of a memory of at most `nr_frames_max`.
    pub(super) fn nr_used(&self, nr_frames_max: u32) -> u32 {
        match self {
            Frames::Group(free) => nr_frames_max - free.len() as u32,
            Frames::KernelGroup(group) => nr_frames_max - group.nr_free(),
            Frames::Zone(zone) => zone.nr_used(),
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
            Frames::Zone(zone) => zone.validate(),
        }
    }
}
