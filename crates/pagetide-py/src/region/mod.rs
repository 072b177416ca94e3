//! A region: memory for numpy and other users of the buffer protocol.

mod ffi;

use crate::buffer::{Target, words};
use crate::call::detached;
use crate::errors::{raise, raise_unwritten};
use crate::file::read_advice;
use crate::process::{Local, MappedRange};
use pagetide::{
    CreateRegionError, FaultDelivery, PageCache, ReadError, Region, RegionOptions, RegionStats,
    SyncError, UffdSource,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Threads that serve a region's faults: one may wait for a device while another works.
const NR_HANDLERS: usize = 2;

/// The server of a region's faults.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultsBy {
    /// Threads, if able to serve the kernel's faults, otherwise the faulting thread.
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
    /// Makes a region with this server.
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

/// Returns true if system calls may be given addresses of unmapped pages.
fn serves_system_calls(stats: &RegionStats) -> bool {
    stats.delivery == FaultDelivery::Message && stats.uffd != UffdSource::UserModeOnly
}

/// An address range with pages in memory only as far as the limit allows. Speaks the buffer
/// protocol.
#[pyclass(frozen, weakref, name = "Region", module = "pagetide._pagetide")]
pub(crate) struct PyRegion {
    /// Dropped before the region: afterwards the addresses may be reused.
    _range: MappedRange,
    region: Local<Region>,
    is_writable: bool,
    /// The region's file.
    path: Option<PathBuf>,
    /// Faults until the last gather.
    nr_faults: AtomicU64,
    /// Pages read by the last gather.
    nr_gathered: AtomicU64,
}

/// If one row in this many was absent, the next gather reads its rows together.
const ABSENT_PART: u64 = 64;

impl PyRegion {
    pub(crate) fn new(region: Region, path: Option<&Path>, is_writable: bool) -> PyResult<Self> {
        let range = MappedRange::note(&region, path)?;
        let [nr_faults, nr_gathered] = [0, u64::MAX].map(AtomicU64::new);
        let region = Local::new(region);
        let path = path.map(Path::to_owned);
        Ok(PyRegion { _range: range, region, is_writable, path, nr_faults, nr_gathered })
    }

    fn region(&self) -> PyResult<&Region> {
        self.region.get()
    }

    fn unwritten(&self, region: &Region, error: SyncError) -> PyErr {
        raise_unwritten(self.path.as_deref(), region.dirty_bytes(), error)
    }
}

impl Drop for PyRegion {
    /// Writes back dirty pages of a file. An error is reported on stderr.
    fn drop(&mut self) {
        let Ok(region) = self.region.get() else { return };
        if self.path.is_none() || !self.is_writable || region.dirty_bytes() == 0 {
            return;
        }
        Python::attach(|py| {
            if let Ok(Err(error)) = detached(py, || region.flush()) {
                self.unwritten(region, error).write_unraisable(py, None);
            }
        });
    }
}

#[pymethods]
impl PyRegion {
    /// True if the region was made in this process, and not before a fork.
    #[getter]
    fn is_here(&self) -> bool {
        self.region.is_here()
    }

    /// Raises RuntimeError in a child of the process that made the region.
    #[pyo3(name = "_check_here")]
    fn check(&self) -> PyResult<()> {
        self.region().map(drop)
    }

    /// The length in bytes.
    #[getter]
    fn nbytes(&self) -> PyResult<u64> {
        Ok(self.region()?.len())
    }

    /// The first address.
    #[getter]
    fn address(&self) -> PyResult<usize> {
        Ok(self.region()?.as_ptr().addr())
    }

    /// True if the memory may be stored to.
    #[getter]
    fn writable(&self) -> bool {
        self.is_writable
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.region()?.len() as usize)
    }

    /// The faults served: "threads" serve all faults, including the kernel's, so that system calls
    /// can be given this memory. "signal" serves only the program's own touches.
    #[getter]
    fn faults(&self) -> PyResult<&'static str> {
        let serves_all = serves_system_calls(&self.region()?.stats());
        Ok(if serves_all { "threads" } else { "signal" })
    }

    /// Writes back dirty pages, and makes them durable.
    ///
    /// Raises OSError if a page could not be written, or could not be swapped without a file.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let region = self.region()?;
        detached(py, || region.sync())?.map_err(|error| self.unwritten(region, error))
    }

    /// Maps the pages of `nbytes` bytes from `offset`, as far as they fit into memory. `for_writes`
    /// maps them as if stored to.
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

    /// Returns true if reading this many rows together beats touching them: more than a few of the
    /// last rows were absent. True at first.
    #[pyo3(name = "_misses")]
    fn misses(&self, nr_rows: u64) -> bool {
        let Ok(region) = self.region() else { return false };
        let nr_faults = region.nr_faults();
        let since = nr_faults - self.nr_faults.swap(nr_faults, Relaxed).min(nr_faults);
        let nr_absent = since.saturating_add(self.nr_gathered.swap(0, Relaxed));
        nr_absent.saturating_mul(ABSENT_PART) >= nr_rows.max(1)
    }

    /// Fills `target`, outside regions, with consecutive rows, one from each of the 64-bit offsets.
    /// Absent pages are read together.
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

    /// Takes advice: "willneed" fills `nbytes` bytes from `offset` (0: to the end), "dontneed"
    /// frees their memory, and keeps the contents.
    #[pyo3(signature = (advice, offset=0, nbytes=0))]
    fn advise(&self, py: Python<'_>, advice: &str, offset: u64, nbytes: u64) -> PyResult<()> {
        let (region, advice) = (self.region()?, read_advice(advice)?);
        detached(py, || region.advise(advice, offset, nbytes))?.map_err(raise)
    }

    /// Returns the faults so far, by kind, and the bytes in memory now.
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
