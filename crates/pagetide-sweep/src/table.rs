//! The table of a sweep: each answer under each trace's name.

use crate::journal::Journal;
use crate::question::Question;
use crate::row::Numbers;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A row of the table. The field names are the Parquet columns, and stable.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TableRow {
    /// The trace's requested name.
    pub trace: String,
    /// The trace's folder.
    pub group: String,
    /// The trace's content hash, if it could be read.
    pub content: Option<String>,
    /// The settings for reading the trace.
    pub settings: String,
    /// Pagetide's version.
    pub version: &'static str,
    /// The policy's name.
    pub policy: &'static str,
    /// The requested size: frames, or a share in percent.
    pub size: String,
    /// The result, unless failed.
    pub numbers: Option<Numbers>,
    /// The reason of a failure.
    pub error: Option<String>,
}

/// Returns the rows of these traces, by name, then in the question's order. Failed cells have an
/// error, and unknown cells are left out.
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

/// Returns the folder's own name.
fn group_of(name: &str) -> String {
    let folder = Path::new(name).parent().and_then(Path::file_name);
    folder.map_or(String::new(), |name| name.to_string_lossy().into_owned())
}
