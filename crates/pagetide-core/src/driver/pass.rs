//! A reclaim pass, driven to its end, and what passes are made for.
//!
//! ```text
//!   lists, lent: settle, isolate --> publish what was settled --> do what the step says --.
//!        ^                                                                                |
//!        '--------------------------------------------------------------------------------'
//! ```

use super::{Driven, DrivenPass, FIRST, tables, trial};
use crate::group::{NodeLists, NodePass};
use crate::ids::{GroupId, NodeId};
use crate::lru::ShadowEntry;
use crate::lru::lru_gen::{Detail, GenCommandError, parse_commands};
use crate::reclaim::{ReclaimBatch, ReclaimKind, Scan, Step};
use ::alloc::string::String;

/// A pass, and what it said is next.
#[derive(Debug)]
pub(super) struct PassUnderWay {
    node: NodeId,
    pass: NodePass,
    next: Option<Step>,
}

impl PassUnderWay {
    /// A pass over the node, before its first step.
    pub(super) fn new<W: Driven>(world: &W, node: NodeId, pass: NodePass) -> PassUnderWay {
        let pass = if world.demotes(node) { pass.demoting() } else { pass };
        PassUnderWay { node, pass, next: None }
    }

    pub(super) fn scan(&self) -> &Scan {
        self.pass.scan()
    }

    pub(super) fn is_over(&self) -> bool {
        self.next == Some(Step::Done)
    }

    /// Does what the last step said, then asks for the next and publishes what it settled.
    #[inline]
    pub(super) fn step<P: DrivenPass>(&mut self, world: &mut P, batch: &mut ReclaimBatch) {
        let PassUnderWay { node, pass, next } = self;
        match next {
            None | Some(Step::Done) => {}
            Some(Step::TryEvict) => trial::try_victims(world, *node, pass, batch),
            Some(Step::Look) => trial::look_at_victims(world, batch),
            Some(Step::WalkTables) => tables::walk(world, *node, pass),
        }
        *next = Some(world.lend_lists(*node, |lists| lists.reclaim(pass, batch)));
        trial::publish(world, batch);
    }
}

/// Makes the pass over the node.
pub fn reclaim<W: Driven>(world: &mut W, node: NodeId, pass: NodePass) -> Scan {
    let mut under_way = PassUnderWay::new(world, node, pass);
    let scan = world.in_pass(node, |world, batch| {
        while !under_way.is_over() {
            under_way.step(world, batch);
        }
        *under_way.scan()
    });
    if scan.wants_flusher() {
        world.wake_flusher();
    }
    scan
}

/// One direct pass, of a thread that needs a frame of the node; returns the frames freed.
pub fn reclaim_directly<W: Driven>(world: &mut W, node: NodeId) -> u64 {
    reclaim_for_page(world, node, None)
}

/// The same, which makes room for a page, known by its shadow if it has one.
#[inline]
pub fn reclaim_for_page<W: Driven>(
    world: &mut W,
    node: NodeId,
    incoming: Option<ShadowEntry>,
) -> u64 {
    world.count_pass(ReclaimKind::Direct);
    let pass = world.lend_current(node, |lists| NodePass::direct_for(lists, incoming));
    reclaim(world, node, pass).reclaimed
}

/// Frees at least `target` frames of the node if it can, however young their pages are; returns
/// how many.
pub fn reclaim_on_demand<W: Driven>(world: &mut W, node: NodeId, target: u64) -> u64 {
    let start = |lists: &mut NodeLists| NodePass::background(lists, target).ignoring_age();
    let pass = world.lend_current(node, start);
    reclaim(world, node, pass).reclaimed
}

/// Carries out commands in the shape of `lru_gen`, in order, up to the first that cannot be;
/// returns how many pages were evicted.
///
/// # Errors
/// [`GenCommandError`], for that one.
pub fn command_lru_gen<W: Driven>(world: &mut W, text: &str) -> Result<u64, GenCommandError> {
    tell_all(world);
    let mut nr_evicted = 0;
    for command in parse_commands(text) {
        let command = command?;
        let start = |lists: &mut NodeLists| NodePass::on_command(lists, &command);
        let pass = world.lend_current(FIRST, start)?;
        nr_evicted += reclaim(world, FIRST, pass).reclaimed;
    }
    Ok(nr_evicted)
}

/// Describes the generations in the shape of `lru_gen`, their ages up to date; `path_of` names the
/// groups.
pub fn describe_lru_gen<W: Driven>(
    world: &mut W,
    path_of: &dyn Fn(GroupId) -> String,
    detail: Detail,
) -> String {
    tell_all(world);
    let mut text = String::new();
    for nth in 0..world.nr_nodes() {
        let write = |lists: &mut NodeLists| lists.write_lru_gen(&mut text, path_of, detail);
        world.lend_current(NodeId(nth), write).expect("a string has room");
    }
    text
}

/// On request, what other CPUs have not told yet counts, too.
fn tell_all<W: Driven>(world: &mut W) {
    (0..world.nr_nodes()).for_each(|nth| world.drain_logs(NodeId(nth)));
}
