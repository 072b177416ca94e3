//! Room for descriptors of ours beside those that the program may have.
//!
//! **Problem.** A limit on descriptors (`RLIMIT_NOFILE`) is the program's to use up: it opens files
//! until the kernel says EMFILE, and its calls on those still work. **Idea.** The limit is the
//! process's, but a table of descriptors may have more than one process. Where the limit may be
//! raised, ours are made above it, and the program's limit stays what it is:
//!
//! ```text
//!   0 .. soft limit   the program's
//!   above it          ours, made while the limit is raised:
//!                       of this process, while it has one thread and no signal's handler runs
//!                       of a helper that shares memory and table, if there are more threads
//! ```
//!
//! The helper lives as long as the call, for which this thread waits. So no thread and no child of
//! the program ever has another soft limit than its own.
//!
//! A program that lowers its hard limit would take the room away. So the kernel's hard limit stays,
//! and the program, and those that it executes, are told the one that they have set.
//!
//! **Data and invariants.** The hard limit that the program has set, and that the soft one could
//! not be raised: then it is tried again only where the hard limit is another than the soft one.
//!
//! **Ignored.** Limits that may not be raised: a hard limit that is the soft one from before the
//! run, without privilege. Threads that were made without the C library.
//!
//! Source: getrlimit(2), clone(2) `CLONE_FILES`, `__libc_single_threaded`(3).

use crate::errno::{self, Errno};
use crate::held_signals::set_mask;
use crate::next;
use crate::process::{address, descriptor_limit};
use crate::scratch::Scratch;
use libc::{c_char, c_int, c_void, rlimit};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64};

/// So many descriptors of ours at most, above the limit.
const NR_OURS: u64 = 4096;
/// The lowest number that they have, where the hard limit allows.
pub(crate) const LOWEST: u64 = 4032;
/// Programs that may have more are given no higher numbers: the kernel copies the table, up to the
/// highest number, at each fork.
const SOFT_MAX: u64 = 8192;
const STACK_BYTES: usize = 64 << 10;
/// The limit could not be raised.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);
/// The hard limit that the program has set, where the kernel has a higher one still.
static HARD: AtomicU64 = AtomicU64::new(UNCHANGED);
const UNCHANGED: u64 = u64::MAX;

/// The limit, as the program has set it.
pub(crate) fn limit_of_program() -> rlimit {
    let limit = descriptor_limit();
    rlimit { rlim_max: limit.rlim_max.min(HARD.load(Relaxed)), ..limit }
}

/// Whether the program has lowered its hard limit, and to what.
pub(crate) fn hard_of_program() -> Option<u64> {
    Some(HARD.load(Relaxed)).filter(|hard| *hard != UNCHANGED)
}

/// The program sets its limit. A hard limit that it lowers stays, and it is told the lower one: so
/// there is room above it.
pub(crate) fn set_for_program(new: rlimit) -> Result<(), Errno> {
    let real = descriptor_limit();
    let hard = limit_of_program().rlim_max;
    let is_kept = new.rlim_max < real.rlim_max && new.rlim_max <= SOFT_MAX;
    if new.rlim_cur > new.rlim_max {
        return Err(Errno(libc::EINVAL));
    }
    if new.rlim_max > hard && new.rlim_max <= real.rlim_max && !may_raise() {
        return Err(Errno(libc::EPERM));
    }
    let wanted = if is_kept { rlimit { rlim_max: real.rlim_max, ..new } } else { new };
    try_to_set(wanted)?;
    HARD.store(if is_kept { new.rlim_max } else { UNCHANGED }, Relaxed);
    Ok(())
}

/// The hard limit is as low as the program before an exec has set it.
pub(crate) fn take_over_hard(hard: u64) {
    HARD.store(hard, Relaxed);
}

/// The process is under no run from here on: its limit is what it has set.
pub(crate) fn leave_run() {
    if hard_of_program().is_some() {
        set(limit_of_program());
        HARD.store(UNCHANGED, Relaxed);
    }
}

/// Whether this process may raise hard limits.
fn may_raise() -> bool {
    const VERSION: u32 = 0x2008_0522;
    const CAP_SYS_RESOURCE: u32 = 24;
    let (head, mut sets) = ([VERSION, 0], [0_u32; 6]);
    let arguments = [address(&head), address(&raw mut sets), 0, 0, 0, 0];
    // SAFETY: a head, and room for two of each set (S20).
    let asked = unsafe { next::system(libc::SYS_capget, arguments) };
    asked.is_ok() && sets[0] >> CAP_SYS_RESOURCE & 1 == 1
}

