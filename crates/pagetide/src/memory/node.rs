//! Nodes: each a range of the arena's frames with an allocator, a lruvec and access logs of its
//! own.
//!
//! Problem: fast and slow memory are reclaimed apart: a page leaves the fast node for the slow one,
//! and the slow one for the store.
//!
//! Idea: everything that belongs to a frame is found by the frame's number. A cache without tiers
//! has one node, and never asks which.
//!
//! ```text
//!   frames     0 ............. n0 ........................ n1
//!   node       |  0, fastest  |         1, slower          |
//!              zone, lists      zone, lists
//!              lruvec, logs     lruvec, logs     (a lruvec for each group, where there are any)
//! ```
//!
//! Data and invariants: nodes partition the arena, the fastest first. A folio is on the lists of
//! its frame's node, or in that node's logs, and in no other's. Lock order: see `engine`; two
//! nodes' lruvecs, logs or lists are never locked together, but for a log and the lruvec that
//! judges a returning page, in that order.

use crate::memory::frames::ArenaFrames;
use crate::memory::locks::lock;
use crate::memory::percpu::PerCpu;
use pagetide_core::folio::Folios;
use pagetide_core::group::NodeLists;
use pagetide_core::ids::{CpuId, FrameId};
use pagetide_core::lru::{AccessLog, Room};
use pagetide_core::units::PAGE_BYTES;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

/// The most nodes there can be.
pub(crate) const NODES_MAX: usize = 8;

/// What became of a touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Touched {
    /// The policy will be told of it.
    Logged,
    /// The way was blocked: it is to be counted, and that is all.
    Lost,
}

/// One node. See the module.
pub(crate) struct Node {
    pub(crate) frames: ArenaFrames,
    range: Range<FrameId>,
    lists: Mutex<NodeLists>,
    logs: PerCpu<Mutex<AccessLog>>,
}

impl Node {
    /// Over the frames of `frames`, whose folios `lists` keeps.
    pub(crate) fn new(frames: ArenaFrames, lists: NodeLists, nr_cpus: u32) -> Node {
        Node {
            range: frames.range(),
            frames,
            lists: Mutex::new(lists),
            logs: PerCpu::new(nr_cpus as usize, || Mutex::new(AccessLog::new())),
        }
    }

    pub(crate) fn lock_lists(&self) -> MutexGuard<'_, NodeLists> {
        lock(&self.lists)
    }

    pub(crate) fn has(&self, frame: FrameId) -> bool {
        self.range.contains(&frame)
    }

    /// The frames it has, in service or not.
    pub(crate) fn range(&self) -> Range<FrameId> {
        self.range.clone()
    }

    /// Notes a touch that wants a list operation.
    pub(crate) fn log_touch(&self, cpu: CpuId, frame: FrameId) -> Touched {
        let Some(mut log) = self.free_log(cpu) else { return Touched::Lost };
        if log.is_crammed() {
            self.drain_if_free(&mut log);
        }
        if log.is_crammed() {
            return Touched::Lost;
        }
        if log.touch(frame) == Room::Full {
            self.drain_if_free(&mut log);
        }
        Touched::Logged
    }

    /// This CPU's log, or the next one's: the holder of a log may wait for the lists, while
    /// another thread reads on its CPU.
    fn free_log(&self, cpu: CpuId) -> Option<MutexGuard<'_, AccessLog>> {
        let next = CpuId(cpu.0.wrapping_add(1));
        [cpu, next].into_iter().find_map(|cpu| self.logs.at(cpu).try_lock().ok())
    }

    fn drain_if_free(&self, log: &mut AccessLog) {
        if let Ok(mut lists) = self.lists.try_lock() {
            lists.drain(log);
        }
    }

    /// Tells the policy that a folio it wanted is clean now.
    pub(crate) fn log_rotation(&self, cpu: CpuId, frame: FrameId) {
        let mut log = self.log_with_room(cpu);
        if log.rotate(frame) == Room::Full {
            self.drain_if_free(&mut log);
        }
    }

    /// Hands a folio that was just bound to the policy.
    pub(crate) fn log_add(&self, cpu: CpuId, folios: &Folios, frame: FrameId) {
        let mut log = self.log_with_room(cpu);
        if log.add(folios, frame) == Room::Full {
            self.drain_if_free(&mut log);
        }
    }

    pub(crate) fn log_with_room(&self, cpu: CpuId) -> MutexGuard<'_, AccessLog> {
        let mut log = lock(self.logs.at(cpu));
        if log.is_crammed() {
            self.lock_lists().drain(&mut log);
        }
        log
    }

    /// This CPU's log, as it is.
    pub(crate) fn lock_log(&self, cpu: CpuId) -> MutexGuard<'_, AccessLog> {
        lock(self.logs.at(cpu))
    }

    pub(crate) fn drain_logs(&self) {
        for log in self.logs.iter() {
            let mut log = lock(log);
            self.lock_lists().drain(&mut log);
        }
    }
}

/// A cache's nodes, the fastest first.
pub(crate) struct Nodes {
    list: Box<[Node]>,
}

impl Nodes {
    /// At least one, at most [`NODES_MAX`], in order of their frames.
    pub(crate) fn new(list: Vec<Node>) -> Nodes {
        assert!((1..=NODES_MAX).contains(&list.len()), "a cache has 1 to {NODES_MAX} nodes");
        Nodes { list: list.into() }
    }

    #[inline]
    pub(crate) fn of(&self, frame: FrameId) -> &Node {
        match &*self.list {
            [only] => only,
            list => list.iter().find(|node| node.has(frame)).expect("nodes partition the arena"),
        }
    }

    /// The nodes, the fastest first.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Node> {
        self.list.iter()
    }

    /// The node there is, of a cache without tiers; the fastest of any other.
    pub(crate) fn first(&self) -> &Node {
        &self.list[0]
    }

    /// The slowest, from which pages leave memory.
    pub(crate) fn last(&self) -> &Node {
        &self.list[self.list.len() - 1]
    }

    /// How many places down from the fastest the node of a frame is.
    pub(crate) fn index_of(&self, frame: FrameId) -> usize {
        let nth = self.list.iter().position(|node| node.has(frame));
        nth.expect("nodes partition the arena")
    }

    /// The node this many places down from the fastest.
    pub(crate) fn at(&self, nth: usize) -> &Node {
        &self.list[nth]
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Gives frames back, each to its node.
    pub(crate) fn free(&self, cpu: CpuId, frames: impl Iterator<Item = FrameId> + Clone) {
        if let [only] = &*self.list {
            return only.frames.free(cpu, frames);
        }
        for node in &self.list {
            let mut own = frames.clone().filter(|frame| node.has(*frame)).peekable();
            if own.peek().is_some() {
                node.frames.free(cpu, own);
            }
        }
    }

    /// Whether memory is left that nothing competes for, in any. Takes every zone's lock in turn.
    pub(crate) fn is_ample(&self) -> bool {
        self.list.iter().any(|node| node.frames.is_ample())
    }

    /// Frames in service, bytes.
    pub(crate) fn managed_bytes(&self) -> u64 {
        self.list.iter().map(|node| node.frames.managed_bytes()).sum()
    }

    /// The same in frames.
    pub(crate) fn nr_frames(&self) -> u64 {
        self.managed_bytes() / PAGE_BYTES as u64
    }

    /// Frames in use, of all nodes.
    pub(crate) fn sample_resident(&self) -> u64 {
        self.list.iter().map(|node| node.frames.sample_resident()).sum()
    }

    pub(crate) fn drain_logs(&self) {
        self.list.iter().for_each(Node::drain_logs);
    }
}
