//! `RLIMIT_FSIZE`, this process's limit on file lengths, which the server does not know.
//!
//! Source: getrlimit(2).

use crate::errno::Errno;
use crate::process;
use libc::{c_int, off_t};

/// `u64::MAX` for none.
pub(crate) fn file_len_max() -> u64 {
    process::limit_on(libc::RLIMIT_FSIZE).map_or(u64::MAX, |limit| limit.rlim_cur)
}

/// By a signal and an errno, as the kernel.
pub(crate) fn exceed() -> Errno {
    // SAFETY: a number (S20).
    unsafe { libc::raise(libc::SIGXFSZ) };
    Errno(libc::EFBIG)
}

/// Fails with EFBIG if the file would exceed the limit.
pub(crate) fn check_len(fd: c_int, len: off_t) -> Result<(), Errno> {
    let is_too_long = len as u64 > file_len_max();
    if is_too_long && process::stat(fd).is_ok_and(|stat| stat.st_size < len) {
        return Err(exceed());
    }
    Ok(())
}
