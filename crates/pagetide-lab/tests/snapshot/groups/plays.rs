//! Short measured runs of several groups.

use super::world::{AccessOutcome, GroupsSetup, GroupsWorld};
use pagetide_core::group::{GlobalOrder, GroupConfig};
use pagetide_core::ids::{GroupId, MappingId, PageId, PageIndex, PageType};
use pagetide_core::lru::{AccessPath, PolicyName};
use std::ops::Range;

const ANON: MappingId = MappingId(1);

fn page(mapping: MappingId, index: u64) -> PageId {
    PageId { mapping, index: PageIndex(index) }
}

/// Reads pages of a group's own file. Returns the misses.
fn read(world: &mut GroupsWorld, group: GroupId, pages: Range<u64>) -> u64 {
    let file = MappingId(100 + u32::from(group.0));
    let mut access =
        |index| world.access(group, page(file, index), PageType::File, AccessPath::Descriptor);
    pages.map(|index| u64::from(access(index) != AccessOutcome::Hit)).sum()
}

/// Writes anonymous memory through its mapping. Returns the pages allocated.
fn touch_anon(world: &mut GroupsWorld, group: GroupId, pages: Range<u64>) -> u64 {
    let mut nr_got = 0;
    for index in pages {
        let access = world.access(group, page(ANON, index), PageType::Anon, AccessPath::Table);
        if matches!(access, AccessOutcome::OutOfMemory { .. }) {
            break;
        }
        nr_got += 1;
    }
    nr_got
}

fn new_group(world: &mut GroupsWorld, parent: GroupId, config: GroupConfig) -> GroupId {
    world.create(parent, config).expect("a few groups fit")
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OutOfMemory {
    /// Failed reads of the file, in three passes over 8 pages.
    pub(crate) failed_reads: u64,
    /// Anonymous pages still resident after the reads.
    pub(crate) anon_resident: u64,
    /// Anonymous pages then allocated beyond 44, before running out of memory.
    pub(crate) anon_gained: u64,
}

/// A group of 48 pages without swap holds 44 anonymous pages, reads a file of 8 pages, then
/// allocates more.
///
/// Expected: no read fails, no anonymous page is evicted, and the group gets exactly 4 more pages.
pub(crate) fn play_out_of_memory(policy: PolicyName) -> OutOfMemory {
    let mut world = GroupsWorld::new(GroupsSetup::new(policy, 1024));
    let group = new_group(&mut world, GroupId::ROOT, GroupConfig::limited(48));
    touch_anon(&mut world, group, 0..44);
    let file = MappingId(2);
    let mut failed_reads = 0;
    for index in (0..8).chain(0..8).chain(0..8) {
        let access = world.access(group, page(file, index), PageType::File, AccessPath::Descriptor);
        failed_reads += u64::from(matches!(access, AccessOutcome::OutOfMemory { .. }));
    }
    let anon_resident =
        (0..44).filter(|index| world.is_resident(page(ANON, *index))).count() as u64;
    let anon_gained = touch_anon(&mut world, group, 44..100);
    world.validate();
    OutOfMemory { failed_reads, anon_resident, anon_gained }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SiblingProtection {
    /// Misses of the working set in its last pass, of 1024.
    pub(crate) misses_in_last_pass: u64,
    pub(crate) evictions: u64,
}

/// Two groups share a limit of 4096 pages. One rereads its set of 1024 pages after every 4096 pages
/// streamed by its sibling.
///
/// Expected: no miss with `min` or `low` of at least 1024. Without protection the policy decides.
pub(crate) fn play_sibling_protection(
    policy: PolicyName,
    protection: GroupConfig,
) -> SiblingProtection {
    const SET: u64 = 1024;
    let mut world = GroupsWorld::new(GroupsSetup::new(policy, 8192));
    let top = new_group(&mut world, GroupId::ROOT, GroupConfig::limited(4096));
    let guarded = new_group(&mut world, top, protection);
    let stream = new_group(&mut world, top, GroupConfig::NONE);
    let mut misses_in_last_pass = read(&mut world, guarded, 0..SET);
    for nth in 0..8 {
        read(&mut world, stream, nth * 4096..(nth + 1) * 4096);
        misses_in_last_pass = read(&mut world, guarded, 0..SET);
    }
    world.validate();
    SiblingProtection { misses_in_last_pass, evictions: world.counts(guarded).evictions }
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Fairness {
    pub(crate) shares_read: Vec<f64>,
    pub(crate) shares_evicted: Vec<f64>,
    pub(crate) shares_resident: Vec<f64>,
}

/// `nr_groups` groups without limits stream through 8192 frames, the nth n times as fast as the
/// first.
///
/// With scans in proportion to size, evictions and residents match reads. In rotation, slow groups
/// keep less than they read.
pub(crate) fn play_fairness(
    policy: PolicyName,
    global_order: GlobalOrder,
    nr_groups: u64,
    seed: u64,
) -> Fairness {
    const NR_FRAMES: u32 = 8192;
    let setup = GroupsSetup { global_order, seed, ..GroupsSetup::new(policy, NR_FRAMES) };
    let mut world = GroupsWorld::new(setup);
    let groups: Vec<GroupId> =
        (0..nr_groups).map(|_| new_group(&mut world, GroupId::ROOT, GroupConfig::NONE)).collect();
    let speeds = 1..=nr_groups;
    let per_round: u64 = speeds.clone().sum();
    let nr_rounds = 8 * u64::from(NR_FRAMES) / per_round;
    for round in 0..nr_rounds {
        for (group, speed) in groups.iter().zip(speeds.clone()) {
            read(&mut world, *group, round * speed..(round + 1) * speed);
        }
    }
    world.validate();
    let share = |count: fn(&GroupsWorld, GroupId) -> u64| {
        let counts: Vec<u64> = groups.iter().map(|group| count(&world, *group)).collect();
        let total = counts.iter().sum::<u64>() as f64;
        counts.iter().map(|count| *count as f64 / total).collect()
    };
    Fairness {
        shares_read: share(|world, group| world.counts(group).misses),
        shares_evicted: share(|world, group| world.counts(group).evictions),
        shares_resident: share(|world, group| world.groups().tree().usage(group)),
    }
}
