//! The journal: known answers, as lines of JSON in a folder, one file per process.
//!
//! ```text
//!   results.parquet.rows/
//!     4711-1764068663.jsonl   {"trace":{"name":"a.csv","stamp":"...","content":"9f..."}}
//!                             {"row":{"content":"9f...","policy":"lru","size":"16384",...}}
//!     4712-1764068663.jsonl   another process, at the same time or later
//! ```
//!
//! A process appends whole lines only to its own file, so processes may share the folder, and a
//! killed process loses at most its last line. A reader takes all valid lines, and the first of
//! several rows with one key.
//!
//! Ignored: power failures (lines are not synced). Two processes that do the same work waste time,
//! but lose no row.

use crate::content::Content;
use crate::question::{MemorySize, Question};
use crate::row::Row;
use pagetide_lab::replay::Contender;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Rows of other versions are different answers.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The reason why a journal could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The folder or a line failed, with the system's reason.
    #[error("cannot use the folder of rows {}: {source}", path.display())]
    System {
        /// The folder, or a file in it.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Line {
    /// The content of the named trace, valid for this stamp.
    Trace { name: String, stamp: String, content: Content },
    /// An answer.
    Row(Row),
}

impl Line {
    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers are JSON")
    }
}

type Key = (Content, String, String);

#[derive(Debug, Default)]
struct Known {
    /// Stamp and content by name.
    traces: BTreeMap<String, (String, Content)>,
    /// Rows by content, policy and size.
    rows: BTreeMap<Key, Row>,
    file: Option<File>,
}

/// The known answers for one way of reading traces.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    settings: String,
    known: Mutex<Known>,
}

impl Journal {
    /// Reads the answers to this question in `folder`, which need not exist.
    ///
    /// # Errors
    /// Fails if the folder or a file in it cannot be read.
    pub fn open(folder: &Path, question: &Question) -> Result<Journal, JournalError> {
        let on = |path: &Path, source| JournalError::System { path: path.to_owned(), source };
        let settings = question.reading.settings();
        let journal =
            Journal { folder: folder.to_owned(), settings, known: Mutex::new(Known::default()) };
        let mut paths: Vec<PathBuf> = match fs::read_dir(folder) {
            Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(on(folder, error)),
        };
        paths.retain(|path| path.extension().is_some_and(|it| it == "jsonl"));
        // Sorted, so that the same rows win in any order of the directory.
        paths.sort_unstable();
        for path in paths {
            let bytes = fs::read(&path).map_err(|error| on(&path, error))?;
            let mut known = journal.lock();
            String::from_utf8_lossy(&bytes).lines().for_each(|line| journal.take(&mut known, line));
        }
        Ok(journal)
    }

    /// Returns the named trace's content, if known for this stamp.
    pub fn content_of(&self, name: &str, stamp: &str) -> Option<Content> {
        let known = self.lock();
        let (known_stamp, content) = known.traces.get(name)?;
        (known_stamp == stamp).then(|| content.clone())
    }

    /// Returns the named trace's last known content.
    pub(crate) fn content_named(&self, name: &str) -> Option<Content> {
        self.lock().traces.get(name).map(|(_, content)| content.clone())
    }

    /// Returns the question's cells without an answer for this content.
    pub fn missing(&self, content: &Content, question: &Question) -> Vec<(Contender, MemorySize)> {
        let known = self.lock();
        let mut cells = question.cells();
        cells.retain(|cell| !known.rows.contains_key(&key_of(content, *cell)));
        cells
    }

    /// Returns the answer to a cell.
    pub fn row(&self, content: &Content, cell: (Contender, MemorySize)) -> Option<Row> {
        self.lock().rows.get(&key_of(content, cell)).cloned()
    }

    /// Appends lines. Known lines are skipped.
    ///
    /// # Errors
    /// Fails if the lines cannot be written.
    pub fn append(&self, lines: &[String]) -> Result<(), JournalError> {
        let mut known = self.lock();
        let file = match &mut known.file {
            Some(file) => file,
            none => none.insert(self.begin_file()?),
        };
        let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        let written = file.write_all(text.as_bytes());
        written.map_err(|source| JournalError::System { path: self.folder.clone(), source })?;
        lines.iter().for_each(|line| self.take(&mut known, line));
        Ok(())
    }

    /// Returns the line with a trace's content.
    pub(crate) fn trace_line(name: &str, stamp: &str, content: &Content) -> String {
        let (name, stamp) = (name.to_owned(), stamp.to_owned());
        Line::Trace { name, stamp, content: content.clone() }.to_text()
    }

    /// Makes a row of these settings and this version, without an answer.
    pub(crate) fn row_of(
        settings: &str,
        content: &Content,
        (contender, size): (Contender, MemorySize),
    ) -> Row {
        Row {
            content: content.clone(),
            settings: settings.to_owned(),
            version: VERSION.to_owned(),
            policy: contender.as_str().to_owned(),
            size: size.to_string(),
            numbers: None,
            error: None,
        }
    }

    /// Parses a line. Ignores torn lines, other settings and other versions.
    fn take(&self, known: &mut Known, line: &str) {
        match serde_json::from_str(line) {
            Ok(Line::Trace { name, stamp, content }) => {
                known.traces.insert(name, (stamp, content));
            }
            Ok(Line::Row(row)) if row.settings == self.settings && row.version == VERSION => {
                let key = (row.content.clone(), row.policy.clone(), row.size.clone());
                known.rows.entry(key).or_insert(row);
            }
            Ok(Line::Row(_)) | Err(_) => {}
        }
    }

    fn begin_file(&self) -> Result<File, JournalError> {
        let on = |path: &Path, source| JournalError::System { path: path.to_owned(), source };
        match fs::create_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(on(&self.folder, error));
            }
            _ => {}
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // The process id alone is not unique among machines that share the folder.
        let name = format!("{}-{}.jsonl", std::process::id(), since.as_nanos());
        let path = self.folder.join(name);
        File::options().append(true).create_new(true).open(&path).map_err(|error| on(&path, error))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key_of(content: &Content, (contender, size): (Contender, MemorySize)) -> Key {
    (content.clone(), contender.as_str().to_owned(), size.to_string())
}
