//! Checks if this process is the sole owner of an open file description.
//!
//! ```text
//!   opened here, and this process has no child and never had one --> sole owner
//!   otherwise                                                    --> perhaps shared
//! ```
//!
//! Descriptors are handed over before they are sent to another process.
//!
//! Source: waitid(2), getrusage(2) `RUSAGE_CHILDREN`.

use crate::process::address;
use crate::{next, own};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The description that was opened last, and its opener. Children inherit both.
static OPENED: AtomicU64 = AtomicU64::new(0);
static OPENER: AtomicU64 = AtomicU64::new(0);

pub(crate) fn note_opened(id: u64) {
    OPENED.store(id, Relaxed);
    OPENER.store(own::number(), Release);
}

/// Returns true if no other process has the description, false if unknown.
pub(crate) fn is_alone_with(id: u64) -> bool {
    let is_opener = OPENER.load(Acquire) == own::number();
    is_opener && OPENED.load(Relaxed) == id && never_had_child()
}

/// Returns true if this process has no child and never had one, false if unknown.
pub(crate) fn never_had_child() -> bool {
    keeps_children() && !has_child() && !had_child()
}

/// Returns true if ended children remain until waited for.
fn keeps_children() -> bool {
    // SAFETY: numbers and pointers, with zeros as valid values (S20).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a query with a live value (S20).
    let asked = unsafe { libc::sigaction(libc::SIGCHLD, std::ptr::null(), &mut action) };
    let is_ignored = action.sa_sigaction == libc::SIG_IGN;
    asked == 0 && !is_ignored && action.sa_flags & libc::SA_NOCLDWAIT == 0
}

/// Returns true if the process has a child, ended or not.
pub(crate) fn has_child() -> bool {
    let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    let arguments = [libc::P_ALL as usize, 0, 0, how as usize, 0, 0];
    // SAFETY: numbers only (S20).
    let waited = unsafe { next::system(libc::SYS_waitid, arguments) };
    waited.err().is_none_or(|errno| errno.0 != libc::ECHILD)
}

/// Returns true if a child was waited for: each has used some memory.
fn had_child() -> bool {
    // SAFETY: numbers, with zeros as valid values (S20).
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    let children = libc::RUSAGE_CHILDREN as isize as usize;
    let arguments = [children, address(&raw mut used), 0, 0, 0, 0];
    // SAFETY: a live value (S20).
    let asked = unsafe { next::system(libc::SYS_getrusage, arguments) };
    asked.is_err() || used.ru_maxrss != 0
}
