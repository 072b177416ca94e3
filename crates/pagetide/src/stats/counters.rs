//! The library's own counters, per thread, and the snapshot users read.
//!
//! Core's counters (refaults, scans, evictions) live with the lruvec; these are what core cannot
//! see: hits, device requests, time. Each thread counts in cells of its own, so that a hit adds
//! with a plain store: a locked instruction would keep the processor from starting the next copy
//! early.

use crate::engine::Engine;
use crate::memory::frames::ArenaFrames;
use crate::memory::locks::lock;
use crate::memory::node::Nodes;
use crate::stats::sizing::Sizing;
use crate::stats::tier_stats::TieringStats;
use crossbeam_utils::CachePadded;
use pagetide_core::lru::PolicyName;
use pagetide_core::lru::pagetide::SelectionSummary;
use pagetide_core::sizing::ReuseCounts;
use pagetide_core::units::Bytes;
use pagetide_core::vmstat::{Counter, VmStat};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use thread_local::ThreadLocal;

macro_rules! events {
    ($($(#[doc = $doc:literal])+ $variant:ident,)+) => {
        /// Something that is counted.
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Event {
            $($(#[doc = $doc])+ $variant,)+
        }

        const NR_EVENTS: usize = [$(Event::$variant,)+].len();
    };
}

events! {
    /// A page was resident when it was wanted.
    Hit,
    /// A page had to be filled.
    Miss,
    /// A page was read past the cache, because no frame could be had.
    BypassRead,
    /// A page was written past the cache, because no frame could be had.
    WriteThrough,
    /// A read request to the store.
    DeviceRead,
    /// Bytes read from the store.
    DeviceReadBytes,
    /// A write request to the store.
    DeviceWrite,
    /// Bytes written to the store.
    DeviceWriteBytes,
    /// Pages brought in by readahead.
    Readahead,
    /// Readahead pages evicted before anyone read them.
    ReadaheadWasted,
    /// Pages read around others that were missed, while memory was ample.
    Around,
    /// Those of them evicted before anyone read them.
    AroundWasted,
    /// Requests of readahead whose frames were scattered, and that went through memory in a row.
    StagedRead,
    /// Logged accesses dropped because the lruvec was busy.
    TouchLost,
    /// CPU time of reclaim passes, ns.
    ReclaimCpuNs,
    /// Reclaim passes by threads that needed a frame.
    DirectPass,
    /// Reclaim passes by the background thread.
    BackgroundPass,
    /// Faults of regions on pages that were not in memory.
    RegionMissing,
    /// Faults of regions on pages in memory that were not mapped.
    RegionMinor,
    /// Stores of regions' users to pages that were mapped for reading.
    RegionWriteProtect,
    /// Faults of regions on pages that could not be had.
    RegionFailed,
}

/// One thread's counts. Written by that thread alone.
type Cells = CachePadded<[AtomicU64; NR_EVENTS]>;

/// Event counts of all threads.
#[derive(Default)]
pub(crate) struct Counters {
    cells: ThreadLocal<Cells>,
}

impl Counters {
    #[inline]
    pub(crate) fn count(&self, event: Event) {
        self.add(event, 1);
    }

    #[inline]
    pub(crate) fn add(&self, event: Event, nr: u64) {
        let cells =
            self.cells.get_or(|| CachePadded::new([const { AtomicU64::new(0) }; NR_EVENTS]));
        let cell = &cells[event as usize];
        cell.store(cell.load(Relaxed) + nr, Relaxed);
    }

    pub(crate) fn collect(&self, event: Event) -> u64 {
        self.cells.iter().map(|cells| cells[event as usize].load(Relaxed)).sum()
    }
}

/// What the page cache has done so far, and how full it is.
///
/// Counts are sums over threads read one after the other: exact when nothing is running.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// The replacement policy.
    pub policy: PolicyName,
    /// The limit, bytes.
    pub memory_bytes: u64,
    /// Frames in use, bytes; never above the limit.
    pub resident_bytes: u64,
    /// The most `resident_bytes` seen, sampled whenever frames ran low.
    pub resident_bytes_max: u64,
    /// Dirty pages, bytes.
    pub dirty_bytes: u64,
    /// Pages wanted: hits and misses.
    pub accesses: u64,
    /// Pages that were resident when wanted.
    pub hits: u64,
    /// Pages that were not.
    pub misses: u64,
    /// Pages read straight to the caller because no frame could be had.
    pub bypass_reads: u64,
    /// Pages written straight to the store because no frame could be had.
    pub writes_through: u64,
    /// Read requests to stores.
    pub device_reads: u64,
    /// Bytes read from stores.
    pub device_read_bytes: u64,
    /// Write requests to stores.
    pub device_writes: u64,
    /// Bytes written to stores.
    pub device_write_bytes: u64,
    /// Faults on pages evicted before, where the policy keeps shadows.
    pub refaults: u64,
    /// Refaults that were made active at once.
    pub activations: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// CPU time spent reclaiming, ns.
    pub reclaim_cpu_ns: u64,
    /// Whether files bypass the kernel's page cache; false once any file refused.
    pub direct_io: bool,
    /// Whether batched requests go through io_uring.
    pub io_uring: bool,
    /// Which arm the policy works by, and how the others compare, where it chooses between some:
    /// on the node where pages come in.
    pub selection: Option<SelectionSummary>,
    /// What tiers did, where there are any.
    pub tiering: Option<TieringStats>,
    /// All counters by name, the kernel's where it has one.
    pub vmstat: Vec<(&'static str, u64)>,
    reuse: ReuseCounts,
}

impl CacheStats {
    /// Hits over accesses; 0 before the first access.
    pub fn hit_ratio(&self) -> f64 {
        if self.accesses == 0 { 0.0 } else { self.hits as f64 / self.accesses as f64 }
    }

    /// What the hit ratio would have been with less memory, or with more.
    pub fn sizing(&self) -> Sizing {
        Sizing {
            counts: self.reuse.clone(),
            memory: Bytes(self.memory_bytes),
            nr_hits: self.hits,
            nr_accesses: self.accesses,
        }
    }

    pub(crate) fn collect(engine: &Engine) -> CacheStats {
        let (policy, selection) = {
            let lists = engine.nodes.first().lock_lists();
            (lists.root().policy_name(), lists.root().selection_summary())
        };
        let mut core = VmStat::default();
        engine.nodes.iter().for_each(|node| core.merge(&node.lock_lists().vmstat()));
        if let Some(tiering) = &engine.tiering {
            core.merge(lock(&tiering.promotion).vmstat());
        }
        let count = |event| {
            let in_groups = engine.groups.as_ref().map_or(0, |groups| groups.collect(event));
            engine.counters.collect(event) + in_groups
        };
        let sum = |counters: [Counter; 2]| counters.iter().map(|one| core.read(*one)).sum();
        let mut vmstat: Vec<(&'static str, u64)> = core.iter().collect();
        vmstat.extend([
            ("pgpgin", count(Event::DeviceReadBytes) >> 10),
            ("pgpgout", count(Event::DeviceWriteBytes) >> 10),
            ("readahead_pages", count(Event::Readahead)),
            ("readahead_wasted", count(Event::ReadaheadWasted)),
            ("around_pages", count(Event::Around)),
            ("around_wasted", count(Event::AroundWasted)),
            ("staged_reads", count(Event::StagedRead)),
            ("touches_lost", count(Event::TouchLost)),
            ("direct_passes", count(Event::DirectPass)),
            ("background_passes", count(Event::BackgroundPass)),
            ("region_missing_faults", count(Event::RegionMissing)),
            ("region_minor_faults", count(Event::RegionMinor)),
            ("region_wp_faults", count(Event::RegionWriteProtect)),
            ("region_failed_faults", count(Event::RegionFailed)),
        ]);
        let (hits, misses) = (count(Event::Hit), count(Event::Miss));
        CacheStats {
            policy,
            memory_bytes: engine.nodes.managed_bytes(),
            resident_bytes: sum_nodes(&engine.nodes, ArenaFrames::resident_bytes),
            resident_bytes_max: sum_nodes(&engine.nodes, ArenaFrames::resident_bytes_max),
            dirty_bytes: engine.dirty.bytes(),
            accesses: hits + misses,
            hits,
            misses,
            bypass_reads: count(Event::BypassRead),
            writes_through: count(Event::WriteThrough),
            device_reads: count(Event::DeviceRead),
            device_read_bytes: count(Event::DeviceReadBytes),
            device_writes: count(Event::DeviceWrite),
            device_write_bytes: count(Event::DeviceWriteBytes),
            refaults: sum([Counter::WorkingsetRefaultAnon, Counter::WorkingsetRefaultFile]),
            activations: sum([Counter::WorkingsetActivateAnon, Counter::WorkingsetActivateFile]),
            evictions: sum([Counter::PgstealAnon, Counter::PgstealFile]) - nr_demoted(&core),
            reclaim_cpu_ns: count(Event::ReclaimCpuNs),
            direct_io: engine.direct_io.load(Relaxed),
            io_uring: engine.io_uring.load(Relaxed),
            selection,
            tiering: TieringStats::collect(engine, &core, hits),
            vmstat,
            reuse: engine.reuse.counts(),
        }
    }
}

fn sum_nodes(nodes: &Nodes, of: impl Fn(&ArenaFrames) -> u64) -> u64 {
    nodes.iter().map(|node| of(&node.frames)).sum()
}

/// Pages that reclaim got rid of by moving them.
pub(crate) fn nr_demoted(core: &VmStat) -> u64 {
    let counters =
        [Counter::PgdemoteBackground, Counter::PgdemoteDirect, Counter::PgdemoteProactive];
    counters.map(|counter| core.read(counter)).iter().sum()
}
