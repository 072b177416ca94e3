//! The buffer protocol of pinned bytes.
#![expect(unsafe_code, reason = "the protocol hands out an address")]

use super::Pinned;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::{Bound, ffi};
use std::ffi::c_int;

#[pymethods]
impl Pinned {
    /// # Safety
    /// As the C function `bf_getbuffer`: `view` is Python's, to be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if flags & ffi::PyBUF_WRITABLE != 0 {
            return Err(PyBufferError::new_err("pinned bytes are for reading alone"));
        }
        slf.get().show(|bytes| {
            let (start, len) = (bytes.as_ptr().cast_mut().cast(), bytes.len() as ffi::Py_ssize_t);
            // SAFETY: S41: the view owns a reference to the object, which keeps the pin as long as
            // it counts a view. The view is read-only.
            let filled =
                unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, 1, flags) };
            if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
        })
    }

    /// # Safety
    /// As the C function `bf_releasebuffer`: `view` was filled by `__getbuffer__`.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.hide();
    }
}
