//! Sets of signals, and blocking them in a thread.
//!
//! Source: Linux man pages sigsetops(3), pthread_sigmask(3).

use std::io;

/// The set of these signals; a number that is no signal is left out.
pub(crate) fn set_of(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: S9 (live values): zeros are a valid set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    for signal in signals {
        // SAFETY: S9 (live values): a live set; a number that is no signal is refused.
        unsafe { libc::sigaddset(&mut set, *signal) };
    }
    set
}

/// Blocks the set in the calling thread, and so in all that it starts from here on.
pub(crate) fn block(set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: S9 (live values): a set of signals, and no old set wanted.
    let failed = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set, std::ptr::null_mut()) };
    if failed == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(failed)) }
}
