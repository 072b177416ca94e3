//! The summary of a run: text for people, JSON for scripts.

use crate::document::Document;
use crate::failure::Failure;
use crate::machine;
use crate::output;
use pagetide::{CacheStats, Estimate, SizeChange, SizeChanges, SizeReason, Sizing};
use pagetide_core::units::{Bytes, PAGE_BYTES};
use pagetide_run::Server;
use pagetide_run::wire::Reason;
use pagetide_sys::read_self_anonymous_bytes;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    exit_code: u8,
    policy: String,
    memory_bytes: u64,
    resident_bytes_max: u64,
    /// Memory beside the frames, at the end.
    own_bytes: Option<u64>,
    accesses: u64,
    hits: u64,
    misses: u64,
    hit_ratio: f64,
    refaults: u64,
    evictions: u64,
    device_reads: u64,
    device_read_bytes: u64,
    device_writes: u64,
    device_write_bytes: u64,
    dirty_bytes: u64,
    direct_io: bool,
    processes: u64,
    mappings: u64,
    /// Bytes owned by the programs.
    private_mapping_bytes: u64,
    /// Calls beyond the limit on locked memory.
    mapping_locks_refused: u64,
    /// The warm-up, null without `--warm`.
    warm: Option<WarmSummary>,
    /// The changes, null with a fixed limit.
    auto: Option<AutoSummary>,
    sizing: SizingSummary,
    /// Counts by reason.
    kernel_files: BTreeMap<&'static str, u64>,
    kernel: KernelSummary,
}

/// I/O of the programs that the kernel served, also for static programs.
#[derive(Clone, Copy, Debug, Serialize)]
struct KernelSummary {
    /// Bytes that the kernel read from devices for the programs. Null if the kernel does not count.
    device_read_bytes: Option<u64>,
    /// Bytes that the programs wrote to the kernel's page cache, in whole pages.
    written_bytes: Option<u64>,
    /// Bytes of the known files in the kernel's page cache, at the end and at most.
    cached_bytes: u64,
    cached_bytes_max: u64,
    /// Share of the bytes that the page cache served: accesses times the size of a page.
    served_share: Option<f64>,
}

impl KernelSummary {
    fn of(server: &Server, stats: &CacheStats) -> KernelSummary {
        // The counters of this process include the ended children.
        let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        let beside = |name: &str, own: u64| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim().parse::<u64>().ok()?.saturating_sub(own))
        };
        let (cached_bytes, cached_bytes_max) = server.kernel_bytes_cached();
        let summary = KernelSummary {
            device_read_bytes: beside("read_bytes:", stats.device_read_bytes),
            written_bytes: beside("write_bytes:", stats.device_write_bytes),
            cached_bytes,
            cached_bytes_max,
            served_share: None,
        };
        let served = (stats.accesses * PAGE_BYTES as u64) as f64;
        let all = summary.nr_bytes().map(|bytes| bytes as f64 + served).filter(|all| *all > 0.0);
        KernelSummary { served_share: all.map(|all| served / all), ..summary }
    }

    /// Returns the bytes that the kernel served.
    fn nr_bytes(&self) -> Option<u64> {
        Some(self.device_read_bytes? + self.written_bytes?)
    }
}

/// Pages of the files opened so far.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct WarmSummary {
    pages: u64,
    brought_in_pages: u64,
    stale_files: u64,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct AutoSummary {
    memory_bytes_min: u64,
    memory_bytes_max: u64,
    /// Increases for more hits.
    grown: u64,
    /// Decreases because other processes used the reserve.
    shrunk_for_reserve: u64,
    /// Decreases because threads waited for memory.
    shrunk_for_stalls: u64,
    /// Changes, oldest first.
    last: Vec<ChangeRow>,
}

#[derive(Clone, Debug, Serialize)]
struct ChangeRow {
    seconds: f64,
    from_bytes: u64,
    to_bytes: u64,
    reason: &'static str,
    spare_bytes: u64,
}

