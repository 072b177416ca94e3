//! Adapters to the metrics crates `metrics` and `opentelemetry`.
//!
//! Histograms are exported as count and sum, as neither crate accepts buckets.

use super::{MetricKind, MetricSample, MetricValue, MetricsRecorder};

#[derive(Clone, Copy)]
enum Number {
    Whole(u64),
    Real(f64),
}

impl Number {
    fn as_real(self) -> f64 {
        match self {
            Number::Whole(value) => value as f64,
            Number::Real(value) => value,
        }
    }
}

fn numbers(metric: &MetricSample<'_>) -> Vec<(String, Number)> {
    let named = |suffix: &str, value| (format!("{}{suffix}", metric.name), value);
    match metric.value {
        MetricValue::Whole(value) => vec![named("", Number::Whole(value))],
        MetricValue::Real(value) => vec![named("", Number::Real(value))],
        MetricValue::Latency(times) => vec![
            named("_count", Number::Whole(times.count())),
            named("_sum", Number::Real(times.sum().as_secs_f64())),
        ],
    }
}

/// Passes metrics to a recorder of the crate `metrics`. Fractional counters become gauges.
///
/// ```
/// # use pagetide::{Bytes, ForMetrics, PageCache};
/// # let cache = PageCache::builder().memory(Bytes(1 << 20)).build()?;
/// let recorder = metrics::NoopRecorder; // the program's
/// cache.record_metrics(&mut ForMetrics(&recorder), 0); // every few seconds
/// # Ok::<(), pagetide::BuildError>(())
/// ```
#[cfg(feature = "metrics")]
pub struct ForMetrics<'r>(pub &'r dyn metrics::Recorder);

#[cfg(feature = "metrics")]
impl MetricsRecorder for ForMetrics<'_> {
    fn record(&mut self, metric: &MetricSample<'_>) {
        const ABOUT: metrics::Metadata<'_> =
            metrics::Metadata::new("pagetide", metrics::Level::INFO, None);
        let label = |(name, value): &(&str, &str)| {
            metrics::Label::new((*name).to_owned(), (*value).to_owned())
        };
        let labels: Vec<metrics::Label> = metric.labels.iter().map(label).collect();
        for (name, value) in numbers(metric) {
            let key = metrics::Key::from_parts(name.clone(), labels.clone());
            let help = metric.help.to_owned().into();
            match value {
                Number::Whole(value) if metric.kind != MetricKind::Gauge => {
                    self.0.describe_counter(name.into(), None, help);
                    self.0.register_counter(&key, &ABOUT).absolute(value);
                }
                value => {
                    self.0.describe_gauge(name.into(), None, help);
                    self.0.register_gauge(&key, &ABOUT).set(value.as_real());
                }
            }
        }
    }
}

/// Passes metrics to an OpenTelemetry meter. Keep this value: it stores the last counters, to
/// compute increments.
///
/// ```
/// # use opentelemetry::metrics::{MeterProvider, noop::NoopMeterProvider};
/// # use pagetide::{Bytes, ForOpenTelemetry, PageCache};
/// # let cache = PageCache::builder().memory(Bytes(1 << 20)).build()?;
/// # let provider = NoopMeterProvider::new();
/// let mut recorder = ForOpenTelemetry::new(provider.meter("pagetide")); // the program's
/// cache.record_metrics(&mut recorder, 0); // every few seconds
/// # Ok::<(), pagetide::BuildError>(())
/// ```
#[cfg(feature = "opentelemetry")]
pub struct ForOpenTelemetry {
    meter: opentelemetry::metrics::Meter,
    last: std::collections::HashMap<(String, Vec<opentelemetry::KeyValue>), f64>,
}

#[cfg(feature = "opentelemetry")]
impl ForOpenTelemetry {
    /// Starts for the meter of one cache.
    pub fn new(meter: opentelemetry::metrics::Meter) -> ForOpenTelemetry {
        ForOpenTelemetry { meter, last: Default::default() }
    }
}

#[cfg(feature = "opentelemetry")]
impl MetricsRecorder for ForOpenTelemetry {
    fn record(&mut self, metric: &MetricSample<'_>) {
        let label = |(name, value): &(&str, &str)| {
            opentelemetry::KeyValue::new((*name).to_owned(), (*value).to_owned())
        };
        let labels: Vec<opentelemetry::KeyValue> = metric.labels.iter().map(label).collect();
        for (name, value) in numbers(metric) {
            let (help, value) = (metric.help.to_owned(), value.as_real());
            if metric.kind == MetricKind::Gauge {
                let gauge = self.meter.f64_gauge(name).with_description(help).build();
                gauge.record(value, &labels);
            } else {
                let counter = self.meter.f64_counter(name.clone()).with_description(help).build();
                let last = self.last.insert((name, labels.clone()), value).unwrap_or(0.0);
                counter.add((value - last).max(0.0), &labels);
            }
        }
    }
}

