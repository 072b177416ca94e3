//! Statistics of a cache.

use crate::api::stats::tiers::{TieringStats, nr_demoted};
use crate::api::stats::{hit_ratio, write_accesses};
use crate::engine::Engine;
use crate::engine::stats::counters::Event;
use crate::engine::stats::latency::LatencyStats;
use crate::engine::stats::sizing::Sizing;
use crate::memory::frames::ArenaFrames;
use crate::memory::locks::lock;
use crate::memory::node::Nodes;
use pagetide_core::lru::PolicyName;
use pagetide_core::lru::own::SelectionSummary;
use pagetide_core::sizing::ReuseCounts;
use pagetide_core::units::Bytes;
use pagetide_core::vmstat::{Counter, VmStat};
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

/// Counters and usage of a page cache.
///
/// Counters are summed over threads in turn: exact if no thread is running.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// The replacement policy.
    pub policy: PolicyName,
    /// Limit, bytes.
    pub memory_bytes: u64,
    /// Frames in use, bytes. Never above the limit.
    pub resident_bytes: u64,
    /// Maximum of `resident_bytes`, sampled when frames run low.
    pub resident_bytes_max: u64,
    /// Dirty pages, bytes.
    pub dirty_bytes: u64,
    /// Page accesses: hits and misses.
    pub accesses: u64,
    /// Accesses of resident pages.
    pub hits: u64,
    /// Accesses of absent pages.
    pub misses: u64,
    /// Pages read straight to the caller for lack of a frame.
    pub bypass_reads: u64,
    /// Pages written straight to the store for lack of a frame.
    pub writes_through: u64,
    /// Read requests to stores.
    pub device_reads: u64,
    /// Bytes read from stores.
    pub device_read_bytes: u64,
    /// Write requests to stores.
    pub device_writes: u64,
    /// Bytes written to stores.
    pub device_write_bytes: u64,
    /// Faults on pages evicted before, if the policy keeps shadows.
    pub refaults: u64,
    /// Refaults activated at once.
    pub activations: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// CPU time spent reclaiming, ns.
    pub reclaim_cpu_ns: u64,
    /// Latency of reads from stores.
    pub read_times: LatencyStats,
    /// Files bypass the kernel's page cache. False once any file refused.
    pub direct_io: bool,
    /// Batched requests use io_uring.
    pub io_uring: bool,
    /// Current setting of a self-tuning policy and its alternatives, on the node for new pages.
    pub selection: Option<SelectionSummary>,
    /// Statistics of tiers.
    pub tiering: Option<TieringStats>,
    /// All counters by name, the kernel's name if there is one.
    pub vmstat: Vec<(&'static str, u64)>,
    reuse: ReuseCounts,
}

impl CacheStats {
    /// Returns hits over accesses, 0 before the first access.
    pub fn hit_ratio(&self) -> f64 {
        hit_ratio(self.hits, self.accesses)
    }

    /// Returns estimates of the hit ratio for other memory sizes.
    pub fn sizing(&self) -> Sizing {
        Sizing {
            counts: self.reuse.clone(),
            memory: Bytes(self.memory_bytes),
            nr_hits: self.hits,
            nr_accesses: self.accesses,
        }
    }

    fn describe_requests(&self) -> &'static str {
        match (self.direct_io, self.io_uring) {
            (true, true) => "past the kernel's page cache, by io_uring",
            (true, false) => "past the kernel's page cache, one by one",
            (false, true) => "through the kernel's page cache, by io_uring",
            (false, false) => "through the kernel's page cache, one by one",
        }
    }

    pub(crate) fn collect(engine: &Engine) -> CacheStats {
        let (policy, selection) = {
            let lists = engine.pages.nodes.first().lock_lists();
            (lists.root().policy_name(), lists.root().selection_summary())
        };
        let mut core = VmStat::default();
        engine.pages.nodes.iter().for_each(|node| core.merge(&node.lock_lists().vmstat()));
        if let Some(tiering) = &engine.source.tiering {
            core.merge(lock(&tiering.promotion).vmstat());
        }
        let count = |event| {
            let in_groups = engine.source.groups.as_ref().map_or(0, |groups| groups.collect(event));
            engine.pages.counters.collect(event) + in_groups
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
            memory_bytes: engine.pages.nodes.managed_bytes(),
            resident_bytes: sum_nodes(&engine.pages.nodes, ArenaFrames::resident_bytes),
            resident_bytes_max: sum_nodes(&engine.pages.nodes, ArenaFrames::resident_bytes_max),
            dirty_bytes: engine.pages.dirty.bytes(),
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
            read_times: engine.pages.read_times.collect(),
            direct_io: engine.direct_io.load(Relaxed),
            io_uring: engine.io_uring,
            selection,
            tiering: TieringStats::collect(engine, &core, hits),
            vmstat,
            reuse: engine.pages.reuse.counts(),
        }
    }
}