impl AutoSummary {
    fn of(changes: SizeChanges) -> AutoSummary {
        let row = |change: &SizeChange| ChangeRow {
            seconds: change.at.as_secs_f64(),
            from_bytes: change.from.0,
            to_bytes: change.to.0,
            reason: match change.reason {
                SizeReason::Pays => "more hits were to be had",
                SizeReason::Reserve => "others took what was kept in reserve",
                SizeReason::Stalled => "threads waited for memory",
            },
            spare_bytes: change.spare.0,
        };
        AutoSummary {
            memory_bytes_min: changes.memory_min.0,
            memory_bytes_max: changes.memory_max.0,
            grown: changes.grown,
            shrunk_for_reserve: changes.shrunk_for_reserve,
            shrunk_for_stalls: changes.shrunk_for_stalls,
            last: changes.last.iter().map(row).collect(),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct SizingSummary {
    /// Memory for [`WORKING_SET`] of LRU's hits with `memory_known_bytes`.
    working_set_bytes: u64,
    /// One standard error of the sample, as in all error fields.
    working_set_error_bytes: u64,
    memory_known_bytes: u64,
    sampled_accesses: u64,
    hit_ratios: Vec<SizeRow>,
}

#[derive(Clone, Debug, Serialize)]
struct SizeRow {
    memory_bytes: u64,
    /// The LRU estimate, corrected by the measured hit ratio.
    hit_ratio: f64,
    hit_ratio_error: f64,
    /// The LRU estimate. Not comparable with `hit_ratio` if the run read ahead.
    lru_hit_ratio_without_readahead: f64,
    lru_hit_ratio_without_readahead_error: f64,
}

fn say_reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Mapped => "mapped",
        Reason::Standard => "standard input or output",
        Reason::Inherited => "inherited by programs that cannot be served",
        Reason::Interface => "used by other interfaces",
        Reason::Locked => "locked as only the kernel can",
        Reason::Outside => "open outside",
        Reason::Unleased => "without a lease",
        Reason::OtherUser => "of a process that changed its user",
        Reason::Exhausted => "without a descriptor of the server's",
        Reason::Excluded => "excluded",
        Reason::Unwatched => "mapped, with userfaultfd refused",
        Reason::Short => "short, and mapped to be written",
        Reason::Filtered => "of a process that filters its system calls",
    }
}

/// Returns the summary's words for a reason, and the option that changes who serves such files.
fn advice_of(reason: Reason) -> Option<(&'static str, &'static str)> {
    let advice = match reason {
        Reason::Mapped => "--mmap auto or cache serves mappings within the limit",
        Reason::Excluded => "--include and --exclude decide, except for programs and scripts",
        Reason::Unwatched => "allow userfaultfd (sysctl vm.unprivileged_userfaultfd=1)",
        Reason::Outside => "close them in other programs before the run",
        _ => return None,
    };
    Some((say_reason(reason), advice))
}

const WORKING_SET: f64 = 0.99;

impl SizingSummary {
    fn of(sizing: &Sizing) -> SizingSummary {
        // From 1/8 to 4 times the memory.
        let sizes = (0..6).map(|doublings| Bytes((sizing.memory().0 / 8) << doublings));
        SizingSummary {
            working_set_bytes: sizing.working_set(WORKING_SET).0,
            working_set_error_bytes: sizing.working_set_error(WORKING_SET).0,
            memory_known_bytes: sizing.memory_known().0,
            sampled_accesses: sizing.sampled_accesses(),
            hit_ratios: sizes.map(|memory| SizeRow::of(sizing, memory)).collect(),
        }
    }

