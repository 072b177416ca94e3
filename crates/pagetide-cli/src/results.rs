//! `--results FILE`: appends measured rows, with their origin, to a JSON-lines file.
//!
//! ```text
//!   rows --+-- command line, commit, machine --> appended to results/NAME.jsonl
//! ```
//!
//! The commit is the HEAD of the tree around the executable. Uncommitted changes outside the
//! results add `-dirty`. `cargo x results` renders the document if all rows have one commit.
//!
//! Ignored: an executable older than its tree.

use crate::failure::Failure;
use crate::machine;
use crate::output;
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The argument of all commands that measure.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ResultsArgs {
    /// Append the measured rows to this file, a JSON object a line, each with this command line,
    /// the commit and the machine (docs/formats.md).
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
}

/// Field names are as in the file.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Measured {
    pub(crate) case: String,
    pub(crate) subject: String,
    /// The unit, empty if the case names it.
    pub(crate) unit: &'static str,
    /// Rounds or seeds.
    pub(crate) runs: u32,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reference: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reference_median: Option<f64>,
    /// A ratio above 1 if the subject is better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ratio_min: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ratio_max: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<String>,
}

/// Returns the minimum, the upper median and the maximum. Needs a value.
pub(crate) fn range_of(values: impl IntoIterator<Item = f64>) -> [f64; 3] {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    [sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1]]
}

impl Measured {
    pub(crate) fn once(case: String, subject: &str, unit: &'static str, value: f64) -> Measured {
        Measured::over(case, subject, unit, &[value])
    }

    /// Takes at least one of `values`.
    pub(crate) fn over(
        case: String,
        subject: &str,
        unit: &'static str,
        values: &[f64],
    ) -> Measured {
        let [min, median, max] = range_of(values.iter().copied());
        Measured {
            case,
            subject: subject.to_owned(),
            unit,
            runs: values.len() as u32,
            median,
            min,
            max,
            ..Measured::default()
        }
    }

    /// Adds a reference for a value where more is better.
    pub(crate) fn against(self, reference: &str, median: f64) -> Measured {
        Measured {
            reference: Some(reference.to_owned()),
            reference_median: Some(median),
            ratio: (median > 0.0).then_some(self.median / median),
            ..self
        }
    }
}

#[derive(Serialize)]
struct ResultLine<'a> {
    command: &'a str,
    commit: &'a str,
    machine: &'a str,
    #[serde(flatten)]
    row: &'a Measured,
}

impl ResultsArgs {
    pub(crate) fn check(&self) -> Result<(), Failure> {
        output::check("the results", &self.results)
    }

    pub(crate) fn append(&self, rows: impl FnOnce() -> Vec<Measured>) -> Result<(), Failure> {
        let Some(path) = &self.results else { return Ok(()) };
        let refuse = |error| Failure::on_path("write the results", path, &error);
        let (command, commit, machine) = (command_line(), read_commit(), machine::describe());
        let mut text = String::new();
        for row in rows() {
            let line =
                ResultLine { command: &command, commit: &commit, machine: &machine, row: &row };
            text +=
                &serde_json::to_string(&line).map_err(|error| Failure::on("write JSON", &error))?;
            text.push('\n');
        }
        let mut file = File::options().create(true).append(true).open(path).map_err(refuse)?;
        file.write_all(text.as_bytes()).map_err(refuse)
    }
}

fn command_line() -> String {
    shorten(std::env::args().skip(1))
}

/// Shortens paths to their last name and drops flags for output files.
fn shorten(words: impl Iterator<Item = String>) -> String {
    let mut line = vec!["pagetide".to_owned()];
    let mut is_value_of_place = false;
    for word in words {
        let is_place = ["--results", "--dir", "--report"].contains(&word.as_str());
        if !is_place && !is_value_of_place {
            line.push(word.rsplit('/').next().unwrap_or(&word).to_owned());
        }
        is_value_of_place = is_place;
    }
    line.join(" ")
}

/// Returns the commit around the executable, or `unknown`.
pub(crate) fn read_commit() -> String {
    let executable = std::env::current_exe().unwrap_or_default();
    let folder = executable.parent().unwrap_or(Path::new("."));
    let git = |arguments: &[&str]| -> Option<String> {
        let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let others = [":/", ":(top,exclude)results", ":(top,exclude)docs"];
    let status = [&["status", "--porcelain", "--untracked-files=no", "--"], &others[..]].concat();
    match git(&status) {
        Some(changes) if changes.is_empty() => commit,
        _ => format!("{commit}-dirty"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_several_runs_has_its_spread_and_its_ratio() {
        let row = Measured::over("case".into(), "mglru", "GB/s", &[3.0, 1.0, 2.0]);
        let row = row.against("fixed", 4.0);
        assert_eq!((row.median, row.min, row.max, row.runs), (2.0, 1.0, 3.0, 3));
        assert_eq!((row.reference.as_deref(), row.ratio), (Some("fixed"), Some(0.5)));
    }

    #[test]
    fn rows_are_appended_a_line_each_with_where_they_are_from() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows.jsonl");
        let args = ResultsArgs { results: Some(path.clone()) };
        for value in [1.0, 2.0] {
            args.append(|| vec![Measured::once("hit copy".into(), "lru", "ns", value)])
                .expect("it can be written");
        }
        let text = std::fs::read_to_string(path).expect("the file");
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        assert_eq!((lines.len(), &lines[1]["median"]), (2, &2.0.into()));
        for field in ["command", "commit", "machine", "case", "subject", "unit", "runs", "min"] {
            assert!(lines[0].get(field).is_some(), "{field} is missing: {text}");
        }
        assert!(lines[0].get("ratio").is_none(), "there is no reference: {text}");
    }

    #[test]
    fn a_command_line_has_no_folder_of_a_machine() {
        let typed = "bench hit --dir /a/b --runs 5 --results /c/d.jsonl /x/trace.ptt";
        let short = shorten(typed.split(' ').map(str::to_owned));
        assert_eq!(short, "pagetide bench hit --runs 5 trace.ptt");
    }
}
