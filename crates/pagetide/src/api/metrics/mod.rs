//! The counters of a cache as metrics. A [`MetricsRecorder`] of the caller receives every metric
//! once a call.
//!
//! Names are the names of the statistics, in base units (bytes, seconds). Counters that the kernel
//! has as well follow `pagetide_vmstat_` with their name from `/proc/vmstat`.

#[cfg(any(feature = "metrics", feature = "opentelemetry"))]
pub(crate) mod exporters;
pub(crate) mod exposition;

use crate::api::cache::PageCache;
use crate::api::group::GroupStats;
use crate::api::stats::cache::CacheStats;
use crate::api::stats::tiers::TieringStats;
use crate::engine::stats::latency::LatencyStats;
use std::cmp::Reverse;

/// A receiver of metrics.
pub trait MetricsRecorder {
    /// Receives one metric. Metrics of one name are consecutive, with different labels.
    fn record(&mut self, metric: &MetricSample<'_>);
}

/// One metric, with one set of labels.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct MetricSample<'a> {
    /// Metric name, as `pagetide_hits_total`. Counters end in `_total`.
    pub name: &'a str,
    /// Description, without a full stop.
    pub help: &'a str,
    /// Kind of metric.
    pub kind: MetricKind,
    /// Label names and values.
    pub labels: &'a [(&'a str, &'a str)],
    /// Present value.
    pub value: MetricValue<'a>,
}

/// The meaning of a metric's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricKind {
    /// Grows from 0 since the cache was built.
    Counter,
    /// Any number.
    Gauge,
    /// A distribution of latencies.
    Histogram,
}

/// A metric's value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum MetricValue<'a> {
    /// A whole number.
    Whole(u64),
    /// Seconds, or a share.
    Real(f64),
    /// A histogram.
    Latency(&'a LatencyStats),
}

struct Walk<'r> {
    recorder: &'r mut dyn MetricsRecorder,
}

impl Walk<'_> {
    fn counter(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: u64) {
        let (kind, value) = (MetricKind::Counter, MetricValue::Whole(value));
        self.recorder.record(&MetricSample { name, help, kind, labels, value });
    }

    fn gauge(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: u64) {
        let (kind, value) = (MetricKind::Gauge, MetricValue::Whole(value));
        self.recorder.record(&MetricSample { name, help, kind, labels, value });
    }
}

impl CacheStats {
    /// Passes each metric of these statistics to `recorder`.
    pub fn record(&self, recorder: &mut dyn MetricsRecorder) {
        let mut to = Walk { recorder };
        let policy = self.policy.to_string();
        to.gauge("pagetide_info", "The replacement policy", &[("policy", &policy)], 1);
        for (name, help, value) in [
            ("memory_bytes", "The limit", self.memory_bytes),
            ("resident_bytes", "Memory in use, never above the limit", self.resident_bytes),
            ("dirty_bytes", "Memory that is not written back", self.dirty_bytes),
        ] {
            to.gauge(&format!("pagetide_{name}"), help, &[], value);
        }
        for (name, help, value) in [
            ("hits", "Pages that were in memory when wanted", self.hits),
            ("misses", "Pages that were not", self.misses),
            (
                "bypass_reads",
                "Pages read past the cache, as no frame was to be had",
                self.bypass_reads,
            ),
            (
                "writes_through",
                "Pages written past the cache, for the same reason",
                self.writes_through,
            ),
            ("device_reads", "Read requests to stores", self.device_reads),
            ("device_read_bytes", "Bytes read from stores", self.device_read_bytes),
            ("device_writes", "Write requests to stores", self.device_writes),
            ("device_write_bytes", "Bytes written to stores", self.device_write_bytes),
            ("refaults", "Misses of pages that were evicted before", self.refaults),
            ("activations", "Refaults that were made active at once", self.activations),
            ("evictions", "Pages evicted", self.evictions),
        ] {
            to.counter(&format!("pagetide_{name}_total"), help, &[], value);
        }
        to.recorder.record(&MetricSample {
            name: "pagetide_reclaim_cpu_seconds_total",
            help: "CPU time of reclaim",
            kind: MetricKind::Counter,
            labels: &[],
            value: MetricValue::Real(self.reclaim_cpu_ns as f64 / 1e9),
        });
        to.recorder.record(&MetricSample {
            name: "pagetide_read_seconds",
            help: "How long threads waited for reads of stores",
            kind: MetricKind::Histogram,
            labels: &[],
            value: MetricValue::Latency(&self.read_times),
        });
        if let Some(selection) = &self.selection {
            let help = "1 for the setting that the policy works by";
            for setting in &selection.settings {
                let is_in_charge = u64::from(setting.name == selection.chosen);
                to.gauge("pagetide_setting", help, &[("setting", setting.name)], is_in_charge);
            }
            let help = "Changes of the setting in charge";
            to.counter("pagetide_setting_changes_total", help, &[], selection.nr_changes);
        }
        if let Some(tiering) = &self.tiering {
            record_tiers(&mut to, tiering);
        }
        for (name, value) in &self.vmstat {
            let name = format!("pagetide_vmstat_{name}_total");
            to.counter(&name, "As in /proc/vmstat, or of the same kind", &[], *value);
        }
    }
}

