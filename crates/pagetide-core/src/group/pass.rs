//! A reclaim pass over several lruvecs.
//!
//! # Problem
//!
//! The pass needs an order of lruvecs, an amount for each, and a fallback if all are protected.
//!
//! # Idea
//!
//! The state machine of [`ReclaimPass`], cut into visits: one lruvec at one priority.
//!
//! ```text
//!   round        normal --nothing freed--> forced --> all groups --> low overridden
//!                (forced if a policy asks for it, all groups after the group LRU skipped young,
//!                the last if low spared a group, but not in the background)
//!   priority     12, 11, ... 0, until enough is freed
//!   visits       group's limit: its subtree in turn, from the end of the last pass
//!                all memory: the old generation of the group LRU, from a random bin
//!   each visit   skipped below min, and below low except in the last round,
//!                else (size - protected share) >> priority, down to the protection
//! ```
//!
//! Groups give in proportion to size if the pass completes its round. A pass that stops early takes
//! from the groups met, and the next starts elsewhere.
//!
//! Removed groups come first, fully scanned at every priority. A visit ends at the group's
//! protection, so a group loses at most one batch (64 pages) too many.
//!
//! The lock is free between steps. A removed group may lose its last page to another pass, which
//! ends its visit and its own passes.
//!
//! Ignored: node order. Policies without priorities (the baselines) take all from the first group
//! that has enough.
//!
//! Sources: Linux 6.18's multi-gen LRU. `Documentation/admin-guide/cgroup-v2.rst` (`memory.min`,
//! `memory.low`, `memory.reclaim`).

use super::groups::{GlobalOrder, Groups};
use super::protection::Protection;
use super::rotation::Visit;
use crate::ids::GroupId;
use crate::lru::refault_distance::{CauseClock, HierarchyCounts, NonresidentAge};
use crate::lru::{
    GenCommand, GenCommandError, GroupScan, Lruvec, LruvecId, ReclaimBatch, ReclaimKind, Scan,
    Settled, TableWalk,
};
use crate::reclaim::{ReclaimPass, Step};
use crate::vmstat::Counter;
use alloc::vec::Vec;

/// Rounds, in order, until something is freed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Round {
    Normal,
    /// The policies' own protections are off.
    Forced,
    /// All groups in turn, young ones of the group LRU included.
    AllGroups,
    /// Low protection is off.
    LowOverridden,
}

#[derive(Debug)]
struct Visiting {
    group: GroupId,
    pass: ReclaimPass,
    /// Generations started before the visit.
    nr_aged: u64,
}

/// One pass over a group and its descendants.
#[derive(Debug)]
pub struct GroupPass {
    /// Progress over all visits.
    pub scan: Scan,
    cause: GroupId,
    round: Round,
    order: GlobalOrder,
    swappiness: Option<u8>,
    priority_first: u8,
    queue: Vec<GroupId>,
    nr_visited: usize,
    visiting: Option<Visiting>,
    spared_low: bool,
    is_over: bool,
}

impl GroupPass {
    /// Starts a direct pass for a group at its limit, with the policy's target.
    ///
    /// # Panics
    /// If the group does not exist.
    pub fn for_limit(groups: &mut Groups, cause: GroupId) -> GroupPass {
        let plan = groups.lruvec(cause).policy.plan_pass(ReclaimKind::Direct, None);
        GroupPass::new(groups, cause, Scan::new(ReclaimKind::Direct, plan.target))
    }

    /// Starts a pass for all memory. `None` is the policy's target for direct reclaim.
    pub fn global(groups: &mut Groups, kind: ReclaimKind, target: Option<u64>) -> GroupPass {
        let plan = groups.lruvec(GroupId::ROOT).policy.plan_pass(kind, target);
        let mut scan = Scan::new(kind, plan.target);
        scan.group.is_global = true;
        GroupPass::new(groups, GroupId::ROOT, scan)
    }

