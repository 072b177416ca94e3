//! The buffer protocol of a region.
#![expect(unsafe_code, reason = "the protocol hands out an address")]

use super::PyRegion;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::{Bound, ffi};
use std::ffi::c_int;

#[pymethods]
impl PyRegion {
    /// # Safety
    /// As the C function `bf_getbuffer`: `view` is Python's, to be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let (region, is_readonly) = (slf.get().region()?, !slf.get().is_writable);
        if is_readonly && flags & ffi::PyBUF_WRITABLE != 0 {
            return Err(PyBufferError::new_err("the array was opened for reading alone"));
        }
        let start = region.as_ptr().cast();
        let len = region.len() as ffi::Py_ssize_t;
        let readonly = c_int::from(is_readonly);
        // SAFETY: S41: the view owns a reference to the object that owns the region, so the
        // addresses stay valid.
        let filled =
            unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, readonly, flags) };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
