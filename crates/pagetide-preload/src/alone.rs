//! Whether an open file description can be any other process's.
//!
//! ```text
//!   opened here, and this process has no child and never had one --> no other has it
//!   all else                                                     --> another may have it
//! ```
//!
//! A descriptor that is sent to another process is the kernel's before that.
//!
//! Source: waitid(2), getrusage(2) `RUSAGE_CHILDREN`.

use crate::process::address;
use crate::{next, own};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The description that was opened last, and by which process: a child inherits both.
static OPENED: AtomicU64 = AtomicU64::new(0);
static OPENER: AtomicU64 = AtomicU64::new(0);

/// This process has opened the description.
pub(crate) fn note_opened(id: u64) {
    OPENED.store(id, Relaxed);
    OPENER.store(own::number(), Release);
}

/// Whether no other process has the description; `false` where that is not known.
pub(crate) fn is_alone_with(id: u64) -> bool {
    let is_opener = OPENER.load(Acquire) == own::number();
    is_opener && OPENED.load(Relaxed) == id && keeps_children() && !has_child() && !had_child()
}

/// Whether children that end are known of until they are waited for.
fn keeps_children() -> bool {
    // SAFETY: numbers and pointers, for which zeros are valid (S20).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks only; a live value (S20).
    let asked = unsafe { libc::sigaction(libc::SIGCHLD, std::ptr::null(), &mut action) };
    let is_ignored = action.sa_sigaction == libc::SIG_IGN;
    asked == 0 && !is_ignored && action.sa_flags & libc::SA_NOCLDWAIT == 0
}

fn has_child() -> bool {
    let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    let arguments = [libc::P_ALL as usize, 0, 0, how as usize, 0, 0];
    // SAFETY: numbers only (S20).
    let waited = unsafe { next::system(libc::SYS_waitid, arguments) };
    waited.err().is_none_or(|errno| errno.0 != libc::ECHILD)
}

/// Whether one was waited for: each has used some memory.
fn had_child() -> bool {
    // SAFETY: numbers, for which zeros are valid (S20).
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    let children = libc::RUSAGE_CHILDREN as isize as usize;
    let arguments = [children, address(&raw mut used), 0, 0, 0, 0];
    // SAFETY: a live value (S20).
    let asked = unsafe { next::system(libc::SYS_getrusage, arguments) };
    asked.is_err() || used.ru_maxrss != 0
}
