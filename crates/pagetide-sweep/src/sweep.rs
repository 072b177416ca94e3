//! One machine's part of a sweep, and one unit for an engine that spreads units itself.
//!
//! ```text
//!   source --stamp--> known? --no--> hash --> missing cells? --none--> done
//!                                               |
//!                                               v
//!                                       read once --> cell --> line, cell --> line, ...
//! ```
//!
//! A damaged trace is a permanent answer. A file that cannot be opened, or does not fit into
//! memory, is retried by the next sweep.

use crate::content::{Content, stamp_of};
use crate::crew::{Load, Watch, Work, nr_threads, read_budget, work_through};
use crate::journal::{Journal, JournalError, Line};
use crate::question::{MemorySize, Question};
use crate::reading::{ReadTraceError, read_whole};
use crate::row::Numbers;
use pagetide_core::units::Bytes;
use pagetide_lab::judge::opt;
use pagetide_lab::replay::{Cell, Contender, Setup};
use pagetide_lab::trace::{DenseTrace, Facts, TraceError};
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A cell.
type PolicyAtSize = (Contender, MemorySize);

/// A trace's name and path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Source {
    /// The name in tables.
    pub name: String,
    /// A file of this machine.
    pub path: PathBuf,
    /// Changes when the trace does. By default the file's own stamp.
    pub stamp: Option<String>,
}

impl Source {
    /// Makes a source of a file, named by its path.
    pub fn file(path: &Path) -> Source {
        Source { name: path.to_string_lossy().into_owned(), path: path.to_owned(), stamp: None }
    }

    fn read_stamp(&self) -> Result<String, Failure> {
        match &self.stamp {
            Some(stamp) => Ok(stamp.clone()),
            None => stamp_of(&self.path).map_err(|error| Failure::Lasting(error.to_string())),
        }
    }
}

/// The reason why a unit has no answers.
enum Failure {
    /// Permanent: the next sweep need not retry.
    OfTrace(String),
    /// Perhaps different next time.
    Lasting(String),
    NoRoom(String),
    Stopped,
}

/// A trace in memory, and its cells.
pub(crate) struct Unit {
    trace: DenseTrace,
    facts: Facts,
    nr_pages: u64,
    content: Content,
    asked: Vec<PolicyAtSize>,
}

impl Unit {
    fn read(
        source: &Source,
        content: Content,
        asked: Vec<PolicyAtSize>,
        question: &Question,
        watch: &dyn Watch,
    ) -> Result<Unit, Failure> {
        let read = || read_whole(&source.path, &question.reading, |_| watch.keep_on());
        let read = catch_unwind(AssertUnwindSafe(read));
        let read = read.map_err(|panic| Failure::OfTrace(describe_panic(&*panic)))?;
        let (trace, facts, _) = read.map_err(|error| match &error {
            ReadTraceError::Stopped => Failure::Stopped,
            ReadTraceError::NoRoom { .. } => Failure::NoRoom(error.describe()),
            ReadTraceError::Trace(TraceError::Open { .. }) => Failure::Lasting(error.describe()),
            _ => Failure::OfTrace(error.describe()),
        })?;
        let nr_pages = opt::count_pages(&trace);
        Ok(Unit { trace, facts, nr_pages, content, asked })
    }

    fn cell(&self, (contender, size): PolicyAtSize) -> Cell {
        let header = self.facts.header.as_ref();
        Cell::new(contender, size.frames(self.nr_pages), |policy, frames| {
            Setup::of_trace(policy, frames, header)
        })
    }

    /// Returns the cell's line, `None` if stopped.
    fn answer(&self, asked: PolicyAtSize, settings: &str, watch: &dyn Watch) -> Option<String> {
        let (cell, start) = (self.cell(asked), Instant::now());
        let replay = || cell.run_while(&self.trace, |_| watch.keep_on());
        let mut row = Journal::row_of(settings, &self.content, asked);
        match catch_unwind(AssertUnwindSafe(replay)) {
            Ok(outcome) => {
                let seconds = start.elapsed().as_secs_f64();
                row.numbers = Some(Numbers::of(&outcome?, cell.frames, self.nr_pages, seconds));
            }
            Err(panic) => row.error = Some(describe_panic(&*panic)),
        }
        Some(Line::Row(row).to_text())
    }
}

