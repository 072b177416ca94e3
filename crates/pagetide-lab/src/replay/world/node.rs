//! The nodes of a replay's memory: each kind of it with its frames, lists and access log.
//!
//! Problem: fast and slow memory are reclaimed apart, as in the page cache. Idea: its node, without
//! locks and with one log, as one thread accesses. A memory of one kind is one node, and it is
//! not asked which.
//!
//! Data and invariants: nodes partition the frames, the fastest first. A folio is on the lists of
//! its frame's node or in its log, and in no other's.

use super::World;
use super::groups::has_groups;
use crate::replay::Setup;
use crate::replay::memory::{Frames, Memory, ZoneMemory};
use crate::trace::DenseTrace;
use pagetide_core::folio::Folios;
use pagetide_core::group::{Grouping, NodeLists};
use pagetide_core::ids::{FrameId, PageId};
use pagetide_core::lru::{
    AccessLog, LruConfig, LruvecId, Marked, PolicyChoice, PolicyConfig, Room,
};
use pagetide_core::units::Millis;
use std::ops::Range;
use std::sync::Arc;

/// One kind of memory.
pub(super) struct Node {
    pub(super) frames: Frames,
    pub(super) lists: NodeLists,
    pub(super) log: AccessLog,
    range: Range<u32>,
}

impl Node {
    /// The nodes of a setup's memory. `config` is the policy's, but for what differs by node.
    pub(super) fn all(
        setup: &Setup,
        config: LruConfig,
        folios: &Arc<Folios>,
        trace: &DenseTrace,
    ) -> Vec<Node> {
        let has_groups = setup.memory.repeats_the_run() && has_groups(trace);
        let config_of_policy = PolicyConfig::Pagetide(setup.tuning);
        let policy = PolicyChoice { name: setup.policy, config: config_of_policy };
        let grouping = if has_groups { Grouping::On } else { Grouping::Off };
        let mut first = 0;
        let node = |(nth, nr_frames_max): (usize, u32)| {
            let range = first..first + nr_frames_max;
            first = range.end;
            let frames = match setup.memory {
                Memory::Tiers(memory) => {
                    let nr_frames = memory.tiers.nodes.as_slice()[nth].nr_frames;
                    let own = ZoneMemory { nr_frames, nr_frames_max, ..memory.whole };
                    Frames::of_zone(&own, range.start)
                }
                memory => Frames::new(memory, setup.switches, trace),
            };
            let id = LruvecId { node: nth as u8, ..config.id };
            let first_frame = FrameId(range.start);
            let config = LruConfig { nr_frames: nr_frames_max, first_frame, id, ..config };
            let lists = NodeLists::new(policy, &config, Arc::clone(folios), grouping);
            Node { frames, lists, log: AccessLog::new(), range }
        };
        setup.memory.nodes().into_iter().enumerate().map(node).collect()
    }

    pub(super) fn has(&self, frame: FrameId) -> bool {
        self.range.contains(&frame.0)
    }

    /// Frames that hold pages.
    pub(super) fn nr_used(&self) -> u32 {
        self.frames.nr_used(self.range.len() as u32)
    }

    /// A touch that may want a list operation.
    #[inline]
    pub(super) fn log_touch(&mut self, marked: Marked, frame: FrameId) {
        if self.log.touch_if(marked, frame) == Room::Full {
            self.drain();
        }
    }

    /// A folio that was just bound.
    #[inline]
    pub(super) fn log_add(&mut self, folios: &Folios, frame: FrameId) {
        if self.log.add(folios, frame) == Room::Full {
            self.drain();
        }
    }

    /// A folio that the policy wanted is clean now.
    pub(super) fn log_rotation(&mut self, frame: FrameId) {
        if self.log.rotate(frame) == Room::Full {
            self.drain();
        }
    }

    /// The lists know of all that was done.
    pub(super) fn drain(&mut self) {
        self.lists.drain(&mut self.log);
    }

    /// The same, and the time.
    pub(super) fn settle(&mut self, now: Millis) {
        self.lists.tell_time(now);
        self.drain();
    }
}

impl<Evicted: FnMut(PageId)> World<'_, Evicted> {
    /// How many places down from the fastest the node of a frame is.
    pub(super) fn nth_of(&self, frame: FrameId) -> usize {
        if frame.0 < self.slow_from {
            return 0;
        }
        let nth = self.nodes.iter().position(|node| node.has(frame));
        nth.expect("nodes partition the frames")
    }

    pub(super) fn node_of(&mut self, frame: FrameId) -> &mut Node {
        let nth = self.nth_of(frame);
        &mut self.nodes[nth]
    }
}
