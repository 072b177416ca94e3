//! Fast and slow memory at work: what an access of slow memory costs, and who moves up.
//!
//! ```text
//!   scan (tick)      words of pages in slow memory: HINT, and the time
//!   access           finds HINT, takes it --> Promotion::decide --> move to the fast node
//!   reclaim          see `reclaim`: what it takes from a fast node moves down, if there is room
//! ```
//!
//! Which page moves is core's to say. Here it is moved: under its lock, into a frame that was had
//! without reclaim; its folio leaves one node's lists and joins another's. A page that cannot be
//! moved is served where it is.
//!
//! Time is coarse, and told: [`PageCache::tick`](crate::PageCache::tick) is called by the
//! background thread, or by who does without one.

use crate::delay::Delay;
use crate::engine::Engine;
use crate::hint_scan::HintScan;
use crate::locks::lock;
use crate::node::NODES_MAX;
use crate::tier::plan::TierPlan;
use crate::tier::{Tier, TierKind};
use crossbeam_utils::CachePadded;
use pagetide_core::folio::Flags;
use pagetide_core::ids::{CpuId, FrameId, NodeId};
use pagetide_core::lru::AccessKind;
use pagetide_core::page_alloc::WatermarkLevel;
use pagetide_core::tiering::{
    BalancingMode, Decision, Demotion, DemotionMode, HintFault, Migration, Promotion, Stage,
    StampWidth, TierCosts, TieringKnobs, TieringSwitches, Topology, background_level,
};
use pagetide_core::units::Millis;
use pagetide_sys::{ClaimedFrame, Lock, PageHandle, PageRef, read_monotonic_ns};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use thread_local::ThreadLocal;

/// How pages move between tiers. The default is what Linux does since 6.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TieringOptions {
    /// Which mechanisms choose what is promoted.
    pub switches: TieringSwitches,
    /// Their numbers.
    pub knobs: TieringKnobs,
    /// Whether hot pages of slow memory are looked for at all.
    pub promotion: bool,
    /// Whether reclaim of fast memory moves pages to slow memory; off, it evicts them.
    pub demotion: bool,
}

impl Default for TieringOptions {
    fn default() -> TieringOptions {
        Stage::default().into()
    }
}

impl From<Stage> for TieringOptions {
    fn from(stage: Stage) -> TieringOptions {
        TieringOptions {
            switches: stage.switches(),
            knobs: TieringKnobs::default(),
            promotion: true,
            demotion: true,
        }
    }
}

/// What became of hint faults, counted beside core's counters.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Judged {
    pub(crate) nr_too_cold: u64,
    pub(crate) nr_rate_limited: u64,
    pub(crate) nr_no_room: u64,
    pub(crate) nr_unmovable: u64,
}

/// What follows from a hint fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sentence {
    /// Nothing.
    Stay,
    /// The page is armed again.
    Arm,
    /// It moves to the fast node.
    Move,
}

/// Promotion to the fast node, behind its lock.
pub(crate) struct Judge {
    pub(crate) promotion: Promotion,
    pub(crate) judged: Judged,
}

/// One thread's count of accesses, by node.
type Served = CachePadded<[AtomicU64; NODES_MAX]>;

/// What a cache of several nodes has besides them.
pub(crate) struct Tiering {
    pub(crate) tiers: Vec<Tier>,
    pub(crate) topology: Topology,
    pub(crate) options: TieringOptions,
    pub(crate) judge: Mutex<Judge>,
    pub(crate) scan: Mutex<HintScan>,
    pub(crate) stamp_width: StampWidth,
    delays: Vec<Option<Delay>>,
    /// The coarse clock.
    now_ms: AtomicU64,
    served: ThreadLocal<Served>,
}

impl Tiering {
    /// Begins at `now` of the clock that later ticks will tell.
    pub(crate) fn new(plan: &TierPlan, options: TieringOptions, now: Millis) -> Tiering {
        let delay_of = |tier: &Tier| match tier.kind {
            TierKind::Emulated(latency) => Some(Delay::new(latency)),
            TierKind::Dram | TierKind::Numa(_) | TierKind::Compressed => None,
        };
        let tiers: Vec<Tier> = plan.nodes.iter().map(|node| node.tier).collect();
        // Wide stamps: the field has room, so no latency is taken for a short one after a wrap.
        let stamp_width = StampWidth::WIDEST;
        let promotion = Promotion::new(&options.knobs, options.switches, stamp_width);
        Tiering {
            delays: tiers.iter().map(delay_of).collect(),
            tiers,
            topology: plan.topology(),
            options,
            judge: Mutex::new(Judge { promotion, judged: Judged::default() }),
            scan: Mutex::new(HintScan::new(&options.knobs, now)),
            stamp_width,
            now_ms: AtomicU64::new(now.0),
            served: ThreadLocal::new(),
        }
    }

