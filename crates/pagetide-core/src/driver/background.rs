//! Background reclaim: passes over a node until enough frames are free.
//!
//! ```text
//!   node 0    woken --> [ node 1 first ] --> target? --0--> over
//!                ^                              |
//!                '-- freed something? --yes-- pass --no--> over
//! ```
//!
//! Slower nodes come first, because victims move there. [`reclaim_in_background`] makes all passes
//! at once. [`BackgroundThread`] makes them in steps, in worlds of one thread with virtual time:
//! victims are isolated at the start of a step, and tried at its end.

use super::pass::{end, prepare, reclaim, try_and_settle};
use super::victims::publish;
use super::{Driven, DrivenPass, FIRST, Woken, tables};
use crate::group::NodePass;
use crate::ids::NodeId;
use crate::lru::{RECLAIM_BATCH, ReclaimBatch, ReclaimKind};
use crate::reclaim::Step;
use ::alloc::boxed::Box;

/// Wakes background reclaim of the first node, or runs it here.
pub fn wake_background<W: Driven>(world: &mut W) {
    match world.wake_background() {
        Woken::Thread => {}
        Woken::Caller => reclaim_in_background(world, FIRST),
        Woken::CallerForBatch => {
            if let Some(mut pass) = next_pass(world, FIRST, RECLAIM_BATCH) {
                reclaim(world, FIRST, &mut pass);
            }
        }
    }
}

/// Runs passes until the node has enough free frames or a pass frees nothing.
pub fn reclaim_in_background<W: Driven>(world: &mut W, node: NodeId) {
    world.set_reclaim_active(node, true);
    while let Some(mut pass) = next_pass(world, node, u64::MAX) {
        reclaim(world, node, &mut pass);
        if pass.scan().reclaimed == 0 {
            break;
        }
    }
    world.set_reclaim_active(node, false);
}

/// Returns the next pass of at most `nr_max` frames, after reclaim of slower nodes.
fn next_pass<W: Driven>(world: &mut W, node: NodeId, nr_max: u64) -> Option<NodePass> {
    let mut room_below = 0;
    let below = NodeId(node.0 + 1);
    if below.0 < world.nr_nodes() {
        reclaim_in_background(world, below);
        if world.demotes(node) {
            room_below = world.room_for_demoted(below);
        }
    }
    let target = world.background_target(node, room_below).min(nr_max);
    if target == 0 {
        return None;
    }
    world.count_pass(ReclaimKind::Background);
    Some(world.lend_current(node, |lists| NodePass::background(lists, target)))
}

/// Background reclaim of the first node in steps.
#[derive(Debug, Default)]
pub struct BackgroundThread {
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Asleep,
    BetweenPasses,
    /// In a pass, with its last step.
    InPass(Box<NodePass>, Option<Step>),
}

impl BackgroundThread {
    /// Returns true if there are steps to make.
    pub fn is_awake(&self) -> bool {
        !matches!(self.state, State::Asleep)
    }

    /// Wakes the thread, if asleep.
    pub fn wake<W: Driven>(&mut self, world: &mut W) {
        if !self.is_awake() {
            self.state = State::BetweenPasses;
            world.set_reclaim_active(FIRST, true);
        }
    }

    /// Makes a step: tries the last victims, publishes, isolates the next. Returns the folios
    /// scanned.
    pub fn step<W: Driven + DrivenPass>(&mut self, world: &mut W, batch: &mut ReclaimBatch) -> u64 {
        let (mut pass, last) = match core::mem::take(&mut self.state) {
            State::Asleep => return 0,
            State::BetweenPasses => {
                let Some(mut pass) = next_pass(world, FIRST, u64::MAX) else {
                    world.set_reclaim_active(FIRST, false);
                    return 0;
                };
                prepare(world, FIRST, &mut pass);
                (Box::new(pass), None)
            }
            State::InPass(pass, Some(Step::Done)) => {
                match pass.scan().reclaimed {
                    0 => world.set_reclaim_active(FIRST, false),
                    _ => self.state = State::BetweenPasses,
                }
                return 0;
            }
            State::InPass(pass, last) => (pass, last),
        };
        let nr_before = pass.scan().scanned;
        match last {
            Some(Step::WalkTables) => tables::walk(world, FIRST, &pass),
            Some(last) => try_and_settle(world, FIRST, &mut pass, last, batch),
            None => {}
        }
        publish(world, batch);
        let next = world.lists(FIRST).isolate(&mut pass, batch);
        if next == Step::Done {
            end(world, FIRST, pass.scan());
        }
        let nr_scanned = pass.scan().scanned - nr_before;
        self.state = State::InPass(pass, Some(next));
        nr_scanned
    }
}
