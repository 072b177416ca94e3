//! Rows of several policies measured in the same rounds.
//!
//! Problem: the machine drifts by more than the difference between policies. Idea: policies
//! alternate within each round, and each is compared with the first by the median ratio.
//!
//! ```text
//!   --policy            rows: case, reference
//!   pagetide            copy, memcpy
//!   mglru,pagetide      copy mglru, memcpy    copy pagetide, memcpy    copy pagetide, mglru
//!   mglru,mglru         the same: the difference of two equal caches
//! ```
//!
//! Ignored: each cache's physical placement, which varies between runs and affects small costs.

use super::interleave::Samples;
use super::{Identity, Row};
use pagetide_core::lru::PolicyName;

/// Compares each policy with the references, then with the first policy.
pub(super) fn rows(
    (bench, case, threads): Identity<'_>,
    policies: &[PolicyName],
    subjects: &[Samples],
    references: &[(&'static str, &Samples)],
) -> Vec<Row> {
    let mut rows = Vec::new();
    for (nth, (&policy, subject)) in policies.iter().zip(subjects).enumerate() {
        let case = match (case, policies.len()) {
            ("", _) => policy.to_string(),
            (_, 1) => case.to_owned(),
            _ => format!("{case} {policy}"),
        };
        let identity = (bench, case.as_str(), threads);
        let first = (policies[0].as_str(), &subjects[0]);
        let against = references.iter().chain((nth > 0).then_some(&first));
        rows.extend(against.map(|(name, other)| Row::measured(identity, name, subject, other)));
        if nth == 0 && references.is_empty() {
            rows.push(Row::alone(identity, subject));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rows: &[Row]) -> Vec<(&str, Option<&str>, Option<f64>)> {
        rows.iter().map(|row| (row.case.as_str(), row.reference, row.ratio)).collect()
    }

    #[test]
    fn one_policy_is_compared_with_the_references_alone() {
        let (subject, memcpy) = (Samples::from(vec![4.0, 2.0]), Samples::from(vec![2.0, 1.0]));
        let rows =
            rows(("hit", "copy", 1), &[PolicyName::Mglru], &[subject], &[("memcpy", &memcpy)]);
        assert_eq!(shown(&rows), [("copy", Some("memcpy"), Some(0.5))]);
        assert_eq!((rows[0].subject_ns_min, rows[0].subject_ns_max), (Some(2.0), Some(4.0)));
    }

    #[test]
    fn each_other_policy_is_compared_with_the_first_round_by_round() {
        // The machine slows down by half: the medians give 2.0, the rounds 4, 1 and 1.
        let first = Samples::from(vec![4.0, 2.0, 2.0]);
        let second = Samples::from(vec![1.0, 2.0, 2.0]);
        let policies = [PolicyName::Mglru, PolicyName::Pagetide];
        let rows = rows(("evict", "", 1), &policies, &[first, second], &[]);
        assert_eq!(shown(&rows), [("mglru", None, None), ("pagetide", Some("mglru"), Some(1.0))]);
        assert_eq!((rows[1].ratio_min, rows[1].ratio_max), (Some(1.0), Some(4.0)));
    }
}
