//! Rust's errors as Python's.
//!
//! ```text
//!   an errno somewhere in the chain of causes   OSError with it (FileNotFoundError, ...)
//!   no memory                                   MemoryError
//!   invalid arguments                           ValueError
//!   a handle without that access                io.UnsupportedOperation
//!   any other kind                              OSError with the equivalent errno
//! ```
//!
//! The message is always the Rust error's.

use pagetide::{errno_of, find_errno};
use pyo3::exceptions::{PyMemoryError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::error::Error;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::str::FromStr;

/// Returns the Python exception for an error of the library.
pub(crate) fn raise<E: Error + Into<io::Error> + 'static>(error: E) -> PyErr {
    let (said, errno) = (error.to_string(), find_errno(&error));
    let kind = error.into().kind();
    match (errno, kind) {
        (Some(libc::ENOMEM), _) | (None, ErrorKind::OutOfMemory) => PyMemoryError::new_err(said),
        (None, ErrorKind::InvalidInput) => PyValueError::new_err(said),
        (Some(errno), _) => PyOSError::new_err((errno, said)),
        (None, kind) => PyOSError::new_err((errno_of(kind), said)),
    }
}

/// Returns the exception for an error about a file, with the file's name.
pub(crate) fn raise_on<E: Error + Into<io::Error> + 'static>(path: &Path, error: E) -> PyErr {
    // Python names the error that the library describes.
    let errno = if path.is_dir() { Some(libc::EISDIR) } else { find_errno(&error) };
    match errno {
        Some(errno) if errno != libc::ENOMEM => {
            PyOSError::new_err((errno, describe_errno(errno), path.as_os_str().to_owned()))
        }
        _ => raise(error),
    }
}

/// Parses a name or a size.
pub(crate) fn parse<T: FromStr<Err: Display>>(what: &str, text: &str) -> PyResult<T> {
    text.parse().map_err(|error| PyValueError::new_err(format!("{what}={text:?}: {error}")))
}

/// Returns `io.UnsupportedOperation`, as raised by `io` for a file without that access.
pub(crate) fn unsupported(py: Python<'_>, said: &'static str) -> PyErr {
    let class = py.import("io").and_then(|io| io.getattr("UnsupportedOperation"));
    match class.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
        Ok(class) => PyErr::from_type(class, said),
        Err(error) => error,
    }
}

/// Returns the system's text of an errno, without Rust's number.
fn describe_errno(errno: i32) -> String {
    let said = io::Error::from_raw_os_error(errno).to_string();
    said.split(" (os error").next().unwrap_or_default().to_owned()
}
