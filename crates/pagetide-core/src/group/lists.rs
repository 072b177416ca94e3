//! A node's folios, of all groups: one lruvec, or one for each group.
//!
//! Problem: most page caches have no groups, and should not pay for any; those that have them ask
//! for the same things. Idea: one value behind the node's lock that is either, and a pass that
//! fits.
//!
//! ```text
//!   NodeLists   Whole(Lruvec)        Grouped(Groups): a lruvec each
//!   NodePass    Whole(ReclaimPass)   Grouped(GroupPass)
//! ```
//!
//! Invariant: which of the two it is, is settled when it is made. Ignored: charges and limits,
//! which a world with groups asks [`Groups`] for; moving folios between nodes with groups.

use super::groups::{Groups, GroupsConfig};
use super::pass::GroupPass;
use crate::folio::Folios;
use crate::ids::{FrameId, GroupId};
use crate::lru::lru_gen::Detail;
use crate::lru::{
    AccessLog, AccessPath, Discarded, GenCommand, GenCommandError, LruConfig, Lruvec, PolicyChoice,
    ReclaimBatch, ReclaimKind, Scan, ShadowEntry, TableWalk,
};
use crate::reclaim::{ReclaimPass, Step};
use crate::units::Millis;
use crate::vmstat::VmStat;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

/// The folios of a node. One lock of the world's protects it.
#[expect(clippy::large_enum_variant, reason = "there is one a node, and the large one is usual")]
pub enum NodeLists {
    /// Groups are not told apart.
    Whole(Lruvec),
    /// Each group's are its own.
    Grouped(Box<Groups>),
}

/// Whether a node tells groups apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grouping {
    /// One lruvec.
    Off,
    /// One for each group, of which there is the root at first.
    On,
}

/// What either of the two does.
macro_rules! either {
    ($of:ident, $self:ident, $it:ident => $call:expr) => {
        match $self {
            $of::Whole($it) => $call,
            $of::Grouped($it) => $call,
        }
    };
}

impl NodeLists {
    /// Empty lists over `folios`.
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

    /// The lruvec there is; the root's, where there are groups.
    pub fn root(&self) -> &Lruvec {
        match self {
            NodeLists::Whole(lruvec) => lruvec,
            NodeLists::Grouped(groups) => groups.lruvec(GroupId::ROOT),
        }
    }

    /// The lruvec of a node without groups: what can be moved between nodes.
    ///
    /// # Panics
    /// If there are groups.
    pub fn whole_mut(&mut self) -> &mut Lruvec {
        match self {
            NodeLists::Whole(lruvec) => lruvec,
            NodeLists::Grouped(_) => panic!("folios with groups do not move between nodes"),
        }
    }

    /// The lruvec that a folio is on, or would be.
    pub fn lruvec_of(&self, group: GroupId) -> &Lruvec {
        match self {
            NodeLists::Whole(lruvec) => lruvec,
            NodeLists::Grouped(groups) => groups.lruvec(group),
        }
    }

    /// The groups, where there are any.
    pub fn groups(&self) -> Option<&Groups> {
        match self {
            NodeLists::Whole(_) => None,
            NodeLists::Grouped(groups) => Some(groups),
        }
    }

    /// The groups, where there are any.
    pub fn groups_mut(&mut self) -> Option<&mut Groups> {
        match self {
            NodeLists::Whole(_) => None,
            NodeLists::Grouped(groups) => Some(groups),
        }
    }

    /// As [`Lruvec::tell_time`], for each.
    pub fn tell_time(&mut self, now: Millis) {
        either!(NodeLists, self, lists => lists.tell_time(now))
    }

    /// As [`Lruvec::fold_statistics`], for each.
    pub fn fold_statistics(&mut self) {
        either!(NodeLists, self, lists => lists.fold_statistics())
    }

    /// Empties an access log into the lists its folios belong on.
    #[inline]
    pub fn drain(&mut self, log: &mut AccessLog) {
        either!(NodeLists, self, lists => lists.drain(log))
    }

    /// Judges the return of an evicted page: [`Lruvec::refault`], [`Groups::refault`].
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

    /// Drops a page that went away: [`Lruvec::discard`], [`Groups::discard`].
    pub fn discard(&mut self, frame: FrameId) -> Discarded {
        either!(NodeLists, self, lists => lists.discard(frame))
    }

