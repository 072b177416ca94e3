//! Statistics of tiers.

use crate::engine::Engine;
use crate::memory::compressed::CompressedStats;
use crate::memory::locks::lock;
use crate::memory::tier::Tier;
use pagetide_core::units::{Bytes, Millis, PAGE_BYTES};
use pagetide_core::vmstat::{Counter, VmStat};
use std::fmt;

/// One tier of frames.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TierStats {
    /// Tier with its present size.
    pub tier: Tier,
    /// Frames in use, bytes.
    pub resident_bytes: u64,
    /// Accesses of resident pages served.
    pub served: u64,
}

/// Counters of a cache with tiers, in pages unless noted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TieringStats {
    /// Tiers of frames, fastest first.
    pub tiers: Vec<TierStats>,
    /// Compressed tier.
    pub compressed: Option<CompressedStats>,
    /// Pages armed by the hint scan.
    pub armed: u64,
    /// Accesses of armed pages.
    pub hint_faults: u64,
    /// Pages found hot, promoted or not.
    pub candidates: u64,
    /// Hot pages not promoted because of the rate limit.
    pub rate_limited: u64,
    /// Pages accessed too late after the scan.
    pub too_cold: u64,
    /// Hot pages not promoted because the fast tier was full.
    pub no_room: u64,
    /// Hot pages not promoted because they were to be written.
    pub unmovable: u64,
    /// Pages moved to the fast tier.
    pub promoted: u64,
    /// Pages moved to a slower tier.
    pub demoted: u64,
    /// Present limit on the time between scan and access of a hot page.
    pub hot_threshold: Millis,
}

impl TieringStats {
    /// Returns the bytes moved to the fast tier.
    pub fn promoted_bytes(&self) -> u64 {
        self.promoted * PAGE_BYTES as u64
    }

    /// Returns the bytes moved to slower tiers.
    pub fn demoted_bytes(&self) -> u64 {
        self.demoted * PAGE_BYTES as u64
    }

    /// `core` has the counters of all nodes. `nr_hits` counts accesses of resident pages.
    pub(crate) fn collect(engine: &Engine, core: &VmStat, nr_hits: u64) -> Option<TieringStats> {
        let compressed = engine.pages.pool.as_ref().map(|pool| pool.collect_stats());
        let Some(tiering) = &engine.source.tiering else {
            return compressed.map(|compressed| TieringStats::of_pool(engine, compressed, nr_hits));
        };
        let (refusals, hot_threshold) = {
            let promotion = lock(&tiering.promotion);
            (*promotion.refusals(), promotion.hot_threshold())
        };
        let nr_slow: u64 =
            (1..engine.pages.nodes.len()).map(|nth| tiering.collect_served(nth)).sum();
        let tier_stats = |(nth, tier): (usize, &Tier)| TierStats {
            tier: tier.resized(Bytes(engine.pages.nodes.at(nth).frames.managed_bytes())),
            resident_bytes: engine.pages.nodes.at(nth).frames.resident_bytes(),
            served: match nth {
                0 => nr_hits.saturating_sub(nr_slow),
                _ => tiering.collect_served(nth),
            },
        };
        Some(TieringStats {
            tiers: tiering.tiers.iter().enumerate().map(tier_stats).collect(),
            compressed,
            armed: core.read(Counter::NumaPteUpdates),
            hint_faults: core.read(Counter::NumaHintFaults),
            candidates: core.read(Counter::PgpromoteCandidate),
            rate_limited: refusals.rate_limited,
            too_cold: refusals.too_cold,
            no_room: refusals.no_room,
            unmovable: refusals.unmovable,
            promoted: core.read(Counter::PgpromoteSuccess),
            demoted: nr_demoted(core),
            hot_threshold,
        })
    }

    fn of_pool(engine: &Engine, compressed: CompressedStats, nr_hits: u64) -> TieringStats {
        let resident_bytes = engine.pages.nodes.first().frames.resident_bytes();
        let tier = Tier::dram(Bytes(engine.pages.nodes.managed_bytes()));
        TieringStats {
            tiers: vec![TierStats { tier, resident_bytes, served: nr_hits }],
            compressed: Some(compressed),
            armed: 0,
            hint_faults: 0,
            candidates: 0,
            rate_limited: 0,
            too_cold: 0,
            no_room: 0,
            unmovable: 0,
            promoted: 0,
            demoted: 0,
            hot_threshold: Millis(0),
        }
    }
}

impl fmt::Display for TieringStats {
    /// Writes a line for each tier, one for moves, and one for hot pages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for TierStats { tier, resident_bytes, served } in &self.tiers {
            writeln!(f, "{tier}: {} resident, {served} accesses served", Bytes(*resident_bytes))?;
        }
        if let Some(pool) = &self.compressed {
            writeln!(f, "{pool}")?;
        }
        writeln!(
            f,
            "moved: {} pages up ({}), {} down ({})",
            self.promoted,
            Bytes(self.promoted_bytes()),
            self.demoted,
            Bytes(self.demoted_bytes()),
        )?;
        write!(
            f,
            "hint faults: {} of {} pages armed; hot within {} ms: {}, of which {} over the rate \
             and {} without room",
            self.hint_faults,
            self.armed,
            self.hot_threshold.0,
            self.candidates,
            self.rate_limited,
            self.no_room,
        )
    }
}

pub(crate) fn nr_demoted(core: &VmStat) -> u64 {
    let counters =
        [Counter::PgdemoteBackground, Counter::PgdemoteDirect, Counter::PgdemoteProactive];
    counters.map(|counter| core.read(counter)).iter().sum()
}
