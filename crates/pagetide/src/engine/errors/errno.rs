//! The system's code for an error of the library: its own, or the one that says the same.

use std::error::Error;
use std::io::{self, ErrorKind};

/// The system's own code, somewhere down an error's chain of causes: what a door to another
/// language, or a server of other processes, answers with. `None` where the system had no part in
/// it.
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
        // The source of one that holds another is that one's source, and not that one.
        let held = system.and_then(io::Error::get_ref);
        next = held.map(|held| held as &dyn Error).or_else(|| error.source());
    }
    None
}

/// The code that says what an error of this kind says, where [`find_errno`] finds none: what C and
/// Python are told. `ENODATA` past the end of a file; `EIO` for a kind that no code is about.
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
