//! The tree of memory groups: how much each may hold, and how much it does.
//!
//! ```text
//!   charge one page to C:     root --- A --- C     usage + 1 in C, A and root,
//!                                   \        |     or nothing anywhere and the name
//!                                    B       +--   of the lowest group that is full
//! ```
//!
//! Invariants, which [`GroupTree::validate`] checks: a group's usage is what was charged to it plus
//! the usage of its children; no charge ends above a limit; a removed group stays, unseen, until
//! nothing is charged to it.
//!
//! Ignored: charges in batches (the kernel keeps a stock of up to 64 pages a CPU), throttling above
//! a "high" mark, and swap, which is not charged. Source: the kernel's documented control group v2
//! memory controller, "Memory Interface Files".

use crate::ids::GroupId;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// No limit.
pub const UNLIMITED: u64 = u64::MAX;
/// More groups than this the shadow entry cannot name.
pub const GROUPS_MAX: usize = 1 << 16;

/// The two kinds of protection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Guard {
    Min = 0,
    Low = 1,
}

impl Guard {
    pub(super) const ALL: [Guard; 2] = [Guard::Min, Guard::Low];

    /// What the group's owner asked for.
    pub(super) const fn asked_of(self, config: &GroupConfig) -> u64 {
        match self {
            Guard::Min => config.min,
            Guard::Low => config.low,
        }
    }
}

/// What a group is given. In pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupConfig {
    /// The most it may use, its descendants included; [`UNLIMITED`] for no limit of its own.
    pub limit: u64,
    /// Usage up to here is never reclaimed, as far as its ancestors are as protected.
    pub min: u64,
    /// Usage up to here is reclaimed only where nothing unprotected is left.
    pub low: u64,
}

impl Default for GroupConfig {
    /// No limit, no protection.
    fn default() -> GroupConfig {
        GroupConfig { limit: UNLIMITED, min: 0, low: 0 }
    }
}

impl GroupConfig {
    /// No limit of its own, no protection.
    pub const NONE: GroupConfig = GroupConfig { limit: UNLIMITED, min: 0, low: 0 };

    /// A limit of so many pages.
    pub const fn limited(limit: u64) -> GroupConfig {
        GroupConfig { limit, ..GroupConfig::NONE }
    }
}

/// Why a group could not be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateGroupError {
    /// The parent was removed, or never was; create it first.
    #[error("the parent {parent} does not exist")]
    NoParent {
        /// The parent asked for.
        parent: GroupId,
    },
    /// As many groups as ids; remove some, and let their pages be reclaimed.
    #[error("all {GROUPS_MAX} group ids are in use")]
    NoId,
}

/// Why a group could not be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoveGroupError {
    /// It was removed before, or never was; nothing is left to do.
    #[error("the group {group} does not exist")]
    NoGroup {
        /// The group asked for.
        group: GroupId,
    },
    /// The root stays.
    #[error("the root cannot be removed")]
    Root,
    /// Remove its children first.
    #[error("the group {group} has {nr_children} children")]
    HasChildren {
        /// The group asked for.
        group: GroupId,
        /// How many are not removed.
        nr_children: usize,
    },
}

/// A charge would exceed a limit: reclaim from `group`, then charge again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{group} is at its limit of {limit} pages ({usage} in use)")]
pub struct OverLimit {
    /// The lowest group, from the one charged up, that is full.
    pub group: GroupId,
    /// Its limit.
    pub limit: u64,
    /// Its usage.
    pub usage: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) parent: Option<GroupId>,
    pub(super) children: Vec<GroupId>,
    pub(super) config: GroupConfig,
    pub(super) usage: u64,
    /// The part of the children's usage that they claim protection for, by [`Guard`].
    pub(super) children_claims: [u64; 2],
    is_online: bool,
}

impl Group {
    fn new(parent: Option<GroupId>, config: GroupConfig) -> Group {
        Group {
            parent,
            children: Vec::new(),
            config,
            usage: 0,
            children_claims: [0; 2],
            is_online: true,
        }
    }

    /// Usage it claims protection for.
    pub(super) fn claim(&self, guard: Guard) -> u64 {
        self.usage.min(guard.asked_of(&self.config))
    }

    fn claims(&self) -> [u64; 2] {
        Guard::ALL.map(|guard| self.claim(guard))
    }
}

/// The groups, and what is charged to each. One lock of the world's protects it.
#[derive(Clone, Debug)]
pub struct GroupTree {
    /// By id.
    slots: Vec<Option<Box<Group>>>,
    /// Where the search for the next id starts: ids come back as late as possible, because shadow
    /// entries of a group that is gone still name it.
    next_id: usize,
}

impl Default for GroupTree {
    fn default() -> GroupTree {
        GroupTree::new(UNLIMITED)
    }
}

