//! The lists of a node: one lruvec, or one per group.
//!
//! **Problem.** Caches without groups should not pay for them. **Idea.** One value holds either,
//! with a matching pass.
//!
//! ```text
//!   NodeLists   Whole(Lruvec)        Grouped(Groups): a lruvec each
//!   NodePass    Whole(ReclaimPass)   Grouped(GroupPass)
//! ```
//!
//! **Invariant.** The choice is fixed at creation. **Ignored.** Charges and limits (see
//! [`Groups`]), and moving folios between nodes with groups.

use super::groups::{Groups, GroupsConfig};
use super::pass::GroupPass;
use crate::folio::Folios;
use crate::ids::{FrameId, GroupId};
use crate::lru::lru_gen::Detail;
use crate::lru::{
    AccessLog, AccessPath, GenCommand, GenCommandError, LruConfig, Lruvec, PolicyChoice,
    ReclaimBatch, ReclaimKind, Scan, ShadowEntry, TableWalk,
};
use crate::reclaim::{ReclaimPass, Step};
use crate::units::Millis;
use crate::vmstat::VmStat;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

/// Lists of a node. Protected by one lock of the world.
#[expect(clippy::large_enum_variant, reason = "there is one a node, and the large one is usual")]
pub enum NodeLists {
    /// One lruvec without groups.
    Whole(Lruvec),
    /// One lruvec per group.
    Grouped(Box<Groups>),
}

/// Group support of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grouping {
    /// One lruvec.
    Off,
    /// One lruvec per group. Starts with the root.
    On,
}

macro_rules! either {
    ($of:ident, $self:ident, $it:ident => $call:expr) => {
        match $self {
            $of::Whole($it) => $call,
            $of::Grouped($it) => $call,
        }
    };
}

impl NodeLists {
    /// Creates empty lists over `folios`.
    pub fn new(
        policy: impl Into<PolicyChoice>,
        config: &LruConfig,
        folios: Arc<Folios>,
        grouping: Grouping,
    ) -> NodeLists {
        let policy = policy.into();
        match grouping {
            Grouping::Off => NodeLists::Whole(Lruvec::new(policy, config, folios)),
            Grouping::On => {
                let config = GroupsConfig::of_cache(policy, *config);
                NodeLists::Grouped(Box::new(Groups::new(config, folios)))
            }
        }
    }

    /// Returns the only lruvec, or the root's.
    pub fn root(&self) -> &Lruvec {
        match self {
            NodeLists::Whole(lruvec) => lruvec,
            NodeLists::Grouped(groups) => groups.lruvec(GroupId::ROOT),
        }
    }

    /// Returns the lruvec of a node without groups.
    ///
    /// # Panics
    /// If there are groups.
    pub fn whole_mut(&mut self) -> &mut Lruvec {
        match self {
            NodeLists::Whole(lruvec) => lruvec,
            NodeLists::Grouped(_) => panic!("folios with groups do not move between nodes"),
        }
    }

    /// Returns the lruvec for a group's folios.
    pub fn lruvec_of(&self, group: GroupId) -> &Lruvec {
        match self {
            NodeLists::Whole(lruvec) => lruvec,
            NodeLists::Grouped(groups) => groups.lruvec(group),
        }
    }

    /// Returns the groups, if any.
    pub fn groups(&self) -> Option<&Groups> {
        match self {
            NodeLists::Whole(_) => None,
            NodeLists::Grouped(groups) => Some(groups),
        }
    }

    /// Returns the groups, if any.
    pub fn groups_mut(&mut self) -> Option<&mut Groups> {
        match self {
            NodeLists::Whole(_) => None,
            NodeLists::Grouped(groups) => Some(groups),
        }
    }

    /// Calls [`Lruvec::tell_time`] for each.
    pub fn tell_time(&mut self, now: Millis) {
        either!(NodeLists, self, lists => lists.tell_time(now))
    }

