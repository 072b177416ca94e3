//! The memory groups with their lruvecs.
//!
//! Calls go to the [`Lruvec`] of the paying group, and counts to its ancestors. The life of a page:
//!
//! ```text
//!   charge(group) --full?--> reclaim for the full group, then retry
//!   take a frame, bind, own(frame, group), refault(shadow), log.add     usage + 1
//!   ...
//!   reclaim or discard: the frame is free                               usage - 1
//! ```
//!
//! Invariants ([`Groups::validate`]): every charged page is a frame of the group, or about to be.
//! Every listed folio is on its group's lists. A removed group keeps its lruvec until its last page
//! is gone.
//!
//! Ignored: several nodes, moving charges between groups.

use super::rotation::{GroupLru, RotationOp};
use super::tree::{
    CreateGroupError, GroupConfig, GroupTree, OverLimit, Released, RemoveGroupError, UNLIMITED,
};
use crate::folio::{Flags, Folios};
use crate::ids::{FrameId, GroupId, PageType};
use crate::lru::refault_distance::{HierarchyCounts, ListPages};
use crate::lru::{
    AccessLog, AccessPath, AccessRule, Logged, LruConfig, Lruvec, LruvecId, PolicyChoice,
    ShadowEntry,
};
use crate::units::Millis;
use crate::vmstat::VmStat;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::iter;

/// Order of groups in global reclaim.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GlobalOrder {
    /// Group LRU ([`GroupLru`]), as in the multi-gen LRU.
    Rotation,
    /// Round robin from the end of the last pass, as for limit reclaim.
    Walk,
}

/// Settings common to all groups.
#[derive(Clone, Copy, Debug)]
pub struct GroupsConfig {
    /// Policy of every lruvec.
    pub policy: PolicyChoice,
    /// Lruvec settings. Each lruvec has room for all frames, under the group's id.
    pub lru: LruConfig,
    /// Limit of the root, in pages.
    pub limit: u64,
    /// Order of global reclaim.
    pub global_order: GlobalOrder,
    /// Seed for the bins of the group LRU.
    pub seed: u64,
}

pub(super) struct Member {
    pub(super) lruvec: Lruvec,
    /// Counts already added to the ancestors.
    seen: HierarchyCounts,
    /// Pages charged to this group itself.
    charged: u64,
    /// Last group visited for this group's limit.
    pub(super) last_visited: GroupId,
}

/// All groups. Protected by one lock of the world.
pub struct Groups {
    tree: GroupTree,
    /// Indexed by group id.
    members: Vec<Option<Box<Member>>>,
    pub(super) rotation: GroupLru,
    config: GroupsConfig,
    folios: Arc<Folios>,
    now: Millis,
    vmstat_gone: VmStat,
}

impl GroupsConfig {
    /// Returns the settings for a page cache.
    pub fn of_cache(policy: PolicyChoice, lru: LruConfig) -> GroupsConfig {
        let global_order = GlobalOrder::Rotation;
        GroupsConfig { policy, lru, limit: UNLIMITED, global_order, seed: 0 }
    }
}

impl Groups {
    /// Creates the root group over `folios`.
    pub fn new(config: GroupsConfig, folios: Arc<Folios>) -> Groups {
        let mut groups = Groups {
            tree: GroupTree::new(config.limit),
            members: Vec::new(),
            rotation: GroupLru::new(config.seed),
            config,
            folios,
            now: Millis::default(),
            vmstat_gone: VmStat::default(),
        };
        groups.admit(GroupId::ROOT);
        groups
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
        let group = self.tree.create(parent, config)?;
        self.admit(group);
        Ok(group)
    }

    fn admit(&mut self, group: GroupId) {
        let id = LruvecId { group: group.0, node: self.config.lru.id.node };
        let lru = LruConfig { id, ..self.config.lru };
        let mut lruvec = Lruvec::new(self.config.policy, &lru, self.folios.clone());
        lruvec.tell_time(self.now);
        let member =
            Member { lruvec, seen: HierarchyCounts::default(), charged: 0, last_visited: group };
        let slot = usize::from(group.0);
        if self.members.len() <= slot {
            self.members.resize_with(slot + 1, || None);
        }
        self.members[slot] = Some(Box::new(member));
        self.rotation.insert(group);
    }

    /// Removes a group. Reclaim takes its pages first.
    ///
    /// # Errors
    /// [`RemoveGroupError`] if the group is the root, has children, or does not exist.
    pub fn remove(&mut self, group: GroupId) -> Result<(), RemoveGroupError> {
        let released = self.tree.remove(group)?;
        self.rotation.apply(group, RotationOp::Old);
        self.release(released);
        Ok(())
    }

