//! The journal: what is known, as lines of JSON in a folder, a file for each process.
//!
//! ```text
//!   results.parquet.rows/
//!     4711-1764068663.jsonl   {"trace":{"name":"a.csv","stamp":"...","content":"9f..."}}
//!                             {"row":{"content":"9f...","policy":"lru","size":"16384",...}}
//!     4712-1764068663.jsonl   another process, at the same time or later
//! ```
//!
//! A process writes its own file alone, whole lines at a time, so that any number of them may share
//! the folder, and one that is killed loses its last line at most. A reader takes every line of
//! every file that is one; of two rows with one key, the first.
//!
//! Ignored: power failures (lines are not synced); two processes that do the same work at the same
//! time, which costs time and no row.

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

/// Of Pagetide: rows of another are not the same answer.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why a journal could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The folder cannot be made or read, or a line not written; the system says why.
    #[error("cannot use the folder of rows {}: {source}", path.display())]
    System {
        /// The folder, or a file in it.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

/// A line, as it is in the files.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Line {
    /// What the trace of this name holds, as long as it has this stamp.
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
    /// By name: stamp and content.
    traces: BTreeMap<String, (String, Content)>,
    /// By content, policy and size.
    rows: BTreeMap<Key, Row>,
    file: Option<File>,
}

/// What is known of one way to read traces.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    settings: String,
    known: Mutex<Known>,
}

impl Journal {
    /// Reads what there is in `folder`, which need not exist, of answers to this question.
    ///
    /// # Errors
    /// Where the folder or a file in it cannot be read.
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
        // The same rows win, whatever order the system lists files in.
        paths.sort_unstable();
        for path in paths {
            let bytes = fs::read(&path).map_err(|error| on(&path, error))?;
            let mut known = journal.lock();
            String::from_utf8_lossy(&bytes).lines().for_each(|line| journal.take(&mut known, line));
        }
        Ok(journal)
    }

    /// The content of the trace of this name, if it is known and the stamp is still this.
    pub fn content_of(&self, name: &str, stamp: &str) -> Option<Content> {
        let known = self.lock();
        let (known_stamp, content) = known.traces.get(name)?;
        (known_stamp == stamp).then(|| content.clone())
    }

    /// The content of the trace of this name as it was found last.
    pub(crate) fn content_named(&self, name: &str) -> Option<Content> {
        self.lock().traces.get(name).map(|(_, content)| content.clone())
    }

    /// Which of the cells of the question have no answer for this content.
    pub fn missing(&self, content: &Content, question: &Question) -> Vec<(Contender, MemorySize)> {
        let known = self.lock();
        let mut cells = question.cells();
        cells.retain(|cell| !known.rows.contains_key(&key_of(content, *cell)));
        cells
    }

    /// The answer to a cell.
    pub fn row(&self, content: &Content, cell: (Contender, MemorySize)) -> Option<Row> {
        self.lock().rows.get(&key_of(content, cell)).cloned()
    }

    /// Writes lines down; those that are known by now are left out.
    ///
    /// # Errors
    /// Where they cannot be written.
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

    /// The line that says what a trace holds.
    pub(crate) fn trace_line(name: &str, stamp: &str, content: &Content) -> String {
        let (name, stamp) = (name.to_owned(), stamp.to_owned());
        Line::Trace { name, stamp, content: content.clone() }.to_text()
    }

    /// A row of these settings and this version, without its answer.
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

    /// Takes up a line: one that is torn, of other settings or of another version is of no use.
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
        // Not the process alone: machines that share the folder count theirs each.
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
