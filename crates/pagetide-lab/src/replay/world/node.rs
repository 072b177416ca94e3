//! The nodes of a replay's memory, each with frames, lists and access log.
//!
//! Problem: fast and slow memory are reclaimed separately. Idea: the page cache's node without
//! locks, with one log.
//!
//! Data and invariants: nodes partition the frames, fastest first. A folio is on the lists or in
//! the log of its frame's node only.

use super::World;
use super::groups::has_groups;
use crate::replay::Setup;
use crate::replay::memory::{Frames, Memory, ZoneMemory};
use crate::trace::DenseTrace;
use pagetide_core::folio::Folios;
use pagetide_core::group::{Grouping, NodeLists};
use pagetide_core::ids::FrameId;
use pagetide_core::lru::{
    AccessLog, LruConfig, LruvecId, Marked, PolicyChoice, PolicyConfig, Room,
};
use pagetide_core::units::Millis;
use std::ops::Range;
use std::sync::Arc;

pub(super) struct Node {
    pub(super) frames: Frames,
    pub(super) lists: NodeLists,
    pub(super) log: AccessLog,
    range: Range<u32>,
}

impl Node {
    /// Returns the nodes of a setup's memory. `config` has the settings common to all.
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

    pub(super) fn nr_used(&self) -> u32 {
        self.frames.nr_used(self.range.len() as u32)
    }

    /// Logs a touch that may need a list operation.
    #[inline]
    pub(super) fn log_touch(&mut self, marked: Marked, frame: FrameId) {
        if self.log.touch_if(marked, frame) == Room::Full {
            self.drain();
        }
    }

    #[inline]
    pub(super) fn log_add(&mut self, folios: &Folios, frame: FrameId) {
        if self.log.add(folios, frame) == Room::Full {
            self.drain();
        }
    }

    pub(super) fn log_rotation(&mut self, frame: FrameId) {
        if self.log.rotate(frame) == Room::Full {
            self.drain();
        }
    }

    pub(super) fn drain(&mut self) {
        self.lists.drain(&mut self.log);
    }

    /// Tells the lists the time and applies the log.
    pub(super) fn settle(&mut self, now: Millis) {
        self.lists.tell_time(now);
        self.drain();
    }
}

impl World<'_> {
    /// Returns the index of the frame's node, 0 for the fastest.
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