    fn at(&self, memory: u64) -> Option<Estimate> {
        let row = self.hit_ratios.iter().find(|row| row.memory_bytes == memory)?;
        Some(Estimate { value: row.hit_ratio, error: row.hit_ratio_error })
    }
}

impl SizeRow {
    fn of(sizing: &Sizing, memory: Bytes) -> SizeRow {
        let (estimate, lru) = (sizing.estimate(memory), sizing.lru_estimate(memory));
        SizeRow {
            memory_bytes: memory.0,
            hit_ratio: estimate.value,
            hit_ratio_error: estimate.error,
            lru_hit_ratio_without_readahead: lru.value,
            lru_hit_ratio_without_readahead_error: lru.error,
        }
    }
}

impl Summary {
    pub(super) fn collect(server: &Server, exit_code: u8, is_warmed: bool) -> Summary {
        let stats: CacheStats = server.cache().stats();
        let kernel_files = server.handed_over().filter(|(_, nr)| *nr > 0);
        Summary {
            exit_code,
            policy: stats.policy.to_string(),
            memory_bytes: stats.memory_bytes,
            resident_bytes_max: stats.resident_bytes_max.max(stats.resident_bytes),
            own_bytes: read_self_anonymous_bytes().map(|bytes| bytes.0),
            accesses: stats.accesses,
            hits: stats.hits,
            misses: stats.misses,
            hit_ratio: stats.hit_ratio(),
            refaults: stats.refaults,
            evictions: stats.evictions,
            device_reads: stats.device_reads,
            device_read_bytes: stats.device_read_bytes,
            device_writes: stats.device_writes,
            device_write_bytes: stats.device_write_bytes,
            dirty_bytes: stats.dirty_bytes,
            direct_io: stats.direct_io,
            processes: server.nr_processes(),
            mappings: server.nr_mappings(),
            private_mapping_bytes: server.own_bytes_of_mappings(),
            mapping_locks_refused: server.nr_locks_refused(),
            warm: is_warmed.then(|| {
                let warm = server.cache().warm_stats();
                WarmSummary {
                    pages: warm.pages,
                    brought_in_pages: warm.brought_in,
                    stale_files: warm.stale_files,
                }
            }),
            auto: server.cache().size_changes().map(AutoSummary::of),
            sizing: SizingSummary::of(&stats.sizing()),
            kernel_files: kernel_files.map(|(reason, nr)| (say_reason(reason), nr)).collect(),
            kernel: KernelSummary::of(server, &stats),
        }
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        output::write("the summary", path, &Document::new("pagetide.run/1", [self]).to_text()?)
    }
}

impl Summary {
    fn write_kernel(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = machine::rounded(self.kernel.cached_bytes_max);
        if let (Some(share), Some(bytes)) = (self.kernel.served_share, self.kernel.nr_bytes()) {
            write!(
                f,
                "\npagetide: served {:.0} % of the I/O; the kernel served {}, and had at most \
                 {most} of it in memory",
                share * 100.0,
                machine::rounded(bytes),
            )?;
        }
        let advice = Reason::ALL.into_iter().filter_map(advice_of);
        let advice = advice.filter(|(reason, _)| self.kernel_files.contains_key(reason));
        for (reason, option) in advice {
            write!(f, "\npagetide: files {reason}: {option}")?;
        }
        Ok(())
    }

    fn write_sizing(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = self.memory_bytes / 8 * 8;
        let sides = [memory / 2, memory * 2].map(|size| (size, self.sizing.at(size)));
        let [(half, Some(with_half)), (double, Some(with_double))] = sides else { return Ok(()) };
        if self.sizing.working_set_bytes == 0 {
            return write!(f, "\npagetide: working set: none, no page was used again");
        }
        write!(
            f,
            "\npagetide: working set ({:.0}% of the hits): {}; with {} the hit ratio would have \
             been {}, with {} {}",
            WORKING_SET * 100.0,
            machine::rounded_estimate(
                self.sizing.working_set_bytes,
                self.sizing.working_set_error_bytes
            ),
            machine::rounded(half),
            with_half,
            machine::rounded(double),
            with_double
        )
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "pagetide: {} accesses, hit ratio {:.3}, {} refaults, {} evictions ({})",
            self.accesses, self.hit_ratio, self.refaults, self.evictions, self.policy
        )?;
        write!(
            f,
            "pagetide: read {}, wrote {}; resident at most {} of {}",
            machine::rounded(self.device_read_bytes),
            machine::rounded(self.device_write_bytes),
            machine::rounded(self.resident_bytes_max),
            machine::rounded(self.memory_bytes)
        )?;
        if let Some(own) = self.own_bytes {
            write!(f, ", and {} of its own", machine::rounded(own))?;
        }
        self.write_sizing(f)?;
        if self.private_mapping_bytes > 0 {
            let bytes = machine::rounded(self.private_mapping_bytes);
            write!(f, "\npagetide: stored to private mappings, beside the limit: {bytes}")?;
        }
        if let Some(auto) = &self.auto {
            write!(
                f,
                "\npagetide: memory auto: {} to {}; grew {} times as more hits were to be had, \
                 shrank {} times as others took memory and {} as threads waited for it",
                machine::rounded(auto.memory_bytes_min),
                machine::rounded(auto.memory_bytes_max),
                auto.grown,
                auto.shrunk_for_reserve,
                auto.shrunk_for_stalls
            )?;
        }
        if let Some(warm) = self.warm {
            let WarmSummary { brought_in_pages, stale_files, .. } = warm;
            write!(
                f,
                "\npagetide: warm: {brought_in_pages} pages brought in, {stale_files} files had \
                 changed"
            )?;
        }
        let left: u64 = self.kernel_files.values().sum();
        if left > 0 {
            let reasons: Vec<String> =
                self.kernel_files.iter().map(|(reason, nr)| format!("{nr} {reason}")).collect();
            let files = if left == 1 { "file was" } else { "files were" };
            write!(f, "\npagetide: {left} {files} the kernel's: {}", reasons.join(", "))?;
        }
        self.write_kernel(f)
    }
}
