//! System error codes for errors of the library.

use std::error::Error;
use std::io::{self, ErrorKind};

/// Returns the system's error code in the error's chain of causes, for FFI and servers. Returns
/// `None` if there is none.
///
/// # Cost
/// A look at each cause.
pub fn find_errno(error: &(dyn Error + 'static)) -> Option<i32> {
    let mut next = Some(error);
    while let Some(error) = next {
        let system = error.downcast_ref::<io::Error>();
        if let Some(errno) = system.and_then(io::Error::raw_os_error) {
            return Some(errno);
        }
        // `source()` of an `io::Error` skips the error it holds.
        let held = system.and_then(io::Error::get_ref);
        next = held.map(|held| held as &dyn Error).or_else(|| error.source());
    }
    None
}

/// Returns the code closest to an error kind, if [`find_errno`] finds none, for C and Python:
/// `ENODATA` past the end of a file, `EIO` if no code fits.
pub fn errno_of(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::InvalidInput => libc::EINVAL,
        ErrorKind::PermissionDenied => libc::EACCES,
        ErrorKind::NotFound => libc::ENOENT,
        ErrorKind::AlreadyExists => libc::EEXIST,
        ErrorKind::UnexpectedEof => libc::ENODATA,
        ErrorKind::FileTooLarge => libc::EFBIG,
        ErrorKind::ResourceBusy => libc::EBUSY,
        ErrorKind::OutOfMemory => libc::ENOMEM,
        ErrorKind::QuotaExceeded => libc::EDQUOT,
        ErrorKind::Deadlock => libc::EDEADLK,
        ErrorKind::Unsupported => libc::EOPNOTSUPP,
        ErrorKind::StorageFull => libc::ENOSPC,
        _ => libc::EIO,
    }
}
