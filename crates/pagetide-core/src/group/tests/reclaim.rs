//! Limits, protection, proactive reclaim and fairness.

use super::world::World;
use crate::group::{GlobalOrder, GroupConfig, GroupPass};
use crate::ids::GroupId;
use crate::lru::{GenCommandError, PolicyName, ReclaimBatch, ReclaimKind, parse_commands};
use crate::reclaim::Step;
use crate::vmstat::Counter;
use alloc::vec::Vec;

const KERNELS: [PolicyName; 2] = [PolicyName::Mglru, PolicyName::ActiveInactive];

/// 44 anonymous and 8 file pages, limit 48, no swap: file pages replace each other until none is
/// left.
#[test]
fn file_pages_go_before_the_group_is_out_of_memory() {
    for name in KERNELS {
        let mut world = World::new(name, 256);
        world.first_anon = 1000;
        let group = world.create(GroupId::ROOT, GroupConfig::limited(48));
        world.read_all(group, 1000..1044);
        for _ in 0..3 {
            world.read_all(group, 0..8);
        }
        assert_eq!(world.resident.range(1000..).count(), 44, "{name}: anonymous pages stay");
        world.read_all(group, 1044..1048);
        assert!(!world.access(group, 1048), "{name}: 48 anonymous pages fill the group");
        assert_eq!(world.resident.range(1000..).count(), 48);
        world.check();
    }
}

#[test]
fn a_protected_group_keeps_its_pages_while_a_neighbour_streams() {
    for name in KERNELS {
        for config in [
            GroupConfig { min: 60, ..GroupConfig::NONE },
            GroupConfig { low: 60, ..GroupConfig::NONE },
        ] {
            let mut world = World::new(name, 1024);
            let top = world.create(GroupId::ROOT, GroupConfig::limited(200));
            let guarded = world.create(top, config);
            let stream = world.create(top, GroupConfig::NONE);
            world.read_all(guarded, 0..60);
            world.read_all(stream, 1000..4000);
            assert_eq!(world.nr_resident(guarded), 60, "{name}, {config:?}");
            world.check();
        }
    }
}

#[test]
fn an_unprotected_group_gives_to_a_streaming_neighbour() {
    for name in KERNELS {
        let mut world = World::new(name, 1024);
        let top = world.create(GroupId::ROOT, GroupConfig::limited(200));
        let [idle, stream] = [(); 2].map(|()| world.create(top, GroupConfig::NONE));
        world.read_all(idle, 0..60);
        world.read_all(stream, 1000..4000);
        assert!(world.nr_resident(idle) < 20, "{name}: {}", world.nr_resident(idle));
        assert_eq!(world.evictions.values().sum::<u64>(), 3060 - world.resident.len() as u64);
    }
}

#[test]
fn low_is_overridden_and_min_is_not() {
    for name in KERNELS {
        for order in [GlobalOrder::Rotation, GlobalOrder::Walk] {
            let mut world = World::with_config(name, 256, false, order);
            let low = world.create(GroupId::ROOT, GroupConfig { low: 100, ..GroupConfig::NONE });
            let min = world.create(GroupId::ROOT, GroupConfig { min: 100, ..GroupConfig::NONE });
            world.read_all(low, 0..80);
            world.read_all(min, 100..180);
            for _ in 0..20 {
                world.global(ReclaimKind::Direct, 32);
            }
            let left = [low, min].map(|group| world.nr_resident(group));
            assert_eq!(left, [0, 80], "{name} by {order:?}");
            assert_eq!(world.global(ReclaimKind::Direct, 1), 0, "{name}: out of memory");
            world.check();
        }
    }
}

/// No access waits for background reclaim, so protection holds.
#[test]
fn the_background_overrides_no_low() {
    for name in KERNELS {
        for order in [GlobalOrder::Rotation, GlobalOrder::Walk] {
            let mut world = World::with_config(name, 256, false, order);
            let low = world.create(GroupId::ROOT, GroupConfig { low: 100, ..GroupConfig::NONE });
            world.read_all(low, 0..80);
            world.read_all(GroupId::ROOT, 100..120);
            for _ in 0..20 {
                world.global(ReclaimKind::Background, 32);
            }
            let left = [low, GroupId::ROOT].map(|group| world.nr_resident(group));
            assert_eq!(left, [80, 0], "{name} by {order:?}");
            world.check();
        }
    }
}

#[test]
fn reclaim_stops_at_the_protection() {
    for name in KERNELS {
        let mut world = World::new(name, 512);
        let group = world.create(GroupId::ROOT, GroupConfig { min: 200, ..GroupConfig::NONE });
        world.read_all(group, 0..400);
        for _ in 0..50 {
            world.global(ReclaimKind::Direct, 16);
        }
        let left = world.nr_resident(group);
        assert!((200 - 64..=200).contains(&left), "{name}: {left}, at most a batch below");
    }
}

