//! The tree of memory groups with limits and usage.
//!
//! ```text
//!   charge one page to C:     root --- A --- C     usage + 1 in C, A and root,
//!                                   \        |     or no change, and OverLimit
//!                                    B       +--   with the lowest full group
//! ```
//!
//! Invariants ([`GroupTree::validate`]): usage is the group's own charges plus the usage of its
//! children. No charge exceeds a limit. A removed group stays, hidden, until its last charge is
//! gone.
//!
//! Ignored: batched charges (the kernel keeps up to 64 pages per CPU), throttling above a "high"
//! mark, and swap.
//!
//! Source: the kernel's documented control group v2 memory controller, "Memory Interface Files".

use crate::ids::GroupId;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// No limit.
pub const UNLIMITED: u64 = u64::MAX;
/// Maximum number of groups that a shadow entry can name.
pub const GROUPS_MAX: usize = 1 << 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Guard {
    Min = 0,
    Low = 1,
}

impl Guard {
    pub(super) const ALL: [Guard; 2] = [Guard::Min, Guard::Low];

    pub(super) const fn asked_of(self, config: &GroupConfig) -> u64 {
        match self {
            Guard::Min => config.min,
            Guard::Low => config.low,
        }
    }
}

/// Settings of a group, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupConfig {
    /// Maximum usage with descendants, or [`UNLIMITED`].
    pub limit: u64,
    /// Usage never reclaimed, within the ancestors' protection.
    pub min: u64,
    /// Usage reclaimed only if nothing unprotected is left.
    pub low: u64,
}

impl Default for GroupConfig {
    fn default() -> GroupConfig {
        GroupConfig { limit: UNLIMITED, min: 0, low: 0 }
    }
}

impl GroupConfig {
    /// No limit, no protection.
    pub const NONE: GroupConfig = GroupConfig { limit: UNLIMITED, min: 0, low: 0 };

    /// Returns settings with this limit, in pages.
    pub const fn limited(limit: u64) -> GroupConfig {
        GroupConfig { limit, ..GroupConfig::NONE }
    }
}

/// Reason for a failed creation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateGroupError {
    /// The parent does not exist. Create it first.
    #[error("the parent {parent} does not exist")]
    NoParent {
        /// Requested parent.
        parent: GroupId,
    },
    /// All ids are in use. Remove groups and reclaim their pages.
    #[error("all {GROUPS_MAX} group ids are in use")]
    NoId,
}

/// Reason for a failed removal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoveGroupError {
    /// The group does not exist.
    #[error("the group {group} does not exist")]
    NoGroup {
        /// Requested group.
        group: GroupId,
    },
    /// The root cannot be removed.
    #[error("the root cannot be removed")]
    Root,
    /// The group has children. Remove these first.
    #[error("the group {group} has {nr_children} children")]
    HasChildren {
        /// Requested group.
        group: GroupId,
        /// Children not removed.
        nr_children: usize,
    },
}

/// A charge would exceed a limit. Reclaim from `group`, then retry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{group} is at its limit of {limit} pages ({usage} in use)")]
pub struct OverLimit {
    /// Lowest full group, from the charged one up.
    pub group: GroupId,
    /// Limit in pages.
    pub limit: u64,
    /// Usage in pages.
    pub usage: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) parent: Option<GroupId>,
    pub(super) children: Vec<GroupId>,
    pub(super) config: GroupConfig,
    pub(super) usage: u64,
    /// Usage of the children under protection, by [`Guard`].
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

    pub(super) fn claim(&self, guard: Guard) -> u64 {
        self.usage.min(guard.asked_of(&self.config))
    }

    fn claims(&self) -> [u64; 2] {
        Guard::ALL.map(|guard| self.claim(guard))
    }
}

/// All groups with their charges. Protected by one lock of the world.
#[derive(Clone, Debug)]
pub struct GroupTree {
    /// Indexed by id.
    slots: Vec<Option<Box<Group>>>,
    /// Start of the search for a free id. Shadow entries contain old ids, so ids are reused late.
    next_id: usize,
}

impl Default for GroupTree {
    fn default() -> GroupTree {
        GroupTree::new(UNLIMITED)
    }
}

impl GroupTree {
    /// Creates the root with a limit in pages.
    pub fn new(limit: u64) -> GroupTree {
        let root = Group::new(None, GroupConfig::limited(limit));
        GroupTree { slots: alloc::vec![Some(Box::new(root))], next_id: 1 }
    }

    /// Creates a group below `parent`.
    ///
    /// # Errors
    /// [`CreateGroupError`] without a parent or a free id.
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

    fn find_id(&self) -> Option<GroupId> {
        let is_free = |id: &usize| self.slots.get(*id).is_none_or(Option::is_none);
        let id = (self.next_id..GROUPS_MAX).chain(1..self.next_id).find(is_free)?;
        Some(GroupId(id as u16))
    }

    /// Removes a group. Charges and protection end. The group leaves the tree with its last page.
    ///
    /// # Errors
    /// [`RemoveGroupError`] if the group is the root, has children, or does not exist.
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

    /// Changes the settings. A limit below usage applies from the next charge.
    ///
    /// # Panics
    /// If the group does not exist.
    pub fn set_config(&mut self, group: GroupId, config: GroupConfig) {
        self.change(group, |group| group.config = config);
    }

    /// Returns the settings.
    ///
    /// # Panics
    /// If the group does not exist.
    pub fn config(&self, group: GroupId) -> GroupConfig {
        self.group(group).config
    }

    /// Returns the pages charged to a group and its descendants.
    ///
    /// # Panics
    /// If the group does not exist.
    pub fn usage(&self, group: GroupId) -> u64 {
        self.group(group).usage
    }

    /// Returns true if the group exists and was not removed.
    pub fn is_online(&self, group: GroupId) -> bool {
        self.find(group).is_some_and(|group| group.is_online)
    }

    /// Returns true if the group exists or has pages left.
    pub fn exists(&self, group: GroupId) -> bool {
        self.find(group).is_some()
    }

    /// Returns the parent, or `None` for the root.
    pub fn parent(&self, group: GroupId) -> Option<GroupId> {
        self.group(group).parent
    }

    /// Returns the group and its ancestors up to the root.
    pub fn lineage(&self, group: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        core::iter::successors(Some(group), |group| self.group(*group).parent)
    }

    /// Returns the pages available to a group in `memory` pages: the lowest limit on the way up,
    /// less the protection of other groups. A missing group counts as the root.
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

    /// Charges `nr_pages` to a group and its ancestors, or to none.
    ///
    /// # Errors
    /// [`OverLimit`] with the lowest full group.
    ///
    /// # Panics
    /// If the group was removed.
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

    /// Takes `nr_pages` from a group and its ancestors. Returns the removed groups that lost their
    /// last page.
    ///
    /// # Panics
    /// If less was charged.
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

    /// Changes a group and updates the parent's claims.
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
        // A removed parent may have waited for its last child.
        match self.release_if_empty(parent) {
            Released::Nothing => Released::UpTo(group),
            up_to => up_to,
        }
    }

    /// Returns the group after `at` in the subtree of `top`, parents first.
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

    /// Returns the groups of a subtree, parents first.
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

    /// Checks all invariants and panics on a violation. `charged` returns own pages. O(groups).
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

/// Removed groups that left the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Released {
    /// None.
    Nothing,
    /// This group, and removed groups below it.
    UpTo(GroupId),
}
