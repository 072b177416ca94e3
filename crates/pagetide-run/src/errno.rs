//! What a call under us fails with: an errno, found in whatever the library said.

use std::error::Error;
use std::io;

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

/// The system's own code, somewhere down the chain of causes; EIO where there is none.
fn find(error: &(dyn Error + 'static)) -> Errno {
    let mut next = Some(error);
    while let Some(this) = next {
        if let Some(io) = this.downcast_ref::<io::Error>() {
            if let Some(code) = io.raw_os_error() {
                return Errno::from_raw_os_error(code);
            }
            if let Some(inner) = io.get_ref() {
                return find(inner);
            }
        }
        next = this.source();
    }
    Errno::IO
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetide::{SyncError, WriteError};

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
