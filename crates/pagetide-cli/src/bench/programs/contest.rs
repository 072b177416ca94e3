//! A program in alternation: under `pagetide run` by each policy, and under each reference.

use super::super::interleave::{Samples, TimedRun};
use super::super::{Bench, Row, policies};
use super::BENCH;
use super::program::Under;
use crate::failure::Failure;
use pagetide_core::lru::PolicyName;
use std::cell::RefCell;

pub(super) struct Turn {
    pub(super) ns: f64,
    /// Bytes per operation, if comparable.
    pub(super) device_read: Option<f64>,
}

/// Returns the rows for `nr` threads or processes.
pub(super) fn rows(
    bench: &Bench<'_>,
    (case, nr): (&'static str, u32),
    names: &[PolicyName],
    references: &[&'static str],
    turn: &dyn Fn(Under) -> Result<Turn, Failure>,
) -> Result<Vec<Row>, Failure> {
    let subjects = names.iter().copied().map(Under::Run);
    let contenders: Vec<Under> =
        subjects.chain(references.iter().copied().map(Under::Linux)).collect();
    let device: Vec<RefCell<Vec<f64>>> = contenders.iter().map(|_| RefCell::default()).collect();
    let timed_run = |(under, device)| -> TimedRun<'_> {
        let (under, device): (&Under, &RefCell<Vec<f64>>) = (under, device);
        Box::new(move || {
            let Turn { ns, device_read } = turn(*under)?;
            device.borrow_mut().extend(device_read);
            Ok(ns)
        })
    };
    let timed_runs = contenders.iter().zip(&device).map(timed_run).collect();
    let times = bench.interleave_all(&format!("run {case}, x{nr}"), timed_runs)?;
    let device: Vec<Vec<f64>> = device.into_iter().map(RefCell::into_inner).collect();
    let rows_of = |case: &str, samples: Vec<Samples>| {
        let (subjects, others) = samples.split_at(names.len());
        let references: Vec<_> = references.iter().copied().zip(others).collect();
        policies::rows((BENCH, case, nr), names, subjects, &references)
    };
    let mut rows = rows_of(case, times);
    if device.iter().all(|bytes| !bytes.is_empty()) {
        let device = device.into_iter().map(Samples::from).collect();
        rows.extend(rows_of(&format!("{case}-device"), device));
    }
    Ok(rows)
}