    /// Folios on the lists.
    pub fn nr_folios(&self) -> u64 {
        match self {
            NodeLists::Whole(lruvec) => lruvec.nr_folios(),
            NodeLists::Grouped(groups) => groups.nr_folios(GroupId::ROOT),
        }
    }

    /// The counters of all.
    pub fn vmstat(&self) -> VmStat {
        match self {
            NodeLists::Whole(lruvec) => *lruvec.vmstat(),
            NodeLists::Grouped(groups) => groups.vmstat(),
        }
    }

    /// One step of a pass: [`Lruvec::reclaim`], [`Groups::reclaim`].
    ///
    /// # Panics
    /// If the pass was made for lists of the other kind.
    #[inline]
    pub fn reclaim(&mut self, pass: &mut NodePass, batch: &mut ReclaimBatch) -> Step {
        match (self, pass) {
            (NodeLists::Whole(lruvec), NodePass::Whole(pass)) => lruvec.reclaim(pass, batch),
            (NodeLists::Grouped(groups), NodePass::Grouped(pass)) => groups.reclaim(pass, batch),
            _ => unreachable!("a pass for other lists"),
        }
    }

    /// Begins the walk that a step asked for; `None` where it is not wanted any more.
    ///
    /// # Panics
    /// As [`NodeLists::reclaim`].
    pub fn start_walk(&mut self, pass: &NodePass) -> Option<TableWalk> {
        match (self, pass) {
            (NodeLists::Whole(lruvec), NodePass::Whole(_)) => Some(lruvec.start_walk()),
            (NodeLists::Grouped(groups), NodePass::Grouped(pass)) => groups.start_walk(pass),
            _ => unreachable!("a pass for other lists"),
        }
    }

    /// Takes what a walk found since it reported last.
    ///
    /// # Panics
    /// As [`NodeLists::reclaim`].
    pub fn report_walk(&mut self, pass: &NodePass, walk: &mut TableWalk) {
        match (self, pass) {
            (NodeLists::Whole(lruvec), NodePass::Whole(_)) => lruvec.report_walk(walk),
            (NodeLists::Grouped(groups), NodePass::Grouped(pass)) => {
                groups.report_walk(pass, walk);
            }
            _ => unreachable!("a pass for other lists"),
        }
    }

    /// Writes the generations as [`Lruvec::write_lru_gen`], of each group from the root down, each
    /// under the name that `path_of` knows.
    ///
    /// # Errors
    /// Those of `out`.
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

    /// Walks everything and panics where an invariant is broken. O(folios).
    pub fn validate(&self) {
        either!(NodeLists, self, lists => lists.validate())
    }
}

/// A reclaim pass over a node's folios.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "the usual one allocates nothing")]
pub enum NodePass {
    /// Over the one lruvec.
    Whole(ReclaimPass),
    /// Over those of several groups.
    Grouped(Box<GroupPass>),
}

impl NodePass {
    /// A direct pass for a thread that finds no free frame; it makes room for one page, known by
    /// its shadow if it has one.
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

    /// A direct pass.
    pub fn direct(lists: &mut NodeLists) -> NodePass {
        NodePass::direct_for(lists, None)
    }

    /// A background pass that wants `target` pages.
    pub fn background(lists: &mut NodeLists, target: u64) -> NodePass {
        match lists {
            NodeLists::Whole(lruvec) => NodePass::Whole(ReclaimPass::background(lruvec, target)),
            NodeLists::Grouped(groups) => {
                GroupPass::global(groups, ReclaimKind::Background, Some(target)).into()
            }
        }
    }

    /// A pass that carries out a command.
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

    /// How far it is.
    pub fn scan(&self) -> &Scan {
        either!(NodePass, self, pass => &pass.scan)
    }

    fn scan_mut(&mut self) -> &mut Scan {
        either!(NodePass, self, pass => &mut pass.scan)
    }

    /// The same pass, asked for by name: `min_ttl` protects nothing from it.
    pub fn ignoring_age(mut self) -> NodePass {
        self.scan_mut().ignores_age = true;
        self
    }

    /// From here on, the world tries to demote victims first.
    pub(crate) fn demote(&mut self) {
        self.scan_mut().demotes = true;
    }

    /// Whether the world looks at the pages beside a victim that it finds young
    /// ([`ReclaimPass::looks_around`]).
    pub fn looks_around(&self) -> bool {
        either!(NodePass, self, pass => pass.looks_around())
    }
}

impl From<GroupPass> for NodePass {
    fn from(pass: GroupPass) -> NodePass {
        NodePass::Grouped(Box::new(pass))
    }
}
