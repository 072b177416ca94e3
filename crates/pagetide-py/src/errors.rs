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

use pagetide::{SyncError, errno_of, find_errno};
use pyo3::exceptions::{PyMemoryError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::error::Error;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
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

/// Returns the exception for an error about an open file, with the file's name and the library's
/// message.
pub(crate) fn raise_of<E: Error + Into<io::Error> + 'static>(path: &Path, error: E) -> PyErr {
    match find_errno(&error) {
        Some(errno) if errno != libc::ENOMEM => PyOSError::new_err((
            errno,
            without_number(&error.to_string()),
            path.as_os_str().to_owned(),
        )),
        _ => raise(error),
    }
}

/// Returns the exception for a failed write-back. Names the file, and the bytes that it lacks.
pub(crate) fn raise_unwritten(path: Option<&Path>, nr_bytes: u64, error: SyncError) -> PyErr {
    let errno = find_errno(&error).unwrap_or_else(|| match &error {
        SyncError::Writeback(source)
        | SyncError::Unwritten { source, .. }
        | SyncError::Store(source) => errno_of(source.kind()),
        _ => libc::EDEADLK,
    });
    let (path, said) = match error {
        SyncError::Unwritten { path, nr_bytes, nr_files, .. } => {
            let others = match nr_files {
                0 | 1 => String::new(),
                _ => format!(", as do bytes of {} more files", nr_files - 1),
            };
            (path, format!("{nr_bytes} bytes could not be written and stay in memory{others}"))
        }
        SyncError::Writeback(_) if path.is_some() => {
            let said = format!("{nr_bytes} bytes could not be written and stay in memory");
            (path.map(Path::to_owned), said)
        }
        SyncError::Store(source) if source.kind() == ErrorKind::UnexpectedEof => {
            let path = path.map(|path| path.as_os_str().to_owned());
            return PyOSError::new_err((libc::ESTALE, source.to_string(), path));
        }
        error => (path.map(Path::to_owned), without_number(&error.to_string())),
    };
    let said = format!("{}: {said}", describe_errno(errno));
    PyOSError::new_err((errno, said, path.map(PathBuf::into_os_string)))
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
    without_number(&io::Error::from_raw_os_error(errno).to_string())
}

fn without_number(said: &str) -> String {
    let Some((before, after)) = said.split_once(" (os error ") else { return said.to_owned() };
    let after = after.split_once(')').map_or("", |(_, after)| after);
    format!("{before}{after}")
}
