//! The limit on descriptors: the program reads the limit that it has set (`room`).
//!
//! Ignored: limits that one process sets for another, and the limits in /proc.
//!
//! Source: getrlimit(2).

use crate::arguments::{load, store};
use crate::errno::{Errno, or_minus_one};
use crate::{process, room};
use libc::{c_int, pid_t, rlimit};

/// Returns true if a call is about the limit on descriptors.
fn is_ours(resource: c_int) -> bool {
    resource == libc::RLIMIT_NOFILE as c_int && process::is_on()
}

/// Sets the program's limit.
///
/// # Safety
/// As for setrlimit.
unsafe fn set(new: *const rlimit) -> Result<c_int, Errno> {
    // SAFETY: the caller's limit (S20).
    room::set_for_program(unsafe { load(new) }?).map(|()| 0)
}

taken_over! {
    fn getrlimit64(resource: c_int, limit: *mut rlimit) -> c_int {
        room::hard_of_program().filter(|_| is_ours(resource))?;
        // SAFETY: the caller's memory for a limit (S20).
        Some(or_minus_one(unsafe { store(limit, room::limit_of_program()) }.map(|()| 0)))
    }
    fn setrlimit64(resource: c_int, limit: *const rlimit) -> c_int {
        // SAFETY: the caller's limit (S20).
        is_ours(resource).then(|| or_minus_one(unsafe { set(limit) }))
    }
    fn prlimit64(process: pid_t, resource: c_int, new: *const rlimit, old: *mut rlimit) -> c_int {
        // SAFETY: getpid has no arguments (S20).
        let is_own = process == 0 || process == unsafe { libc::getpid() };
        if !is_own || !is_ours(resource) {
            return None;
        }
        let before = room::limit_of_program();
        let mut done = match new.is_null() {
            true => Ok(0),
            // SAFETY: the caller's limit (S20).
            false => unsafe { set(new) },
        };
        if done.is_ok() && !old.is_null() {
            // SAFETY: the caller's memory for a limit (S20).
            done = unsafe { store(old, before) }.map(|()| 0);
        }
        Some(or_minus_one(done))
    }
}
