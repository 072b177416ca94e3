//! A row of the demo: one workload under one subject.
//!
//! Units: latencies in microseconds, `device_reads` and `device_writes` in requests (unknown for
//! the kernel's page cache), `device_read_bytes` and `device_write_bytes` in bytes. Unmeasured
//! values are null. `detail` holds facts of the workload or subject. `detail.skipped` gives the
//! reason for missing numbers.
//!
//! The row of several rounds is the round of median speed, with the range of all.

use super::measure::{self, LOOK_EVERY, Latency, Measurements};
use super::plan::Workload;
use super::subject::Counters;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) workload: Workload,
    pub(crate) subject: String,
    pub(crate) ops_per_s: Option<f64>,
    pub(crate) ops_per_s_min: Option<f64>,
    pub(crate) ops_per_s_max: Option<f64>,
    pub(crate) rounds: u32,
    pub(crate) hit_ratio: Option<f64>,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    pub(crate) max_us: Option<f64>,
    pub(crate) device_reads: Option<u64>,
    pub(crate) device_writes: Option<u64>,
    pub(crate) device_read_bytes: Option<u64>,
    pub(crate) device_write_bytes: Option<u64>,
    pub(crate) refaults: Option<u64>,
    pub(crate) evictions: Option<u64>,
    pub(crate) resident_bytes_max: Option<u64>,
    pub(crate) detail: Map<String, Value>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) row: Row,
    /// (percentile, microseconds), ascending.
    pub(crate) latency_curve: Vec<(f64, f64)>,
    /// (seconds, hit ratio of the preceding interval).
    pub(crate) hit_timeline: Vec<(f64, f64)>,
}

impl Outcome {
    pub(crate) fn skipped(workload: Workload, subject: String, reason: &str) -> Outcome {
        let mut detail = Map::new();
        detail.insert("skipped".into(), reason.into());
        let row = Row {
            workload,
            subject,
            ops_per_s: None,
            ops_per_s_min: None,
            ops_per_s_max: None,
            rounds: 1,
            hit_ratio: None,
            p50_us: None,
            p99_us: None,
            max_us: None,
            device_reads: None,
            device_writes: None,
            device_read_bytes: None,
            device_write_bytes: None,
            refaults: None,
            evictions: None,
            resident_bytes_max: None,
            detail,
        };
        Outcome { row, latency_curve: Vec::new(), hit_timeline: Vec::new() }
    }
}

impl Row {
    /// Makes a row of `hits` as (pages, hits) and the counters before and after.
    pub(crate) fn from_run(
        workload: Workload,
        subject: String,
        measured: Measurements,
        hits: (u64, u64),
        (before, after): (Counters, Counters),
    ) -> (Row, Latency) {
        let latency = Latency::from_histogram(&measured.histogram);
        let difference =
            |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
        let bytes = |before: u64, after: u64| Some(after.saturating_sub(before));
        let evictions = difference(before.evictions, after.evictions);
        let reclaim_cpu_ns = difference(before.reclaim_cpu_ns, after.reclaim_cpu_ns);
        let mut detail = measured.detail;
        let per_evicted = match (reclaim_cpu_ns, evictions) {
            (Some(nanoseconds), Some(pages)) if pages > 0 => {
                Some(rounded(nanoseconds as f64 / pages as f64))
            }
            _ => None,
        };
        detail.insert("cpu_ns_per_eviction".into(), per_evicted.into());
        detail.insert("seconds".into(), rounded(measured.elapsed.as_secs_f64()).into());
        detail.insert("operations".into(), measured.histogram.len().into());
        let hit_ratio = measure::hit_ratio(hits);
        detail.insert("hits_counted_by".into(), how_hits_are_counted(workload, hit_ratio).into());
        let ops_per_s =
            Some(rounded(measured.histogram.len() as f64 / measured.elapsed.as_secs_f64()));
        let row = Row {
            workload,
            subject,
            ops_per_s,
            ops_per_s_min: ops_per_s,
            ops_per_s_max: ops_per_s,
            rounds: 1,
            hit_ratio,
            p50_us: Some(latency.p50_us),
            p99_us: Some(latency.p99_us),
            max_us: Some(latency.max_us),
            device_reads: difference(before.device_reads, after.device_reads),
            device_writes: difference(before.device_writes, after.device_writes),
            device_read_bytes: bytes(before.device_read_bytes, after.device_read_bytes),
            device_write_bytes: bytes(before.device_write_bytes, after.device_write_bytes),
            refaults: difference(before.refaults, after.refaults),
            evictions,
            resident_bytes_max: after.resident_bytes_max,
            detail,
        };
        (row, latency)
    }

    pub(crate) fn skipped(&self) -> Option<&str> {
        self.detail.get("skipped")?.as_str()
    }

    pub(crate) fn cpu_ns_per_eviction(&self) -> Option<f64> {
        self.detail.get("cpu_ns_per_eviction")?.as_f64()
    }

    /// Returns an entry per file for each round.
    pub(crate) fn reads_until_cached(&self) -> Option<Vec<Vec<Option<u64>>>> {
        let rounds = self.detail.get("reads_until_cached")?.as_array()?;
        let round = |round: &Value| Some(round.as_array()?.iter().map(Value::as_u64).collect());
        rounds.iter().map(round).collect()
    }

    pub(crate) fn served_by_tier(&self) -> Option<Vec<u64>> {
        self.detail.get("served_by_tier")?.as_array()?.iter().map(Value::as_u64).collect()
    }

    pub(crate) fn protected_ratio(&self) -> Option<f64> {
        self.detail.get("protected_ratio")?.as_f64()
    }
}

fn how_hits_are_counted(workload: Workload, hit_ratio: Option<f64>) -> String {
    match hit_ratio {
        None => "unknown: the kernel here cannot be asked (cachestat needs Linux 6.5)".to_owned(),
        Some(_) if workload.is_timed() => {
            format!("residence looked up before 1 read in {LOOK_EVERY}")
        }
        Some(_) => "pages read that the device did not have to read".to_owned(),
    }
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
