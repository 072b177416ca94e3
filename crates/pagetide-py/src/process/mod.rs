//! What a fork leaves behind.
//!
//! Problem: a child of `fork` has the objects of its parent, but neither the threads of its page
//! caches nor the memory of its regions. A call would wait for ever, and so would a destructor.
//!
//! Idea: forks are counted, in the child. What was made before the last one is of another process:
//! using it is an error that says what to do, and dropping it does nothing.
//!
//! ```text
//!   Local::new ... fork ... parent: get() -> value     child: get() -> RuntimeError
//!                                   drop  -> dropped          drop  -> left alone
//! ```
//!
//! Memory of a region that a child touches without asking: where a file lies beneath, the child has
//! its own mapping of the file there, as it was at the fork; where none does, the touch ends the
//! child with a sentence on stderr.

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

/// Has forks counted from here on.
///
/// # Errors
/// `OSError` if the C library has no memory for it.
pub(crate) fn watch_forks() -> PyResult<()> {
    ffi::at_fork().map_err(PyErr::from)
}

/// The first thing that a child does, while no other thread has the list.
fn arrive_in_child(noted: &mut [Noted]) {
    NR_FORKS.fetch_add(1, Relaxed);
    for range in noted.iter_mut().filter(|range| range.is_here) {
        range.is_here = false;
        ffi::replace_in_child(range);
    }
}

/// A value that is of use only in the process that made it.
pub(crate) struct Local<T: Send + 'static> {
    /// Some, until it is dropped.
    value: Option<T>,
    nr_forks: u32,
}

impl<T: Send + 'static> Local<T> {
    pub(crate) fn new(value: T) -> Local<T> {
        Local { value: Some(value), nr_forks: NR_FORKS.load(Relaxed) }
    }

    /// # Errors
    /// `RuntimeError` in a child of the process that made it.
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

    /// Whether it was made in this process.
    pub(crate) fn is_here(&self) -> bool {
        self.nr_forks == NR_FORKS.load(Relaxed)
    }
}

impl<T: Send + 'static> Drop for Local<T> {
    /// The last use of a cache or a file writes back, and may wait.
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
    /// What lies beneath.
    file: Option<File>,
    /// Whether the region is of this process.
    is_here: bool,
}

static NOTED: Mutex<Vec<Noted>> = Mutex::new(Vec::new());

fn lock_noted() -> MutexGuard<'static, Vec<Noted>> {
    NOTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the memory of a region on the list, until it is dropped.
pub(crate) struct MappedRange {
    start: usize,
}

impl MappedRange {
    /// # Errors
    /// If the file cannot be opened once more.
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

/// Whether any of these bytes are in a region: touching them may wait for locks of a page cache.
pub(crate) fn is_in_region(bytes: &[u8]) -> bool {
    let start = bytes.as_ptr().addr();
    let overlaps =
        |range: &Noted| start < range.start + range.len && range.start < start + bytes.len();
    lock_noted().iter().any(overlaps)
}
