//! Metrics as text, for Prometheus and compatible collectors.
//!
//! ```text
//!   # HELP pagetide_hits_total Pages that were in memory when wanted
//!   # TYPE pagetide_hits_total counter
//!   pagetide_hits_total 3
//! ```
//!
//! OpenMetrics differs only in the family name, which has no `_total`, and in the last line.
//!
//! # Sources
//! OpenMetrics 1.0, "Text format"; Prometheus, "Exposition formats".

use super::{MetricKind, MetricSample, MetricValue, MetricsRecorder};
use crate::api::cache::PageCache;
use std::fmt::Write;

/// The text format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExpositionFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format of Prometheus, 0.0.4.
    Prometheus,
}

impl ExpositionFormat {
    /// Returns the media type.
    pub fn content_type(self) -> &'static str {
        match self {
            ExpositionFormat::OpenMetrics => {
                "application/openmetrics-text; version=1.0.0; charset=utf-8"
            }
            ExpositionFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

impl PageCache {
    /// Returns all [metrics](PageCache::record_metrics) as text.
    ///
    /// ```
    /// # use pagetide::{Bytes, ExpositionFormat, PageCache};
    /// let cache = PageCache::builder().memory(Bytes(1 << 20)).build()?;
    /// let text = cache.metrics_text(ExpositionFormat::OpenMetrics, 0);
    /// assert!(text.contains("\npagetide_memory_bytes 1048576\n"));
    /// # Ok::<(), pagetide::BuildError>(())
    /// ```
    pub fn metrics_text(&self, format: ExpositionFormat, nr_files: usize) -> String {
        let mut writer = Writer { format, text: String::new(), family: String::new() };
        self.record_metrics(&mut writer, nr_files);
        if format == ExpositionFormat::OpenMetrics {
            writer.text.push_str("# EOF\n");
        }
        writer.text
    }
}

struct Writer {
    format: ExpositionFormat,
    text: String,
    /// Family written last.
    family: String,
}

impl Writer {
    fn begin_family(&mut self, metric: &MetricSample<'_>) {
        let family = match self.format {
            ExpositionFormat::OpenMetrics => metric.name.trim_end_matches("_total"),
            ExpositionFormat::Prometheus => metric.name,
        };
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        self.text.push_str(&format!("# HELP {family} {}\n# TYPE {family} {kind}\n", metric.help));
        metric.name.clone_into(&mut self.family);
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: MetricValue<'_>) {
        self.text.push_str(name);
        for (nth, (label, text)) in labels.iter().enumerate() {
            self.text.push_str(if nth == 0 { "{" } else { "," });
            self.text.push_str(&format!("{label}=\"{}\"", escaped(text)));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        // Writing to a string never fails.
        let _ = match value {
            MetricValue::Whole(number) => writeln!(self.text, " {number}"),
            MetricValue::Real(number) => writeln!(self.text, " {number}"),
            MetricValue::Latency(latency) => writeln!(self.text, " {}", latency.count()),
        };
    }
}

impl MetricsRecorder for Writer {
    fn record(&mut self, metric: &MetricSample<'_>) {
        if self.family != metric.name {
            self.begin_family(metric);
        }
        let MetricValue::Latency(latency) = metric.value else {
            return self.sample(metric.name, metric.labels, metric.value);
        };
        let bucket = format!("{}_bucket", metric.name);
        for (end, sum) in latency.cumulative() {
            let end = end.map_or("+Inf".to_owned(), |end| end.as_secs_f64().to_string());
            let labels = [metric.labels, &[("le", end.as_str())]].concat();
            self.sample(&bucket, &labels, MetricValue::Whole(sum));
        }
        let sum = MetricValue::Real(latency.sum().as_secs_f64());
        self.sample(&format!("{}_sum", metric.name), metric.labels, sum);
        let count = MetricValue::Whole(latency.count());
        self.sample(&format!("{}_count", metric.name), metric.labels, count);
    }
}

/// Escapes quotes, backslashes and line feeds with a backslash, as both formats require.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, GroupOptions, OpenOptions};

    fn used() -> (PageCache, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a \"b\"\n\\");
        std::fs::write(&path, [1; 8192]).unwrap();
        let builder = PageCache::builder().memory(Bytes(1 << 20)).background(false).groups(true);
        let cache = builder.readahead_max(Bytes(0)).build().unwrap();
        let group = cache.group("scans", GroupOptions::new()).unwrap();
        let file = group.open(&path, OpenOptions::new().read(true)).unwrap();
        for _ in 0..2 {
            file.read_at(&mut [0; 10], 0).unwrap();
        }
        (cache, folder)
    }

    #[test]
    fn text_has_families_samples_and_labels() {
        let (cache, _folder) = used();
        let text = cache.metrics_text(ExpositionFormat::OpenMetrics, 5);
        for line in [
            "# TYPE pagetide_hits counter",
            "pagetide_hits_total 1",
            "pagetide_info{policy=\"pagetide\"} 1",
            "pagetide_resident_bytes 4096",
            "pagetide_read_seconds_bucket{le=\"+Inf\"} 1",
            "pagetide_read_seconds_count 1",
            "pagetide_group_usage_bytes{group=\"scans\"} 4096",
            "pagetide_vmstat_workingset_refault_file_total 0",
            "# EOF",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is not in\n{text}");
        }
        let file = text.lines().find(|line| line.contains("{file=")).expect("a file was read");
        assert!(file.ends_with("/a \\\"b\\\"\\n\\\\\"} 4096"), "{file}");
        assert!(!cache.metrics_text(ExpositionFormat::OpenMetrics, 0).contains("{file="));
    }

    #[test]
    fn each_family_is_described_once() {
        let (cache, _folder) = used();
        let text = cache.metrics_text(ExpositionFormat::Prometheus, 5);
        let mut families: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let nr = families.len();
        families.sort_unstable();
        families.dedup();
        assert!(nr > 40 && families.len() == nr, "{nr} families, {} of them once", families.len());
        assert!(families.contains(&"pagetide_hits_total counter") && !text.contains("EOF"));
    }
}
