//! Documents about a cache, with the names of the statistics and units in the names.

use crate::api::cache::PageCache;
use crate::api::group::GroupStats;
use crate::api::stats::cache::CacheStats;
use crate::engine::resident::ResidentFile;
use crate::engine::stats::latency::LatencyStats;
use pagetide_core::lru::own::SelectionSummary;
use pagetide_core::units::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of files listed, by bytes read.
const FILES_MAX: usize = 16;

/// Counters and usage of a cache.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields are those of CacheStats, by the same names")]
pub struct StatsDocument {
    /// Process ID.
    pub pid: u32,
    /// Name given by the program.
    pub name: String,
    pub policy: String,
    pub memory_bytes: u64,
    pub resident_bytes: u64,
    pub resident_bytes_max: u64,
    pub dirty_bytes: u64,
    pub accesses: u64,
    pub hits: u64,
    pub misses: u64,
    pub hit_ratio: f64,
    pub bypass_reads: u64,
    pub writes_through: u64,
    pub device_reads: u64,
    pub device_read_bytes: u64,
    pub device_writes: u64,
    pub device_write_bytes: u64,
    pub refaults: u64,
    pub activations: u64,
    pub evictions: u64,
    pub reclaim_cpu_ns: u64,
    pub direct_io: bool,
    pub io_uring: bool,
    /// Latency of reads.
    pub read_times: LatencyDocument,
    /// Current setting of a self-tuning policy.
    pub setting: Option<SettingDocument>,
    /// Tiers of frames, fastest first. Empty without tiers.
    pub tiers: Vec<TierDocument>,
    pub groups: Vec<GroupDocument>,
    /// Files with most bytes read.
    pub files: Vec<FileDocument>,
    /// Estimates for other memory sizes.
    pub hit_ratios: Vec<SizeDocument>,
    pub vmstat: BTreeMap<String, u64>,
}

/// A latency distribution.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LatencyDocument {
    /// Number of samples.
    pub count: u64,
    /// Sum of all samples.
    pub sum_ns: u64,
    /// Median, as the end of a bucket. `None` without samples.
    pub p50_us: Option<u64>,
    /// 99th percentile, likewise.
    pub p99_us: Option<u64>,
}

/// The current setting.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SettingDocument {
    /// Setting name.
    pub in_charge: String,
    /// Reason in words.
    pub why: String,
    /// Number of changes.
    pub changes: u64,
}

/// A tier of frames.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TierDocument {
    /// Tier as requested, with its present size.
    pub tier: String,
    /// Memory in use.
    pub resident_bytes: u64,
    /// Hits served.
    pub served: u64,
}

/// A group.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "fields are those of GroupStats, by the same names")]
pub struct GroupDocument {
    pub name: String,
    pub limit_bytes: Option<u64>,
    pub min_bytes: u64,
    pub low_bytes: u64,
    pub usage_bytes: u64,
    pub hits: u64,
    pub misses: u64,
    pub refaults: u64,
    pub evictions: u64,
}

/// Reads of a file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FileDocument {
    /// Path.
    pub file: String,
    /// Bytes read from the store.
    pub device_read_bytes: u64,
}

/// The estimate for another memory size.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SizeDocument {
    /// Memory size.
    pub memory_bytes: u64,
    /// Estimated hit ratio.
    pub hit_ratio: f64,
    /// One standard error.
    pub hit_ratio_error: f64,
}

/// The resident part of a file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DumpedFile {
    /// Path, or `None` if the file was closed.
    pub file: Option<String>,
    /// File length.
    pub len_bytes: u64,
    /// Resident bytes.
    pub resident_bytes: u64,
    /// Ranges of resident pages, in order: first page, number of pages, heat.
    pub ranges: Vec<(u64, u64, u8)>,
}

impl StatsDocument {
    pub(super) fn collect(cache: &PageCache, name: &str) -> StatsDocument {
        let stats = cache.stats();
        let groups = cache.groups();
        let files = cache.busiest_files(FILES_MAX).into_iter();
        StatsDocument {
            pid: std::process::id(),
            name: name.to_owned(),
            groups: groups.iter().filter_map(|it| it.stats().ok()).map(Into::into).collect(),
            files: files
                .map(|(file, device_read_bytes)| FileDocument { file, device_read_bytes })
                .collect(),
            ..StatsDocument::from(&stats)
        }
    }
}