#[test]
fn proactive_reclaim_takes_from_the_group_asked() {
    for name in KERNELS {
        let mut world = World::new(name, 512);
        let [asked, other] = [(); 2].map(|()| world.create(GroupId::ROOT, GroupConfig::NONE));
        let below = world.create(asked, GroupConfig::NONE);
        world.read_all(asked, 0..100);
        world.read_all(below, 100..200);
        world.read_all(other, 200..300);
        let pass = GroupPass::proactive(&mut world.groups, asked, 150, None);
        let nr_reclaimed = world.reclaim(pass);
        assert!((150..=200).contains(&nr_reclaimed), "{name}: {nr_reclaimed}");
        assert_eq!(world.nr_resident(other), 100);
        assert_eq!(world.groups.tree().usage(asked), 200 - nr_reclaimed);
    }
}

#[test]
fn proactive_reclaim_weighs_the_types_as_asked() {
    let reclaimed = |name, swappiness| {
        let mut world = World::with_config(name, 512, true, GlobalOrder::Walk);
        world.first_anon = 1000;
        let group = world.create(GroupId::ROOT, GroupConfig::NONE);
        world.read_all(group, 0..200);
        world.read_all(group, 1000..1200);
        let pass = GroupPass::proactive(&mut world.groups, group, 64, Some(swappiness));
        assert!(world.reclaim(pass) >= 64);
        let anon_left = world.resident.range(1000..).count();
        [200 - anon_left, 200 - (world.resident.len() - anon_left)]
    };
    for name in KERNELS {
        let [anon, file] = reclaimed(name, 0);
        assert!(anon == 0 && file >= 64, "{name}: {anon} anonymous pages, {file} of files");
    }
    let [anon, file] = reclaimed(PolicyName::Mglru, 201);
    assert!(anon >= 64 && file == 0, "{anon} anonymous pages, {file} of files");
}

/// Groups of 100, 200, 300 and 400 pages stream: each loses in proportion to its reads.
#[test]
fn global_reclaim_takes_in_proportion() {
    for name in KERNELS {
        for order in [GlobalOrder::Rotation, GlobalOrder::Walk] {
            let mut world = World::with_config(name, 4000, false, order);
            let groups: Vec<GroupId> =
                (0..4).map(|_| world.create(GroupId::ROOT, GroupConfig::NONE)).collect();
            let mut next = [0, 1 << 20, 2 << 20, 3 << 20];
            for _ in 0..100 {
                for (at, group) in groups.iter().enumerate() {
                    let nr = 40 * (at as u64 + 1);
                    world.read_all(*group, next[at]..next[at] + nr);
                    next[at] += nr;
                }
            }
            let total: u64 = world.evictions.values().sum();
            let shares: Vec<u64> =
                groups.iter().map(|group| world.evictions[group] * 1000 / total).collect();
            for (share, fair) in shares.iter().zip([100, 200, 300, 400]) {
                assert!(share.abs_diff(fair) <= 30, "{name} by {order:?}: {shares:?} permille");
            }
            world.check();
        }
    }
}

/// Shares in thousandths.
fn shares(counts: &[u64]) -> Vec<u64> {
    let total: u64 = counts.iter().sum();
    counts.iter().map(|count| count * 1000 / total).collect()
}

/// Eight unlimited groups stream, the nth at n times the first's rate. Returns the largest
/// deviation from the share of reads, in thousandths: of losses, and of residency.
fn unfairness(policy: PolicyName, order: GlobalOrder) -> [u64; 2] {
    const NR_FRAMES: u32 = 8192;
    let mut world = World::with_config(policy, NR_FRAMES, false, order);
    let groups: Vec<GroupId> =
        (0..8).map(|_| world.create(GroupId::ROOT, GroupConfig::NONE)).collect();
    let nr_rounds = 8 * u64::from(NR_FRAMES) / (1..=8).sum::<u64>();
    for round in 0..nr_rounds {
        for (group, speed) in groups.iter().zip(1..) {
            let first = (speed << 32) + round * speed;
            world.read_all(*group, first..first + speed);
        }
    }
    world.check();
    let read = shares(&(1..=8).collect::<Vec<u64>>());
    let evicted: Vec<u64> = groups.iter().map(|group| world.evictions[group]).collect();
    let held: Vec<u64> = groups.iter().map(|group| world.nr_resident(*group) as u64).collect();
    [evicted, held].map(|counts| {
        let distances = shares(&counts).into_iter().zip(&read).map(|(one, due)| one.abs_diff(*due));
        distances.max().unwrap_or_default()
    })
}

/// Losses deviate by 1 % of evictions, residency by 2 % (walks) or 5 % (group LRU).
#[test]
fn groups_lose_and_hold_what_they_bring_in() {
    for policy in KERNELS {
        for (order, tolerance) in [(GlobalOrder::Rotation, 50), (GlobalOrder::Walk, 20)] {
            let [lost, held] = unfairness(policy, order);
            assert!(lost < 10 && held < tolerance, "{policy} by {order:?}: {lost}, {held}");
        }
    }
}

/// Policies without priorities take turns: the slowest group keeps almost nothing.
#[test]
fn groups_of_a_plain_queue_take_turns() {
    let [_, held] = unfairness(PolicyName::Fifo, GlobalOrder::Walk);
    assert!(held > 200, "{held}");
}