    /// Starts a requested pass for `nr_pages` of a group and its descendants.
    ///
    /// # Panics
    /// If the group does not exist.
    pub fn proactive(
        groups: &mut Groups,
        group: GroupId,
        nr_pages: u64,
        swappiness: Option<u8>,
    ) -> GroupPass {
        let mut pass = GroupPass::new(groups, group, Scan::new(ReclaimKind::Direct, nr_pages));
        pass.swappiness = swappiness;
        pass
    }

    /// Starts a pass for usage above a lowered limit, if any.
    ///
    /// # Panics
    /// If the group does not exist.
    pub fn above_limit(groups: &mut Groups, group: GroupId) -> Option<GroupPass> {
        let tree = groups.tree();
        let nr_above = tree.usage(group).saturating_sub(tree.config(group).limit);
        (nr_above > 0).then(|| GroupPass::proactive(groups, group, nr_above, None))
    }

    /// Starts a pass for a command on one group's lruvec.
    ///
    /// # Errors
    /// As [`ReclaimPass::on_command`]. A missing group is a missing lruvec.
    pub fn on_command(
        groups: &mut Groups,
        command: &GenCommand,
    ) -> Result<GroupPass, GenCommandError> {
        let group = GroupId(command.lruvec.group);
        if !groups.tree().exists(group) {
            return Err(GenCommandError::NoLruvec);
        }
        let visit = ReclaimPass::on_command(groups.lruvec(group), command)?;
        let mut pass = GroupPass::new(groups, group, visit.scan);
        pass.visiting = Some(Visiting { group, pass: visit, nr_aged: 0 });
        Ok(pass)
    }

    fn new(groups: &mut Groups, cause: GroupId, scan: Scan) -> GroupPass {
        let is_global = scan.group.is_global;
        let plan = |group| groups.lruvec(group).policy.plan_pass(scan.kind, Some(scan.target));
        let priorities = groups.tree().subtree(cause).map(|group| plan(group).priority);
        let priority_first = priorities.max().unwrap_or(0);
        let order = if is_global { groups.global_order() } else { GlobalOrder::Walk };
        let mut pass = GroupPass {
            scan: Scan { priority: priority_first, ..scan },
            cause,
            round: Round::Normal,
            order,
            swappiness: None,
            priority_first,
            queue: Vec::new(),
            nr_visited: 0,
            visiting: None,
            spared_low: false,
            is_over: false,
        };
        groups.fill_queue(&mut pass);
        pass
    }

    /// Returns the pages freed. 0 at the end means that nothing can be taken.
    pub fn nr_reclaimed(&self) -> u64 {
        self.scan.reclaimed
    }

    /// Returns the group at its limit. The root also stands for all memory.
    pub fn cause(&self) -> GroupId {
        self.cause
    }

    /// Returns true if the world looks around young victims ([`ReclaimPass::looks_around`]).
    pub fn looks_around(&self) -> bool {
        self.visiting.as_ref().is_some_and(|visiting| visiting.pass.looks_around())
    }

    /// A background pass for a limit completes its round.
    fn may_stop(&self) -> bool {
        let gets_around =
            self.scan.kind == ReclaimKind::Background && self.order == GlobalOrder::Walk;
        self.scan.is_satisfied() && !gets_around
    }

    fn visited(&self) -> GroupId {
        self.visiting.as_ref().map_or(self.cause, |visiting| visiting.group)
    }

    fn overrides_low(&self) -> bool {
        self.round == Round::LowOverridden
    }

    /// Returns false in the background, where no access waits.
    fn may_override_low(&self) -> bool {
        let waits = self.scan.kind == ReclaimKind::Background && !self.scan.ignores_age;
        !waits && self.round < Round::LowOverridden
    }
}

impl Groups {
    /// Isolates victims, as [`Lruvec::isolate`].
    pub fn isolate(&mut self, pass: &mut GroupPass, batch: &mut ReclaimBatch) -> Step {
        while !pass.is_over {
            if !self.tree().exists(pass.cause) {
                // The removed cause lost its last page.
                pass.is_over = true;
                break;
            }
            if let Some(mut visiting) = pass.visiting.take() {
                let isolate = |lruvec: &mut Lruvec, visit: &mut _| lruvec.isolate(visit, batch);
                let step = self.visit(pass, &mut visiting, isolate).unwrap_or(Step::Done);
                if step != Step::Done {
                    pass.visiting = Some(visiting);
                    return step;
                }
                self.end_visit(pass, &visiting);
                pass.is_over = pass.scan.command.is_some();
                continue;
            }
            self.next_visit(pass);
        }
        Step::Done
    }