impl From<&CacheStats> for StatsDocument {
    /// Leaves out the process, its name, the groups and the files.
    fn from(stats: &CacheStats) -> StatsDocument {
        let tiers = stats.tiering.iter().flat_map(|tiering| &tiering.tiers);
        let tier = |it: &crate::TierStats| TierDocument {
            tier: it.tier.to_string(),
            resident_bytes: it.resident_bytes,
            served: it.served,
        };
        StatsDocument {
            pid: 0,
            name: String::new(),
            policy: stats.policy.to_string(),
            memory_bytes: stats.memory_bytes,
            resident_bytes: stats.resident_bytes,
            resident_bytes_max: stats.resident_bytes_max.max(stats.resident_bytes),
            dirty_bytes: stats.dirty_bytes,
            accesses: stats.accesses,
            hits: stats.hits,
            misses: stats.misses,
            hit_ratio: stats.hit_ratio(),
            bypass_reads: stats.bypass_reads,
            writes_through: stats.writes_through,
            device_reads: stats.device_reads,
            device_read_bytes: stats.device_read_bytes,
            device_writes: stats.device_writes,
            device_write_bytes: stats.device_write_bytes,
            refaults: stats.refaults,
            activations: stats.activations,
            evictions: stats.evictions,
            reclaim_cpu_ns: stats.reclaim_cpu_ns,
            direct_io: stats.direct_io,
            io_uring: stats.io_uring,
            read_times: (&stats.read_times).into(),
            setting: stats.selection.as_ref().map(Into::into),
            tiers: tiers.map(tier).collect(),
            groups: Vec::new(),
            files: Vec::new(),
            hit_ratios: hit_ratios_of(stats),
            vmstat: stats.vmstat.iter().map(|(name, nr)| ((*name).to_owned(), *nr)).collect(),
        }
    }
}

fn hit_ratios_of(stats: &CacheStats) -> Vec<SizeDocument> {
    let (sizing, memory) = (stats.sizing(), stats.memory_bytes);
    let size = |memory_bytes| {
        let estimate = sizing.estimate(Bytes(memory_bytes));
        let (hit_ratio, hit_ratio_error) = (estimate.value, estimate.error);
        SizeDocument { memory_bytes, hit_ratio, hit_ratio_error }
    };
    [memory / 2, memory.saturating_mul(2), memory.saturating_mul(4)].map(size).into()
}

impl From<&ResidentFile> for DumpedFile {
    fn from(file: &ResidentFile) -> DumpedFile {
        let nr_pages = file.ranges.iter().map(|range| range.nr).sum();
        DumpedFile {
            file: file.path.as_ref().map(|path| path.to_string_lossy().into_owned()),
            len_bytes: file.len,
            resident_bytes: Bytes::from_pages(nr_pages).0,
            ranges: file.ranges.iter().map(|it| (it.first, it.nr, it.heat)).collect(),
        }
    }
}

impl From<&LatencyStats> for LatencyDocument {
    fn from(stats: &LatencyStats) -> LatencyDocument {
        let quantile = |share| {
            let end = stats.quantile(share)?;
            u64::try_from(end.as_micros()).ok()
        };
        LatencyDocument {
            count: stats.count(),
            sum_ns: u64::try_from(stats.sum().as_nanos()).unwrap_or(u64::MAX),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
        }
    }
}

impl From<&SelectionSummary> for SettingDocument {
    fn from(selection: &SelectionSummary) -> SettingDocument {
        let why = match &selection.last_change {
            None => "it is the first, and no other was enough better".to_owned(),
            Some(change) => format!(
                "{} had lost it {} hits by then, and a change costs {}; {} sampled accesses ago",
                change.from, change.to.lost, change.to.price, selection.nr_samples_since
            ),
        };
        SettingDocument {
            in_charge: selection.chosen.to_owned(),
            why,
            changes: selection.nr_changes,
        }
    }
}

impl From<GroupStats> for GroupDocument {
    fn from(stats: GroupStats) -> GroupDocument {
        GroupDocument {
            name: stats.name,
            limit_bytes: stats.limit_bytes,
            min_bytes: stats.min_bytes,
            low_bytes: stats.low_bytes,
            usage_bytes: stats.usage_bytes,
            hits: stats.hits,
            misses: stats.misses,
            refaults: stats.refaults,
            evictions: stats.evictions,
        }
    }
}