impl fmt::Display for CacheStats {
    /// Writes about ten lines for people. Programs should read the fields.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [memory, resident, resident_max, dirty, device_read, device_written] = [
            self.memory_bytes,
            self.resident_bytes,
            self.resident_bytes_max.max(self.resident_bytes),
            self.dirty_bytes,
            self.device_read_bytes,
            self.device_write_bytes,
        ]
        .map(Bytes);
        writeln!(f, "policy      {}", self.policy)?;
        writeln!(f, "memory      {memory}: {resident} resident, at most {resident_max}")?;
        writeln!(f, "dirty       {dirty}")?;
        let past = (self.bypass_reads, self.writes_through);
        write_accesses(f, (self.hits, self.misses), past)?;
        writeln!(
            f,
            "device      {} reads of {device_read}, {} writes of {device_written}",
            self.device_reads, self.device_writes
        )?;
        writeln!(f, "requests    {}", self.describe_requests())?;
        writeln!(f, "refaults    {}, {} of them activated", self.refaults, self.activations)?;
        let reclaim_ms = self.reclaim_cpu_ns as f64 / 1e6;
        write!(f, "evictions   {}, for {reclaim_ms:.1} ms of CPU time", self.evictions)?;
        if let Some(selection) = &self.selection {
            let nr_changes = selection.nr_changes;
            write!(f, "\nsetting     {}, after {nr_changes} changes", selection.chosen)?;
        }
        if let Some(tiering) = &self.tiering {
            write!(f, "\n{tiering}")?;
        }
        Ok(())
    }
}

fn sum_nodes(nodes: &Nodes, of: impl Fn(&ArenaFrames) -> u64) -> u64 {
    nodes.iter().map(|node| of(&node.frames)).sum()
}

#[cfg(test)]
mod tests {
    use crate::{Bytes, OpenOptions, PageCache, PolicyName, Tier};

    #[test]
    fn statistics_print_what_their_fields_say() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, [1; 8192]).unwrap();
        let builder = PageCache::builder().memory(Bytes(1 << 20)).policy(PolicyName::Lru);
        let cache = builder.background(false).readahead_max(Bytes(0)).build().unwrap();
        let file = cache.open(&path, OpenOptions::new().read(true).write(true)).unwrap();
        for offset in [0, 4096, 0, 4096] {
            file.read_at(&mut [0; 10], offset).unwrap();
        }
        file.write_at(&[2], 0).unwrap();
        let text = cache.stats().to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "policy      lru");
        assert_eq!(lines[1], "memory      1M: 8K resident, at most 8K");
        assert_eq!(lines[2], "dirty       4K");
        assert_eq!(lines[3], "accesses    5: 3 hits (60.0 %), 2 misses");
        assert_eq!(lines[5], "device      2 reads of 8K, 0 writes of 0");
        assert_eq!(lines.len(), 9, "{text}");
    }

    #[test]
    fn settings_and_tiers_have_their_lines() {
        let builder = PageCache::builder().tier(Tier::dram(Bytes(1 << 20)));
        let builder = builder.tier(Tier::compressed(Bytes(1 << 20))).policy(PolicyName::Pagetide);
        let text = builder.background(false).build().unwrap().stats().to_string();
        assert!(text.contains("\nsetting     "), "{text}");
        assert!(text.contains("\ndram=1M: 0 resident"), "{text}");
        assert!(text.contains("\ncompressed=1M: "), "{text}");
        assert!(text.lines().count() <= 15, "{text}");
    }
}