    /// Calls [`Lruvec::fold_statistics`] for each.
    pub fn fold_statistics(&mut self) {
        either!(NodeLists, self, lists => lists.fold_statistics())
    }

    /// Applies an access log.
    #[inline]
    pub fn drain(&mut self, log: &mut AccessLog) {
        either!(NodeLists, self, lists => lists.drain(log))
    }

    /// Calls [`Lruvec::refault`] or [`Groups::refault`].
    #[inline]
    pub fn refault(
        &mut self,
        log: &mut AccessLog,
        frame: FrameId,
        shadow: ShadowEntry,
        kind: AccessPath,
    ) {
        either!(NodeLists, self, lists => lists.refault(log, frame, shadow, kind))
    }

    /// Drops a page: [`Lruvec::discard`], [`Groups::discard`].
    pub fn discard(&mut self, frame: FrameId) {
        either!(NodeLists, self, lists => lists.discard(frame))
    }

    /// Returns the number of listed folios.
    pub fn nr_folios(&self) -> u64 {
        match self {
            NodeLists::Whole(lruvec) => lruvec.nr_folios(),
            NodeLists::Grouped(groups) => groups.nr_folios(GroupId::ROOT),
        }
    }

    /// Returns the summed counters.
    pub fn vmstat(&self) -> VmStat {
        match self {
            NodeLists::Whole(lruvec) => *lruvec.vmstat(),
            NodeLists::Grouped(groups) => groups.vmstat(),
        }
    }

    /// Calls [`Lruvec::isolate`] or [`Groups::isolate`].
    ///
    /// # Panics
    /// If the pass is for lists of another kind.
    #[inline]
    pub fn isolate(&mut self, pass: &mut NodePass, batch: &mut ReclaimBatch) -> Step {
        match (self, pass) {
            (NodeLists::Whole(lruvec), NodePass::Whole(pass)) => lruvec.isolate(pass, batch),
            (NodeLists::Grouped(groups), NodePass::Grouped(pass)) => groups.isolate(pass, batch),
            _ => unreachable!("a pass for other lists"),
        }
    }

    /// Calls [`Lruvec::settle`] or [`Groups::settle`].
    ///
    /// # Panics
    /// As [`NodeLists::isolate`].
    #[inline]
    pub fn settle(&mut self, pass: &mut NodePass, batch: &mut ReclaimBatch) {
        match (self, pass) {
            (NodeLists::Whole(lruvec), NodePass::Whole(pass)) => lruvec.settle(pass, batch),
            (NodeLists::Grouped(groups), NodePass::Grouped(pass)) => groups.settle(pass, batch),
            _ => unreachable!("a pass for other lists"),
        }
    }

    /// Starts a requested walk, if still needed.
    ///
    /// # Panics
    /// As [`NodeLists::isolate`].
    pub fn start_walk(&mut self, pass: &NodePass) -> Option<TableWalk> {
        match (self, pass) {
            (NodeLists::Whole(lruvec), NodePass::Whole(_)) => Some(lruvec.start_walk()),
            (NodeLists::Grouped(groups), NodePass::Grouped(pass)) => groups.start_walk(pass),
            _ => unreachable!("a pass for other lists"),
        }
    }

    /// Applies the findings of a walk.
    ///
    /// # Panics
    /// As [`NodeLists::isolate`].
    pub fn report_walk(&mut self, pass: &NodePass, walk: &mut TableWalk) {
        match (self, pass) {
            (NodeLists::Whole(lruvec), NodePass::Whole(_)) => lruvec.report_walk(walk),
            (NodeLists::Grouped(groups), NodePass::Grouped(pass)) => {
                groups.report_walk(pass, walk);
            }
            _ => unreachable!("a pass for other lists"),
        }
    }

