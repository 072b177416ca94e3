//! Counts tests, including the tests that did not really run.
//!
//! libtest prints `ok` for a test that returned early. Such a test prints `SKIPPED: <test>: <why>`,
//! which `--show-output` puts into the log. The tally moves the test from passed to skipped.
//!
//! ```text
//! step log --> "test result: ok. 12 passed; ..."  --> passed, failed
//!          --> "SKIPPED: uffd_moves: no right"    --> skipped, by name (and no longer passed)
//! ```
//!
//! Ignored: measured benchmarks, and tests filtered out by this tool.

use crate::failures::{self, Failure};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const SKIP_PREFIX: &str = "SKIPPED: ";

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Tests or steps that did not run. One may have several reasons.
    pub(crate) skipped: u64,
    /// The reasons: `SKIPPED: <test>: <why>` lines.
    pub(crate) reasons: Vec<String>,
    pub(crate) failures: Vec<Failure>,
}

impl Tally {
    pub(crate) fn from_log(log: &str) -> Tally {
        let mut tally = Tally { failures: failures::in_log(log), ..Tally::default() };
        let mut ignored = 0;
        for line in log.lines() {
            // An indented result is quoted from another log.
            if let Some(result) = line.strip_prefix("test result: ") {
                tally.passed += count_before(result, "passed");
                tally.failed += count_before(result, "failed");
                ignored += count_before(result, "ignored");
            }
            let line = line.trim();
            if line.starts_with(SKIP_PREFIX) && !tally.reasons.iter().any(|r| r == line) {
                tally.reasons.push(line.to_owned());
            }
        }
        let tests: BTreeSet<&str> = tally.reasons.iter().map(|line| skipped_test(line)).collect();
        tally.skipped = tests.len() as u64;
        tally.passed = tally.passed.saturating_sub(tally.skipped);
        for _ in 0..ignored {
            tally.skip("ignored test", "its author switched it off");
        }
        tally
    }

    pub(crate) fn skip(&mut self, what: &str, why: &str) {
        self.skipped += 1;
        self.reasons.push(format!("{SKIP_PREFIX}{what}: {why}"));
    }

    pub(crate) fn nr_tests(&self) -> u64 {
        self.passed + self.failed + self.skipped
    }

    pub(crate) fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.reasons.extend(other.reasons);
        self.failures.extend(other.failures);
    }

    /// Returns a line per cause with all its tests, the largest first.
    pub(crate) fn by_cause(&self) -> Vec<String> {
        let mut causes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for line in &self.reasons {
            let test = skipped_test(line);
            let cause = line.strip_prefix(SKIP_PREFIX).and_then(|rest| rest.strip_prefix(test));
            let cause = cause.and_then(|cause| cause.strip_prefix(": ")).unwrap_or("no reason");
            causes.entry(cause).or_default().push(test);
        }
        let mut causes: Vec<(&str, Vec<&str>)> = causes.into_iter().collect();
        causes.sort_by_key(|(_, tests)| Reverse(tests.len()));
        let line = |(cause, tests): &(&str, Vec<&str>)| {
            format!("{SKIP_PREFIX}{} for: {cause}\n    {}", tests.len(), tests.join(", "))
        };
        causes.iter().map(line).collect()
    }

    pub(crate) fn summary(&self) -> String {
        let Tally { passed, failed, skipped, .. } = self;
        format!("{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// Returns the test's name in `SKIPPED: <test>: <why>`.
fn skipped_test(line: &str) -> &str {
    let rest = line.trim_start_matches(SKIP_PREFIX);
    rest.split_once(": ").map_or(rest, |(test, _)| test)
}

/// Returns the number before `word` in `ok. 12 passed; 0 failed; ...`, or 0.
fn count_before(result: &str, word: &str) -> u64 {
    let mut last = 0;
    for token in result.split([' ', ';', '.']) {
        if token == word {
            return last;
        }
        last = token.parse().unwrap_or(last);
    }
    0
}

/// Removes passing tests and their output from a failed step's log.
pub(crate) fn without_successes(log: &str) -> String {
    let mut kept = String::new();
    let mut in_successes = false;
    for line in log.lines() {
        match line {
            "successes:" => in_successes = true,
            "failures:" => in_successes = false,
            _ if line.starts_with("test result: ") => in_successes = false,
            _ => {}
        }
        let is_pass = line.starts_with("test ") && line.ends_with(" ok");
        if !in_successes && !is_pass {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
running 3 tests
test maps_frames ... ok
test moves_pages ... ok
test reads ... FAILED

successes:

---- moves_pages stdout ----
SKIPPED: moves_pages: userfaultfd was refused
SKIPPED: moves_pages: so was the syscall

successes:
    maps_frames

failures:

---- reads stdout ----
assertion failed

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s
test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.1s
";

    #[test]
    fn skipped_tests_leave_the_passed() {
        let tally = Tally::from_log(LOG);
        assert_eq!((tally.passed, tally.failed), (5, 1));
        assert_eq!(tally.reasons[0], "SKIPPED: moves_pages: userfaultfd was refused");
        assert_eq!(tally.summary(), "5 passed, 1 failed, 2 skipped");
        assert_eq!((tally.reasons.len(), tally.nr_tests()), (3, 8));
    }

    #[test]
    fn failures_are_shown_without_successes() {
        let shown = without_successes(LOG);
        assert!(shown.contains("assertion failed") && shown.contains("reads ... FAILED"));
        assert!(!shown.contains("maps_frames") && !shown.contains("SKIPPED"));
    }

    #[test]
    fn skips_of_one_cause_are_told_together() {
        let mut tally = Tally::default();
        for (test, why) in [("c", "no root"), ("a", "no strace"), ("b", "no strace")] {
            tally.skip(test, why);
        }
        assert_eq!(
            tally.by_cause(),
            ["SKIPPED: 2 for: no strace\n    a, b", "SKIPPED: 1 for: no root\n    c"]
        );
    }

    #[test]
    fn tallies_add_up() {
        let mut sum = Tally::from_log(LOG);
        let mut other = Tally { passed: 1, failed: 2, ..Tally::default() };
        other.skip("step miri", "no nightly");
        sum.add(other);
        assert_eq!(sum.summary(), "6 passed, 3 failed, 3 skipped");
    }
}
