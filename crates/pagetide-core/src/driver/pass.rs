//! Runs reclaim passes.
//!
//! ```text
//!   lists locked: isolate, try, settle --> unlocked: publish the victims, walk tables ---.
//!        ^                                                                              |
//!        '------------------------------------------------------------------------------'
//! ```

use super::{Driven, DrivenPass, FIRST, tables, victims};
use crate::group::{NodeLists, NodePass};
use crate::ids::{GroupId, NodeId};
use crate::lru::lru_gen::Detail;
use crate::lru::{GenCommandError, ReclaimBatch, ReclaimKind, Scan, ShadowEntry, parse_commands};
use crate::reclaim::Step;
use ::alloc::string::String;

/// Passes of [`reclaim_one`]: a usual one, then forced ones. The first forced pass of the two lists
/// may only deactivate.
const FORCED: [bool; 3] = [false, true, true];

/// Runs a pass. The result is in its scan.
#[inline]
pub fn reclaim<W: Driven>(world: &mut W, node: NodeId, pass: &mut NodePass) {
    prepare(world, node, pass);
    world.in_pass(node, |world, batch| {
        loop {
            match evict_batch(world, node, pass, batch) {
                Step::Done => break,
                Step::WalkTables if !world.may_walk() => break,
                Step::WalkTables => tables::walk(world, node, pass),
                Step::TryEvict | Step::Look => {}
            }
        }
    });
    end(world, node, pass.scan());
}

#[inline]
pub(super) fn prepare<W: Driven>(world: &W, node: NodeId, pass: &mut NodePass) {
    if world.demotes(node) {
        pass.demote();
    }
}

/// Isolates, tries and settles victims with the lists locked, then publishes them.
#[inline]
fn evict_batch<P: DrivenPass>(
    world: &mut P,
    node: NodeId,
    pass: &mut NodePass,
    batch: &mut ReclaimBatch,
) -> Step {
    world.lock_lists(node);
    let step = world.lists(node).isolate(pass, batch);
    try_and_settle(world, node, pass, step, batch);
    // A victim may be tried once more. Other threads must not find it off the lists.
    while batch.has_victims() {
        try_and_settle(world, node, pass, Step::TryEvict, batch);
    }
    world.unlock_lists();
    victims::publish(world, batch);
    step
}

/// Tries and settles the victims of a step. The lists are locked.
#[inline]
pub(super) fn try_and_settle<P: DrivenPass>(
    world: &mut P,
    node: NodeId,
    pass: &mut NodePass,
    step: Step,
    batch: &mut ReclaimBatch,
) {
    match step {
        Step::TryEvict => victims::try_victims(world, node, pass, batch),
        Step::Look => victims::look_at_victims(world, batch),
        Step::WalkTables | Step::Done => return,
    }
    world.lists(node).settle(pass, batch);
}

#[inline]
pub(super) fn end<W: Driven>(world: &mut W, node: NodeId, scan: &Scan) {
    world.end_pass(node, scan);
    if scan.wants_flusher() {
        world.wake_flusher();
    }
}

/// Runs a direct pass. Returns the frames freed.
pub fn reclaim_directly<W: Driven>(world: &mut W, node: NodeId) -> u64 {
    reclaim_for_page(world, node, None)
}

/// Same, for one page with its shadow if known.
#[inline]
pub fn reclaim_for_page<W: Driven>(
    world: &mut W,
    node: NodeId,
    incoming: Option<ShadowEntry>,
) -> u64 {
    world.count_pass(ReclaimKind::Direct);
    let mut pass = world.lend_current(node, |lists| NodePass::direct_for(lists, incoming));
    reclaim(world, node, &mut pass);
    pass.scan().reclaimed
}

/// Frees at least `target` frames if possible, regardless of age. Returns the number.
pub fn reclaim_on_demand<W: Driven>(world: &mut W, node: NodeId, target: u64) -> u64 {
    let start = |lists: &mut NodeLists| NodePass::background(lists, target).ignoring_age();
    let mut pass = world.lend_current(node, start);
    reclaim(world, node, &mut pass);
    pass.scan().reclaimed
}

/// Evicts the page that the policy would evict next, regardless of age. Returns false if
/// three passes evict nothing: every page is in use, or there is none.
pub fn reclaim_one<W: Driven>(world: &mut W, node: NodeId) -> bool {
    FORCED.into_iter().any(|is_forced| {
        world.count_pass(ReclaimKind::Background);
        let mut pass = world.lend_current(node, |lists| {
            NodePass::background(lists, 1).ignoring_age().one_by_one(is_forced)
        });
        reclaim(world, node, &mut pass);
        pass.scan().reclaimed > 0
    })
}

/// Frees at least `target` frames for runs of frames if possible. Returns the number.
pub fn reclaim_for_runs<W: Driven>(world: &mut W, target: u64) -> u64 {
    // Frames kept on per-CPU lists leave holes.
    world.set_reclaim_active(FIRST, true);
    world.count_pass(ReclaimKind::Background);
    let mut pass = world.lend_current(FIRST, |lists| NodePass::background(lists, target));
    reclaim(world, FIRST, &mut pass);
    world.set_reclaim_active(FIRST, false);
    pass.scan().reclaimed
}

/// Executes `lru_gen` commands up to the first failure. Returns the pages evicted.
///
/// # Errors
/// [`GenCommandError`] of the failed command.
pub fn command_lru_gen<W: Driven>(world: &mut W, text: &str) -> Result<u64, GenCommandError> {
    drain_all_logs(world);
    let mut nr_evicted = 0;
    for command in parse_commands(text) {
        let command = command?;
        let start = |lists: &mut NodeLists| NodePass::on_command(lists, &command);
        let mut pass = world.lend_current(FIRST, start)?;
        reclaim(world, FIRST, &mut pass);
        nr_evicted += pass.scan().reclaimed;
    }
    Ok(nr_evicted)
}

/// Returns the generations in `lru_gen` format. `path_of` names the groups.
pub fn describe_lru_gen<W: Driven>(
    world: &mut W,
    path_of: &dyn Fn(GroupId) -> String,
    detail: Detail,
) -> String {
    drain_all_logs(world);
    let mut text = String::new();
    for nth in 0..world.nr_nodes() {
        let write = |lists: &mut NodeLists| lists.write_lru_gen(&mut text, path_of, detail);
        world.lend_current(NodeId(nth), write).expect("a string has room");
    }
    text
}

/// Includes the unreported accesses of other CPUs.
pub(super) fn drain_all_logs<W: Driven>(world: &mut W) {
    (0..world.nr_nodes()).for_each(|nth| world.drain_logs(NodeId(nth)));
}
