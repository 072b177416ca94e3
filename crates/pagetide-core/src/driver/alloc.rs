//! Allocation of a frame.
//!
//! ```text
//!   fast try     node 0 above LOW? --no--> node 1 above LOW? --no--> ...
//!   slow path    wake background --> the last node, by all attempts --> ... --> node 0
//!   page fault   the slow path --no--> write back, or wait for others --> again
//! ```
//!
//! The slow path starts at the slowest node, where a frame costs a cold page. [`SlowPath`] orders
//! the attempts.

use super::Driven;
use super::background::wake_background;
use super::pass::reclaim_directly;
use crate::ids::NodeId;
use crate::page_alloc::{Attempt, Attempted, SlowPath, WatermarkLevel};

/// Takes a frame of the fastest node above LOW, without reclaim or wake-up.
#[inline]
pub fn take_above_low<W: Driven>(world: &mut W) -> Option<W::Frame> {
    (0..world.nr_nodes()).find_map(|nth| world.take(NodeId(nth), Some(WatermarkLevel::Low)))
}

/// Makes the first attempts of [`alloc_slowly`]: a wake-up, then on each node, slowest first, a
/// take above MIN with one direct pass.
#[cold]
pub fn alloc_briefly<W: Driven>(world: &mut W) -> Option<W::Frame> {
    wake_background(world);
    let level = Some(WatermarkLevel::Min);
    (0..world.nr_nodes()).rev().map(NodeId).find_map(|node| {
        world.take(node, level).or_else(|| {
            reclaim_directly(world, node);
            world.take(node, level)
        })
    })
}

/// Takes a frame after [`take_above_low`] failed.
#[cold]
pub fn alloc_slowly<W: Driven>(world: &mut W) -> Option<W::Frame> {
    wake_background(world);
    (0..world.nr_nodes()).rev().find_map(|nth| alloc_from(world, NodeId(nth)))
}

fn alloc_from<W: Driven>(world: &mut W, node: NodeId) -> Option<W::Frame> {
    let mut path = SlowPath::after_wake();
    let mut outcome = Attempted::Progress;
    let mut _starving = None;
    loop {
        outcome = match path.next(outcome) {
            Attempt::Take(level) => match world.take(node, level) {
                Some(frame) => return Some(frame),
                None => Attempted::Failed,
            },
            Attempt::WakeBackground => {
                wake_background(world);
                Attempted::Progress
            }
            Attempt::DirectReclaim => match reclaim_directly(world, node) {
                0 => Attempted::Failed,
                _ => Attempted::Progress,
            },
            Attempt::DrainCpus => {
                _starving = world.drain_frames(node);
                world.drain_logs(node);
                Attempted::Progress
            }
            Attempt::GiveUp => return None,
        };
    }
}

/// Calls `fill`, with write-back and waits in between, until `fill` has a frame. Returns `None`
/// after `nr_failures_max` consecutive write-backs of which each wrote nothing and failed.
///
/// `fill` returns `None` without a frame. `write_back` returns the pages written, and the pages
/// that could not be written. `wait` lets other threads end their writes.
pub fn wait_for_room<T>(
    nr_failures_max: u64,
    mut fill: impl FnMut() -> Option<T>,
    mut write_back: impl FnMut() -> (u64, u64),
    mut wait: impl FnMut(),
) -> Option<T> {
    let mut nr_failures = 0;
    loop {
        if let Some(filled) = fill() {
            return Some(filled);
        }
        match write_back() {
            (1.., _) => nr_failures = 0,
            (0, 0) => wait(),
            _ if nr_failures < nr_failures_max => nr_failures += 1,
            _ => return None,
        }
    }
}
