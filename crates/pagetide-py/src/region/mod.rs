//! A region: memory that numpy, and whatever speaks the buffer protocol, sees as its own.

mod ffi;

use crate::call::detached;
use crate::errors::raise;
use crate::file::read_advice;
use crate::process::{Local, MappedRange};
use pagetide::{
    CreateRegionError, FaultDelivery, PageCache, Region, RegionOptions, RegionStats, UffdSource,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::Path;
use std::str::FromStr;

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
}

impl PyRegion {
    pub(crate) fn new(region: Region, path: Option<&Path>, is_writable: bool) -> PyResult<Self> {
        let range = MappedRange::note(&region, path)?;
        Ok(PyRegion { _range: range, region: Local::new(region), is_writable })
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
