//! Measured rows as flat objects, found by their fields.
//!
//! ```text
//!   results/demo.jsonl ...   rows of `--results`
//!   results/seeds.jsonl      rows of `--json` used by the sheet, with command, commit and machine
//! ```

use crate::failure::Failure;
use crate::{document, machine, output, results, terminal};
use serde_json::{Map, Value};
use std::fmt::Display;
use std::path::Path;
use std::process::Command;

/// A row or a query.
pub(super) type Fields = Map<String, Value>;

const FILE: &str = "seeds.jsonl";

pub(super) struct Pool(Vec<Fields>);

impl Pool {
    /// Reads all `.jsonl` files.
    pub(super) fn read(folder: &Path) -> Result<Pool, Failure> {
        let refuse = |error: &dyn Display| {
            let told = "the folder of measured rows; --rows names another";
            Failure::Refused(format!("cannot read {}, {told}: {error}", folder.display()))
        };
        let mut rows = Vec::new();
        for entry in folder.read_dir().map_err(|error| refuse(&error))? {
            let path = entry.map_err(|error| refuse(&error))?.path();
            if path.extension().is_some_and(|extension| extension == "jsonl") {
                let text = std::fs::read_to_string(&path).map_err(|error| refuse(&error))?;
                for line in text.lines() {
                    rows.push(serde_json::from_str(line).map_err(|error| refuse(&error))?);
                }
            }
        }
        Ok(Pool(rows))
    }

    #[cfg(test)]
    pub(super) fn from_rows(rows: impl IntoIterator<Item = Value>) -> Pool {
        let object = |row: Value| row.as_object().expect("an object").clone();
        Pool(rows.into_iter().map(object).collect())
    }

    pub(super) fn find(&self, fields: &Fields) -> Option<&Fields> {
        self.0.iter().find(|row| has(row, fields))
    }
}

fn has(row: &Fields, fields: &Fields) -> bool {
    fields.iter().all(|(name, value)| row.get(name) == Some(value))
}

/// Runs the `commands` with prefix `words` and keeps the rows that match any of `picks`.
pub(super) fn measure(
    commands: &[String],
    words: &str,
    picks: &[Fields],
    folder: &Path,
) -> Result<(), Failure> {
    let path = folder.join(FILE);
    output::check("the rows", [&path])?;
    let commit = results::read_commit();
    let (to_run, to_keep): (Vec<&String>, Vec<&String>) =
        commands.iter().partition(|command| command.starts_with(words));
    let is_kept = |line: &&str| {
        to_keep.iter().any(|command| line.contains(&format!("\"pagetide {command}\"")))
    };
    // The file may not exist yet.
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    let mut text: String = old.lines().filter(is_kept).map(|line| format!("{line}\n")).collect();
    for command in to_run {
        terminal::note(&format!("pagetide {command}"));
        for mut row in rows_of(command)? {
            row.insert("command".to_owned(), format!("pagetide {command}").into());
            if picks.iter().any(|fields| has(&row, fields)) {
                row.insert("commit".to_owned(), commit.clone().into());
                row.insert("machine".to_owned(), machine::describe().into());
                text.push_str(&Value::Object(row).to_string());
                text.push('\n');
            }
        }
    }
    output::write("the rows", &path, &text)
}

fn rows_of(command: &str) -> Result<Vec<Fields>, Failure> {
    let refuse =
        |error: &dyn Display| Failure::Refused(format!("cannot run `pagetide {command}`: {error}"));
    let this = std::env::current_exe().map_err(|error| refuse(&error))?;
    let mut child = Command::new(this);
    child.args(command.split(' ')).arg("--json").stderr(std::process::Stdio::inherit());
    let output = child.output().map_err(|error| refuse(&error))?;
    if !output.status.success() {
        return Err(refuse(&output.status));
    }
    document::read_rows(&output.stdout).map_err(|error| refuse(&error))
}
