//! Miss-ratio curves of one trace.

use super::contenders;
use super::source::{Arrays, Source, Unread, reading};
use super::watch::{Watched, watched};
use pagetide_lab::curve::{CurvePoint, CurveTrace, SampleTooSmall, Sampler};
use pagetide_lab::replay::Contender;
use pagetide_lab::trace::{Facts, ReadaheadUse, Trace};
use pagetide_sweep::{ReadTraceError, Reading, Watch, run_cells};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};

/// Policy, frames, memory_bytes, miss_ratio, device_read_bytes, miss_ratio_error.
type Point = (&'static str, u32, u64, f64, u64, f64);

enum Refusal {
    Unread(Unread),
    TooSmall(SampleTooSmall),
    Stopped,
}

/// Returns the points of `pagetide.mrc`, policy by policy, with ascending sizes.
#[pyfunction]
#[pyo3(signature = (*, path, arrays, policies, points, sample, format, lenient, readahead, jobs))]
#[expect(clippy::too_many_arguments, reason = "Python's keywords")]
pub(crate) fn mrc(
    py: Python<'_>,
    path: Option<PathBuf>,
    arrays: Option<Arrays<'_>>,
    policies: Vec<String>,
    points: usize,
    sample: Option<f64>,
    format: Option<&str>,
    lenient: bool,
    readahead: &str,
    jobs: Option<usize>,
) -> PyResult<Vec<Point>> {
    let source = Source::of(path, arrays, reading(format, lenient, readahead)?)?;
    let contenders = contenders(&policies)?;
    if !(1..=4096).contains(&points) {
        return Err(PyValueError::new_err(format!("points={points}: from 1 to 4096")));
    }
    let sampler = sample.map(|rate| {
        Sampler::new(rate).ok_or_else(|| {
            PyValueError::new_err(format!("sample={rate}: a share of the pages, above 0 up to 1"))
        })
    });
    let sampler = sampler.transpose()?;
    let drawn = watched(py, None, |watch| draw(source, sampler, &contenders, points, jobs, watch))?;
    let drawn = drawn.map_err(|refusal| match refusal {
        Refusal::Unread(unread) => unread.raise(),
        Refusal::TooSmall(error) => PyValueError::new_err(error.to_string()),
        Refusal::Stopped => PyRuntimeError::new_err("the replays were stopped"),
    })?;
    let point = |it: CurvePoint| {
        (
            it.policy,
            it.frames,
            it.memory_bytes,
            it.miss_ratio,
            it.device_read_bytes,
            it.miss_ratio_error,
        )
    };
    Ok(drawn.into_iter().map(point).collect())
}

fn draw(
    source: Source,
    sampler: Option<Sampler>,
    contenders: &[Contender],
    nr_points: usize,
    jobs: Option<usize>,
    watch: &Watched,
) -> Result<Vec<CurvePoint>, Refusal> {
    let curves = match (source, sampler) {
        // Only sampled pages are held in memory.
        (Source::File { path, reading }, Some(sampler)) => {
            let read = read_sample(&path, &reading, sampler, watch);
            let mut curves = read.map_err(|error| Refusal::Unread(Unread { path, error }))?;
            if !reading.has_readahead {
                ReadaheadUse::take_from(curves.trace_mut());
            }
            curves
        }
        (source, sampler) => {
            let loaded = source.load(watch).map_err(Refusal::Unread)?;
            let reader = loaded.reader();
            CurveTrace::of(loaded.trace, reader, sampler)
        }
    };
    let sizes = curves.sizes(nr_points).map_err(Refusal::TooSmall)?;
    let cells = curves.cells(contenders, &sizes);
    let answers = run_cells(curves.trace(), &cells, jobs, watch).ok_or(Refusal::Stopped)?;
    let outcomes = answers.into_iter().map(|(outcome, _)| outcome);
    Ok(curves.points(contenders, &sizes, outcomes))
}

fn read_sample(
    path: &Path,
    reading: &Reading,
    sampler: Sampler,
    watch: &Watched,
) -> Result<CurveTrace, ReadTraceError> {
    let mut trace = Trace::open(path, reading.format)?;
    if reading.is_lenient {
        trace.skip_malformed();
    }
    let mut curves = CurveTrace::new(Some(sampler));
    while let Some(access) = trace.next() {
        curves.push_from(&trace, access?);
        if !watch.keep_on() {
            return Err(ReadTraceError::Stopped);
        }
    }
    let facts = Facts::at_end(&trace, curves.nr_accesses())?;
    curves.finish(facts.header.as_ref());
    Ok(curves)
}
