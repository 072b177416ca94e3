//! The page cache, the compiled half of `pagetide.PageCache`.

use crate::call::detached;
use crate::errors::{parse, raise, raise_of, raise_on, raise_unwritten};
use crate::file::{Mode, RawFile};
use crate::overlay::{self, Overlay};
use crate::process::Local;
use crate::region::{FaultsBy, PyRegion};
use crate::sizes;
use pagetide::{
    Bytes, CacheStats, Detail, Group, GroupOptions, OpenOptions, PageCache, RegionOptions,
    ResidentSet, SyncError,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// A page cache until closed, kept alive by files and regions.
#[pyclass(frozen, subclass, weakref, module = "pagetide._pagetide")]
pub(crate) struct Cache {
    cache: Local<Mutex<Option<PageCache>>>,
}

impl Cache {
    fn get(&self) -> PyResult<PageCache> {
        let cache = self.cache.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        cache.clone().ok_or_else(|| PyValueError::new_err("this PageCache is closed"))
    }
}

#[pymethods]
impl Cache {
    #[new]
    #[pyo3(signature = (memory, policy="pagetide", *, groups=false, **knobs))]
    fn new(
        py: Python<'_>,
        memory: &Bound<'_, PyAny>,
        policy: &str,
        groups: bool,
        knobs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Cache> {
        let (memory, policy) = (sizes::read(memory)?, parse("policy", policy)?);
        let mut builder = PageCache::builder().memory(memory).policy(policy).groups(groups);
        for (name, value) in knobs.into_iter().flatten() {
            let (name, value) = (name.extract::<String>()?, text_of(&value)?);
            builder = builder
                .set(&name, &value)
                .map_err(|error| PyValueError::new_err(format!("{name}={value:?}: {error}")))?;
        }
        let cache = detached(py, || builder.build())?.map_err(raise)?;
        Ok(Cache { cache: Local::new(Mutex::new(Some(cache))) })
    }

    /// Opens the file at `path`. `pagetide.File` interprets `mode`.
    #[pyo3(signature = (path, mode, group=None))]
    fn open_raw(
        &self,
        py: Python<'_>,
        path: PathBuf,
        mode: &str,
        group: Option<&str>,
    ) -> PyResult<RawFile> {
        let (cache, mode) = (self.get()?, mode.parse::<Mode>()?);
        let group = group.map(|name| group_of(&cache, name)).transpose()?;
        let options = OpenOptions::new()
            .read(mode.read)
            .write(mode.write)
            .create(mode.creates)
            .create_new(mode.is_exclusive)
            .truncate(mode.truncates);
        let opened = detached(py, || match &group {
            Some(group) => group.open(&path, options),
            None => cache.open(&path, options),
        })?;
        let file = opened.map_err(|error| raise_on(&path, error))?;
        Ok(RawFile::new(file, path, mode))
    }

    /// Makes a region, for `pagetide.PageCache.region`.
    #[pyo3(signature = (path, nbytes, *, is_writable, faults, folder=None))]
    fn make_region(
        &self,
        py: Python<'_>,
        path: Option<PathBuf>,
        nbytes: &Bound<'_, PyAny>,
        is_writable: bool,
        faults: &str,
        folder: Option<PathBuf>,
    ) -> PyResult<PyRegion> {
        let (cache, faults) = (self.get()?, faults.parse::<FaultsBy>()?);
        let nbytes = sizes::read(nbytes)?;
        let options = || {
            let options = match (&path, &folder) {
                (Some(path), _) if is_writable => RegionOptions::over(path),
                (Some(path), _) => RegionOptions::over(path).read_only(),
                (None, Some(folder)) => RegionOptions::anonymous(nbytes).swap_in(folder),
                (None, None) => RegionOptions::anonymous(nbytes),
            };
            options.on_failure(report_failure(path.clone()))
        };
        let made = detached(py, || faults.make(&cache, options))?;
        let region = made.map_err(|error| match &path {
            Some(path) => raise_on(path, error),
            None => raise(error),
        })?;
        PyRegion::new(region, path.as_deref(), is_writable)
    }

    /// Makes a region over the file at `path`. Stores go to a file without a name in `folder`.
    #[pyo3(signature = (path, *, faults, folder=None))]
    fn make_private_region(
        &self,
        py: Python<'_>,
        path: PathBuf,
        faults: &str,
        folder: Option<PathBuf>,
    ) -> PyResult<PyRegion> {
        let (cache, faults) = (self.get()?, faults.parse::<FaultsBy>()?);
        let folder = folder.unwrap_or_else(overlay::default_folder);
        let changes = detached(py, || overlay::open_nameless(&folder))?;
        let changes = changes.map_err(|error| raise_of(&folder, error))?;
        let overlay = detached(py, || Overlay::over(fs::File::open(&path)?, changes))?;
        let overlay = overlay.map_err(|error| raise_on(&path, error))?;
        let options = || {
            let options = RegionOptions::over_store(Box::new(overlay.clone()));
            options.on_failure(report_failure(Some(path.clone())))
        };
        let made = detached(py, || faults.make(&cache, options))?;
        PyRegion::new(made.map_err(|error| raise_on(&path, error))?, None, true)
    }

    /// Returns the cache's counters by name.
    fn read_stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let cache = self.get()?;
        let stats = detached(py, || cache.stats())?;
        describe(py, &stats)
    }

    /// Returns the hit ratio that this much memory would have had, from 0 to 1.
    fn hit_ratio_at(&self, py: Python<'_>, memory: &Bound<'_, PyAny>) -> PyResult<f64> {
        let (cache, memory) = (self.get()?, sizes::read(memory)?);
        detached(py, || cache.stats().sizing().hit_ratio(memory))
    }

    /// Writes back all dirty pages of all files, without making them durable.
    ///
    /// Raises OSError if a page could not be written. The page stays in memory, dirty.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let cache = self.get()?;
        detached(py, || cache.flush_all())?.map_err(unwritten)
    }

    /// Changes the limit, in bytes or as text such as "64M", up to the knob `memory_max`.
    ///
    /// Shrinking evicts pages. Raises ValueError for a limit outside the built range, and OSError
    /// (EBUSY) if too much is in use.
    fn resize(&self, py: Python<'_>, memory: &Bound<'_, PyAny>) -> PyResult<()> {
        let (cache, memory) = (self.get()?, sizes::read(memory)?);
        detached(py, || cache.resize(memory))?.map_err(raise)
    }

    /// Writes back all dirty pages of all files, and makes them durable.
    ///
    /// Raises OSError with the first error. All other files are durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let cache = self.get()?;
        detached(py, || cache.sync_all())?.map_err(unwritten)
    }

    /// Writes back dirty pages, and drops unused ones, of all files. Returns the bytes freed.
    /// Arrays keep their contents.
    fn drop(&self, py: Python<'_>) -> PyResult<u64> {
        let cache = self.get()?;
        detached(py, || cache.drop_caches().0)
    }

    /// Returns the generations in the format of Linux's `lru_gen`, or `lru_gen_full`, "" if the
    /// policy has none.
    #[pyo3(signature = (*, full=false))]
    fn lru_gen(&self, py: Python<'_>, full: bool) -> PyResult<String> {
        let cache = self.get()?;
        let detail = if full { Detail::Full } else { Detail::Sizes };
        detached(py, || cache.describe_lru_gen(detail))
    }

    /// Runs commands in the format of Linux's `lru_gen`. Returns the number of pages evicted.
    ///
    /// Raises ValueError for the first command that fails. Earlier commands took effect.
    fn command_lru_gen(&self, py: Python<'_>, commands: &str) -> PyResult<u64> {
        let cache = self.get()?;
        let evicted = detached(py, || cache.command_lru_gen(commands))?;
        evicted.map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Returns the files' pages in memory and their heat, as text for `warm`.
    fn dump(&self, py: Python<'_>) -> PyResult<String> {
        let cache = self.get()?;
        detached(py, || cache.dump().to_string())
    }

    /// Fills the pages listed by `dump`, for each unchanged file once it is opened: hottest first,
    /// in the background, until memory is full.
    ///
    /// Raises ValueError for text that is not a dump.
    fn warm(&self, dump: &str) -> PyResult<()> {
        Ok(self.get()?.warm(parse::<ResidentSet>("dump", dump)?)?)
    }

    /// Makes a group, or changes its limits. None keeps a limit.
    ///
    /// Raises ValueError for invalid limits, or if the cache was made without groups.
    #[pyo3(signature = (name, *, limit=None, min=None, low=None))]
    fn set_group(
        &self,
        name: &str,
        limit: Option<&Bound<'_, PyAny>>,
        min: Option<&Bound<'_, PyAny>>,
        low: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let cache = self.get()?;
        let found = cache.groups().into_iter().find(|group| group.name() == name);
        let now = found.as_ref().map(Group::stats).transpose().map_err(raise)?;
        let size = |given: Option<&Bound<'_, PyAny>>, now: Option<u64>| match given {
            Some(given) => sizes::read(given).map(Some),
            None => Ok(now.map(Bytes)),
        };
        let mut options = GroupOptions::new()
            .min(size(min, now.as_ref().map(|it| it.min_bytes))?.unwrap_or_default())
            .low(size(low, now.as_ref().map(|it| it.low_bytes))?.unwrap_or_default());
        if let Some(limit) = size(limit, now.and_then(|it| it.limit_bytes))? {
            options = options.limit(limit);
        }
        match found {
            Some(group) => group.set(options).map_err(raise),
            None => cache.group(name, options).map(drop).map_err(raise),
        }
    }

    /// Returns each group's limits, use and counters: a dict by name.
    fn groups<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let told = PyDict::new(py);
        for group in self.get()?.groups() {
            let stats = group.stats().map_err(raise)?;
            let fields = PyDict::new(py);
            fields.set_item("limit_bytes", stats.limit_bytes)?;
            for (name, count) in [
                ("min_bytes", stats.min_bytes),
                ("low_bytes", stats.low_bytes),
                ("usage_bytes", stats.usage_bytes),
                ("hits", stats.hits),
                ("misses", stats.misses),
                ("refaults", stats.refaults),
                ("evictions", stats.evictions),
            ] {
                fields.set_item(name, count)?;
            }
            told.set_item(group.name(), fields)?;
        }
        Ok(told)
    }

    /// Closes the cache: it opens nothing any more, and ends with its last file and array. A second
    /// close does nothing.
    ///
    /// Raises OSError if a dirty page of any file could not be written back.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let held = self.cache.get()?;
        let cache = held.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(cache) = cache else { return Ok(()) };
        let flushed = detached(py, || {
            let flushed = cache.flush_all();
            drop(cache);
            flushed
        })?;
        flushed.map_err(unwritten)
    }

    /// True once closed.
    #[getter]
    fn closed(&self) -> PyResult<bool> {
        Ok(self.cache.get()?.lock().unwrap_or_else(PoisonError::into_inner).is_none())
    }

    /// True if the cache was made in this process, and not before a fork.
    #[getter]
    fn is_here(&self) -> bool {
        self.cache.is_here()
    }
}

