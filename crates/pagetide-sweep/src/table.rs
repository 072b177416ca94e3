//! The table of a sweep: each answer under each trace's name.

use crate::journal::Journal;
use crate::question::Question;
use crate::row::Numbers;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A row of the table. The field names are those of the Parquet file's columns, and stay.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TableRow {
    /// The trace's name, as it was asked for.
    pub trace: String,
    /// The folder that it is in.
    pub group: String,
    /// What it holds; not known of one that could not be read.
    pub content: Option<String>,
    /// How it was read.
    pub settings: String,
    /// Pagetide's version.
    pub version: &'static str,
    /// The contender's name.
    pub policy: &'static str,
    /// The size as it was asked for: frames, or a share in percent.
    pub size: String,
    /// What came of it.
    pub numbers: Option<Numbers>,
    /// Why nothing did.
    pub error: Option<String>,
}

/// The rows of these traces, by name, then in the question's order; those that failed have their
/// error, and those that nothing is known of are left out.
pub fn table_of<'a>(
    names: impl IntoIterator<Item = &'a str>,
    question: &Question,
    journal: &Journal,
    failures: &BTreeMap<String, String>,
) -> Vec<TableRow> {
    let (names, cells) = (names.into_iter().collect::<BTreeSet<_>>(), question.cells());
    let settings = question.reading.settings();
    let mut rows = Vec::new();
    for name in names {
        let content = journal.content_named(name);
        for &(contender, size) in &cells {
            let known = content.as_ref().and_then(|it| journal.row(it, (contender, size)));
            let failure = failures.get(name).cloned();
            if known.is_none() && failure.is_none() {
                continue;
            }
            rows.push(TableRow {
                trace: name.to_owned(),
                group: group_of(name),
                content: content.as_ref().map(|it| it.as_str().to_owned()),
                settings: settings.clone(),
                version: env!("CARGO_PKG_VERSION"),
                policy: contender.as_str(),
                size: size.to_string(),
                numbers: known.as_ref().and_then(|row| row.numbers),
                error: known.map_or(failure, |row| row.error),
            });
        }
    }
    rows
}

/// The folder's own name.
fn group_of(name: &str) -> String {
    let folder = Path::new(name).parent().and_then(Path::file_name);
    folder.map_or(String::new(), |name| name.to_string_lossy().into_owned())
}
