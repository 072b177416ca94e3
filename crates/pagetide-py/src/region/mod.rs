//! A region: memory that numpy, and whatever speaks the buffer protocol, sees as its own.

mod ffi;

use crate::buffer::{Target, words};
use crate::call::detached;
use crate::errors::raise;
use crate::file::read_advice;
use crate::process::{Local, MappedRange};
use pagetide::{
    CreateRegionError, FaultDelivery, PageCache, ReadError, Region, RegionOptions, RegionStats,
    UffdSource,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Threads of a region that serve its faults: one may wait for a device while another works.
const NR_HANDLERS: usize = 2;

/// What serves the faults of a region.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultsBy {
    /// Threads, if they also serve the kernel's faults; else the thread that touched the page.
    Auto,
    Threads,
    Signal,
}

impl FromStr for FaultsBy {
    type Err = PyErr;

    fn from_str(text: &str) -> PyResult<FaultsBy> {
        match text {
            "auto" => Ok(FaultsBy::Auto),
            "threads" => Ok(FaultsBy::Threads),
            "signal" => Ok(FaultsBy::Signal),
            _ => {
                let said = format!("faults={text:?}: one of auto, threads, signal");
                Err(PyValueError::new_err(said))
            }
        }
    }
}

impl FaultsBy {
    /// Makes a region whose faults are served so.
    pub(crate) fn make(
        self,
        cache: &PageCache,
        options: impl Fn() -> RegionOptions,
    ) -> Result<Region, CreateRegionError> {
        if self != FaultsBy::Signal {
            let region = cache.region(options().handlers(NR_HANDLERS))?;
            if self == FaultsBy::Threads || serves_system_calls(&region.stats()) {
                return Ok(region);
            }
        }
        cache.region(options())
    }
}

/// Whether a system call may be given addresses of pages that are not mapped.
fn serves_system_calls(stats: &RegionStats) -> bool {
    stats.delivery == FaultDelivery::Message && stats.uffd != UffdSource::UserModeOnly
}

/// An address range of which only what the limit allows is in memory. Speaks the buffer protocol.
#[pyclass(frozen, weakref, name = "Region", module = "pagetide._pagetide")]
pub(crate) struct PyRegion {
    /// Dropped before the region is, whose addresses others can have then.
    _range: MappedRange,
    region: Local<Region>,
    is_writable: bool,
    /// Faults until the last gather.
    nr_faults: AtomicU64,
    /// Pages that the last gather had to read.
    nr_gathered: AtomicU64,
}

/// A row in so many that was not in memory makes the next gather bring its rows in together.
const ABSENT_PART: u64 = 64;

impl PyRegion {
    pub(crate) fn new(region: Region, path: Option<&Path>, is_writable: bool) -> PyResult<Self> {
        let range = MappedRange::note(&region, path)?;
        let [nr_faults, nr_gathered] = [0, u64::MAX].map(AtomicU64::new);
        let region = Local::new(region);
        Ok(PyRegion { _range: range, region, is_writable, nr_faults, nr_gathered })
    }

    fn region(&self) -> PyResult<&Region> {
        self.region.get()
    }
}

#[pymethods]
impl PyRegion {
    /// The length in bytes.
    #[getter]
    fn nbytes(&self) -> PyResult<u64> {
        Ok(self.region()?.len())
    }

    /// Where it begins.
    #[getter]
    fn address(&self) -> PyResult<usize> {
        Ok(self.region()?.as_ptr().addr())
    }

    /// Whether it may be stored to.
    #[getter]
    fn writable(&self) -> bool {
        self.is_writable
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.region()?.len() as usize)
    }

    /// Whether system calls can be given this memory whatever is in it: "threads" serve all faults,
    /// also the kernel's; by "signal" only a program's own touches are served.
    #[getter]
    fn faults(&self) -> PyResult<&'static str> {
        let serves_all = serves_system_calls(&self.region()?.stats());
        Ok(if serves_all { "threads" } else { "signal" })
    }

    /// Writes back what is dirty and makes it durable.
    ///
    /// Raises OSError if a page could not be written: of memory without a file, to where it swaps.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let region = self.region()?;
        detached(py, || region.sync())?.map_err(raise)
    }

    /// Maps the pages of `nbytes` bytes from `offset` on, as far as they fit into memory; with
    /// `for_writes` as if each had been stored to.
    #[pyo3(signature = (offset=0, nbytes=None, *, for_writes=false))]
    fn populate(
        &self,
        py: Python<'_>,
        offset: u64,
        nbytes: Option<u64>,
        for_writes: bool,
    ) -> PyResult<()> {
        let region = self.region()?;
        let end = match nbytes {
            Some(nbytes) => offset.saturating_add(nbytes),
            None => region.len(),
        };
        let populated = detached(py, || match for_writes && self.is_writable {
            true => region.populate_for_writes(offset..end),
            false => region.populate(offset..end),
        })?;
        populated.map_err(raise)
    }

    /// Whether so many rows from anywhere are better brought in together than by touches: whether
    /// more than a few of the last ones were absent. At first they are.
    #[pyo3(name = "_misses")]
    fn misses(&self, nr_rows: u64) -> bool {
        let Ok(region) = self.region() else { return false };
        let nr_faults = region.nr_faults();
        let since = nr_faults - self.nr_faults.swap(nr_faults, Relaxed).min(nr_faults);
        let nr_absent = since.saturating_add(self.nr_gathered.swap(0, Relaxed));
        nr_absent.saturating_mul(ABSENT_PART) >= nr_rows.max(1)
    }

    /// Fills `target`, which is no region's memory, with rows, one after the other, from each of
    /// the offsets (64 bits) on; what is absent is read together.
    fn gather(
        &self,
        py: Python<'_>,
        offsets: &Bound<'_, PyAny>,
        target: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (region, offsets, mut target) = (self.region()?, words(offsets)?, Target::of(target)?);
        let gathered = detached(py, || {
            target.fill(0, |bytes, _| {
                self.nr_gathered.store(region.gather(&offsets, bytes)?, Relaxed);
                Ok(bytes.len())
            })
        })?;
        gathered.map(drop).map_err(|error: ReadError| raise(error))
    }

    /// "willneed" brings `nbytes` bytes from `offset` on into memory (0: to the end), "dontneed"
    /// lets that memory go, and keeps the contents.
    #[pyo3(signature = (advice, offset=0, nbytes=0))]
    fn advise(&self, py: Python<'_>, advice: &str, offset: u64, nbytes: u64) -> PyResult<()> {
        let (region, advice) = (self.region()?, read_advice(advice)?);
        detached(py, || region.advise(advice, offset, nbytes))?.map_err(raise)
    }

    /// Faults so far, by kind, and the bytes in memory now.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let region = self.region()?;
        let stats = detached(py, || region.stats())?;
        let fields = PyDict::new(py);
        fields.set_item("missing_faults", stats.missing_faults)?;
        fields.set_item("minor_faults", stats.minor_faults)?;
        fields.set_item("wp_faults", stats.wp_faults)?;
        fields.set_item("failed_faults", stats.failed_faults)?;
        fields.set_item("resident_bytes", stats.resident_bytes)?;
        Ok(fields)
    }
}