fn record_tiers(to: &mut Walk<'_>, tiering: &TieringStats) {
    let names: Vec<String> =
        (0..).map(|nth: usize| nth.to_string()).take(tiering.tiers.len()).collect();
    let tiers = || tiering.tiers.iter().zip(names.iter());
    for (one, nth) in tiers() {
        let labels = [("tier", nth.as_str())];
        to.gauge(
            "pagetide_tier_resident_bytes",
            "Memory of a tier in use",
            &labels,
            one.resident_bytes,
        );
    }
    for (one, nth) in tiers() {
        let labels = [("tier", nth.as_str())];
        to.counter("pagetide_tier_served_total", "Hits that a tier served", &labels, one.served);
    }
    let (promoted, demoted) = (tiering.promoted_bytes(), tiering.demoted_bytes());
    to.counter("pagetide_promoted_bytes_total", "Bytes moved to the fast tier", &[], promoted);
    to.counter("pagetide_demoted_bytes_total", "Bytes moved to slower tiers", &[], demoted);
    if let Some(pool) = &tiering.compressed {
        let help = "Memory that compressed pages take";
        to.gauge("pagetide_compressed_used_bytes", help, &[], pool.used_bytes);
        let help = "Misses that a compressed page served";
        to.counter("pagetide_compressed_hits_total", help, &[], pool.hits);
    }
}

impl PageCache {
    /// Passes each metric of the cache to `recorder`: its [statistics](PageCache::stats), its
    /// groups with the label `group`, and the bytes read of the `nr_files` most-read files with the
    /// label `file`.
    ///
    /// # Cost
    /// As [`PageCache::stats`], and as [`PageCache::files`] if `nr_files` is not 0.
    pub fn record_metrics(&self, recorder: &mut dyn MetricsRecorder, nr_files: usize) {
        self.stats().record(recorder);
        let mut to = Walk { recorder };
        let groups: Vec<GroupStats> =
            self.groups().iter().filter_map(|group| group.stats().ok()).collect();
        type OfGroup = (&'static str, &'static str, fn(&GroupStats) -> u64);
        let gauges: [OfGroup; 2] = [
            ("pagetide_group_usage_bytes", "Memory charged to a group", |it| it.usage_bytes),
            ("pagetide_group_low_bytes", "Memory that a group keeps if it can", |it| it.low_bytes),
        ];
        for (name, help, value) in gauges {
            groups.iter().for_each(|it| to.gauge(name, help, &[("group", &it.name)], value(it)));
        }
        let counters: [OfGroup; 4] = [
            ("pagetide_group_hits_total", "Pages of a group in memory when wanted", |it| it.hits),
            ("pagetide_group_misses_total", "Pages of a group that were not", |it| it.misses),
            ("pagetide_group_refaults_total", "Misses of pages evicted before", |it| it.refaults),
            ("pagetide_group_evictions_total", "Pages of a group evicted", |it| it.evictions),
        ];
        for (name, help, value) in counters {
            groups.iter().for_each(|it| to.counter(name, help, &[("group", &it.name)], value(it)));
        }
        if nr_files == 0 {
            return;
        }
        for (path, bytes) in self.busiest_files(nr_files) {
            let help = "Bytes of a file read from its store";
            to.counter("pagetide_file_device_read_bytes_total", help, &[("file", &path)], bytes);
        }
    }

    pub(crate) fn busiest_files(&self, nr_files: usize) -> Vec<(String, u64)> {
        let named = self.files().into_iter().filter_map(|file| {
            let path = file.path?.to_string_lossy().into_owned();
            (file.device_read_bytes > 0).then_some((path, file.device_read_bytes))
        });
        let mut files: Vec<(String, u64)> = named.collect();
        files.sort_unstable_by_key(|(_, bytes)| Reverse(*bytes));
        files.truncate(nr_files);
        files
    }
}
