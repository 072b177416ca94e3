//! What is told of a cache: names as in the statistics, units in the names.

use crate::api::cache::PageCache;
use crate::api::group::GroupStats;
use crate::api::stats::cache::CacheStats;
use crate::engine::resident::ResidentFile;
use crate::engine::stats::latency::LatencyStats;
use pagetide_core::lru::own::SelectionSummary;
use pagetide_core::units::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Files that are told of, those of which most was read.
const FILES_MAX: usize = 16;

/// What a cache has done so far, and how full it is.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields are those of CacheStats, by the same names")]
pub struct StatsDocument {
    /// The process that has it.
    pub pid: u32,
    /// What its program calls it.
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
    /// How long threads waited for reads.
    pub read_times: LatencyDocument,
    /// The setting that the policy works by, where it chooses between some.
    pub setting: Option<SettingDocument>,
    /// Tiers of frames, the fastest first; none where memory is of one kind.
    pub tiers: Vec<TierDocument>,
    pub groups: Vec<GroupDocument>,
    /// The files of which most was read.
    pub files: Vec<FileDocument>,
    /// What other sizes of memory would have done.
    pub hit_ratios: Vec<SizeDocument>,
    pub vmstat: BTreeMap<String, u64>,
}

/// How long something took, each time.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LatencyDocument {
    /// How often.
    pub count: u64,
    /// All together.
    pub sum_ns: u64,
    /// Half took no longer than this; a bucket's end, `None` where there is none.
    pub p50_us: Option<u64>,
    /// As `p50_us`, of 99 in 100.
    pub p99_us: Option<u64>,
}

/// The setting in charge.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SettingDocument {
    /// Its name.
    pub in_charge: String,
    /// Why it is, in words.
    pub why: String,
    /// How often another took charge.
    pub changes: u64,
}

/// A tier of frames.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TierDocument {
    /// As it was asked for, with its present size.
    pub tier: String,
    /// In use.
    pub resident_bytes: u64,
    /// Hits that it served.
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

/// What was read of a file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FileDocument {
    /// Where it is.
    pub file: String,
    /// Bytes of it that were read from its store.
    pub device_read_bytes: u64,
}

/// What another size of memory would have done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SizeDocument {
    /// The size.
    pub memory_bytes: u64,
    /// Drawn through what was measured.
    pub hit_ratio: f64,
    /// One standard error.
    pub hit_ratio_error: f64,
}

/// What of a file is in memory.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DumpedFile {
    /// Where it is; `None` where it was closed.
    pub file: Option<String>,
    /// How long it is.
    pub len_bytes: u64,
    /// In memory.
    pub resident_bytes: u64,
    /// Pages in memory: the first, how many, and how hot they are, in order.
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
    /// All but the process and its names, the groups and the files.
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

/// Half the memory, twice and four times it.
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
