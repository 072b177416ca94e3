//! Summarizes many seeds in one row: median and range.
//!
//! Low and high are the extremes, so that a failure on one seed in ten shows. The median of an even
//! number of seeds is the mean of the middle two.

use super::{Measures, Metric, PolicyVariant, Scenario};
use serde::Serialize;

/// A metric of a scenario under a subject, over several seeds. `lab run --json` prints the field
/// names, so they are stable.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SummaryRow {
    /// Name of the scenario.
    pub scenario: &'static str,
    /// The subject, as typed.
    pub policy: String,
    /// Name of the metric.
    pub metric: &'static str,
    /// Median.
    pub median: f64,
    /// Minimum.
    pub low: f64,
    /// Maximum.
    pub high: f64,
    /// Number of seeds.
    pub seeds: u64,
    /// Published claim, or empty.
    pub claim: &'static str,
}

/// Returns one row a metric, from one play a seed.
pub fn summarize(
    scenario: &Scenario,
    subject: PolicyVariant,
    plays: &[Measures],
) -> Vec<SummaryRow> {
    assert!(!plays.is_empty(), "nothing was played");
    let row = |(at, metric): (usize, &Metric)| {
        let mut values: Vec<f64> = plays.iter().map(|play| play.values[at].1).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            1 => values[middle],
            _ => (values[middle - 1] + values[middle]) / 2.0,
        };
        SummaryRow {
            scenario: scenario.name,
            policy: subject.to_string(),
            metric: metric.name,
            median,
            low: values[0],
            high: values[values.len() - 1],
            seeds: plays.len() as u64,
            claim: metric.claim(subject.policy.as_str()),
        }
    };
    scenario.metrics.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetide_core::lru::PolicyName;

    #[test]
    fn a_row_has_the_middle_and_both_ends() {
        let scenario = Scenario::named("fio-randread").expect("it exists");
        let play = |value: f64| Measures {
            values: scenario.metrics.iter().map(|metric| (metric.name, value)).collect(),
            ..Measures::default()
        };
        let ends = |values: &[f64]| {
            let plays: Vec<Measures> = values.iter().copied().map(play).collect();
            let row = summarize(scenario, PolicyName::Lru.into(), &plays).swap_remove(0);
            (row.low, row.median, row.high, row.seeds)
        };
        assert_eq!(ends(&[5.0, 1.0, 9.0]), (1.0, 5.0, 9.0, 3));
        assert_eq!(ends(&[5.0, 1.0, 9.0, 6.0]), (1.0, 5.5, 9.0, 4));
    }
}
