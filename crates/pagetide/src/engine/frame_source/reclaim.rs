//! The operations that core's driver ([`driver`]) needs for reclaim and allocation. Page words
//! belong to [`Claims`](crate::engine::frame_source::claims::Claims).

use crate::engine::frame_source::claims::Claims;
use crate::engine::frame_source::here::HereGuard;
use crate::engine::frame_source::{FrameSource, NoFrame};
use crate::engine::stats::counters::Event;
use crate::memory::node::Node;
use pagetide_core::driver::{self, Driven, Woken};
use pagetide_core::group::NodeLists;
use pagetide_core::ids::{CpuId, NodeId};
use pagetide_core::lru::lru_gen::Detail;
use pagetide_core::lru::{GenCommandError, ReclaimBatch, ReclaimKind};
use pagetide_core::page_alloc::{Starving, WatermarkLevel};
use pagetide_core::units::Millis;
use pagetide_sys::{ClaimedFrame, current_cpu, read_thread_cpu_time_ns};
use std::sync::atomic::Ordering::Relaxed;

pub(crate) struct Reclaimer<'e> {
    pub(super) source: &'e FrameSource,
    pub(super) cpu: CpuId,
    /// `Some` in a fault handler.
    here: Option<HereGuard<'e>>,
}

impl Reclaimer<'_> {
    fn node(&self, node: NodeId) -> &Node {
        self.source.pages.nodes.at(node.index())
    }
}

impl Driven for Reclaimer<'_> {
    type Frame = ClaimedFrame;
    type Pass<'p> = Claims<'p>;

    fn nr_nodes(&self) -> u8 {
        self.source.pages.nodes.len() as u8
    }

    fn take(&mut self, node: NodeId, level: Option<WatermarkLevel>) -> Option<ClaimedFrame> {
        self.node(node).frames.alloc(self.cpu, level)
    }

    fn drain_frames(&mut self, node: NodeId) -> Option<Starving> {
        let frames = &self.node(node).frames;
        let starving = frames.starve();
        frames.drain_lists();
        Some(starving)
    }

    fn drain_logs(&mut self, node: NodeId) {
        self.node(node).drain_logs();
    }

    /// Without worker threads, a cache with tiers makes passes in its callers.
    fn wake_background(&mut self) -> Woken {
        if let Some(here) = &mut self.here {
            let is_ours = self.source.has_workers && here.try_turn();
            return if is_ours { Woken::CallerForBatch } else { Woken::Thread };
        }
        if self.source.has_workers || self.source.tiering.is_none() {
            self.source.background.notify();
            return Woken::Thread;
        }
        Woken::Caller
    }

    fn wake_flusher(&mut self) {
        self.source.flusher.wake();
    }

    fn demotes(&self, node: NodeId) -> bool {
        self.source.tiering.as_ref().is_some_and(|tiering| tiering.demotes(node.index()))
    }

    fn background_target(&mut self, node: NodeId, room_below: u64) -> u64 {
        // The thread may have moved to another CPU since the last pass.
        self.cpu = current_cpu();
        let tiering = self.source.tiering.as_ref();
        let level =
            tiering.map_or(WatermarkLevel::High, |tiering| tiering.background_level(node.index()));
        self.node(node).frames.background_target(level, room_below)
    }

    fn room_for_demoted(&mut self, node: NodeId) -> u64 {
        self.node(node).frames.room_for_demoted()
    }

    fn set_reclaim_active(&mut self, node: NodeId, is_active: bool) {
        self.node(node).frames.set_reclaim_active(is_active);
    }

    fn lend_lists<T>(&mut self, node: NodeId, use_lists: impl FnOnce(&mut NodeLists) -> T) -> T {
        use_lists(&mut self.node(node).lock_lists())
    }

    fn lend_current<T>(&mut self, node: NodeId, use_lists: impl FnOnce(&mut NodeLists) -> T) -> T {
        let now = Millis(self.source.started_at.elapsed().as_millis() as u64);
        let node = self.node(node);
        let mut log = node.lock_log(self.cpu);
        let mut lists = node.lock_lists();
        lists.tell_time(now);
        lists.drain(&mut log);
        use_lists(&mut lists)
    }

    fn in_pass(&mut self, node: NodeId, run: impl FnOnce(&mut Claims<'_>, &mut ReclaimBatch)) {
        let started_ns = read_thread_cpu_time_ns();
        self.node(node).frames.sample_resident();
        let mappings = self.source.mappings.read();
        match &mut self.here {
            None => {
                let mut claims = Claims::new(self.source, self.cpu, &mappings);
                let (mut spare, mut new) =
                    (self.source.spare_batch.try_lock(), ReclaimBatch::new());
                run(&mut claims, spare.as_deref_mut().unwrap_or(&mut new));
            }
            Some(here) => {
                let mut claims = Claims::in_fault(self.source, self.cpu, &mappings);
                run(&mut claims, &mut here.batch);
            }
        }
        let spent_ns = read_thread_cpu_time_ns().saturating_sub(started_ns);
        self.source.pages.counters.add(Event::ReclaimCpuNs, spent_ns);
    }

    fn count_pass(&mut self, kind: ReclaimKind) {
        match kind {
            ReclaimKind::Background => self.source.pages.counters.count(Event::BackgroundPass),
            ReclaimKind::Direct => self.source.pages.counters.count(Event::DirectPass),
            ReclaimKind::Proactive => {}
        }
    }
}

impl FrameSource {
    pub(crate) fn reclaimer(&self, cpu: CpuId) -> Reclaimer<'_> {
        Reclaimer { source: self, cpu, here: None }
    }

    pub(crate) fn alloc_frame(&self, cpu: CpuId) -> Result<ClaimedFrame, NoFrame> {
        let claimed = self.frame_above_low(cpu);
        claimed.or_else(|| driver::alloc_slowly(&mut self.reclaimer(cpu))).ok_or(NoFrame)
    }

    /// Allocates a frame in a fault handler. Returns `None` if another thread has to do it.
    pub(crate) fn alloc_here(&self, cpu: CpuId) -> Option<ClaimedFrame> {
        self.frame_above_low(cpu).or_else(|| {
            let here = Some(self.here.enter(cpu)?);
            driver::alloc_briefly(&mut Reclaimer { source: self, cpu, here })
        })
    }

    /// Takes a frame of the fastest node that has one above LOW.
    pub(crate) fn frame_above_low(&self, cpu: CpuId) -> Option<ClaimedFrame> {
        let claimed = driver::take_above_low(&mut self.reclaimer(cpu));
        if claimed.is_none() {
            self.has_free.store(false, Relaxed);
        }
        claimed
    }

    /// Frees frames for runs if memory is short. Returns true if any was freed.
    pub(crate) fn make_room_for_runs(&self, nr: u64) -> bool {
        let target = self.pages.nodes.first().frames.run_target(nr);
        target > 0 && driver::reclaim_for_runs(&mut self.reclaimer(current_cpu()), target) > 0
    }

    pub(crate) fn command_lru_gen(&self, text: &str) -> Result<u64, GenCommandError> {
        driver::command_lru_gen(&mut self.reclaimer(current_cpu()), text)
    }

    pub(crate) fn describe_lru_gen(&self, detail: Detail) -> String {
        let mut world = self.reclaimer(current_cpu());
        driver::describe_lru_gen(&mut world, &self.group_paths(), detail)
    }
}