    /// Starts the walk for [`Step::WalkTables`], unless the group is gone.
    pub fn start_walk(&mut self, pass: &GroupPass) -> Option<TableWalk> {
        Some(self.find_mut(pass.visited())?.lruvec.start_walk())
    }

    /// Applies the findings of a walk.
    pub fn report_walk(&mut self, pass: &GroupPass, walk: &mut TableWalk) {
        let group = pass.visited();
        self.report_young_outside(&walk.found_so_far().frames, Some(group));
        let Some(member) = self.find_mut(group) else { return walk.forget_reported() };
        member.lruvec.report_walk(walk);
        self.propagate_counts(group);
    }

    /// Settles the victims, as [`Lruvec::settle`]. Evicted pages are uncharged.
    pub fn settle(&mut self, pass: &mut GroupPass, batch: &mut ReclaimBatch) {
        let Some(mut visiting) = pass.visiting.take() else { return };
        let (group, nr_settled) = (visiting.group, batch.settled.len());
        self.report_young_outside(batch.young_around(), Some(group));
        self.visit(pass, &mut visiting, |lruvec, visit| lruvec.settle(visit, batch));
        pass.visiting = Some(visiting);
        for settled in &batch.settled[nr_settled..] {
            match settled {
                Settled::Evicted { .. } => self.uncharge(group),
                // The group still pays for the page.
                Settled::Demoted { .. } => {}
            }
        }
    }

    /// Calls `work` with the lruvec and the pass of a visit. Returns `None` if the group is gone.
    fn visit<T>(
        &mut self,
        pass: &mut GroupPass,
        visiting: &mut Visiting,
        work: impl FnOnce(&mut Lruvec, &mut ReclaimPass) -> T,
    ) -> Option<T> {
        let Visiting { group, pass: visit, .. } = visiting;
        let (group, is_cause) = (*group, *group == pass.cause);
        let age = NonresidentAge::new(self.lruvec(pass.cause).hierarchy_counts().age);
        let id = LruvecId { group: pass.cause.0, node: self.node() };
        visit.scan.group.clock = (!is_cause).then_some(CauseClock { id, age });
        let usual = self.swappiness();
        let asked = pass.swappiness.unwrap_or(usual);
        // A removed group goes with its last page.
        let lruvec = &mut self.find_mut(group)?.lruvec;
        lruvec.set_swappiness(asked);
        let done = work(lruvec, visit);
        lruvec.set_swappiness(usual);
        if let Some(clock) = visit.scan.group.clock {
            let moved = clock.age.read().wrapping_sub(age.read());
            self.count_in_lineage(pass.cause, &HierarchyCounts { age: moved, cost: [0; 2] });
        }
        self.propagate_counts(group);
        let Scan { priority, .. } = pass.scan;
        let group = GroupScan { is_global: pass.scan.group.is_global, ..Default::default() };
        pass.scan = Scan { priority, group, ..visit.scan };
        Some(done)
    }

    fn end_visit(&mut self, pass: &GroupPass, visiting: &Visiting) {
        let group = visiting.group;
        if pass.order == GlobalOrder::Walk {
            // The removed cause may have just lost its last page.
            if let Some(cause) = self.find_mut(pass.cause) {
                cause.last_visited = group;
            }
            return;
        }
        let Some(member) = self.find_mut(group) else { return };
        let has_aged = member.lruvec.vmstat().read(Counter::LruGenAged) > visiting.nr_aged;
        let is_left = member.lruvec.nr_folios() > 0;
        let visit = if !self.tree().is_online(group) {
            if is_left { Visit::Scanned } else { Visit::RemovedOrSmall }
        } else if has_aged {
            Visit::Aged
        } else {
            Visit::Scanned
        };
        self.rotation.visited(group, visit);
    }

