//! The errno that a program gets for an error of the library.

use std::error::Error;

pub(crate) use rustix::io::Errno;

pub(crate) trait IntoErrno<T> {
    /// Returns the errno for the program.
    fn errno(self) -> Result<T, Errno>;
}

impl<T, E: Error + 'static> IntoErrno<T> for Result<T, E> {
    fn errno(self) -> Result<T, Errno> {
        self.map_err(|error| find(&error))
    }
}

/// EIO if the error has no system error.
fn find(error: &(dyn Error + 'static)) -> Errno {
    pagetide::find_errno(error).map_or(Errno::IO, Errno::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetide::{SyncError, WriteError};
    use std::io;

    #[test]
    fn the_systems_code_is_found_under_the_librarys_words() {
        let full = || io::Error::from_raw_os_error(28);
        let write = WriteError::Store { offset: 0, len: 1, source: full() };
        assert_eq!(Err::<(), _>(write).errno(), Err(Errno::NOSPC));
        let sync = SyncError::Writeback(io::Error::other(SyncError::Store(full())));
        assert_eq!(Err::<(), _>(sync).errno(), Err(Errno::NOSPC));
        assert_eq!(Err::<(), _>(io::Error::other("?")).errno(), Err(Errno::IO));
    }
}