    /// Changes a group's settings. A limit below usage applies from the next charge.
    ///
    /// # Panics
    /// If the group was removed.
    pub fn set_config(&mut self, group: GroupId, config: GroupConfig) {
        assert!(self.tree.is_online(group), "{group} was removed");
        self.tree.set_config(group, config);
    }

    /// Returns the tree: usage, limits, protection.
    pub fn tree(&self) -> &GroupTree {
        &self.tree
    }

    /// Returns the lruvec of a group.
    ///
    /// # Panics
    /// If the group does not exist.
    pub fn lruvec(&self, group: GroupId) -> &Lruvec {
        &self.member(group).lruvec
    }

    /// Returns the counters of all groups, past ones included. O(groups).
    pub fn vmstat(&self) -> VmStat {
        let mut sum = self.vmstat_gone;
        self.members.iter().flatten().for_each(|member| sum.merge(member.lruvec.vmstat()));
        sum
    }

    /// Returns the rule for recording descriptor accesses.
    pub fn access_rule(&self) -> AccessRule {
        self.lruvec(GroupId::ROOT).access_rule()
    }

    /// Charges a page to a group, before taking a frame.
    ///
    /// # Errors
    /// [`OverLimit`] with the full group: reclaim for it, then retry.
    ///
    /// # Panics
    /// If the group was removed.
    pub fn charge(&mut self, group: GroupId) -> Result<(), OverLimit> {
        self.tree.charge(group, 1)?;
        self.member_mut(group).charged += 1;
        Ok(())
    }

    /// Cancels a charge that found no frame.
    pub fn cancel_charge(&mut self, group: GroupId) {
        self.uncharge(group);
    }

    /// Sets the owner of a bound, unlogged frame.
    pub fn own(&mut self, frame: FrameId, group: GroupId) {
        self.folios[frame].set_group(group);
    }

    pub(super) fn uncharge(&mut self, group: GroupId) {
        self.member_mut(group).charged -= 1;
        let released = self.tree.uncharge(group, 1);
        self.release(released);
    }

    /// Drops the lruvecs of groups without pages.
    fn release(&mut self, released: Released) {
        if released == Released::Nothing {
            return;
        }
        for slot in 0..self.members.len() {
            let group = GroupId(slot as u16);
            if self.members[slot].is_some() && !self.tree.exists(group) {
                let member = self.members[slot].take().expect("just seen");
                self.vmstat_gone.merge(member.lruvec.vmstat());
                self.rotation.remove(group);
            }
        }
    }

    /// Applies an access log to the owners' lruvecs, with one dispatch for each run of entries of a
    /// group.
    pub fn drain(&mut self, log: &mut AccessLog) {
        let folios = Arc::clone(&self.folios);
        let group_of = |entry| {
            let (Logged::Add(frame) | Logged::Touch(frame) | Logged::Rotate(frame)) = entry;
            folios[frame].group()
        };
        let mut entries = log.drain().peekable();
        while let Some(first) = entries.next() {
            let group = group_of(first);
            let more = iter::from_fn(|| entries.next_if(|entry| group_of(*entry) == group));
            let run = iter::once(first).chain(more);
            // The group of stale entries may be gone.
            match self.find_mut(group) {
                Some(member) => member.lruvec.apply_entries(run),
                None => run.for_each(drop),
            }
            self.propagate_counts(group);
        }
    }

    /// Judges the return of an evicted page. `frame` is bound, owned and not logged yet.
    ///
    /// The clock of the evicting group measures the refault distance. If the group is gone, the
    /// page is new.
    ///
    /// # Cost
    /// O(depth + groups below the evicting group).
    pub fn refault(
        &mut self,
        log: &mut AccessLog,
        frame: FrameId,
        shadow: ShadowEntry,
        kind: AccessPath,
    ) {
        if self.access_rule().logs_what_clocks_count() {
            self.drain(log);
        }
        let group = self.folios[frame].group();
        let judged = self.judge(shadow, self.folios[frame].flags().page_type());
        self.member_mut(group).lruvec.refault_judged(frame, shadow, kind, judged);
        self.propagate_counts(group);
    }

    fn judge(&mut self, shadow: ShadowEntry, page_type: PageType) -> Option<bool> {
        let cause = GroupId(shadow.lruvec().group);
        let exists = self.tree.exists(cause);
        let clock = if exists { cause } else { GroupId::ROOT };
        let sizes = self.list_pages_below(clock);
        let judged = self.member(clock).lruvec.is_recent(shadow, page_type, &sizes);
        judged.map(|is_recent| is_recent && exists)
    }

    fn list_pages_below(&mut self, top: GroupId) -> ListPages {
        let mut sum = ListPages::default();
        let mut at = Some(top);
        while let Some(group) = at {
            sum = sum.plus(&self.member_mut(group).lruvec.list_pages());
            at = self.tree.next_in_subtree(top, group);
        }
        sum
    }

