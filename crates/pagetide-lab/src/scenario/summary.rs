//! Many seeds as one row: the middle, and how far the ends are from it.
//!
//! The median is the middle value, of an even number of seeds the mean of the middle two; low and
//! high are the extremes, not a deviation: a design that fails on one seed in ten should show it.

use super::{Measures, Metric, PolicyVariant, Scenario};
use serde::Serialize;

/// A metric of a scenario under a subject, over several seeds. The field names are what `lab run
/// --json` prints, and stay.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SummaryRow {
    /// The scenario's name.
    pub scenario: &'static str,
    /// The subject, as typed.
    pub policy: String,
    /// The metric's name.
    pub metric: &'static str,
    /// The middle value.
    pub median: f64,
    /// The smallest value.
    pub low: f64,
    /// The largest value.
    pub high: f64,
    /// How many seeds were played.
    pub seeds: u64,
    /// What a source says; empty where none does.
    pub claim: &'static str,
}

/// One row a metric, from one play a seed.
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
