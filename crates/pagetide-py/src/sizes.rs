//! Sizes from Python: a number of bytes, or text such as `"512M"`.

use pagetide::Bytes;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// Reads a size in bytes.
///
/// # Errors
/// Fails with `ValueError` for a negative number or invalid text, and with `TypeError` for other
/// types.
pub(crate) fn read(given: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    if let Ok(text) = given.extract::<String>() {
        let parsed = text.parse::<Bytes>();
        return parsed.map_err(|error| PyValueError::new_err(format!("{text:?}: {error}")));
    }
    // Any index type, including numpy's integers.
    match given.call_method0("__index__") {
        Ok(number) => number.extract().map(Bytes).map_err(|_| {
            PyValueError::new_err(format!("a size of {number} bytes: it is from 0 to 2^64 - 1"))
        }),
        Err(_) => Err(PyTypeError::new_err(format!(
            "a size is a number of bytes or text such as \"512M\", not {}",
            given.get_type().name()?
        ))),
    }
}
