//! Fast and slow memory: state of a cache with several nodes.
//!
//! ```text
//!   scan (tick)      words of pages in slow memory: HINT, and the time
//!   access           finds HINT, clears it --> Promotion::decide --> move to the fast node
//!   reclaim          see `reclaim`: demotes pages of a fast node if there is a free frame
//! ```
//!
//! Core decides. `moving` moves pages.
//!
//! Time is coarse, and passed in through [`PageCache::tick`](crate::PageCache::tick), by the
//! background thread or the program.

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

/// How pages move between tiers. The default is [`Stage::Auto`], which has no knobs: on real files
/// it came close to the oracle's placement, and Linux's stages did not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TieringOptions {
    /// Mechanisms that select pages for promotion.
    pub switches: TieringSwitches,
    /// Knobs of the mechanisms.
    pub knobs: TieringKnobs,
    /// Promotes hot pages of slow memory.
    pub promotion: bool,
    /// Demotes on reclaim of fast memory, instead of evicting.
    pub demotion: bool,
}

impl TieringOptions {
    pub(crate) fn mode(&self) -> BalancingMode {
        if self.promotion { BalancingMode::Tiering } else { BalancingMode::Off }
    }

    fn demotion_mode(&self) -> DemotionMode {
        if self.demotion { DemotionMode::On } else { DemotionMode::Off }
    }

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

type Served = CachePadded<[AtomicU64; NODES_MAX]>;

pub(crate) struct Tiering {
    pub(crate) tiers: Vec<Tier>,
    pub(crate) topology: Topology,
    pub(crate) options: TieringOptions,
    pub(crate) promotion: Mutex<Promotion>,
    pub(crate) scan: Mutex<HintScan>,
    pub(crate) began: Millis,
    /// Locked during a resize, outermost.
    pub(crate) sizes: Mutex<TierSizes>,
    delays: Vec<Option<Duration>>,
    now_ms: AtomicU64,
    served: ThreadLocal<Served>,
}

impl Tiering {
    /// Begins at `now` of the clock that later ticks report.
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

    pub(crate) fn now(&self) -> Millis {
        Millis(self.now_ms.load(Relaxed))
    }

    pub(crate) fn set_now(&self, now: Millis) {
        self.now_ms.fetch_max(now.0, Relaxed);
    }

    pub(crate) fn collect_served(&self, nth: usize) -> u64 {
        self.served.iter().map(|cells| cells[nth].load(Relaxed)).sum()
    }

    pub(crate) fn count_served(&self, nth: usize) {
        let cells =
            self.served.get_or(|| CachePadded::new([const { AtomicU64::new(0) }; NODES_MAX]));
        let cell = &cells[nth];
        cell.store(cell.load(Relaxed) + 1, Relaxed);
    }

    pub(crate) fn costs(&self, nr_slow: u64) -> TierCosts {
        TierCosts::in_user_space(&self.topology, nr_slow)
    }

    pub(crate) fn wait_for(&self, nth: usize) {
        if let Some(length) = self.delays[nth] {
            delay::spin(length);
        }
    }

    pub(crate) fn demotion_from(&self, nth: usize) -> Option<Demotion<'_>> {
        // Nodes form a chain, so the seed has no effect.
        Demotion::of(&self.topology, NodeId(nth as u8), self.options.demotion_mode(), 0)
    }

    pub(crate) fn demotes(&self, nth: usize) -> bool {
        self.demotion_from(nth).is_some()
    }

    /// Returns the watermark that background reclaim of the node restores.
    pub(crate) fn background_level(&self, nth: usize) -> WatermarkLevel {
        background_level(&self.topology, NodeId(nth as u8), self.mode())
    }

    pub(crate) fn mode(&self) -> BalancingMode {
        self.options.mode()
    }
}
