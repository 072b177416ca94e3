//! The groups with their lruvecs: what a world with several groups talks to instead of one lruvec.
//!
//! Each call finds the group that pays for the folio and hands on to its [`Lruvec`]; afterwards it
//! passes up what ancestors count, too. The order in which a page comes:
//!
//! ```text
//!   charge(group) --full?--> reclaim for the group named, then again
//!   a frame, bind, own(frame, group), refault(shadow), log.add          usage + 1
//!   ...
//!   reclaim or discard: the frame is free                               usage - 1
//! ```
//!
//! Invariants ([`Groups::validate`]): every charged page is a frame owned by its group or on its
//! way to be one; every folio on a list is on its group's; a group that was removed keeps its
//! lruvec until its last page is gone.
//!
//! Ignored: nodes (there is one), moving charges between groups.

use super::rotation::{GroupLru, RotationOp};
use super::tree::{
    CreateGroupError, GroupConfig, GroupTree, OverLimit, Released, RemoveGroupError, UNLIMITED,
};
use crate::folio::{Flags, Folios};
use crate::ids::{FrameId, GroupId, PageType};
use crate::lru::refault_distance::{HierarchyCounts, ListPages};
use crate::lru::{
    AccessLog, AccessPath, AccessRule, Discarded, Logged, LruConfig, Lruvec, LruvecId,
    PolicyChoice, ShadowEntry,
};
use crate::units::Millis;
use crate::vmstat::VmStat;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// In which order global reclaim visits the groups.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GlobalOrder {
    /// By the group LRU ([`GroupLru`]), as the multi-gen LRU does it. For policies that never age
    /// it is a random start.
    Rotation,
    /// All groups in turn, from where the last pass stopped: the older way, and what reclaim for a
    /// group's limit does in either case.
    Walk,
}

/// What holds for all groups.
#[derive(Clone, Copy, Debug)]
pub struct GroupsConfig {
    /// The policy of every lruvec.
    pub policy: PolicyChoice,
    /// What each lruvec is told; its id is replaced by the group's. Each has room for all
    /// `nr_frames`, and policies with tables of that length pay for them once a group.
    pub lru: LruConfig,
    /// The root's limit, in pages: [`UNLIMITED`](super::UNLIMITED) where frames are the limit.
    pub limit: u64,
    /// The order of global reclaim.
    pub global_order: GlobalOrder,
    /// What the group LRU draws its bins from.
    pub seed: u64,
}

/// A group's lruvec, and what is known of it.
pub(super) struct Member {
    pub(super) lruvec: Lruvec,
    /// What its ancestors have counted of it.
    seen: HierarchyCounts,
    /// Pages charged to the group itself.
    charged: u64,
    /// The group that reclaim for this one's limit visited last.
    pub(super) last_visited: GroupId,
}

/// All groups. One lock of the world's protects it.
pub struct Groups {
    tree: GroupTree,
    /// By group id.
    members: Vec<Option<Box<Member>>>,
    pub(super) rotation: GroupLru,
    config: GroupsConfig,
    folios: Arc<Folios>,
    now: Millis,
    /// What was counted for groups that are gone.
    vmstat_gone: VmStat,
}

impl GroupsConfig {
    /// The groups of a page cache, whose frames are the root's limit.
    pub fn of_cache(policy: PolicyChoice, lru: LruConfig) -> GroupsConfig {
        let global_order = GlobalOrder::Rotation;
        GroupsConfig { policy, lru, limit: UNLIMITED, global_order, seed: 0 }
    }
}

impl Groups {
    /// The root alone, over `folios`.
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
    /// [`CreateGroupError`]: no such parent, or no id left.
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

    /// Removes a group. Its pages stay where they are until reclaim takes them, which prefers them.
    ///
    /// # Errors
    /// [`RemoveGroupError`]: it is the root, has children, or is not there.
    pub fn remove(&mut self, group: GroupId) -> Result<(), RemoveGroupError> {
        let released = self.tree.remove(group)?;
        self.rotation.apply(group, RotationOp::Old);
        self.release(released);
        Ok(())
    }

    /// Changes what a group is given. A limit below its usage holds from the next charge on.
    ///
    /// # Panics
    /// If the group was removed.
    pub fn set_config(&mut self, group: GroupId, config: GroupConfig) {
        assert!(self.tree.is_online(group), "{group} was removed");
        self.tree.set_config(group, config);
    }

    /// The groups without their lruvecs: usage, limits, protection.
    pub fn tree(&self) -> &GroupTree {
        &self.tree
    }

    /// The lruvec of a group.
    ///
    /// # Panics
    /// If there is no such group.
    pub fn lruvec(&self, group: GroupId) -> &Lruvec {
        &self.member(group).lruvec
    }