    /// Starts the next visit, or ends the pass.
    fn next_visit(&mut self, pass: &mut GroupPass) {
        while !pass.is_over {
            if pass.may_stop() {
                self.end_round(pass);
            } else if let Some(&group) = pass.queue.get(pass.nr_visited) {
                pass.nr_visited += 1;
                if self.tree().exists(group) && self.begin_visit(pass, group) {
                    return;
                }
            } else if pass.scan.is_satisfied() || pass.scan.priority == 0 {
                self.end_round(pass);
            } else {
                pass.scan.priority -= 1;
                self.fill_queue(pass);
            }
        }
    }

    /// Starts a visit, unless the group is spared.
    fn begin_visit(&mut self, pass: &mut GroupPass, group: GroupId) -> bool {
        let protection = self.tree().protection(group, pass.cause);
        let is_removed = !self.tree().is_online(group);
        let is_small = self.lruvec(group).nr_folios() >> pass.scan.priority == 0;
        let left_alone = if protection.is_below_min() {
            Some(Visit::BelowMin)
        } else if protection.is_below_low() && !pass.overrides_low() {
            pass.spared_low = true;
            Some(Visit::BelowLow)
        } else if is_small && !is_removed {
            Some(Visit::RemovedOrSmall)
        } else {
            None
        };
        if let Some(visit) = left_alone {
            if pass.order == GlobalOrder::Rotation {
                self.rotation.visited(group, visit);
            }
            return false;
        }
        pass.spared_low |= protection.low > protection.min && !pass.overrides_low();
        let priority = if is_removed { 0 } else { pass.scan.priority };
        let scan = Scan { priority, group: scan_of(pass, &protection), ..pass.scan };
        let lruvec = self.lruvec(group);
        let nr_aged = lruvec.vmstat().read(Counter::LruGenAged);
        let visit = ReclaimPass::visit(lruvec, scan);
        pass.visiting = Some(Visiting { group, pass: visit, nr_aged });
        true
    }

    fn end_round(&mut self, pass: &mut GroupPass) {
        let mut asks_again = false;
        let mut at = Some(pass.cause);
        while let Some(group) = at {
            let lruvec = &mut self.member_mut(group).lruvec;
            let (policy, mut cx) = lruvec.parts();
            asks_again |= policy.end_pass(&mut cx, &pass.scan);
            at = self.tree().next_in_subtree(pass.cause, group);
        }
        let is_fruitless = pass.scan.reclaimed == 0;
        pass.round = if is_fruitless && asks_again && pass.round < Round::Forced {
            Round::Forced
        } else if is_fruitless && pass.order == GlobalOrder::Rotation {
            pass.order = GlobalOrder::Walk;
            Round::AllGroups
        } else if is_fruitless && pass.spared_low && pass.may_override_low() {
            Round::LowOverridden
        } else {
            pass.is_over = true;
            return;
        };
        pass.scan.forced |= pass.round == Round::Forced;
        pass.scan.priority = pass.priority_first;
        self.fill_queue(pass);
    }

    /// Lists the groups to visit. O(descendants of the cause).
    fn fill_queue(&mut self, pass: &mut GroupPass) {
        pass.nr_visited = 0;
        if pass.order == GlobalOrder::Rotation {
            self.rotation.order(&mut pass.queue);
        } else {
            pass.queue.clear();
            pass.queue.extend(self.tree().subtree(pass.cause));
            let last = self.member(pass.cause).last_visited;
            let next = pass.queue.iter().position(|group| *group == last).map_or(0, |at| at + 1);
            pass.queue.rotate_left(next);
        }
        // Removed groups go first.
        pass.queue.sort_by_key(|group| self.tree().is_online(*group));
    }
}

fn scan_of(pass: &GroupPass, protection: &Protection) -> GroupScan {
    let share = protection.share(pass.overrides_low());
    let spare = protection.usage.saturating_sub(share.protected);
    GroupScan {
        is_global: pass.scan.group.is_global,
        share,
        clock: None,
        end: (share.protected > 0).then_some(pass.scan.reclaimed + spare),
    }
}
