//! Pinned bytes of a file, for users of the buffer protocol.

mod ffi;

use crate::process::Local;
use pagetide::PinnedRange;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Bytes of a file that stay in memory, and unchanged, until released: `File.pin` makes it. Speaks
/// the buffer protocol, read-only.
#[pyclass(frozen, weakref, module = "pagetide._pagetide")]
pub(crate) struct Pinned {
    /// `None` once released.
    pin: Local<Mutex<Option<PinnedRange>>>,
    /// Number of buffers that show the bytes.
    nr_shown: AtomicUsize,
    nbytes: usize,
}

impl Pinned {
    pub(crate) fn new(pin: PinnedRange) -> Pinned {
        let nbytes = pin.len();
        Pinned { pin: Local::new(Mutex::new(Some(pin))), nr_shown: AtomicUsize::new(0), nbytes }
    }

    /// Calls `show` with the bytes. Keeps the pin until [`Pinned::hide`], if `show` succeeds.
    fn show<T>(&self, show: impl FnOnce(&[u8]) -> PyResult<T>) -> PyResult<T> {
        let pin = self.pin.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = pin.as_ref().ok_or_else(|| PyValueError::new_err("the pin is released"))?;
        let shown = show(bytes)?;
        self.nr_shown.fetch_add(1, Relaxed);
        Ok(shown)
    }

    fn hide(&self) {
        self.nr_shown.fetch_sub(1, Relaxed);
    }
}

#[pymethods]
impl Pinned {
    /// The length in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.nbytes
    }

    fn __len__(&self) -> usize {
        self.nbytes
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        slf: &Bound<'_, Self>,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        slf.get().release()
    }

    /// Releases the bytes, so that they may be evicted. A second release does nothing.
    ///
    /// Raises BufferError while a memoryview or an array shows them.
    fn release(&self) -> PyResult<()> {
        let mut pin = self.pin.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        let nr_shown = self.nr_shown.load(Relaxed);
        if nr_shown > 0 && pin.is_some() {
            let said = format!("{nr_shown} buffers show the pinned bytes: release them first");
            return Err(pyo3::exceptions::PyBufferError::new_err(said));
        }
        drop(pin.take());
        Ok(())
    }
}