/// Linux 6.1 has no group LRU and visits of a batch: fair within 12 %.
#[test]
fn linux_6_1_is_fair_within_a_batch_a_visit() {
    let [_, held] = unfairness(PolicyName::Mglru61, GlobalOrder::Walk);
    assert!((50..120).contains(&held), "{held}");
}

/// Half of one group is protected: it is scanned half as much.
#[test]
fn a_group_above_its_protection_gives_in_proportion_to_what_lies_above() {
    for name in KERNELS {
        let mut world = World::with_config(name, 4096, false, GlobalOrder::Walk);
        let half = world.create(GroupId::ROOT, GroupConfig { low: 500, ..GroupConfig::NONE });
        let open = world.create(GroupId::ROOT, GroupConfig::NONE);
        world.read_all(half, 0..1000);
        world.read_all(open, 5000..6000);
        world.global(ReclaimKind::Direct, 150);
        let [from_half, from_open] = [half, open].map(|group| world.evictions[&group]);
        assert!(from_open >= 90, "{name}: {from_open}");
        let ratio = from_half * 100 / from_open;
        assert!((40..=60).contains(&ratio), "{name}: {from_half} and {from_open}");
    }
}

/// Between steps, a removed group's last page is dropped, and the cause or visited group vanishes.
#[test]
fn a_pass_ends_whose_group_is_gone() {
    for &name in PolicyName::ALL {
        for is_global in [false, true] {
            let mut world = World::new(name, 256);
            let group = world.create(GroupId::ROOT, GroupConfig::limited(64));
            world.read_all(group, 0..64);
            world.groups.drain(&mut world.log);
            let mut pass = if is_global {
                GroupPass::global(&mut world.groups, ReclaimKind::Direct, Some(20))
            } else {
                GroupPass::for_limit(&mut world.groups, group)
            };
            let mut batch = ReclaimBatch::new();
            world.groups.remove(group).unwrap();
            // Up to the first victims.
            while world.groups.isolate(&mut pass, &mut batch) != Step::TryEvict {}
            world.groups.settle(&mut pass, &mut batch);
            let pages: Vec<u64> = world.resident.keys().copied().collect();
            assert!(world.groups.tree().exists(group), "{name}: the refused victims pay still");
            pages.into_iter().for_each(|page| world.discard(page));
            while world.groups.isolate(&mut pass, &mut batch) != Step::Done {
                world.groups.settle(&mut pass, &mut batch);
            }
            assert!(!world.groups.tree().exists(group), "{name}");
            assert!(world.groups.start_walk(&pass).is_none() || is_global, "{name}");
            assert_eq!(pass.nr_reclaimed(), 0, "{name}");
            let nr_dropped = world.groups.vmstat().read(Counter::Pgdiscard);
            assert_eq!(nr_dropped, 64, "{name}: counts outlive the group");
        }
    }
}

#[test]
fn a_command_evicts_from_the_group_it_names() {
    let mut world = World::new(PolicyName::Mglru, 256);
    let [named, other] = [(); 2].map(|()| world.create(GroupId::ROOT, GroupConfig::NONE));
    world.read_all(named, 0..40);
    world.read_all(other, 100..140);
    world.groups.drain(&mut world.log);
    let command = |group: u16| {
        let text = alloc::format!("- {group} 0 1 0 25");
        parse_commands(&text).next().unwrap().unwrap()
    };
    let unknown = GroupPass::on_command(&mut world.groups, &command(9));
    assert_eq!(unknown.unwrap_err(), GenCommandError::NoLruvec);
    let pass = GroupPass::on_command(&mut world.groups, &command(named.0)).unwrap();
    let nr_evicted = world.reclaim(pass);
    assert!((25..=40).contains(&nr_evicted), "{nr_evicted}");
    let usage = |group| world.groups.tree().usage(group);
    assert_eq!((usage(named), usage(other)), (40 - nr_evicted, 40));
    world.check();
}

/// Memory is short, and the streaming group has just aged: the group LRU offers only the protected
/// group.
#[test]
fn a_protected_group_keeps_its_pages_where_memory_as_a_whole_is_short() {
    for &name in PolicyName::ALL {
        let mut world = World::new(name, 256);
        let low = GroupConfig { low: 80, ..GroupConfig::NONE };
        let guarded = world.create(GroupId::ROOT, low);
        let stream = world.create(GroupId::ROOT, GroupConfig::NONE);
        world.read_all(guarded, 0..60);
        world.read_all(stream, 1000..5000);
        assert_eq!(world.nr_resident(guarded), 60, "{name}");
        world.check();
    }
}

#[test]
fn the_pages_of_a_removed_group_go_first() {
    for &name in PolicyName::ALL {
        let mut world = World::new(name, 256);
        let [gone, stays] = [(); 2].map(|()| world.create(GroupId::ROOT, GroupConfig::NONE));
        world.read_all(gone, 0..100);
        world.read_all(stays, 1000..1150);
        world.groups.remove(gone).unwrap();
        world.read_all(stays, 1150..1300);
        assert!(!world.groups.tree().exists(gone), "{name}: {} left", world.nr_resident(gone));
        world.check();
    }
}
