//! What a call under us fails with: an errno, found in whatever the library said.

use std::error::Error;

pub(crate) use rustix::io::Errno;

/// Errors in which an errno can be found.
pub(crate) trait IntoErrno<T> {
    /// The errno that a program under us gets.
    fn errno(self) -> Result<T, Errno>;
}

impl<T, E: Error + 'static> IntoErrno<T> for Result<T, E> {
    fn errno(self) -> Result<T, Errno> {
        self.map_err(|error| find(&error))
    }
}

/// EIO where the system has said nothing.
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
