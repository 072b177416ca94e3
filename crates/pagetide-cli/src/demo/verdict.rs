//! The verdict: workloads where `pagetide` is faster or slower, with the reason.
//!
//! ```text
//!   level    medians within 3 %, or overlapping rounds
//!   else     ahead or behind
//!   because  of hits if they differ in the same direction as speed, else of the cost of a hit or
//!            a miss
//! ```
//!
//! Ignored: subjects that do not run here.

use super::plan::Workload;
use super::row::Row;
use crate::results::Measured;
use crate::table::percent;

const JUDGED: &str = "pagetide";
/// Relative difference of speed below which results are level.
const LEVEL: f64 = 0.03;
/// Difference of hit ratio below which hits are equal.
const SAME_HITS: f64 = 0.01;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    Ahead,
    Level,
    Behind,
}

struct Comparison<'a> {
    judged: &'a Row,
    other: &'a Row,
    ratio: f64,
    standing: Standing,
}

impl<'a> Comparison<'a> {
    /// Returns `None` if either has no speed.
    fn of(judged: &'a Row, other: &'a Row) -> Option<Comparison<'a>> {
        let ratio = judged.ops_per_s? / other.ops_per_s?;
        let is_apart = judged.ops_per_s_min > other.ops_per_s_max
            || judged.ops_per_s_max < other.ops_per_s_min;
        let standing = match ratio {
            _ if !is_apart || (ratio - 1.0).abs() < LEVEL => Standing::Level,
            _ if ratio > 1.0 => Standing::Ahead,
            _ => Standing::Behind,
        };
        Some(Comparison { judged, other, ratio, standing })
    }

    /// Formats "ahead of the kernel (1.48x: ...)".
    fn in_words(&self, name: &str) -> String {
        let ratio = self.ratio;
        match self.standing {
            Standing::Ahead => format!("ahead of {name} ({ratio:.2}x: {})", self.why()),
            Standing::Level => format!("level with {name} ({ratio:.2}x)"),
            Standing::Behind => format!("behind {name} ({ratio:.2}x: {})", self.why()),
        }
    }

    fn why(&self) -> String {
        let hits = self.judged.hit_ratio.zip(self.other.hit_ratio);
        let is_ahead = self.standing == Standing::Ahead;
        let shown = hits.map(|(mine, theirs)| {
            format!("{} of pages were in memory, against {}", percent(mine, 1), percent(theirs, 1))
        });
        let cost = if is_ahead { "less" } else { "more" };
        match (hits, shown) {
            (Some((mine, theirs)), Some(shown)) if (mine - theirs).abs() < SAME_HITS => {
                format!("{shown}; each read or write costs {cost}")
            }
            (Some((mine, theirs)), Some(shown)) if (mine > theirs) == is_ahead => shown,
            (_, Some(shown)) => format!("although {shown}; each read or write costs {cost}"),
            (_, None) => format!("each read or write costs {cost}"),
        }
    }
}

struct Judgement<'a> {
    workload: Workload,
    kernel: Option<Comparison<'a>>,
    /// The best of all other subjects.
    best: Option<Comparison<'a>>,
}

impl<'a> Judgement<'a> {
    /// Returns `None` if `pagetide` does not play the workload.
    fn of(workload: Workload, rows: &[&'a Row]) -> Option<Judgement<'a>> {
        let of_workload = || rows.iter().copied().filter(|row| row.workload == workload);
        let judged = of_workload().find(|row| row.subject == JUDGED)?;
        let kernel = of_workload().find(|row| row.subject == "linux");
        let speed = |row: &Row| row.ops_per_s.unwrap_or(0.0);
        let best = of_workload()
            .filter(|row| row.subject != JUDGED && row.subject != "linux")
            .max_by(|one, other| speed(one).total_cmp(&speed(other)));
        Some(Judgement {
            workload,
            kernel: kernel.and_then(|kernel| Comparison::of(judged, kernel)),
            best: best.and_then(|best| Comparison::of(judged, best)),
        })
    }

    /// Returns `None` without another subject.
    fn sentence(&self) -> Option<String> {
        let kernel = self.kernel.as_ref().map(|it| it.in_words("the kernel"));
        let best = self
            .best
            .as_ref()
            .map(|it| it.in_words(&format!("{}, the best other policy", it.other.subject)));
        let parts: Vec<String> = kernel.into_iter().chain(best).collect();
        let said = format!("{}: {JUDGED} is {}.", self.workload, parts.join(", and "));
        (!parts.is_empty()).then_some(said)
    }
}

fn judge<'a>(rows: &[&'a Row]) -> Vec<Judgement<'a>> {
    Workload::ALL.into_iter().filter_map(|workload| Judgement::of(workload, rows)).collect()
}

