//! A policy alone: the decisions for a cache with memory of its own.
//!
//! Calls are shorter than a release of the interpreter's lock, which also protects the policy.

use crate::errors::{parse, raise};
use pagetide::policy::{Capacity, Policy, PolicyBuilder, PolicyName, key_of};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// The keys of a cache, and the decision which key leaves.
#[pyclass(module = "pagetide._pagetide")]
pub(crate) struct RawPolicy {
    policy: Policy,
    entry_bytes: u64,
}

/// Returns the number of a key: a number, or bytes that are hashed.
fn number_of(key: &Bound<'_, PyAny>) -> PyResult<u64> {
    const KEYS: &str = "a key is a number from 0 to 2^64 - 1, or bytes";
    if let Ok(bytes) = key.cast::<PyBytes>() {
        return Ok(key_of(bytes.as_bytes()));
    }
    key.extract().map_err(|error: PyErr| match error.is_instance_of::<PyOverflowError>(key.py()) {
        true => PyOverflowError::new_err(format!("{KEYS}, not {key}")),
        false => PyTypeError::new_err(format!("{KEYS}, not of type {}", key.get_type())),
    })
}

#[pymethods]
impl RawPolicy {
    #[new]
    fn new(
        name: &str,
        entries: Option<u64>,
        bytes: Option<u64>,
        entry_bytes: u64,
        entries_max: u64,
    ) -> PyResult<RawPolicy> {
        let name: PolicyName = parse("policy", name)?;
        let capacity = capacity(entries, bytes, entry_bytes)?;
        let policy = PolicyBuilder::new(name, capacity).entries_max(entries_max).build();
        Ok(RawPolicy { policy: policy.map_err(raise)?, entry_bytes })
    }

    fn access(&mut self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.policy.access(number_of(key)?))
    }

    fn insert(&mut self, key: &Bound<'_, PyAny>, bytes: u64) -> PyResult<Vec<u64>> {
        let inserted = self.policy.insert_sized(number_of(key)?, bytes);
        inserted.map(<[u64]>::to_vec).map_err(raise)
    }

    fn evicted(&self) -> Vec<u64> {
        self.policy.evicted().to_vec()
    }

    fn remove(&mut self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.policy.remove(number_of(key)?))
    }

    fn evict(&mut self) -> Option<u64> {
        self.policy.evict()
    }

    fn pin(&mut self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.policy.pin(number_of(key)?))
    }

    fn unpin(&mut self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.policy.unpin(number_of(key)?))
    }

    fn contains(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.policy.contains(number_of(key)?))
    }

    fn resize(&mut self, entries: Option<u64>, bytes: Option<u64>) -> PyResult<Vec<u64>> {
        let capacity = capacity(entries, bytes, self.entry_bytes)?;
        self.policy.resize(capacity).map(<[u64]>::to_vec).map_err(raise)
    }

    fn __len__(&self) -> usize {
        self.policy.len() as usize
    }

    fn name(&self) -> &'static str {
        self.policy.name().as_str()
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (stats, dict) = (self.policy.stats(), PyDict::new(py));
        let counted = [
            ("accesses", stats.accesses),
            ("hits", stats.hits),
            ("misses", stats.misses),
            ("inserted", stats.inserted),
            ("evicted", stats.evicted),
            ("removed", stats.removed),
            ("entries", stats.nr_entries),
            ("bytes", stats.nr_bytes),
            ("pinned", stats.nr_pinned),
        ];
        counted.into_iter().try_for_each(|(name, nr)| dict.set_item(name, nr))?;
        Ok(dict)
    }
}

/// Returns the number of a key.
#[pyfunction]
pub(crate) fn policy_key(key: &[u8]) -> u64 {
    key_of(key)
}

fn capacity(entries: Option<u64>, bytes: Option<u64>, entry_bytes: u64) -> PyResult<Capacity> {
    match (entries, bytes) {
        (Some(entries), None) => Ok(Capacity::entries(entries)),
        (Some(entries), Some(bytes)) => Ok(Capacity::entries(entries).with_bytes(bytes)),
        (None, Some(bytes)) => Ok(Capacity::bytes(bytes, entry_bytes)),
        (None, None) => Err(PyValueError::new_err("no capacity: give entries or bytes")),
    }
}
