//! Objects after a fork.
//!
//! Problem: a forked child has its parent's objects, but neither the threads nor the regions'
//! memory. A call or a destructor would wait for ever.
//!
//! Idea: the child counts forks. Using an object made before the last fork fails with advice, and
//! a drop does nothing.
//!
//! ```text
//!   Local::new ... fork ... parent: get() -> value     child: get() -> RuntimeError
//!                                   drop  -> dropped          drop  -> left alone
//! ```
//!
//! A child that reads a region's memory reads a new mapping of the region's file, as of the fork. A
//! store there, which would reach no file, raises `RuntimeError` in the child's main thread soon
//! after, and writes a message to stderr. Without a file, any touch ends the child with a message.

mod ffi;

use pagetide::Region;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Forks between the first process and this one.
static NR_FORKS: AtomicU32 = AtomicU32::new(0);

/// Starts counting forks.
///
/// # Errors
/// Fails with `OSError` if the C library lacks memory.
pub(crate) fn watch_forks() -> PyResult<()> {
    ffi::at_fork().map_err(PyErr::from)
}

/// Makes the process end with status 120: data was lost at its end.
#[pyfunction]
pub(crate) fn fail_at_exit() {
    ffi::fail_at_exit();
}

/// Runs first in a child, with the list locked.
fn arrive_in_child(noted: &mut [Noted]) {
    NR_FORKS.fetch_add(1, Relaxed);
    for range in noted.iter_mut().filter(|range| range.is_here) {
        range.is_here = false;
        ffi::replace_in_child(range);
    }
    ffi::protect_again(noted);
}

/// A value for the process that made it.
pub(crate) struct Local<T: Send + 'static> {
    /// Some, until dropped.
    value: Option<T>,
    nr_forks: u32,
}

impl<T: Send + 'static> Local<T> {
    pub(crate) fn new(value: T) -> Local<T> {
        Local { value: Some(value), nr_forks: NR_FORKS.load(Relaxed) }
    }

    /// # Errors
    /// Fails with `RuntimeError` in a child of the process that made the value.
    pub(crate) fn get(&self) -> PyResult<&T> {
        if let Some(value) = self.value.as_ref().filter(|_| self.is_here()) {
            return Ok(value);
        }
        Err(PyRuntimeError::new_err(
            "this belongs to the process that was forked: neither the threads of a page cache nor \
             its memory are in the child; make a PageCache in the child, or start workers by \
             \"spawn\" or \"forkserver\"",
        ))
    }

    /// Returns true if the value was made in this process.
    pub(crate) fn is_here(&self) -> bool {
        self.nr_forks == NR_FORKS.load(Relaxed)
    }
}

impl<T: Send + 'static> Drop for Local<T> {
    /// The last use of a cache or a file writes back, and may block.
    fn drop(&mut self) {
        let value = self.value.take();
        if self.is_here() {
            Python::attach(|py| py.detach(|| drop(value)));
        } else {
            std::mem::forget(value);
        }
    }
}

/// The memory of a region.
struct Noted {
    start: usize,
    len: usize,
    /// The region's file.
    file: Option<File>,
    /// True if the region belongs to this process.
    is_here: bool,
}

static NOTED: Mutex<Vec<Noted>> = Mutex::new(Vec::new());

fn lock_noted() -> MutexGuard<'static, Vec<Noted>> {
    NOTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a region's memory on the list until dropped.
pub(crate) struct MappedRange {
    start: usize,
}

impl MappedRange {
    /// # Errors
    /// Fails if the file cannot be opened again.
    pub(crate) fn note(region: &Region, path: Option<&Path>) -> io::Result<MappedRange> {
        let file = path.map(File::open).transpose()?;
        let (start, len) = (region.as_ptr().addr(), region.len() as usize);
        lock_noted().push(Noted { start, len, file, is_here: true });
        Ok(MappedRange { start })
    }
}

impl Drop for MappedRange {
    fn drop(&mut self) {
        lock_noted().retain(|range| range.start != self.start || !range.is_here);
    }
}

/// Returns true if any of these bytes are in a region: a touch may wait for a cache's locks.
pub(crate) fn is_in_region(bytes: &[u8]) -> bool {
    let start = bytes.as_ptr().addr();
    let overlaps =
        |range: &Noted| start < range.start + range.len && range.start < start + bytes.len();
    lock_noted().iter().any(overlaps)
}
