//! The trace to replay: a file, or arrays of page numbers.

use super::parse;
use super::watch::Watched;
use crate::buffer::{bytes, words};
use crate::errors::raise_on;
use pagetide_core::ids::{PageId, PageIndex};
use pagetide_core::units::Millis;
use pagetide_lab::replay::{Cell, Contender, Reader, ReplayClock, Setup};
use pagetide_lab::trace::{Access, AccessKind, DenseTrace, Header, ReadaheadUse, TraceError};
use pagetide_sweep::{ReadTraceError, Reading, Watch, read_whole};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use std::path::PathBuf;

/// Buffers of pages, and of times and kinds if known.
pub(super) type Arrays<'py> =
    (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

/// A trace to load.
pub(super) enum Source {
    File { path: PathBuf, reading: Reading },
    Pages(DenseTrace),
}

/// A trace in memory, with its header and its use of readahead.
pub(super) struct Loaded {
    pub(super) trace: DenseTrace,
    pub(super) header: Option<Header>,
    pub(super) readahead_use: ReadaheadUse,
}

/// Parses Python's options for reading a trace.
pub(super) fn reading(
    format: Option<&str>,
    is_lenient: bool,
    readahead: &str,
) -> PyResult<Reading> {
    let has_readahead = match readahead {
        "without" => false,
        "recorded" => true,
        _ => {
            let said = format!("readahead={readahead:?}: one of without, recorded");
            return Err(PyValueError::new_err(said));
        }
    };
    let format = format.map(|name| parse("format", name)).transpose()?;
    Ok(Reading { format, is_lenient, has_readahead })
}

impl Source {
    /// Makes a source of a path, or of buffers: pages (64 bits each), times or `None`
    /// (milliseconds, 64 bits), kinds or `None` (letters).
    pub(super) fn of(
        path: Option<PathBuf>,
        arrays: Option<Arrays<'_>>,
        reading: Reading,
    ) -> PyResult<Source> {
        match (path, arrays) {
            (Some(path), _) => Ok(Source::File { path, reading }),
            (None, Some((pages, times, kinds))) => {
                let pages = words(&pages)?;
                let times = times.map(|times| words(&times)).transpose()?;
                let kinds = kinds.map(|kinds| bytes(&kinds)).transpose()?;
                trace_of(&pages, times.as_deref(), kinds.as_deref()).map(Source::Pages)
            }
            (None, None) => Err(PyValueError::new_err("neither a file nor pages")),
        }
    }

    /// Loads the trace.
    pub(super) fn load(self, watch: &Watched) -> Result<Loaded, Unread> {
        match self {
            Source::Pages(trace) => {
                let readahead_use = ReadaheadUse::of(&trace);
                Ok(Loaded { trace, header: None, readahead_use })
            }
            Source::File { path, reading } => {
                let read = read_whole(&path, &reading, |_| watch.keep_on());
                let (trace, facts, readahead_use) = read.map_err(|error| Unread { path, error })?;
                Ok(Loaded { trace, header: facts.header, readahead_use })
            }
        }
    }
}

/// A file that could not be read.
pub(super) struct Unread {
    pub(super) path: PathBuf,
    pub(super) error: ReadTraceError,
}

impl Unread {
    pub(super) fn raise(self) -> PyErr {
        let said = format!("{}: {}", self.path.display(), self.error.describe());
        match self.error {
            ReadTraceError::NoRoom { .. } => PyMemoryError::new_err(said),
            ReadTraceError::Trace(
                TraceError::Open { source } | TraceError::Read { source, .. },
            ) if source.raw_os_error().is_some() => raise_on(&self.path, source),
            ReadTraceError::Trace(TraceError::UnknownFormat) => {
                PyValueError::new_err(format!("{said}; name it by format="))
            }
            ReadTraceError::Trace(
                TraceError::Line { .. } | TraceError::Cut { .. } | TraceError::CutOff,
            ) => PyValueError::new_err(format!("{said} (lenient=True skips such)")),
            _ => PyValueError::new_err(said),
        }
    }
}

impl Loaded {
    /// Makes a cell of the table.
    pub(super) fn cell(&self, contender: Contender, frames: u32, clock: ReplayClock) -> Cell {
        Cell::new(contender, frames, |policy, frames| Setup {
            clock,
            ..Setup::of_trace(policy, frames, self.header.as_ref())
        })
    }

    /// Returns the reader, by the trace's header.
    pub(super) fn reader(&self) -> Reader {
        Reader::of(self.header.as_ref())
    }
}

fn trace_of(pages: &[u64], times: Option<&[u64]>, kinds: Option<&[u8]>) -> PyResult<DenseTrace> {
    let (nr_times, nr_kinds) = (times.map(<[u64]>::len), kinds.map(<[u8]>::len));
    for (what, len) in [("times", nr_times), ("kinds", nr_kinds)] {
        if len.is_some_and(|len| len != pages.len()) {
            let said = format!("{} {what} for {} pages", len.unwrap_or(0), pages.len());
            return Err(PyValueError::new_err(said));
        }
    }
    let mut trace = DenseTrace::default();
    for (at, &page) in pages.iter().enumerate() {
        let kind = match kinds.map(|kinds| kinds[at]) {
            None | Some(b'r') => AccessKind::Read,
            Some(b'w') => AccessKind::Write,
            Some(b'd') => AccessKind::Discard,
            Some(other) => {
                let said = format!("kind {:?} of access {at}: one of r, w, d", char::from(other));
                return Err(PyValueError::new_err(said));
            }
        };
        let page = PageId { index: PageIndex(page), ..PageId::default() };
        let access = Access { page, kind, thread: 0 };
        match times {
            Some(times) => trace.push_at(access, Millis(times[at])),
            None => trace.push(access),
        }
    }
    match trace.nr_accesses() {
        0 => Err(PyValueError::new_err("the trace has no accesses")),
        _ => Ok(trace),
    }
}
