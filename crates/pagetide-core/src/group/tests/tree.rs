//! The tree against a naive twin, which sums anew each time.

use crate::group::{
    CreateGroupError, GROUPS_MAX, GroupConfig, GroupTree, OverLimit, Released, RemoveGroupError,
};
use crate::ids::GroupId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Create { parent: usize, config: GroupConfig },
    Remove { nth: usize },
    Configure { nth: usize, config: GroupConfig },
    Charge { nth: usize, nr_pages: u64 },
    Uncharge { nth: usize, nr_pages: u64 },
}

fn config() -> impl Strategy<Value = GroupConfig> {
    let limit = prop_oneof![Just(u64::MAX), 0..60u64];
    (limit, 0..40u64, 0..40u64).prop_map(|(limit, min, low)| GroupConfig { limit, min, low })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (0..12usize, config()).prop_map(|(parent, config)| Op::Create { parent, config }),
        1 => (0..12usize).prop_map(|nth| Op::Remove { nth }),
        1 => (0..12usize, config()).prop_map(|(nth, config)| Op::Configure { nth, config }),
        6 => (0..12usize, 1..20u64).prop_map(|(nth, nr_pages)| Op::Charge { nth, nr_pages }),
        3 => (0..12usize, 1..20u64).prop_map(|(nth, nr_pages)| Op::Uncharge { nth, nr_pages }),
    ]
}

#[derive(Clone, Copy)]
struct TwinGroup {
    parent: Option<GroupId>,
    config: GroupConfig,
    charged: u64,
    is_online: bool,
}

struct Twin {
    tree: GroupTree,
    groups: BTreeMap<GroupId, TwinGroup>,
}

impl Twin {
    fn new() -> Twin {
        let config = GroupConfig::limited(200);
        let root = TwinGroup { parent: None, config, charged: 0, is_online: true };
        Twin { tree: GroupTree::new(200), groups: BTreeMap::from([(GroupId::ROOT, root)]) }
    }

    fn nth(&self, nth: usize) -> GroupId {
        let ids: Vec<GroupId> = self.groups.keys().copied().collect();
        ids[nth % ids.len()]
    }

    fn lineage(&self, group: GroupId) -> Vec<GroupId> {
        core::iter::successors(Some(group), |group| self.groups[group].parent).collect()
    }

    fn children(&self, group: GroupId) -> impl Iterator<Item = (GroupId, TwinGroup)> + '_ {
        let is_child = move |(_, it): &(GroupId, TwinGroup)| it.parent == Some(group);
        self.groups.iter().map(|(id, it)| (*id, *it)).filter(is_child)
    }

    fn usage(&self, group: GroupId) -> u64 {
        let is_below = |id: &&GroupId| self.lineage(**id).contains(&group);
        self.groups.keys().filter(is_below).map(|id| self.groups[id].charged).sum()
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Create { parent, config } => self.create(parent, config),
            Op::Remove { nth } => self.remove(nth),
            Op::Configure { nth, config } => {
                let group = self.nth(nth);
                if group != GroupId::ROOT && self.groups[&group].is_online {
                    self.tree.set_config(group, config);
                    self.groups.get_mut(&group).unwrap().config = config;
                }
            }
            Op::Charge { nth, nr_pages } => self.charge(nth, nr_pages),
            Op::Uncharge { nth, nr_pages } => {
                let group = self.nth(nth);
                let nr_pages = nr_pages.min(self.groups[&group].charged);
                self.groups.get_mut(&group).unwrap().charged -= nr_pages;
                let released = self.tree.uncharge(group, nr_pages);
                self.check_released(released);
            }
        }
    }

    fn create(&mut self, parent: usize, config: GroupConfig) {
        let parent = self.nth(parent);
        match self.tree.create(parent, config) {
            Ok(id) => {
                let group = TwinGroup { parent: Some(parent), config, charged: 0, is_online: true };
                assert!(self.groups.insert(id, group).is_none(), "{id} is in use");
            }
            Err(error) => {
                assert_eq!(error, CreateGroupError::NoParent { parent });
                assert!(!self.groups[&parent].is_online);
            }
        }
    }

    fn remove(&mut self, nth: usize) {
        let group = self.nth(nth);
        let nr_children = self.children(group).filter(|(_, it)| it.is_online).count();
        match self.tree.remove(group) {
            Ok(released) => {
                assert!(nr_children == 0 && group != GroupId::ROOT);
                let it = self.groups.get_mut(&group).unwrap();
                (it.is_online, it.config) = (false, GroupConfig::NONE);
                self.check_released(released);
            }
            Err(RemoveGroupError::Root) => assert_eq!(group, GroupId::ROOT),
            Err(RemoveGroupError::NoGroup { .. }) => assert!(!self.groups[&group].is_online),
            Err(error) => assert_eq!(error, RemoveGroupError::HasChildren { group, nr_children }),
        }
    }

    fn check_released(&mut self, released: Released) {
        loop {
            let gone = |id: &&GroupId| {
                let it = self.groups[*id];
                !it.is_online && it.charged == 0 && self.children(**id).next().is_none()
            };
            let Some(id) = self.groups.keys().find(gone).copied() else { break };
            assert_ne!(released, Released::Nothing, "{id} should be gone");
            self.groups.remove(&id);
        }
        if let Released::UpTo(id) = released {
            assert!(!self.groups.contains_key(&id), "{id} should have stayed");
        }
    }

    fn charge(&mut self, nth: usize, nr_pages: u64) {
        let group = self.nth(nth);
        if !self.groups[&group].is_online {
            return;
        }
        let is_full =
            |id: &GroupId| self.usage(*id).saturating_add(nr_pages) > self.groups[id].config.limit;
        let expected = self.lineage(group).into_iter().find(is_full);
        match self.tree.charge(group, nr_pages) {
            Ok(()) => {
                assert_eq!(expected, None);
                self.groups.get_mut(&group).unwrap().charged += nr_pages;
            }
            Err(OverLimit { group, limit, usage }) => {
                assert_eq!(Some(group), expected, "the lowest full group");
                assert_eq!((limit, usage), (self.groups[&group].config.limit, self.usage(group)));
            }
        }
    }

    fn check(&self) {
        self.tree.validate(|group| self.groups[&group].charged);
        let mut ids: Vec<GroupId> = self.tree.subtree(GroupId::ROOT).collect();
        ids.sort();
        assert!(ids.iter().eq(self.groups.keys()), "{ids:?}");
        for id in ids {
            assert_eq!(self.tree.usage(id), self.usage(id));
            self.check_protection(id);
        }
    }

    fn check_protection(&self, group: GroupId) {
        let given = self.tree.protection(group, GroupId::ROOT);
        let config = self.groups[&group].config;
        assert!(given.min <= config.min && given.low <= config.low, "more than asked for");
        if group == GroupId::ROOT {
            assert_eq!((given.min, given.low), (0, 0));
            return;
        }
        let children: Vec<_> = self
            .children(group)
            .map(|(child, _)| self.tree.protection(child, GroupId::ROOT))
            .collect();
        assert!(children.iter().all(|it| it.min <= it.usage && it.low <= it.usage));
        assert!(children.iter().map(|it| it.min).sum::<u64>() <= given.min, "min of {group}");
        assert!(children.iter().map(|it| it.low).sum::<u64>() <= given.low, "low of {group}");
    }
}