    /// The counters of all groups together, those that are gone included. O(groups).
    pub fn vmstat(&self) -> VmStat {
        let mut sum = self.vmstat_gone;
        self.members.iter().flatten().for_each(|member| sum.merge(member.lruvec.vmstat()));
        sum
    }

    /// How descriptor accesses are noted; the hit plane keeps a copy.
    pub fn access_rule(&self) -> AccessRule {
        self.lruvec(GroupId::ROOT).access_rule()
    }

    /// Charges a page to a group, before a frame is looked for.
    ///
    /// # Errors
    /// [`OverLimit`]: the group whose limit stands in the way; reclaim for it, then charge again.
    ///
    /// # Panics
    /// If the group was removed.
    pub fn charge(&mut self, group: GroupId) -> Result<(), OverLimit> {
        self.tree.charge(group, 1)?;
        self.member_mut(group).charged += 1;
        Ok(())
    }

    /// Takes a charge back for which no frame was found.
    pub fn cancel_charge(&mut self, group: GroupId) {
        self.uncharge(group);
    }

    /// Names the group that was charged for a frame. The frame is bound, and in no log yet.
    pub fn own(&mut self, frame: FrameId, group: GroupId) {
        self.folios[frame].set_group(group);
    }

    pub(super) fn uncharge(&mut self, group: GroupId) {
        self.member_mut(group).charged -= 1;
        let released = self.tree.uncharge(group, 1);
        self.release(released);
    }

    /// Drops the lruvecs of groups that are gone.
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

    /// Empties an access log into the lruvecs its folios belong to.
    pub fn drain(&mut self, log: &mut AccessLog) {
        for entry in log.drain() {
            let (Logged::Add(frame) | Logged::Touch(frame) | Logged::Rotate(frame)) = entry;
            let group = self.folios[frame].group();
            // A stale entry may name a frame whose group is gone.
            if let Some(member) = self.find_mut(group) {
                member.lruvec.apply_entries([entry]);
                self.propagate_counts(group);
            }
        }
    }

    /// Judges the return of an evicted page; `frame` is bound to it, owned, and not logged yet.
    ///
    /// Policies that count refault distances judge it by the clock it was evicted by; a group that
    /// is gone has none, and its pages count as new.
    ///
    /// # Cost
    /// O(depth + groups below the one it was evicted for).
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

    /// The lists of a group and those below it.
    fn list_pages_below(&mut self, top: GroupId) -> ListPages {
        let mut sum = ListPages::default();
        let mut at = Some(top);
        while let Some(group) = at {
            sum = sum.plus(&self.member_mut(group).lruvec.list_pages());
            at = self.tree.next_in_subtree(top, group);
        }
        sum
    }

    /// Folios on the lists of a group and those below it. O(groups below).
    pub fn nr_folios(&self, top: GroupId) -> u64 {
        self.tree.subtree(top).map(|group| self.member(group).lruvec.nr_folios()).sum()
    }

    /// Drops a page that went away: its frame leaves without a shadow, and is uncharged by what
    /// frees it: this call, or the pass that has it isolated.
    pub fn discard(&mut self, frame: FrameId) -> Discarded {
        let group = self.folios[frame].group();
        let discarded = self.member_mut(group).lruvec.discard(frame);
        if discarded == Discarded::Freed {
            self.uncharge(group);
        }
        discarded
    }

    /// Reports folios that were found young through a table, each to its own lruvec.
    pub fn report_young(&mut self, young: &[FrameId]) {
        self.report_young_outside(young, None);
    }

    /// The same, but for those of one group, which reports them itself.
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

    /// Sums up the statistics of all lruvecs ([`Lruvec::fold_statistics`]).
    pub fn fold_statistics(&mut self) {
        self.members.iter_mut().flatten().for_each(|member| member.lruvec.fold_statistics());
    }

    /// Lets the ancestors of a group count what its lruvec counted since the last time.
    pub(super) fn propagate_counts(&mut self, group: GroupId) {
        let Some(member) = self.find_mut(group) else { return };
        let now = member.lruvec.hierarchy_counts();
        let new = now.since(&member.seen);
        member.seen = now;
        if let (Some(parent), true) = (self.tree.parent(group), new != HierarchyCounts::default()) {
            self.count_in_lineage(parent, &new);
        }
    }

    /// Counts what was counted below `group` there, and in all its ancestors.
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

    /// The swappiness that lruvecs were built with.
    pub(super) fn swappiness(&self) -> u8 {
        self.config.lru.swappiness
    }

    /// The node of all lruvecs.
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

    /// Walks everything and panics where an invariant is broken. O(folios + groups^2).
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
