//! Sweeps: the journal and the worker pool for this process, and one unit for an executor's worker.

use super::source::reading;
use super::watch::watched;
use super::{contenders, parse};
use crate::call::detached;
use crate::errors::{raise, raise_on};
use pagetide_lab::replay::Contender;
use pagetide_sweep::{
    Journal, JournalError, MemorySize, Numbers, Question, Shard, Source, Sweep, TableRow,
    summarize, table_of, write_table,
};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

type Tuples<'py> = Vec<Bound<'py, PyTuple>>;
/// A policy and a size, as text.
type PolicyAtSize = (String, String);

/// The question of a sweep, and its journal.
#[pyclass(frozen, module = "pagetide._pagetide")]
pub(crate) struct Plan {
    question: Question,
    journal: Journal,
}

#[pymethods]
impl Plan {
    #[new]
    fn new(
        py: Python<'_>,
        folder: PathBuf,
        policies: Vec<String>,
        sizes: Vec<String>,
        format: Option<&str>,
        lenient: bool,
        readahead: &str,
    ) -> PyResult<Plan> {
        let question = question(&policies, &sizes, format, lenient, readahead)?;
        let journal = detached(py, || Journal::open(&folder, &question))?.map_err(refuse)?;
        Ok(Plan { question, journal })
    }

    /// Returns the trace's unanswered cells, `None` if its content is unknown.
    fn missing(&self, name: &str, stamp: Option<String>) -> PyResult<Option<Vec<PolicyAtSize>>> {
        let stamp = match stamp {
            Some(stamp) => stamp,
            None => match pagetide_sweep::stamp_of(Path::new(name)) {
                Ok(stamp) => stamp,
                // The unit will report the error.
                Err(_) => return Ok(None),
            },
        };
        let content = self.journal.content_of(name, &stamp);
        let text = |(it, size): (Contender, MemorySize)| (it.as_str().to_owned(), size.to_string());
        let missing = |content| self.journal.missing(&content, &self.question);
        Ok(content.map(|content| missing(content).into_iter().map(text).collect()))
    }

    /// Appends a unit's lines to the journal.
    fn append(&self, py: Python<'_>, lines: Vec<String>) -> PyResult<()> {
        detached(py, || self.journal.append(&lines))?.map_err(refuse)
    }

    /// Answers the missing cells of these files on this machine. Returns errors by name.
    fn run(
        &self,
        py: Python<'_>,
        paths: Vec<PathBuf>,
        jobs: Option<usize>,
        said: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<BTreeMap<String, String>> {
        let sources: Vec<Source> = paths.iter().map(|path| Source::file(path)).collect();
        let ran = watched(py, said, |watch| {
            Sweep::run(&sources, &self.question, &self.journal, jobs, watch)
        })?;
        ran.map_err(refuse)
    }

    /// Returns the table's rows, and the standings.
    fn table<'py>(
        &self,
        py: Python<'py>,
        names: Vec<String>,
        failures: BTreeMap<String, String>,
    ) -> PyResult<(Tuples<'py>, Tuples<'py>)> {
        let rows = self.rows(&names, &failures);
        let standings = summarize(&rows).into_iter().map(|it| {
            (
                it.group,
                it.policy,
                it.nr_cells,
                it.win_rate,
                it.regret_mean,
                it.regret_max,
                it.worst_trace,
                it.worst_size,
            )
                .into_pyobject(py)
        });
        let standings = standings.collect::<PyResult<_>>()?;
        let rows = rows.iter().map(|it| row(py, it)).collect::<PyResult<_>>()?;
        Ok((rows, standings))
    }

    /// Writes the table as Parquet.
    fn write(
        &self,
        py: Python<'_>,
        path: PathBuf,
        names: Vec<String>,
        failures: BTreeMap<String, String>,
    ) -> PyResult<()> {
        let written = detached(py, || {
            let mut beside = path.clone().into_os_string();
            beside.push(".new");
            let beside = PathBuf::from(beside);
            let file = File::create(&beside)?;
            write_table(&self.rows(&names, &failures), file).map_err(io::Error::other)?;
            fs::rename(&beside, &path)
        })?;
        written.map_err(|error: io::Error| raise_on(&path, error))
    }
}