impl Drop for Cache {
    /// Reports on stderr that dirty pages could not be written, which [`Cache::close`] raises.
    fn drop(&mut self) {
        let Ok(cache) = self.get() else { return };
        Python::attach(|py| {
            if let Err(error) = self.close(py) {
                error.write_unraisable(py, None);
            }
        });
        drop(cache);
    }
}

/// Returns a function that writes to stderr why a touch of a region ends the process.
fn report_failure(path: Option<PathBuf>) -> impl Fn(&io::Error) + Send + Sync {
    move |error| {
        let place =
            path.as_ref().map_or_else(String::new, |path| format!(" of {}", path.display()));
        eprintln!("pagetide: a page of an array{place} cannot be brought in: {error}");
    }
}

fn unwritten(error: SyncError) -> PyErr {
    raise_unwritten(None, 0, error)
}

fn group_of(cache: &PageCache, name: &str) -> PyResult<Group> {
    let found = cache.groups().into_iter().find(|group| group.name() == name);
    found.ok_or_else(|| PyValueError::new_err(format!("there is no group {name:?}: set_group it")))
}

/// Returns a knob's value as text. `True` is `on`.
fn text_of(value: &Bound<'_, PyAny>) -> PyResult<String> {
    match value.cast::<PyBool>() {
        Ok(is_on) => Ok(if is_on.is_true() { "on" } else { "off" }.to_owned()),
        Err(_) => Ok(value.str()?.to_string()),
    }
}

