//! The rounds of one workload under one subject, reduced to one row.
//!
//! ```text
//!   round 1: a b c   round 2: c b a   round 3: a b c     alternating, so that drift hits all alike
//!   a: 70 90 80 --> the round of 80, with 70 to 90
//! ```
//!
//! The row is a round that was played. Its range of speeds and its hit ratio are of all rounds.

use super::row::{Outcome, Row};
use crate::results::{Measured, range_of};

#[derive(Debug, Default)]
pub(super) struct Rounds(Vec<Outcome>);

type Reading = fn(&Row) -> Option<f64>;

impl Rounds {
    pub(super) fn push(&mut self, outcome: Outcome) {
        self.0.push(outcome);
        let speed = |outcome: &Outcome| outcome.row.ops_per_s.unwrap_or(0.0);
        self.0.sort_by(|one, other| speed(one).total_cmp(&speed(other)));
    }

    /// Returns the round of median speed with the range of all rounds. Needs a round.
    pub(super) fn median(&self) -> Outcome {
        let mut median = self.0[self.0.len() / 2].clone();
        let (first, last) = (&self.0[0].row, &self.0[self.0.len() - 1].row);
        median.row.rounds = self.0.len() as u32;
        median.row.ops_per_s_min = first.ops_per_s;
        median.row.ops_per_s_max = last.ops_per_s;
        // The verdict states the hit ratio that the recorded results state.
        let hits = || self.0.iter().filter_map(|it| it.row.hit_ratio);
        median.row.hit_ratio = hits().next().map(|_| range_of(hits())[1]);
        median
    }

    /// Takes linux's row in `all` as reference.
    pub(super) fn to_results(&self, all: &[Rounds]) -> Vec<Measured> {
        let row = &self.0[0].row;
        let is_kernel = |it: &&Rounds| {
            let kernel = &it.0[0].row;
            kernel.workload == row.workload && kernel.subject == "linux"
        };
        let kernel = all.iter().find(is_kernel).filter(|_| row.subject != "linux");
        let readings: [(&str, Reading); 3] = [
            ("ops/s", |row| row.ops_per_s),
            ("% hits", |row| row.hit_ratio.map(|ratio| 100.0 * ratio)),
            ("% of the set kept", |row| row.protected_ratio().map(|ratio| 100.0 * ratio)),
        ];
        let measured = |(unit, reading): (&'static str, Reading)| {
            let of = |rounds: &Rounds| {
                let values: Vec<f64> =
                    rounds.0.iter().filter_map(|outcome| reading(&outcome.row)).collect();
                let name = (row.workload.to_string(), &rounds.0[0].row.subject);
                (!values.is_empty()).then(|| Measured::over(name.0, name.1, unit, &values))
            };
            Some(match kernel.and_then(of) {
                Some(kernel) => of(self)?.against("linux", kernel.median),
                None => of(self)?,
            })
        };
        readings.into_iter().filter_map(measured).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::plan::Workload;

    fn rounds(subject: &str, speeds: [f64; 3]) -> Rounds {
        let mut rounds = Rounds::default();
        for speed in speeds {
            let mut outcome = Outcome::skipped(Workload::Uniform, subject.to_owned(), "");
            outcome.row.ops_per_s = Some(speed);
            outcome.row.hit_ratio = Some(speed / 100.0);
            rounds.push(outcome);
        }
        rounds
    }

    #[test]
    fn the_hit_ratio_is_the_median_of_all_rounds_as_in_the_results() {
        let mut rounds = rounds("lru", [90.0, 70.0, 80.0]);
        rounds.0[1].row.hit_ratio = Some(0.95);
        assert_eq!(rounds.median().row.hit_ratio, Some(0.9));
        assert_eq!(rounds.to_results(&[])[1].median, 90.0);
    }

    #[test]
    fn the_row_is_the_round_of_the_median_speed_with_the_range_of_all() {
        let row = rounds("lru", [90.0, 70.0, 80.0]).median().row;
        assert_eq!((row.ops_per_s, row.hit_ratio), (Some(80.0), Some(0.8)));
        assert_eq!((row.ops_per_s_min, row.ops_per_s_max), (Some(70.0), Some(90.0)));
        assert_eq!(row.rounds, 3);
    }

    #[test]
    fn results_are_of_all_rounds_beside_the_kernels() {
        let all = [rounds("linux", [40.0, 20.0, 30.0]), rounds("lru", [90.0, 70.0, 60.0])];
        let rows = all[1].to_results(&all);
        let speed = &rows[0];
        assert_eq!((speed.runs, speed.median, speed.min, speed.max), (3, 70.0, 60.0, 90.0));
        assert_eq!((speed.reference_median, rows.len()), (Some(30.0), 2));
        assert!(all[0].to_results(&all).iter().all(|row| row.reference.is_none()));
    }
}
