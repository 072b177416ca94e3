//! Properties of every policy with several groups.

use super::world::World;
use crate::folio::Flags;
use crate::group::{GlobalOrder, GroupConfig, GroupPass};
use crate::ids::GroupId;
use crate::lru::{PolicyName, ReclaimKind};
use alloc::vec::Vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Access { group: usize, page: u64 },
    Dirty { page: u64 },
    Clean { page: u64 },
    Discard { page: u64 },
    Create { parent: usize, config: GroupConfig },
    Configure { group: usize, config: GroupConfig },
    Remove { group: usize },
    Global { is_background: bool, target: u64 },
    Proactive { group: usize, nr_pages: u64, swappiness: Option<u8> },
    Refuse { one_in: u64 },
}

fn config() -> impl Strategy<Value = GroupConfig> {
    let limit = prop_oneof![Just(u64::MAX), 1..80u64];
    let protection = || prop_oneof![3 => Just(0), 1 => 1..60u64];
    (limit, protection(), protection()).prop_map(|(limit, min, low)| GroupConfig {
        limit,
        min,
        low,
    })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        30 => (0..8usize, 0..200u64).prop_map(|(group, page)| Op::Access { group, page }),
        2 => (0..200u64).prop_map(|page| Op::Dirty { page }),
        2 => (0..200u64).prop_map(|page| Op::Clean { page }),
        2 => (0..200u64).prop_map(|page| Op::Discard { page }),
        2 => (0..8usize, config()).prop_map(|(parent, config)| Op::Create { parent, config }),
        1 => (0..8usize, config()).prop_map(|(group, config)| Op::Configure { group, config }),
        1 => (0..8usize).prop_map(|group| Op::Remove { group }),
        1 => (any::<bool>(), 1..64u64)
            .prop_map(|(is_background, target)| Op::Global { is_background, target }),
        1 => (0..8usize, 1..64u64, prop::option::of(0..=201u8)).prop_map(
            |(group, nr_pages, swappiness)| Op::Proactive { group, nr_pages, swappiness }),
        1 => (0..5u64).prop_map(|one_in| Op::Refuse { one_in }),
    ]
}

/// World and online groups, root first.
struct Run {
    world: World,
    online: Vec<GroupId>,
}

impl Run {
    fn nth(&self, nth: usize) -> GroupId {
        self.online[nth % self.online.len()]
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Access { group, page } => {
                let group = self.nth(group);
                let _ = self.world.access(group, page);
            }
            Op::Dirty { page } => {
                if let Some(frame) = self.world.resident.get(&page) {
                    self.world.folios[*frame].set(Flags::DIRTY);
                }
            }
            Op::Clean { page } => self.clean(page),
            Op::Discard { page } => self.world.discard(page),
            Op::Create { parent, config } => {
                let group = self.world.create(self.nth(parent), config);
                self.online.push(group);
            }
            Op::Configure { group, config } => {
                let group = self.nth(group);
                if group != GroupId::ROOT {
                    self.world.groups.set_config(group, config);
                }
            }
            Op::Remove { group } => {
                let group = self.nth(group);
                if self.world.groups.remove(group).is_ok() {
                    self.online.retain(|other| *other != group);
                }
            }
            Op::Global { is_background, target } => {
                let kind =
                    if is_background { ReclaimKind::Background } else { ReclaimKind::Direct };
                self.world.global(kind, target);
            }
            Op::Proactive { group, nr_pages, swappiness } => {
                let group = self.nth(group);
                let groups = &mut self.world.groups;
                let pass = GroupPass::proactive(groups, group, nr_pages, swappiness);
                let before = self.world.free.len() as u64;
                let nr_reclaimed = self.world.reclaim(pass);
                assert_eq!(self.world.free.len() as u64, before + nr_reclaimed);
            }
            Op::Refuse { one_in } => self.world.refuse_one_in = one_in,
        }
        self.world.check();
    }

    fn clean(&mut self, page: u64) {
        let Some(&frame) = self.world.resident.get(&page) else { return };
        let before = self.world.folios[frame].clear(Flags::DIRTY.with(Flags::RECLAIM));
        if before.any(Flags::RECLAIM) && self.world.log.rotate(frame) == crate::lru::Room::Full {
            self.world.groups.drain(&mut self.world.log);
        }
    }
}

#[test]
fn nothing_is_lost_whatever_the_policy() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(12));
    for name in PolicyName::ALL {
        for order in [GlobalOrder::Rotation, GlobalOrder::Walk] {
            let ops = prop::collection::vec(op(), 1..250);
            runner
                .run(&(ops, any::<bool>()), |(ops, can_swap)| {
                    let mut world = World::with_config(*name, 96, can_swap, order);
                    world.first_anon = if can_swap { 100 } else { u64::MAX };
                    let mut run = Run { world, online: Vec::from([GroupId::ROOT]) };
                    ops.iter().for_each(|op| run.apply(op));
                    Ok(())
                })
                .unwrap_or_else(|error| panic!("{name} by {order:?}: {error}"));
        }
    }
}

/// All clean folios can be reclaimed, and removed groups vanish.
#[test]
fn everything_unprotected_can_be_reclaimed() {
    for name in PolicyName::ALL {
        let mut world = World::new(*name, 96);
        let outer = world.create(GroupId::ROOT, GroupConfig::NONE);
        let groups = [GroupId::ROOT, outer, world.create(outer, GroupConfig::limited(40))];
        for page in 0..90 {
            world.access(groups[page as usize % 3], page);
        }
        world.groups.remove(groups[2]).unwrap();
        for _ in 0..40 {
            world.global(ReclaimKind::Background, 96);
        }
        assert_eq!(world.free.len(), 96, "{name} keeps folios for ever");
        assert!(!world.groups.tree().exists(groups[2]), "{name}: the removed group stays");
        world.check();
    }
}
