//! Traces and sizes for policies written in Python.

use super::replays::sizes_of;
use super::source::{Arrays, Source, Unread, reading};
use super::watch::watched;
use pagetide_lab::trace::AccessKind;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;

/// Returns a trace's accesses: pages renumbered from 0, 32 bits each, and one letter each.
#[pyfunction]
#[pyo3(signature = (*, path, arrays, format, lenient))]
pub(crate) fn read_pages<'py>(
    py: Python<'py>,
    path: Option<PathBuf>,
    arrays: Option<Arrays<'_>>,
    format: Option<&str>,
    lenient: bool,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let source = Source::of(path, arrays, reading(format, lenient, "without")?)?;
    let loaded = watched(py, None, |watch| source.load(watch))?.map_err(Unread::raise)?;
    let letter = |kind: AccessKind| match kind {
        AccessKind::Write | AccessKind::TableWrite => Some(b'w'),
        AccessKind::Discard => Some(b'd'),
        kind => kind.is_access().then_some(b'r'),
    };
    let entries = loaded.trace.entries();
    let known = entries.filter_map(|(rank, kind)| Some((rank, letter(kind)?)));
    let (ranks, kinds): (Vec<u32>, Vec<u8>) = known.unzip();
    let ranks: Vec<u8> = ranks.iter().flat_map(|rank| rank.to_ne_bytes()).collect();
    Ok((PyBytes::new(py, &ranks), PyBytes::new(py, &kinds)))
}

/// Converts sizes to frames.
#[pyfunction]
pub(crate) fn frames_of(memory: Vec<Bound<'_, PyAny>>, frames: Vec<u32>) -> PyResult<Vec<u32>> {
    sizes_of(&memory, frames)
}
