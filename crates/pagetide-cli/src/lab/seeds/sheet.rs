//! Claims and their verdicts.
//!
//! ```text
//!   check   rows that match `pick`, divided by rows that match `per` --> a number
//!           within `holds`?
//!   claim   all checks hold -> holds, some -> in part, none -> does not hold, no checks -> not run
//! ```

use super::rows::{Fields, Pool};
use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize)]
pub(super) struct Sheet {
    /// Argument lists of `pagetide` that `--run` runs.
    pub(super) commands: Vec<String>,
    pub(super) claims: Vec<Claim>,
}

/// A table, figure or sentence of a source.
#[derive(Debug, Deserialize)]
pub(super) struct Claim {
    source: String,
    /// The published measurement and result.
    claim: String,
    /// The checks here, empty if not measurable.
    #[serde(default)]
    checks: Vec<Check>,
    why: String,
}

/// A number computed from rows, and its allowed range.
#[derive(Debug, Deserialize)]
pub(super) struct Check {
    what: String,
    /// The fields that select its row.
    pub(super) pick: Fields,
    /// The fields that differ in the divisor's row.
    pub(super) per: Option<Fields>,
    /// The field with the number, by default `median`.
    field: Option<String>,
    /// The lower and upper bound.
    holds: (Option<f64>, Option<f64>),
}

impl Check {
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

/// A check with its number. `--json` prints these field names.
#[derive(Debug, Serialize)]
pub(super) struct Figure {
    pub(super) what: String,
    /// None if no row matches.
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

/// A claim with its verdict. `--json` prints these field names.
#[derive(Debug, Serialize)]
pub(super) struct Judged {
    pub(super) source: String,
    pub(super) claim: String,
    pub(super) figures: Vec<Figure>,
    pub(super) verdict: &'static str,
    pub(super) why: String,
}

impl Sheet {
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
