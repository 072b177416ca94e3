//! Replays of one trace.

use super::contenders;
use super::source::{Arrays, Source, reading};
use super::watch::watched;
use crate::sizes;
use pagetide_core::units::{Bytes, PAGE_BYTES};
use pagetide_lab::replay::{Cell, ReplayClock, ReplayOutcome};
use pagetide_lab::trace::ReadaheadUse;
use pagetide_sweep::run_cells;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::path::PathBuf;

/// Policy, frames, memory_bytes, accesses, misses, miss_ratio, device_read_bytes, evictions,
/// refaults, activations, seconds, readahead.
type Row = (&'static str, u32, u64, u64, u64, f64, u64, u64, u64, u64, f64, &'static str);

/// Returns the rows of `pagetide.replay`, size by size.
#[pyfunction]
#[pyo3(signature = (
    *, path, arrays, policies, memory, frames, clock, format, lenient, readahead, jobs
))]
#[expect(clippy::too_many_arguments, reason = "Python's keywords")]
pub(crate) fn replay(
    py: Python<'_>,
    path: Option<PathBuf>,
    arrays: Option<Arrays<'_>>,
    policies: Vec<String>,
    memory: Vec<Bound<'_, PyAny>>,
    frames: Vec<u32>,
    clock: &str,
    format: Option<&str>,
    lenient: bool,
    readahead: &str,
    jobs: Option<usize>,
) -> PyResult<Vec<Row>> {
    let source = Source::of(path, arrays, reading(format, lenient, readahead)?)?;
    let contenders = contenders(&policies)?;
    let sizes = sizes_of(&memory, frames)?;
    let clock = match clock {
        "costs" => ReplayClock::Costs,
        "trace" => ReplayClock::Trace,
        _ => return Err(PyValueError::new_err(format!("clock={clock:?}: one of costs, trace"))),
    };
    let rows = watched(py, None, |watch| {
        let loaded = source.load(watch)?;
        let of_size = |frames| contenders.iter().map(move |&it| (it, frames));
        let pairs = sizes.iter().flat_map(|&frames| of_size(frames));
        let cells: Vec<Cell> = pairs.map(|(it, frames)| loaded.cell(it, frames, clock)).collect();
        let answers = run_cells(&loaded.trace, &cells, jobs, watch);
        Ok(answers.map(|answers| {
            let rows = cells.iter().zip(answers);
            rows.map(|(cell, answer)| row(cell, answer, loaded.readahead_use)).collect::<Vec<Row>>()
        }))
    })?;
    let rows = rows.map_err(super::source::Unread::raise)?;
    rows.ok_or_else(|| PyRuntimeError::new_err("the replay was stopped"))
}

fn row(cell: &Cell, (outcome, seconds): (ReplayOutcome, f64), readahead: ReadaheadUse) -> Row {
    let it = outcome.to_row(cell.contender, cell.frames, seconds);
    let memory_bytes = Bytes::from_pages(it.frames.into()).0;
    (
        it.policy,
        it.frames,
        memory_bytes,
        it.accesses,
        it.misses,
        it.miss_ratio,
        it.device_read_bytes,
        it.evictions,
        it.refaults,
        it.activations,
        it.seconds,
        readahead.as_str(),
    )
}

/// Returns sizes in frames, at least one frame each.
pub(super) fn sizes_of(memory: &[Bound<'_, PyAny>], frames: Vec<u32>) -> PyResult<Vec<u32>> {
    let mut all = Vec::new();
    for size in memory {
        let bytes = sizes::read(size)?.0;
        let nr_frames = u32::try_from(bytes / PAGE_BYTES as u64).map_err(|_| {
            PyValueError::new_err(format!("a memory of {bytes} bytes is more than 16 TiB"))
        })?;
        all.push(nr_frames);
    }
    all.extend(frames);
    if all.is_empty() || all.contains(&0) {
        let said = "how much memory? At least one size, and each at least 4K: memory=[\"64M\"]";
        return Err(PyValueError::new_err(said));
    }
    Ok(all)
}
