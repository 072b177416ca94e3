//! Nodes: ranges of the arena's frames, each with an allocator, a lruvec and access logs.
//!
//! Problem: fast and slow memory are reclaimed separately. Idea: a frame's number determines its
//! node.
//!
//! ```text
//!   frames     0 ............. n0 ........................ n1
//!   node       |  0, fastest  |         1, slower          |
//!              zone, lists      zone, lists
//!              lruvec, logs     lruvec, logs     (with groups, a lruvec for each)
//! ```
//!
//! Data and invariants: nodes partition the arena, fastest first. A folio is on the lists or in the
//! logs of its frame's node only. Lock order: see `engine`. Locks of two nodes are never held
//! together, except a log and then the lruvec that judges a returning page.

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

pub(crate) const NODES_MAX: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Touched {
    Logged,
    /// The log was busy or full: only count the touch.
    Lost,
}

pub(crate) struct Node {
    pub(crate) frames: ArenaFrames,
    range: Range<FrameId>,
    lists: Mutex<NodeLists>,
    logs: PerCpu<Mutex<AccessLog>>,
}

impl Node {
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

    /// Returns all frames, including frames not in service.
    pub(crate) fn range(&self) -> Range<FrameId> {
        self.range.clone()
    }

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

    /// Returns this CPU's log, or the next one: the holder of a log may wait for the lists while
    /// another thread runs on its CPU.
    fn free_log(&self, cpu: CpuId) -> Option<MutexGuard<'_, AccessLog>> {
        let next = CpuId(cpu.0.wrapping_add(1));
        [cpu, next].into_iter().find_map(|cpu| self.logs.at(cpu).try_lock().ok())
    }

    fn drain_if_free(&self, log: &mut AccessLog) {
        if let Ok(mut lists) = self.lists.try_lock() {
            lists.drain(log);
        }
    }

    /// Tells the policy that a wanted victim is clean.
    pub(crate) fn log_rotation(&self, cpu: CpuId, frame: FrameId) {
        let mut log = self.log_with_room(cpu);
        if log.rotate(frame) == Room::Full {
            self.drain_if_free(&mut log);
        }
    }

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

    /// Locks this CPU's log, full or not.
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

pub(crate) struct Nodes {
    list: Box<[Node]>,
}

impl Nodes {
    /// Takes 1 to [`NODES_MAX`] nodes, in order of their frames.
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

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Node> {
        self.list.iter()
    }

    pub(crate) fn first(&self) -> &Node {
        &self.list[0]
    }

    pub(crate) fn last(&self) -> &Node {
        &self.list[self.list.len() - 1]
    }

    /// Returns the index of a frame's node, 0 being the fastest.
    pub(crate) fn index_of(&self, frame: FrameId) -> usize {
        let nth = self.list.iter().position(|node| node.has(frame));
        nth.expect("nodes partition the arena")
    }

    pub(crate) fn at(&self, nth: usize) -> &Node {
        &self.list[nth]
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

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

    /// Returns true if any node has memory free without competition. Takes every zone's lock in
    /// turn.
    pub(crate) fn is_ample(&self) -> bool {
        self.list.iter().any(|node| node.frames.is_ample())
    }

    pub(crate) fn managed_bytes(&self) -> u64 {
        self.list.iter().map(|node| node.frames.managed_bytes()).sum()
    }

    pub(crate) fn nr_frames(&self) -> u64 {
        self.managed_bytes() / PAGE_BYTES as u64
    }

    pub(crate) fn sample_resident(&self) -> u64 {
        self.list.iter().map(|node| node.frames.sample_resident()).sum()
    }

    pub(crate) fn drain_logs(&self) {
        self.list.iter().for_each(Node::drain_logs);
    }
}