    /// The coarse clock.
    pub(crate) fn now(&self) -> Millis {
        Millis(self.now_ms.load(Relaxed))
    }

    /// Moves the coarse clock on; it never goes back.
    pub(crate) fn set_now(&self, now: Millis) {
        self.now_ms.fetch_max(now.0, Relaxed);
    }

    /// Accesses served from the node so far.
    pub(crate) fn collect_served(&self, nth: usize) -> u64 {
        self.served.iter().map(|cells| cells[nth].load(Relaxed)).sum()
    }

    fn count_served(&self, nth: usize) {
        let cells =
            self.served.get_or(|| CachePadded::new([const { AtomicU64::new(0) }; NODES_MAX]));
        let cell = &cells[nth];
        cell.store(cell.load(Relaxed) + 1, Relaxed);
    }

    /// What things cost, with so many pages in slow memory.
    pub(crate) fn costs(&self, nr_slow: u64) -> TierCosts {
        let [fast, slow] = [0, 1].map(|nth| self.topology.describe(NodeId(nth)).distance);
        TierCosts::in_user_space(fast, slow, nr_slow)
    }

    /// Waits as long as an access of the node's memory takes longer than one of DRAM.
    pub(crate) fn wait_for(&self, nth: usize) {
        if let Some(delay) = self.delays[nth] {
            delay.spin();
        }
    }

    /// Where pages of the node this many places down are demoted to.
    fn demotion_from(&self, nth: usize) -> Option<Demotion<'_>> {
        let mode = if self.options.demotion { DemotionMode::On } else { DemotionMode::Off };
        // Nodes are a chain: there is nothing for a seed to choose from.
        Demotion::of(&self.topology, NodeId(nth as u8), mode, 0)
    }

    /// Whether what reclaim takes from the node moves to slower memory.
    pub(crate) fn demotes(&self, nth: usize) -> bool {
        self.demotion_from(nth).is_some()
    }

    /// Up to where background reclaim frees frames of the node.
    pub(crate) fn background_level(&self, nth: usize) -> WatermarkLevel {
        background_level(&self.topology, NodeId(nth as u8), self.mode())
    }

    /// What hint faults are for.
    pub(crate) fn mode(&self) -> BalancingMode {
        if self.options.promotion { BalancingMode::Tiering } else { BalancingMode::Off }
    }
}

impl Engine {
    /// Whether an access that found `frame`, and the page's hint as told, concerns tiering.
    #[inline]
    pub(crate) fn is_slow(&self, frame: FrameId, has_hint: bool) -> bool {
        frame.0 >= self.slow_from || has_hint
    }

    /// An access met a page for which [`Engine::is_slow`] says so: pays for slow memory, and judges
    /// the fault if the page was armed. Returns the frame the page was in when that was done.
    #[cold]
    pub(crate) fn note_slow_access(
        &self,
        cpu: CpuId,
        page: PageRef<'_>,
        frame: FrameId,
        has_hint: bool,
    ) -> FrameId {
        self.pay_for_access(frame);
        if !has_hint || !page.test_and_clear_hint() {
            return frame;
        }
        match self.judge_fault(frame) {
            Sentence::Stay => {}
            Sentence::Arm => drop(page.set_hint()),
            Sentence::Move => {
                let Ok(mut lock) = page.try_lock() else { return frame };
                self.promote(cpu, &mut lock, frame);
                return lock.frame().unwrap_or(frame);
            }
        }
        frame
    }

    /// As [`Engine::note_slow_access`], of a resident page that the caller has locked.
    pub(crate) fn note_locked_access<H: PageHandle>(&self, cpu: CpuId, page: &mut Lock<H>) {
        let Some(frame) = page.frame() else { return };
        let has_hint = page.page().load().is_hint();
        if !self.is_slow(frame, has_hint) {
            return;
        }
        self.pay_for_access(frame);
        if !has_hint || !page.page().test_and_clear_hint() {
            return;
        }
        match self.judge_fault(frame) {
            Sentence::Stay => {}
            Sentence::Arm => drop(page.page().set_hint()),
            Sentence::Move => self.promote(cpu, page, frame),
        }
    }

    fn pay_for_access(&self, frame: FrameId) {
        let Some(tiering) = &self.tiering else { return };
        let nth = self.nodes.index_of(frame);
        if nth > 0 {
            tiering.count_served(nth);
        }
        tiering.wait_for(nth);
    }