impl GroupTree {
    /// The root alone, which may use `limit` pages.
    pub fn new(limit: u64) -> GroupTree {
        let root = Group::new(None, GroupConfig::limited(limit));
        GroupTree { slots: alloc::vec![Some(Box::new(root))], next_id: 1 }
    }

    /// Creates a group below `parent`.
    ///
    /// # Errors
    /// [`CreateGroupError`]: no such parent, or no id left.
    pub fn create(
        &mut self,
        parent: GroupId,
        config: GroupConfig,
    ) -> Result<GroupId, CreateGroupError> {
        if !self.is_online(parent) {
            return Err(CreateGroupError::NoParent { parent });
        }
        let id = self.find_id().ok_or(CreateGroupError::NoId)?;
        let slot = usize::from(id.0);
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(Box::new(Group::new(Some(parent), config)));
        self.next_id = slot + 1;
        self.group_mut(parent).children.push(id);
        Ok(id)
    }

    /// The first id that is free, from the last one given on, and around. It is in the table or the
    /// one just past it.
    fn find_id(&self) -> Option<GroupId> {
        let is_free = |id: &usize| self.slots.get(*id).is_none_or(Option::is_none);
        let id = (self.next_id..GROUPS_MAX).chain(1..self.next_id).find(is_free)?;
        Some(GroupId(id as u16))
    }

    /// Removes a group: nothing can be charged to it from now on, its protection ends, and reclaim
    /// prefers it. It leaves the tree once its last page is gone, which may be now.
    ///
    /// # Errors
    /// [`RemoveGroupError`]: it is the root, has children, or is not there.
    pub fn remove(&mut self, group: GroupId) -> Result<Released, RemoveGroupError> {
        if group == GroupId::ROOT {
            return Err(RemoveGroupError::Root);
        }
        if !self.is_online(group) {
            return Err(RemoveGroupError::NoGroup { group });
        }
        let online = self.group(group).children.iter().filter(|child| self.is_online(**child));
        let nr_children = online.count();
        if nr_children > 0 {
            return Err(RemoveGroupError::HasChildren { group, nr_children });
        }
        self.set_config(group, GroupConfig::NONE);
        self.group_mut(group).is_online = false;
        Ok(self.release_if_empty(group))
    }

    /// Changes what a group is given. A limit below its usage holds from the next charge on.
    ///
    /// # Panics
    /// If there is no such group.
    pub fn set_config(&mut self, group: GroupId, config: GroupConfig) {
        self.change(group, |group| group.config = config);
    }

    /// What a group is given.
    ///
    /// # Panics
    /// If there is no such group.
    pub fn config(&self, group: GroupId) -> GroupConfig {
        self.group(group).config
    }

    /// Pages charged to a group and its descendants.
    ///
    /// # Panics
    /// If there is no such group.
    pub fn usage(&self, group: GroupId) -> u64 {
        self.group(group).usage
    }

    /// Whether the group exists and was not removed.
    pub fn is_online(&self, group: GroupId) -> bool {
        self.find(group).is_some_and(|group| group.is_online)
    }

    /// Whether the group exists, be it that only its pages do.
    pub fn exists(&self, group: GroupId) -> bool {
        self.find(group).is_some()
    }

    /// The group a group is in; none for the root.
    pub fn parent(&self, group: GroupId) -> Option<GroupId> {
        self.group(group).parent
    }

    /// The group and its ancestors, from it up to the root.
    pub fn lineage(&self, group: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        core::iter::successors(Some(group), |group| self.group(*group).parent)
    }

    /// Pages that a group can have, of a memory of so many, before reclaim takes from what others
    /// are to keep: as many as the lowest limit above it allows, less what is protected beside it.
    /// Of a group that is not there, what the root can have.
    ///
    /// # Cost
    /// O(depth).
    pub fn room(&self, group: GroupId, memory: u64) -> u64 {
        let group = if self.exists(group) { group } else { GroupId::ROOT };
        let (mut room, mut own_claims) = (memory, [0; 2]);
        for each in self.lineage(group).map(|each| self.group(each)) {
            let claimed = |guard: Guard| {
                each.children_claims[guard as usize].saturating_sub(own_claims[guard as usize])
            };
            let beside = Guard::ALL.map(claimed).into_iter().max().unwrap_or(0);
            room = room.min(each.config.limit.min(memory).saturating_sub(beside));
            own_claims = each.claims();
        }
        room
    }

    /// Charges `nr_pages` to a group and its ancestors, or to none of them.
    ///
    /// # Errors
    /// [`OverLimit`]: the lowest group that is too full.
    ///
    /// # Panics
    /// If the group was removed: a charge has to name another.
    ///
    /// # Cost
    /// O(depth).
    pub fn charge(&mut self, group: GroupId, nr_pages: u64) -> Result<(), OverLimit> {
        assert!(self.is_online(group), "{group} was removed: nothing can be charged to it");
        for each in self.lineage(group) {
            let Group { config: GroupConfig { limit, .. }, usage, .. } = *self.group(each);
            if limit.saturating_sub(usage) < nr_pages {
                return Err(OverLimit { group: each, limit, usage });
            }
        }
        self.add(group, |usage| usage + nr_pages);
        Ok(())
    }