#[cfg(all(test, feature = "metrics", feature = "opentelemetry"))]
mod tests {
    use super::*;
    use crate::{Bytes, OpenOptions, PageCache};
    use opentelemetry::KeyValue;
    use opentelemetry::metrics::{
        Counter, Gauge, InstrumentBuilder, InstrumentProvider, Meter, SyncInstrument,
    };
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::sync::{Arc, Mutex};

    fn read_twice(mut after: impl FnMut(&PageCache)) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), [1; 4 * 4096]).unwrap();
        let builder = PageCache::builder().memory(Bytes(1 << 20)).background(false);
        let cache = builder.build().unwrap();
        let file = cache.open(folder.path().join("a"), OpenOptions::new().read(true)).unwrap();
        for _ in 0..2 {
            file.read_exact_at(&mut [0; 4 * 4096], 0).unwrap();
            after(&cache);
        }
    }

    #[derive(Default)]
    struct Kept(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

    impl Kept {
        fn of(&self, name: &str) -> Arc<AtomicU64> {
            Arc::clone(self.0.lock().unwrap().entry(name.to_owned()).or_default())
        }
    }

    impl metrics::Recorder for Kept {
        fn describe_counter(
            &self,
            _: metrics::KeyName,
            _: Option<metrics::Unit>,
            _: metrics::SharedString,
        ) {
        }

        fn describe_gauge(
            &self,
            _: metrics::KeyName,
            _: Option<metrics::Unit>,
            _: metrics::SharedString,
        ) {
        }

        fn describe_histogram(
            &self,
            _: metrics::KeyName,
            _: Option<metrics::Unit>,
            _: metrics::SharedString,
        ) {
        }

        fn register_counter(
            &self,
            key: &metrics::Key,
            _: &metrics::Metadata<'_>,
        ) -> metrics::Counter {
            metrics::Counter::from_arc(self.of(key.name()))
        }

        fn register_gauge(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
            metrics::Gauge::from_arc(self.of(key.name()))
        }

        fn register_histogram(
            &self,
            _: &metrics::Key,
            _: &metrics::Metadata<'_>,
        ) -> metrics::Histogram {
            metrics::Histogram::noop()
        }
    }

    #[test]
    fn a_recorder_of_metrics_is_given_what_there_is() {
        let kept = Kept::default();
        read_twice(|cache| cache.record_metrics(&mut ForMetrics(&kept), 1));
        let hits = kept.of("pagetide_hits_total").load(SeqCst);
        let misses = kept.of("pagetide_misses_total").load(SeqCst);
        assert_eq!(hits + misses, 8);
        let memory = kept.of("pagetide_memory_bytes").load(SeqCst);
        assert_eq!(f64::from_bits(memory), f64::from(1 << 20));
        assert!(kept.of("pagetide_read_seconds_count").load(SeqCst) > 0);
    }

    #[derive(Clone, Default)]
    struct Sums(Arc<Mutex<BTreeMap<String, f64>>>);

    struct Instrument {
        name: String,
        adds: bool,
        sums: Sums,
    }

    impl SyncInstrument<f64> for Instrument {
        fn measure(&self, value: f64, _: &[KeyValue]) {
            let mut sums = self.sums.0.lock().unwrap();
            let sum = sums.entry(self.name.clone()).or_default();
            *sum = if self.adds { *sum + value } else { value };
        }
    }

    impl InstrumentProvider for Sums {
        fn f64_counter(&self, builder: InstrumentBuilder<'_, Counter<f64>>) -> Counter<f64> {
            let name = builder.name.into_owned();
            Counter::new(Arc::new(Instrument { name, adds: true, sums: self.clone() }))
        }

        fn f64_gauge(&self, builder: InstrumentBuilder<'_, Gauge<f64>>) -> Gauge<f64> {
            let name = builder.name.into_owned();
            Gauge::new(Arc::new(Instrument { name, adds: false, sums: self.clone() }))
        }
    }

    #[test]
    fn a_meter_of_open_telemetry_is_added_to() {
        let sums = Sums::default();
        let mut recorder = ForOpenTelemetry::new(Meter::new(Arc::new(sums.clone())));
        read_twice(|cache| cache.record_metrics(&mut recorder, 1));
        let sums = sums.0.lock().unwrap();
        assert_eq!(sums["pagetide_hits_total"] + sums["pagetide_misses_total"], 8.0);
        assert_eq!(sums["pagetide_memory_bytes"], f64::from(1 << 20));
    }
}
