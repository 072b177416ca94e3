//! Fast and slow memory at work: what a cache of several nodes has besides them.
//!
//! ```text
//!   scan (tick)      words of pages in slow memory: HINT, and the time
//!   access           finds HINT, takes it --> Promotion::decide --> move to the fast node
//!   reclaim          see `reclaim`: what it takes from a fast node moves down, if there is room
//! ```
//!
//! Which page moves is core's to say; `moving` moves it.
//!
//! Time is coarse, and comes in: [`PageCache::tick`](crate::PageCache::tick) is called by the
//! background thread, or by a program that does without one.

use crate::engine::delay;
use crate::memory::node::NODES_MAX;
use crate::memory::tier::plan::TierPlan;
use crate::memory::tier::sizes::TierSizes;
use crate::memory::tier::{Tier, TierKind};
use crossbeam_utils::CachePadded;
use pagetide_core::ids::NodeId;
use pagetide_core::page_alloc::WatermarkLevel;
use pagetide_core::record::{RecordedNodes, RecordedTiers};
use pagetide_core::tiering::{
    BalancingMode, Demotion, DemotionMode, HintScan, Promotion, Stage, TierCosts, TieringKnobs,
    TieringSwitches, Topology, background_level,
};
use pagetide_core::units::Millis;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use thread_local::ThreadLocal;

/// How pages move between tiers. The default is [`Stage::Auto`], which has nothing to set: on real
/// files it came near the oracle's placement, and the stages that Linux has did not.
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

impl TieringOptions {
    /// What hint faults are for.
    pub(crate) fn mode(&self) -> BalancingMode {
        if self.promotion { BalancingMode::Tiering } else { BalancingMode::Off }
    }

    fn demotion_mode(&self) -> DemotionMode {
        if self.demotion { DemotionMode::On } else { DemotionMode::Off }
    }

    /// What a record is to say of them, with these nodes, of a run that begins `now`.
    pub(crate) fn recorded(&self, nodes: RecordedNodes, now: Millis) -> RecordedTiers {
        RecordedTiers {
            mode: self.mode(),
            demotion: self.demotion_mode(),
            switches: self.switches,
            knobs: self.knobs,
            began: now,
            ..RecordedTiers::new(nodes)
        }
    }
}

impl Default for TieringOptions {
    fn default() -> TieringOptions {
        Stage::Auto.into()
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

/// One thread's count of accesses, by node.
type Served = CachePadded<[AtomicU64; NODES_MAX]>;

/// What a cache of several nodes has besides them.
pub(crate) struct Tiering {
    pub(crate) tiers: Vec<Tier>,
    pub(crate) topology: Topology,
    pub(crate) options: TieringOptions,
    /// Promotion to the fast node.
    pub(crate) promotion: Mutex<Promotion>,
    pub(crate) scan: Mutex<HintScan>,
    pub(crate) began: Millis,
    /// Locked as long as a resize takes, outermost.
    pub(crate) sizes: Mutex<TierSizes>,
    /// How much longer an access of each node's memory takes than it would by itself.
    delays: Vec<Option<Duration>>,
    /// The coarse clock.
    now_ms: AtomicU64,
    served: ThreadLocal<Served>,
}

impl Tiering {
    /// Begins at `now` of the clock that later ticks will tell.
    pub(crate) fn new(plan: &TierPlan, options: TieringOptions, now: Millis) -> Tiering {
        let delay_of = |tier: &Tier| match tier.kind {
            TierKind::Emulated(latency) => Some(latency),
            TierKind::Dram | TierKind::Numa(_) | TierKind::Compressed => None,
        };
        let tiers: Vec<Tier> = plan.nodes.iter().map(|node| node.tier).collect();
        let promotion = Promotion::new(&options.knobs, options.switches);
        Tiering {
            delays: tiers.iter().map(delay_of).collect(),
            tiers,
            topology: plan.topology(),
            options,
            promotion: Mutex::new(promotion),
            scan: Mutex::new(HintScan::new(&options.knobs, now, 0)),
            began: now,
            sizes: Mutex::new(TierSizes::new(plan)),
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

    pub(crate) fn count_served(&self, nth: usize) {
        let cells =
            self.served.get_or(|| CachePadded::new([const { AtomicU64::new(0) }; NODES_MAX]));
        let cell = &cells[nth];
        cell.store(cell.load(Relaxed) + 1, Relaxed);
    }

    /// What things cost, with so many pages in slow memory.
    pub(crate) fn costs(&self, nr_slow: u64) -> TierCosts {
        TierCosts::in_user_space(&self.topology, nr_slow)
    }

    /// Waits as long as an access of the node's memory takes longer than one of DRAM.
    pub(crate) fn wait_for(&self, nth: usize) {
        if let Some(length) = self.delays[nth] {
            delay::spin(length);
        }
    }

    /// Where pages of the node this many places down are demoted to.
    pub(crate) fn demotion_from(&self, nth: usize) -> Option<Demotion<'_>> {
        // Nodes are a chain: there is nothing for a seed to choose from.
        Demotion::of(&self.topology, NodeId(nth as u8), self.options.demotion_mode(), 0)
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
        self.options.mode()
    }
}