    /// Returns the listed folios of a group and its descendants. O(descendants).
    pub fn nr_folios(&self, top: GroupId) -> u64 {
        self.tree.subtree(top).map(|group| self.member(group).lruvec.nr_folios()).sum()
    }

    /// Drops and uncharges a page without a shadow.
    pub fn discard(&mut self, frame: FrameId) {
        let group = self.folios[frame].group();
        self.member_mut(group).lruvec.discard(frame);
        self.uncharge(group);
    }

    /// Reports folios found young through a page table.
    pub fn report_young(&mut self, young: &[FrameId]) {
        self.report_young_outside(young, None);
    }

    /// Same, except for group `but`.
    pub(super) fn report_young_outside(&mut self, young: &[FrameId], but: Option<GroupId>) {
        for frame in young {
            let group = self.folios[*frame].group();
            if Some(group) == but {
                continue;
            }
            if let Some(member) = self.find_mut(group) {
                member.lruvec.report_young(&[*frame]);
                self.propagate_counts(group);
            }
        }
    }

    /// Tells all lruvecs the time.
    pub fn tell_time(&mut self, now: Millis) {
        self.now = self.now.max(now);
        self.members.iter_mut().flatten().for_each(|member| member.lruvec.tell_time(now));
    }

    /// Folds the statistics of all lruvecs ([`Lruvec::fold_statistics`]).
    pub fn fold_statistics(&mut self) {
        self.members.iter_mut().flatten().for_each(|member| member.lruvec.fold_statistics());
    }

    /// Adds a lruvec's new counts to the ancestors.
    pub(super) fn propagate_counts(&mut self, group: GroupId) {
        let Some(member) = self.find_mut(group) else { return };
        let now = member.lruvec.hierarchy_counts();
        let new = now.since(&member.seen);
        member.seen = now;
        if let (Some(parent), true) = (self.tree.parent(group), new != HierarchyCounts::default()) {
            self.count_in_lineage(parent, &new);
        }
    }

    /// Adds counts to `group` and its ancestors.
    pub(super) fn count_in_lineage(&mut self, group: GroupId, new: &HierarchyCounts) {
        let mut at = Some(group);
        while let Some(group) = at {
            let nr_listed = if new.cost == [0; 2] { 0 } else { self.nr_folios(group) };
            let member = self.member_mut(group);
            member.lruvec.count_below(new, nr_listed);
            member.seen = member.lruvec.hierarchy_counts();
            at = self.tree.parent(group);
        }
    }

    pub(super) fn swappiness(&self) -> u8 {
        self.config.lru.swappiness
    }

    pub(super) fn node(&self) -> u8 {
        self.config.lru.id.node
    }

    pub(super) fn global_order(&self) -> GlobalOrder {
        self.config.global_order
    }

    pub(super) fn find_mut(&mut self, group: GroupId) -> Option<&mut Member> {
        self.members.get_mut(usize::from(group.0))?.as_deref_mut()
    }

    pub(super) fn member(&self, group: GroupId) -> &Member {
        let slot = self.members.get(usize::from(group.0)).and_then(Option::as_deref);
        slot.expect("invariant: a group that exists has a lruvec")
    }

    pub(super) fn member_mut(&mut self, group: GroupId) -> &mut Member {
        self.find_mut(group).expect("invariant: a group that exists has a lruvec")
    }

    /// Checks all invariants and panics on a violation. O(folios + groups^2).
    pub fn validate(&self) {
        self.tree.validate(|group| self.member(group).charged);
        self.rotation.validate();
        let mut nr_listed = alloc::vec![0; self.members.len()];
        for frame in (0..self.folios.nr_frames()).map(FrameId) {
            let folio = &self.folios[frame];
            if folio.flags().any(Flags::ON_LIST) {
                nr_listed[usize::from(folio.group().0)] += 1;
            }
        }
        for (slot, member) in self.members.iter().enumerate() {
            let group = GroupId(slot as u16);
            let Some(member) = member else {
                assert!(!self.tree.exists(group) && nr_listed[slot] == 0, "{group} has no lruvec");
                continue;
            };
            assert!(self.tree.exists(group), "{group} has a lruvec and is gone");
            member.lruvec.validate_lists();
            assert_eq!(member.lruvec.nr_folios(), nr_listed[slot], "folios of {group}");
            assert!(nr_listed[slot] <= member.charged, "{group} holds more than it pays for");
            assert_eq!(member.seen, member.lruvec.hierarchy_counts(), "what {group} passed up");
            assert!(self.rotation.generation_of(group).is_some(), "{group} is in no rotation");
        }
    }
}