/// The lowest number above the limit, which ours are to have; `None` if they stay below it.
pub(crate) fn base(limit: rlimit) -> Option<c_int> {
    let (soft, hard) = (limit.rlim_cur, limit.rlim_max);
    let base = if hard > LOWEST { soft.max(LOWEST) } else { soft };
    (soft <= SOFT_MAX).then_some(base as c_int)
}

/// Has a call make descriptors; where the table is full, once more with room for them.
pub(crate) fn with_room<T>(mut make: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let made = make();
    match made {
        Err(Errno(libc::EMFILE)) => above(&mut make).unwrap_or(made),
        _ => made,
    }
}

/// Has `make` run with room above the limit; `None` if there is none to be had, and nothing was
/// run. It may make system calls, and no more.
pub(crate) fn above<T>(make: impl FnMut() -> T) -> Option<T> {
    let limit = descriptor_limit();
    if limit.rlim_max <= limit.rlim_cur && IS_REFUSED.load(Relaxed) {
        return None;
    }
    let mut work = Work { make, limit, result: None };
    let before = set_mask(libc::SIG_SETMASK, u64::MAX);
    if is_alone() {
        work.run();
        // What it was a moment ago.
        set(limit);
    } else {
        have_helped(&mut work);
    }
    set_mask(libc::SIG_SETMASK, before);
    if work.result.is_none() {
        IS_REFUSED.store(true, Relaxed);
    }
    work.result
}

/// What is to be run, and what came of it.
struct Work<T, F> {
    make: F,
    limit: rlimit,
    result: Option<T>,
}

impl<T, F: FnMut() -> T> Work<T, F> {
    fn run(&mut self) {
        if raise(self.limit) {
            self.result = Some((self.make)());
        }
    }
}

/// Whether the process has one thread. The C library of old says nothing of it.
fn is_alone() -> bool {
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let found = next::find(&FOUND, "__libc_single_threaded\0").cast::<c_char>();
    // SAFETY: null, or a variable of the C library's that is one byte (S21).
    !found.is_null() && unsafe { found.read_volatile() } != 0
}

/// Raises this process's limit, so that there is room above it.
fn raise(limit: rlimit) -> bool {
    let wanted = limit.rlim_cur.max(LOWEST).saturating_add(NR_OURS);
    let allowed = wanted.min(limit.rlim_max);
    let is_enough = allowed >= limit.rlim_cur.saturating_add(NR_OURS);
    // With privilege, the hard limit as well.
    is_enough && set(rlimit { rlim_cur: allowed, ..limit })
        || set(rlimit { rlim_cur: wanted, rlim_max: wanted.max(limit.rlim_max) })
        || allowed > limit.rlim_cur && set(rlimit { rlim_cur: allowed, ..limit })
}

fn set(limit: rlimit) -> bool {
    try_to_set(limit).is_ok()
}

fn try_to_set(limit: rlimit) -> Result<(), Errno> {
    let arguments = [0, libc::RLIMIT_NOFILE as usize, address(&limit), 0, 0, 0];
    // SAFETY: a limit that lives through the call (S20).
    unsafe { next::system(libc::SYS_prlimit64, arguments) }.map(drop)
}

/// Has a helper run it, which ends before this returns: it has this process's memory and table of
/// descriptors, and a limit of its own.
fn have_helped<T, F: FnMut() -> T>(work: &mut Work<T, F>) {
    extern "C" fn run<T, F: FnMut() -> T>(work: *mut c_void) -> c_int {
        // SAFETY: what `have_helped` gives, which waits meanwhile (S22).
        unsafe { &mut *work.cast::<Work<T, F>>() }.run();
        0
    }
    let Ok(stack) = Scratch::new(STACK_BYTES) else { return };
    let how = libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_FS | libc::CLONE_VFORK;
    let top = stack.place(STACK_BYTES).cast::<c_void>();
    let before = errno::read();
    // SAFETY: a stack that lives until the helper has ended, for this thread waits (S22); it makes
    // system calls alone, with all signals blocked.
    let helper = unsafe { libc::clone(run::<T, F>, top, how, std::ptr::from_mut(work).cast()) };
    errno::set(before);
    if helper > 0 {
        let arguments = [helper as usize, 0, libc::__WALL as usize, 0, 0, 0];
        // SAFETY: numbers only; its end is told to nobody else (S20).
        let _ = unsafe { next::system(libc::SYS_wait4, arguments) };
    }
}