/// Returns a sentence per line.
pub(super) fn sentences(rows: &[&Row]) -> Vec<String> {
    let all = judge(rows);
    type Side = for<'j> fn(&'j Judgement<'_>) -> Option<Standing>;
    let sides: [(&str, Side); 2] = [
        ("the kernel", |it| it.kernel.as_ref().map(|beside| beside.standing)),
        ("the best of the others in each workload", |it| {
            it.best.as_ref().map(|beside| beside.standing)
        }),
    ];
    let sums = sides.into_iter().filter_map(|(name, side)| {
        let standings: Vec<(Workload, Standing)> =
            all.iter().filter_map(|it| Some((it.workload, side(it)?))).collect();
        sum(name, &standings)
    });
    sums.chain(all.iter().filter_map(Judgement::sentence)).collect()
}

pub(super) fn with_sentences(measured: Vec<Measured>, rows: &[&Row]) -> Vec<Measured> {
    let all = judge(rows);
    let said_of = |row: &Measured| {
        let is_speed = row.subject == JUDGED && row.unit == "ops/s";
        let of = all.iter().find(|it| is_speed && it.workload.name() == row.case)?;
        of.sentence()
    };
    measured.into_iter().map(|row| Measured { verdict: said_of(&row), ..row }).collect()
}

/// Formats "Beside the kernel, pagetide is ahead in 3 of 5 (...), behind in 1 (...)."
fn sum(name: &str, standings: &[(Workload, Standing)]) -> Option<String> {
    let part = |(standing, word): (Standing, &str)| {
        let of: Vec<&str> = standings
            .iter()
            .filter(|(_, it)| *it == standing)
            .map(|(workload, _)| workload.name())
            .collect();
        (!of.is_empty())
            .then(|| format!("{word} in {} of {} ({})", of.len(), standings.len(), of.join(", ")))
    };
    let words =
        [(Standing::Ahead, "ahead"), (Standing::Level, "level"), (Standing::Behind, "behind")];
    let parts: Vec<String> = words.into_iter().filter_map(part).collect();
    (!parts.is_empty()).then(|| format!("Beside {name}, {JUDGED} is {}.", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::row::Outcome;

    fn row(workload: Workload, subject: &str, (low, high): (f64, f64), hits: f64) -> Row {
        let mut row = Outcome::skipped(workload, subject.to_owned(), "").row;
        row.ops_per_s = Some((low + high) / 2.0);
        (row.ops_per_s_min, row.ops_per_s_max) = (Some(low), Some(high));
        row.hit_ratio = Some(hits);
        row
    }

    #[test]
    fn each_workload_has_a_sentence_with_its_reason() {
        let rows = [
            row(Workload::Uniform, "linux", (90.0, 110.0), 0.30),
            row(Workload::Uniform, "lru", (180.0, 190.0), 0.36),
            row(Workload::Uniform, "pagetide", (198.0, 202.0), 0.36),
            row(Workload::ZipfScan, "linux", (100.0, 110.0), 0.40),
            row(Workload::ZipfScan, "pagetide", (80.0, 90.0), 0.50),
        ];
        let all: Vec<&Row> = rows.iter().collect();
        assert_eq!(
            sentences(&all),
            [
                "Beside the kernel, pagetide is ahead in 1 of 2 (uniform), behind in 1 of 2 \
                 (zipf-scan).",
                "Beside the best of the others in each workload, pagetide is ahead in 1 of 1 \
                 (uniform).",
                "zipf-scan: pagetide is behind the kernel (0.81x: although 50.0 % of pages were in \
                 memory, against 40.0 %; each read or write costs more).",
                "uniform: pagetide is ahead of the kernel (2.00x: 36.0 % of pages were in memory, \
                 against 30.0 %), and ahead of lru, the best other policy (1.08x: 36.0 % of pages \
                 were in memory, against 36.0 %; each read or write costs less).",
            ]
        );
    }

    #[test]
    fn rounds_among_those_of_the_other_are_level() {
        let rows = [
            row(Workload::Oltp, "linux", (50.0, 150.0), 0.5),
            row(Workload::Oltp, "pagetide", (140.0, 160.0), 0.5),
        ];
        let said = sentences(&[&rows[0], &rows[1]]);
        assert!(said[0].contains("level in 1 of 1 (oltp)"), "{said:?}");
        assert!(sentences(&[&rows[1]]).is_empty() && sentences(&[]).is_empty());
    }
}