    /// Takes `nr_pages` back from a group and its ancestors; says whether this was the last trace
    /// of a removed group.
    ///
    /// # Panics
    /// If less was charged to it.
    ///
    /// # Cost
    /// O(depth).
    pub fn uncharge(&mut self, group: GroupId, nr_pages: u64) -> Released {
        let less = |usage: u64| usage.checked_sub(nr_pages).expect("uncharged what was charged");
        self.add(group, less);
        self.release_if_empty(group)
    }

    fn add(&mut self, group: GroupId, next: impl Fn(u64) -> u64) {
        let mut at = Some(group);
        while let Some(group) = at {
            self.change(group, |group| group.usage = next(group.usage));
            at = self.group(group).parent;
        }
    }

    /// Changes a group and keeps what its parent knows of it up to date.
    fn change(&mut self, group: GroupId, change: impl FnOnce(&mut Group)) {
        let group = self.group_mut(group);
        let before = group.claims();
        change(group);
        let (after, parent) = (group.claims(), group.parent);
        if let Some(parent) = parent {
            let claims = &mut self.group_mut(parent).children_claims;
            for (claim, (before, after)) in claims.iter_mut().zip(before.into_iter().zip(after)) {
                *claim = *claim + after - before;
            }
        }
    }

    fn release_if_empty(&mut self, group: GroupId) -> Released {
        let Group { is_online, usage, parent, ref children, .. } = *self.group(group);
        if is_online || usage > 0 || !children.is_empty() {
            return Released::Nothing;
        }
        let parent = parent.expect("the root is always online");
        self.slots[usize::from(group.0)] = None;
        self.group_mut(parent).children.retain(|child| *child != group);
        // A removed parent may have waited for this, its last child.
        match self.release_if_empty(parent) {
            Released::Nothing => Released::UpTo(group),
            up_to => up_to,
        }
    }

    /// The group after `at` in the subtree of `top`: parents before children. `top` comes first.
    pub fn next_in_subtree(&self, top: GroupId, at: GroupId) -> Option<GroupId> {
        if let Some(first) = self.group(at).children.first() {
            return Some(*first);
        }
        let mut at = at;
        while at != top {
            let parent = self.group(at).parent?;
            let siblings = &self.group(parent).children;
            let place = siblings.iter().position(|child| *child == at)?;
            if let Some(next) = siblings.get(place + 1) {
                return Some(*next);
            }
            at = parent;
        }
        None
    }

    /// The groups of a subtree, removed ones included: parents before children.
    pub fn subtree(&self, top: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        core::iter::successors(Some(top), move |at| self.next_in_subtree(top, *at))
    }

    pub(super) fn group(&self, group: GroupId) -> &Group {
        self.find(group).expect("invariant: groups that are named exist")
    }

    fn find(&self, group: GroupId) -> Option<&Group> {
        self.slots.get(usize::from(group.0))?.as_deref()
    }

    fn group_mut(&mut self, group: GroupId) -> &mut Group {
        let slot = self.slots.get_mut(usize::from(group.0)).and_then(Option::as_deref_mut);
        slot.expect("invariant: groups that are named exist")
    }

    /// Walks everything and panics where an invariant is broken. `charged` are the pages charged to
    /// a group itself. O(groups).
    pub fn validate(&self, charged: impl Fn(GroupId) -> u64) {
        let mut nr_seen = 0;
        for id in self.subtree(GroupId::ROOT) {
            nr_seen += 1;
            let group = self.group(id);
            let children = || group.children.iter().map(|child| self.group(*child));
            let below: u64 = children().map(|child| child.usage).sum();
            assert_eq!(group.usage, charged(id) + below, "usage of {id}");
            let claims = Guard::ALL.map(|guard| children().map(|child| child.claim(guard)).sum());
            assert_eq!(group.children_claims, claims, "claims of the children of {id}");
            assert!(children().all(|child| child.parent == Some(id)), "a child of {id} is lost");
            assert!(group.is_online || !group.children.is_empty() || group.usage > 0, "{id}");
            assert!(group.is_online || group.config == GroupConfig::NONE, "{id} is removed");
        }
        let nr_groups = self.slots.iter().flatten().count();
        assert_eq!(nr_seen, nr_groups, "groups that no parent knows");
    }
}

/// Whether removed groups left the tree for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Released {
    /// None did.
    Nothing,
    /// This one did, and with it those removed groups that waited for it alone: its highest.
    UpTo(GroupId),
}