impl Plan {
    fn rows(&self, names: &[String], failures: &BTreeMap<String, String>) -> Vec<TableRow> {
        let names = names.iter().map(String::as_str);
        table_of(names, &self.question, &self.journal, failures)
    }
}

/// Makes a row in the column order of the Parquet file.
fn row<'py>(py: Python<'py>, it: &TableRow) -> PyResult<Bound<'py, PyTuple>> {
    let numbers = it.numbers.as_ref();
    let count = |count: fn(&Numbers) -> u64| numbers.map(count).into_pyobject(py);
    let real = |real: fn(&Numbers) -> f64| numbers.map(real).into_pyobject(py);
    let cells = [
        it.trace.as_str().into_pyobject(py)?.into_any(),
        it.group.as_str().into_pyobject(py)?.into_any(),
        it.content.as_deref().into_pyobject(py)?.into_any(),
        it.settings.as_str().into_pyobject(py)?.into_any(),
        it.version.into_pyobject(py)?.into_any(),
        it.policy.into_pyobject(py)?.into_any(),
        it.size.as_str().into_pyobject(py)?.into_any(),
        count(|it| it.frames.into())?,
        count(Numbers::memory_bytes)?,
        count(|it| it.pages)?,
        count(|it| it.accesses)?,
        count(|it| it.misses)?,
        real(Numbers::miss_ratio)?,
        count(|it| it.device_read_bytes)?,
        count(|it| it.evictions)?,
        count(|it| it.refaults)?,
        count(|it| it.activations)?,
        real(|it| it.seconds)?,
        it.error.as_deref().into_pyobject(py)?.into_any(),
    ];
    PyTuple::new(py, cells)
}

/// Returns the names in the shard.
#[pyfunction]
pub(crate) fn in_shard(names: Vec<String>, shard: &str) -> PyResult<Vec<String>> {
    let shard: Shard = parse("shard", shard)?;
    Ok(names.into_iter().filter(|name| shard.takes(name)).collect())
}

/// Runs a unit on an executor's worker. Returns its lines, or an error.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "what a worker is sent")]
pub(crate) fn run_unit(
    py: Python<'_>,
    name: String,
    path: PathBuf,
    stamp: Option<String>,
    asked: Option<Vec<PolicyAtSize>>,
    policies: Vec<String>,
    sizes: Vec<String>,
    format: Option<&str>,
    lenient: bool,
    readahead: &str,
) -> PyResult<(Vec<String>, Option<String>)> {
    let question = question(&policies, &sizes, format, lenient, readahead)?;
    let asked = asked.map(|asked| {
        // A share is text as typed. An amount is in frames.
        let size_of = |text: &str| match text.parse() {
            Ok(frames) => Ok(MemorySize::Frames(frames)),
            Err(_) => parse::<MemorySize>("memory", text),
        };
        let cell = |(policy, size): &PolicyAtSize| Ok((parse("policy", policy)?, size_of(size)?));
        asked.iter().map(cell).collect::<PyResult<Vec<_>>>()
    });
    let (asked, source) = (asked.transpose()?, Source { name, path, stamp });
    let ran =
        watched(py, None, |watch| pagetide_sweep::run_unit(&source, &question, asked, watch))?;
    match ran {
        Ok(lines) => Ok((lines, None)),
        Err(Some(why)) => Ok((Vec::new(), Some(why))),
        Err(None) => Err(PyRuntimeError::new_err("the unit was stopped")),
    }
}

fn question(
    policies: &[String],
    sizes: &[String],
    format: Option<&str>,
    lenient: bool,
    readahead: &str,
) -> PyResult<Question> {
    Ok(Question {
        contenders: contenders(policies)?,
        sizes: sizes.iter().map(|size| parse("memory", size)).collect::<PyResult<_>>()?,
        reading: reading(format, lenient, readahead)?,
    })
}

fn refuse(error: JournalError) -> PyErr {
    match error {
        JournalError::System { path, source } => raise_on(&path, source),
        other => raise(io::Error::other(other)),
    }
}