fn describe_panic(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<&str>().copied();
    let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a bug in pagetide, please report it: {}", said.unwrap_or("a panic without a message"))
}

fn read_content(source: &Source, watch: &dyn Watch) -> Result<Content, Failure> {
    let read = Content::read(&source.path, || watch.keep_on());
    read.map_err(|error| Failure::Lasting(error.to_string()))?.ok_or(Failure::Stopped)
}

/// Makes a row with the error for each cell.
fn failed_lines(
    content: &Content,
    asked: &[PolicyAtSize],
    settings: &str,
    why: &str,
) -> Vec<String> {
    let failed = |&it: &PolicyAtSize| {
        let mut row = Journal::row_of(settings, content, it);
        row.error = Some(why.to_owned());
        Line::Row(row).to_text()
    };
    asked.iter().map(failed).collect()
}

/// Reads one trace and answers the cells, `None` for all of the question, on this thread. Returns
/// lines for [`Journal::append`], on the machine with the journal.
///
/// # Errors
/// Fails with a message if the trace cannot be opened or does not fit into memory, which may differ
/// on another machine. Fails with `None` if stopped.
pub fn run_unit(
    source: &Source,
    question: &Question,
    asked: Option<Vec<PolicyAtSize>>,
    watch: &dyn Watch,
) -> Result<Vec<String>, Option<String>> {
    let settings = question.reading.settings();
    let asked = asked.unwrap_or_else(|| question.cells());
    let run = || -> Result<Vec<String>, Failure> {
        let stamp = source.read_stamp()?;
        let content = read_content(source, watch)?;
        let mut lines = vec![Journal::trace_line(&source.name, &stamp, &content)];
        match Unit::read(source, content.clone(), asked.clone(), question, watch) {
            Ok(unit) => {
                for &cell in &unit.asked {
                    lines.push(unit.answer(cell, &settings, watch).ok_or(Failure::Stopped)?);
                }
            }
            Err(Failure::OfTrace(why)) => {
                lines.extend(failed_lines(&content, &asked, &settings, &why));
            }
            Err(failure) => return Err(failure),
        }
        Ok(lines)
    };
    run().map_err(|failure| match failure {
        Failure::OfTrace(why) | Failure::Lasting(why) | Failure::NoRoom(why) => Some(why),
        Failure::Stopped => None,
    })
}

/// One machine's part of a sweep.
pub struct Sweep<'a> {
    question: &'a Question,
    journal: &'a Journal,
    /// With their lengths, longest first, so that no core is idle at the end.
    sources: Vec<(&'a Source, u64)>,
    watch: &'a dyn Watch,
    settings: String,
    nr_parts: u64,
    nr_parts_done: AtomicU64,
    failures: Mutex<BTreeMap<String, String>>,
    refused: Mutex<Option<JournalError>>,
    is_refused: AtomicBool,
}