fn describe<'py>(py: Python<'py>, stats: &CacheStats) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("policy", stats.policy.as_str())?;
    for (name, count) in [
        ("memory_bytes", stats.memory_bytes),
        ("resident_bytes", stats.resident_bytes),
        ("resident_bytes_max", stats.resident_bytes_max.max(stats.resident_bytes)),
        ("dirty_bytes", stats.dirty_bytes),
        ("accesses", stats.accesses),
        ("hits", stats.hits),
        ("misses", stats.misses),
        ("bypass_reads", stats.bypass_reads),
        ("writes_through", stats.writes_through),
        ("device_reads", stats.device_reads),
        ("device_read_bytes", stats.device_read_bytes),
        ("device_writes", stats.device_writes),
        ("device_write_bytes", stats.device_write_bytes),
        ("refaults", stats.refaults),
        ("activations", stats.activations),
        ("evictions", stats.evictions),
        ("reclaim_cpu_ns", stats.reclaim_cpu_ns),
    ] {
        fields.set_item(name, count)?;
    }
    fields.set_item("hit_ratio", stats.hit_ratio())?;
    fields.set_item("direct_io", stats.direct_io)?;
    fields.set_item("io_uring", stats.io_uring)?;
    let vmstat = PyDict::new(py);
    for (name, count) in &stats.vmstat {
        vmstat.set_item(name, count)?;
    }
    fields.set_item("vmstat", vmstat)?;
    fields.set_item("text", stats.to_string())?;
    Ok(fields)
}
