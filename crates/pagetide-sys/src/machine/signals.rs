//! Signal sets, masks and actions.
//!
//! Source: Linux man pages sigsetops(3), pthread_sigmask(3), signal(2), kill(2).

use std::io;

/// Skips invalid numbers.
pub(crate) fn set_of(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: S9 (live values): zeros are a valid set.
    let set: libc::sigset_t = unsafe { std::mem::zeroed() };
    signals.iter().copied().fold(set, with)
}

pub(crate) fn with(mut set: libc::sigset_t, signal: i32) -> libc::sigset_t {
    // SAFETY: S9 (live values): a live set. The C library refuses an invalid number.
    unsafe { libc::sigaddset(&mut set, signal) };
    set
}

/// All but the C library's reserved signals.
pub(crate) fn all() -> libc::sigset_t {
    let mut set = set_of(&[]);
    // SAFETY: S9 (live values): a live set.
    unsafe { libc::sigfillset(&mut set) };
    set
}

#[cfg(feature = "run")]
pub(crate) fn has(set: &libc::sigset_t, signal: i32) -> bool {
    // SAFETY: S9 (live values): a live set. The C library refuses an invalid number.
    unsafe { libc::sigismember(set, signal) == 1 }
}

/// Future threads inherit the mask.
pub(crate) fn block(set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: S9 (live values): a set of signals. No old set is requested.
    let failed = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set, std::ptr::null_mut()) };
    if failed == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(failed)) }
}

#[cfg(feature = "run")]
pub(crate) fn blocked() -> libc::sigset_t {
    let mut set = set_of(&[]);
    // SAFETY: S9 (live values): no new set, and a live set for the result.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut set) };
    set
}

#[cfg(feature = "run")]
pub(crate) fn set_blocked(set: &libc::sigset_t) {
    // SAFETY: S9 (live values): a live set. No old set is requested.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, set, std::ptr::null_mut()) };
}

#[cfg(feature = "run")]
pub(crate) fn is_ignored(signal: i32) -> bool {
    action_of(signal).sa_sigaction == libc::SIG_IGN
}

/// The default action for an invalid number.
#[cfg(feature = "run")]
pub(crate) fn action_of(signal: i32) -> libc::sigaction {
    let mut action = default_action();
    // SAFETY: S9 (live values): no new action, and a live action for the result.
    unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) };
    action
}

#[cfg(feature = "run")]
pub(crate) fn default_action() -> libc::sigaction {
    // SAFETY: S9 (live values): zeros are a valid action.
    unsafe { std::mem::zeroed() }
}

#[cfg(feature = "run")]
pub(crate) fn ignore(signal: i32) {
    // SAFETY: S9 (numbers): no handler is installed.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

#[cfg(feature = "run")]
pub(crate) fn set_default(signal: i32) {
    // SAFETY: S9 (numbers): no handler is installed.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

#[cfg(feature = "run")]
pub(crate) fn raise(signal: i32) {
    // SAFETY: S9 (numbers).
    unsafe { libc::raise(signal) };
}

/// Sends `signal`, which may be a real-time signal, to a process, which may have ended.
pub fn send(pid: u32, signal: i32) {
    // SAFETY: S9 (numbers).
    unsafe { libc::kill(pid.cast_signed(), signal) };
}