    /// Judges the fault on an armed page, whose hint the caller took.
    fn judge_fault(&self, frame: FrameId) -> Sentence {
        let Some(tiering) = &self.tiering else { return Sentence::Stay };
        let is_local = self.nodes.index_of(frame) == 0;
        let (now, folio) = (self.fine_now(tiering), &self.folios[frame]);
        let decision = {
            let mut judge = lock(&tiering.judge);
            judge.promotion.count_hint_fault(is_local);
            if is_local {
                let arms = judge.promotion.note_fast_fault(now, folio);
                return if arms { Sentence::Arm } else { Sentence::Stay };
            }
            let room = self.nodes.first().frames.room();
            let decision = judge.promotion.decide(now, &HintFault { folio, nr_frames: 1 }, &room);
            judge.judged.count(decision);
            decision
        };
        if decision.wakes_reclaim() {
            self.wake_background(0);
        }
        match decision {
            Decision::Promote(_) => Sentence::Move,
            Decision::Unsure => Sentence::Arm,
            _ => Sentence::Stay,
        }
    }

    /// The time of a hint fault: with worker threads what the clock says, as latencies may be
    /// shorter than a tick; without, what the last tick said, so that runs can be repeated.
    fn fine_now(&self, tiering: &Tiering) -> Millis {
        if self.has_workers {
            tiering.set_now(Millis(read_monotonic_ns() / 1_000_000));
        }
        tiering.now()
    }

    /// Moves the locked page from `frame` to the fast node, if it is there still and free to move.
    fn promote<H: PageHandle>(&self, cpu: CpuId, page: &mut Lock<H>, frame: FrameId) {
        let fast = self.nodes.first();
        if page.frame() != Some(frame) || self.folios[frame].flags().any(Flags::WRITEBACK) {
            return;
        }
        let Some(target) = fast.frames.alloc(cpu, Some(WatermarkLevel::High)) else { return };
        let source = self.nodes.of(frame);
        if !source.lock_lruvec().withdraw(frame) {
            // A reclaim pass has it: that decides first.
            let unused = self.arena.release(target);
            return fast.frames.free(cpu, [unused]);
        }
        // It came by a fault, of sorts.
        let left = self.move_page(page, target, self.rule.flags_on_fill(AccessKind::Table));
        source.frames.free(cpu, [self.arena.release(left)]);
        self.list_moved(cpu, page, Migration::Promotion);
        if let Some(tiering) = &self.tiering {
            lock(&tiering.judge).promotion.count_promoted(1);
        }
        // Before the next finds none.
        if fast.frames.room().is_short() {
            self.wake_background(0);
        }
    }

    /// Moves a locked page and what is known of it to another frame, whose folio gets `flags`
    /// beside; returns the claim on the one it left. The folio is on no list afterwards.
    pub(crate) fn move_page<H: PageHandle>(
        &self,
        page: &mut Lock<H>,
        target: ClaimedFrame,
        flags: Flags,
    ) -> ClaimedFrame {
        let source = page.frame().expect("a page that moves is resident");
        let (from, to) = (&self.folios[source], &self.folios[target.frame()]);
        to.bind_moved(from, flags);
        if let Some(tiering) = &self.tiering {
            tiering.wait_for(self.nodes.index_of(source));
            tiering.wait_for(self.nodes.index_of(target.frame()));
        }
        page.relocate(target)
    }

    /// Hands the folio of a page that was moved to the lists of its node, and arms the page if core
    /// wants to know how soon it is touched there.
    pub(crate) fn list_moved<H: PageHandle>(
        &self,
        cpu: CpuId,
        page: &Lock<H>,
        migration: Migration,
    ) {
        let frame = page.frame().expect("a page that moved is resident");
        let node = self.nodes.of(frame);
        node.lock_lruvec().welcome(frame);
        node.log_add(cpu, &self.folios, frame);
        let Some(tiering) = &self.tiering else { return };
        let folio = &self.folios[frame];
        if lock(&tiering.judge).promotion.arms_moved(tiering.now(), folio, migration) {
            page.page().set_hint();
        }
    }

    /// Wakes background reclaim of the node this many places down; without worker threads it is
    /// done here, at once, where there are tiers.
    pub(crate) fn wake_background(&self, nth: usize) {
        if self.has_workers || self.tiering.is_none() {
            return self.background.notify();
        }
        self.reclaim_in_background(nth);
    }

    /// A frame of a node that pages are demoted to, without reclaim.
    pub(crate) fn alloc_demoted(&self, cpu: CpuId, nth: usize) -> Option<ClaimedFrame> {
        let demotion = self.tiering.as_ref()?.demotion_from(nth)?;
        let levels = [WatermarkLevel::Low, WatermarkLevel::Min];
        demotion.targets().find_map(|target| {
            let node = self.nodes.at(target.index());
            levels.into_iter().find_map(|level| node.frames.alloc(cpu, Some(level)))
        })
    }
}

impl Judged {
    fn count(&mut self, decision: Decision) {
        match decision {
            Decision::TooCold | Decision::Unsure => self.nr_too_cold += 1,
            Decision::RateLimited => self.nr_rate_limited += 1,
            Decision::NoRoom => self.nr_no_room += 1,
            Decision::Unmovable => self.nr_unmovable += 1,
            Decision::Promote(_) | Decision::NoTarget => {}
        }
    }
}