proptest! {
    #[test]
    fn the_tree_agrees_with_its_twin(ops in prop::collection::vec(op(), 0..120)) {
        let mut twin = Twin::new();
        for op in &ops {
            twin.apply(op);
            twin.check();
        }
    }
}

#[test]
fn the_lowest_full_group_is_named() {
    let mut tree = GroupTree::new(10);
    let outer = tree.create(GroupId::ROOT, GroupConfig::limited(6)).unwrap();
    let inner = tree.create(outer, GroupConfig::limited(4)).unwrap();
    tree.charge(inner, 4).unwrap();
    let full = |group, limit, usage| Err(OverLimit { group, limit, usage });
    assert_eq!(tree.charge(inner, 1), full(inner, 4, 4));
    tree.charge(outer, 2).unwrap();
    assert_eq!(tree.charge(inner, 1), full(inner, 4, 4), "both are full: the lowest");
    assert_eq!(tree.charge(outer, 1), full(outer, 6, 6));
    assert_eq!(tree.charge(GroupId::ROOT, 5), full(GroupId::ROOT, 10, 6));
    assert_eq!([GroupId::ROOT, outer, inner].map(|group| tree.usage(group)), [6, 6, 4]);
}

/// Protected usage of siblings, out of 1000 pages, is no room.
#[test]
fn room_is_the_lowest_limit_less_what_is_kept_beside() {
    let mut tree = GroupTree::default();
    let mut create = |parent, config| tree.create(parent, config).expect("there is an id");
    let parent = create(GroupId::ROOT, GroupConfig::limited(500));
    let kept = create(parent, GroupConfig { min: 40, low: 100, ..GroupConfig::NONE });
    let other = create(parent, GroupConfig::NONE);
    let keeps_itself = create(GroupId::ROOT, GroupConfig { low: 700, ..GroupConfig::NONE });
    let room = |tree: &GroupTree, group| tree.room(group, 1000);
    assert_eq!(
        [parent, kept, other, keeps_itself].map(|group| room(&tree, group)),
        [500, 500, 500, 1000]
    );
    tree.charge(kept, 60).unwrap();
    tree.charge(keeps_itself, 650).unwrap();
    assert_eq!(room(&tree, other), 350, "650 are kept at the top");
    assert_eq!(room(&tree, keeps_itself), 1000, "what is its own is no hindrance");
    let _ = tree.uncharge(keeps_itself, 600);
    assert_eq!((room(&tree, other), room(&tree, kept)), (440, 500), "60 of the parent's are kept");
    assert_eq!(room(&tree, GroupId(99)), 950, "as much as the root's own pages");
}

#[test]
fn ids_come_back_as_late_as_possible() {
    let mut tree = GroupTree::default();
    let first = tree.create(GroupId::ROOT, GroupConfig::NONE).unwrap();
    assert_eq!(tree.remove(first), Ok(Released::UpTo(first)));
    for _ in 2..GROUPS_MAX {
        let id = tree.create(GroupId::ROOT, GroupConfig::NONE).unwrap();
        assert_ne!(id, first);
        assert_eq!(tree.remove(id), Ok(Released::UpTo(id)));
    }
    assert_eq!(tree.create(GroupId::ROOT, GroupConfig::NONE), Ok(first));
}