    /// Writes the generations of all groups ([`Lruvec::write_lru_gen`]), named by `path_of`.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write_lru_gen(
        &self,
        out: &mut dyn fmt::Write,
        path_of: &dyn Fn(GroupId) -> String,
        detail: Detail,
    ) -> fmt::Result {
        let Some(groups) = self.groups() else {
            return self.root().write_lru_gen(out, &path_of(GroupId::ROOT), detail);
        };
        groups
            .tree()
            .subtree(GroupId::ROOT)
            .try_for_each(|group| groups.lruvec(group).write_lru_gen(out, &path_of(group), detail))
    }

    /// Checks all invariants and panics on a violation. O(folios).
    pub fn validate(&self) {
        either!(NodeLists, self, lists => lists.validate())
    }
}

/// A reclaim pass over a node.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "the usual one allocates nothing")]
pub enum NodePass {
    /// Over one lruvec.
    Whole(ReclaimPass),
    /// Over the lruvecs of groups.
    Grouped(Box<GroupPass>),
}

impl NodePass {
    /// Starts a direct pass for one page, with its shadow if known.
    #[inline]
    pub fn direct_for(lists: &mut NodeLists, incoming: Option<ShadowEntry>) -> NodePass {
        match lists {
            NodeLists::Whole(lruvec) => NodePass::Whole(ReclaimPass::direct_for(lruvec, incoming)),
            NodeLists::Grouped(groups) => {
                let mut pass = GroupPass::global(groups, ReclaimKind::Direct, None);
                pass.scan.incoming = incoming;
                pass.into()
            }
        }
    }

    /// Starts a direct pass.
    pub fn direct(lists: &mut NodeLists) -> NodePass {
        NodePass::direct_for(lists, None)
    }

    /// Starts a background pass for `target` pages.
    pub fn background(lists: &mut NodeLists, target: u64) -> NodePass {
        match lists {
            NodeLists::Whole(lruvec) => NodePass::Whole(ReclaimPass::background(lruvec, target)),
            NodeLists::Grouped(groups) => {
                GroupPass::global(groups, ReclaimKind::Background, Some(target)).into()
            }
        }
    }

    /// Starts a pass for a command.
    ///
    /// # Errors
    /// As [`ReclaimPass::on_command`].
    pub fn on_command(
        lists: &mut NodeLists,
        command: &GenCommand,
    ) -> Result<NodePass, GenCommandError> {
        match lists {
            NodeLists::Whole(lruvec) => {
                ReclaimPass::on_command(lruvec, command).map(NodePass::Whole)
            }
            NodeLists::Grouped(groups) => GroupPass::on_command(groups, command).map(Into::into),
        }
    }

    /// Returns the progress.
    pub fn scan(&self) -> &Scan {
        either!(NodePass, self, pass => &pass.scan)
    }

    fn scan_mut(&mut self) -> &mut Scan {
        either!(NodePass, self, pass => &mut pass.scan)
    }

    /// Disables protection by `min_ttl`, for explicit requests.
    pub fn ignoring_age(mut self) -> NodePass {
        self.scan_mut().ignores_age = true;
        self
    }

    /// Isolates and tries the victims one by one, so that the pass evicts no more than its target.
    /// The kernel's policies otherwise evict whole batches. A forced pass ignores the protections
    /// that may starve reclaim.
    pub(crate) fn one_by_one(mut self, is_forced: bool) -> NodePass {
        let scan = self.scan_mut();
        scan.victims_max = 1;
        scan.forced = is_forced;
        self
    }

    /// Makes the world try demotion first.
    pub(crate) fn demote(&mut self) {
        self.scan_mut().demotes = true;
    }

    /// Returns true if the world looks around young victims ([`ReclaimPass::looks_around`]).
    pub fn looks_around(&self) -> bool {
        either!(NodePass, self, pass => pass.looks_around())
    }
}

impl From<GroupPass> for NodePass {
    fn from(pass: GroupPass) -> NodePass {
        NodePass::Grouped(Box::new(pass))
    }
}