impl<'a> Sweep<'a> {
    /// Answers the cells that are missing in the journal, on `jobs` threads (`None`: one per core).
    /// Returns the errors of traces, by name.
    ///
    /// If `watch` stops the work, finished answers are in the journal.
    ///
    /// # Errors
    /// Fails if the journal cannot be written.
    pub fn run(
        sources: &'a [Source],
        question: &'a Question,
        journal: &'a Journal,
        jobs: Option<usize>,
        watch: &'a dyn Watch,
    ) -> Result<BTreeMap<String, String>, JournalError> {
        let len = |source: &Source| std::fs::metadata(&source.path).map_or(1, |it| it.len().max(1));
        let mut sources: Vec<_> = sources.iter().map(|source| (source, len(source))).collect();
        sources.sort_by(|(a, a_len), (b, b_len)| b_len.cmp(a_len).then_with(|| a.cmp(b)));
        sources.dedup();
        // One part per byte, read or replayed.
        let parts_each = question.cells().len() as u64 + 1;
        let nr_parts = sources.iter().map(|(_, len)| len.saturating_mul(parts_each)).sum();
        let sweep = Sweep {
            question,
            journal,
            watch,
            settings: question.reading.settings(),
            nr_parts,
            nr_parts_done: AtomicU64::new(0),
            failures: Mutex::default(),
            refused: Mutex::default(),
            is_refused: AtomicBool::new(false),
            sources,
        };
        let nr_units = sweep.sources.len();
        work_through(&sweep, nr_units, nr_threads(jobs), read_budget(), &sweep);
        match unpoisoned(&sweep.refused).take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut unpoisoned(&sweep.failures))),
        }
    }

    fn begin(&self, source: &Source) -> Result<Option<Unit>, Failure> {
        let stamp = source.read_stamp()?;
        let content = match self.journal.content_of(&source.name, &stamp) {
            Some(content) => content,
            None => {
                let content = read_content(source, self)?;
                self.write(&[Journal::trace_line(&source.name, &stamp, &content)]);
                content
            }
        };
        let asked = self.journal.missing(&content, self.question);
        if asked.is_empty() {
            return Ok(None);
        }
        match Unit::read(source, content.clone(), asked.clone(), self.question, self) {
            Err(Failure::OfTrace(why)) => {
                self.write(&failed_lines(&content, &asked, &self.settings, &why));
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    fn write(&self, lines: &[String]) {
        if let Err(error) = self.journal.append(lines) {
            unpoisoned(&self.refused).get_or_insert(error);
            self.is_refused.store(true, Relaxed);
        }
    }

    fn did(&self, unit: usize, nr_times: u64) {
        let nr_parts = self.sources[unit].1.saturating_mul(nr_times);
        let nr_done = self.nr_parts_done.fetch_add(nr_parts, Relaxed) + nr_parts;
        self.watch.progress(nr_done, self.nr_parts);
    }
}

impl Watch for Sweep<'_> {
    fn keep_on(&self) -> bool {
        self.watch.keep_on() && !self.is_refused.load(Relaxed)
    }
}

impl Work for Sweep<'_> {
    type Loaded = Unit;

    /// Text of about ten bytes per access becomes five to nine bytes, plus tables of pages.
    /// Compressed text is a few times shorter.
    fn bytes_to_load(&self, unit: usize) -> u64 {
        let (source, len) = &self.sources[unit];
        let is_packed = source.path.extension().is_some_and(|it| it == "zst" || it == "gz");
        len.saturating_mul(if is_packed { 8 } else { 2 })
    }

    fn load(&self, unit: usize, is_alone: bool) -> Load<Unit> {
        let (source, _) = self.sources[unit];
        let nr_all = self.question.cells().len() as u64;
        match self.begin(source) {
            Ok(Some(loaded)) => {
                self.did(unit, 1 + nr_all - loaded.asked.len() as u64);
                let bytes_of =
                    |&asked: &PolicyAtSize| loaded.cell(asked).bytes_needed(&loaded.trace);
                let bytes_of_cells = loaded.asked.iter().map(bytes_of).collect();
                Load::Ready { bytes: loaded.trace.bytes_held(), bytes_of_cells, loaded }
            }
            Err(Failure::NoRoom(_)) if !is_alone => Load::Later,
            Err(Failure::OfTrace(why) | Failure::Lasting(why) | Failure::NoRoom(why)) => {
                unpoisoned(&self.failures).insert(source.name.clone(), why);
                self.did(unit, 1 + nr_all);
                Load::Nothing
            }
            Err(Failure::Stopped) => Load::Nothing,
            Ok(None) => {
                self.did(unit, 1 + nr_all);
                Load::Nothing
            }
        }
    }

    fn run(&self, unit: usize, loaded: &Unit, cell: usize) {
        let asked = loaded.asked[cell];
        let needed = loaded.cell(asked).bytes_needed(&loaded.trace);
        let available = crate::room::read_memory_available().map_or(u64::MAX, |bytes| bytes.0);
        if needed > available {
            let why = format!(
                "not enough memory: the replay needs {} and {} are available; ask for a smaller \
                 memory, or for fewer jobs",
                Bytes(needed),
                Bytes(available)
            );
            unpoisoned(&self.failures).insert(self.sources[unit].0.name.clone(), why);
        } else if let Some(line) = loaded.answer(asked, &self.settings, self) {
            self.write(&[line]);
        }
        self.did(unit, 1);
    }
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
