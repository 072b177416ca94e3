//! The claims, and how a verdict follows from measured rows.
//!
//! ```text
//!   check   rows where all fields of `pick` are so --> one number
//!           over the same of `per`, where there is one --> a ratio
//!           within `holds`?
//!   claim   all of its checks: holds   some: in part   none: does not hold   no checks: not run
//! ```
//!
//! Ignored: how near a miss was; the number and the range stand in the table.

use super::rows::{Fields, Pool};
use serde::{Deserialize, Serialize};

/// All of it, as data.
#[derive(Debug, Deserialize)]
pub(super) struct Sheet {
    /// What `--run` runs: arguments of `pagetide`.
    pub(super) commands: Vec<String>,
    pub(super) claims: Vec<Claim>,
}

/// A table, figure or sentence of a source.
#[derive(Debug, Deserialize)]
pub(super) struct Claim {
    /// The document it is in.
    source: String,
    /// What was measured there, on what, and what came out.
    claim: String,
    /// What is measured here; none where it cannot be.
    #[serde(default)]
    checks: Vec<Check>,
    /// Why the verdict is what it is.
    why: String,
}

/// A number that follows from rows, and what it must be.
#[derive(Debug, Deserialize)]
pub(super) struct Check {
    /// What the number is.
    what: String,
    /// The fields of its row.
    pub(super) pick: Fields,
    /// Those that are others in the row it is divided by.
    pub(super) per: Option<Fields>,
    /// Where in the row the number is; `median` without.
    field: Option<String>,
    /// The least and the most that the claim allows.
    holds: (Option<f64>, Option<f64>),
}

impl Check {
    /// The fields of the row that the number is divided by.
    pub(super) fn divisor(&self) -> Option<Fields> {
        let per = self.per.clone()?;
        Some(self.pick.clone().into_iter().chain(per).collect())
    }

    fn judge(&self, pool: &Pool) -> Figure {
        let field = self.field.as_deref().unwrap_or("median");
        let row = pool.find(&self.pick);
        let number = |fields: &Fields| pool.find(fields)?.get(field)?.as_f64();
        let value = match self.divisor() {
            None => number(&self.pick),
            Some(divisor) => number(&self.pick).zip(number(&divisor)).map(|(top, by)| top / by),
        };
        let text = |name: &str| Some(row?.get(name)?.as_str()?.to_owned());
        let (commit, machine) = (text("commit"), text("machine"));
        Figure {
            what: self.what.clone(),
            value,
            least: self.holds.0,
            most: self.holds.1,
            command: text("command").unwrap_or_default(),
            origin: format!("{} on {}", commit.unwrap_or_default(), machine.unwrap_or_default()),
        }
    }
}

/// A check with its number. The field names are what `--json` prints, and stay.
#[derive(Debug, Serialize)]
pub(super) struct Figure {
    pub(super) what: String,
    /// None where no row has it.
    pub(super) value: Option<f64>,
    pub(super) least: Option<f64>,
    pub(super) most: Option<f64>,
    pub(super) command: String,
    /// Commit and machine.
    pub(super) origin: String,
}

impl Figure {
    fn holds(&self) -> bool {
        let is_within = |value: f64| {
            self.least.is_none_or(|least| value >= least)
                && self.most.is_none_or(|most| value <= most)
        };
        self.value.is_some_and(is_within)
    }
}

/// A claim with its verdict. The field names are what `--json` prints, and stay.
#[derive(Debug, Serialize)]
pub(super) struct Judged {
    pub(super) source: String,
    pub(super) claim: String,
    pub(super) figures: Vec<Figure>,
    pub(super) verdict: &'static str,
    pub(super) why: String,
}

impl Sheet {
    /// The sheet in this executable.
    pub(super) fn read() -> Sheet {
        serde_json::from_str(include_str!("sheet.json")).expect("a test reads it")
    }

    pub(super) fn judge(&self, pool: &Pool) -> Vec<Judged> {
        let judged = |claim: &Claim| {
            let figures: Vec<Figure> = claim.checks.iter().map(|it| it.judge(pool)).collect();
            let nr_held = figures.iter().filter(|figure| figure.holds()).count();
            Judged {
                source: claim.source.clone(),
                claim: claim.claim.clone(),
                verdict: match nr_held {
                    _ if figures.is_empty() => "not run",
                    _ if figures.iter().any(|figure| figure.value.is_none()) => "not measured",
                    0 => "does not hold",
                    all if all == figures.len() => "holds",
                    _ => "in part",
                },
                figures,
                why: claim.why.clone(),
            }
        };
        self.claims.iter().map(judged).collect()
    }

    /// The fields of every row that some number is of.
    pub(super) fn picks(&self) -> Vec<Fields> {
        let checks = self.claims.iter().flat_map(|claim| &claim.checks);
        checks.flat_map(|check| [Some(check.pick.clone()), check.divisor()]).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_verdict_says_how_many_checks_hold() {
        let rows = [("old", 4.0), ("new", 2.0)];
        let rows = rows.map(|(subject, median)| json!({"subject": subject, "median": median}));
        let pool = Pool::from_rows(rows);
        let check = |least: f64| {
            json!({
                "what": "times", "pick": {"subject": "old"}, "per": {"subject": "new"},
                "holds": [least, null]
            })
        };
        let verdict = |checks: &[serde_json::Value]| {
            let claim = json!({"source": "s", "claim": "c", "checks": checks, "why": "w"});
            let sheet = json!({"commands": [], "claims": [claim]});
            let sheet: Sheet = serde_json::from_value(sheet).expect("a sheet");
            let judged = sheet.judge(&pool).remove(0);
            assert!(judged.figures.iter().all(|figure| figure.value == Some(2.0)));
            judged.verdict
        };
        assert_eq!(verdict(&[check(2.0), check(1.5)]), "holds");
        assert_eq!(verdict(&[check(2.0), check(2.5)]), "in part");
        assert_eq!(verdict(&[check(2.5)]), "does not hold");
        assert_eq!(verdict(&[]), "not run");
    }
}
