//! How long this process may make a file: `RLIMIT_FSIZE`, which the kernel looks at as it writes,
//! and the server cannot see.
//!
//! Source: getrlimit(2).

use crate::errno::Errno;
use crate::process;
use libc::{c_int, off_t};

/// The longest that this process may make a file; `u64::MAX` where nothing is said.
pub(crate) fn file_len_max() -> u64 {
    process::limit_on(libc::RLIMIT_FSIZE).map_or(u64::MAX, |limit| limit.rlim_cur)
}

/// Says that a file was to be made longer than that, as the kernel does: by a signal, and an errno.
pub(crate) fn exceed() -> Errno {
    // SAFETY: a number (S20).
    unsafe { libc::raise(libc::SIGXFSZ) };
    Errno(libc::EFBIG)
}

/// Refuses to make the file longer than it may be.
pub(crate) fn check_len(fd: c_int, len: off_t) -> Result<(), Errno> {
    let is_too_long = len as u64 > file_len_max();
    if is_too_long && process::stat(fd).is_ok_and(|stat| stat.st_size < len) {
        return Err(exceed());
    }
    Ok(())
}
