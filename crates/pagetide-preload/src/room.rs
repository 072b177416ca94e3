//! Room for hidden descriptors above the program's limit on descriptors.
//!
//! **Problem.** The program may use up its limit on descriptors (`RLIMIT_NOFILE`): it opens files
//! until the kernel says EMFILE, and its calls on the open files must still work. **Idea.** The
//! limit belongs to a process, but two processes can share one descriptor table. If the limit may
//! be raised, hidden descriptors are made above it, and the program's limit stays the same:
//!
//! ```text
//!   0 .. soft limit   the program's descriptors
//!   above it          hidden descriptors, made while a limit is raised:
//!                       this process's limit, if there is one thread (signals are blocked)
//!                       the limit of a helper with the same memory and table, otherwise
//! ```
//!
//! The helper lives as long as the call, and this thread waits for it. So no thread and no child of
//! the program ever has another soft limit than its own.
//!
//! A lower hard limit would remove the room. So the kernel's hard limit stays as it was, and the
//! library reports the lower one to the program and to the programs that it executes.
//!
//! **Data and invariants.** The hard limit that the program has set, and a flag that raising the
//! soft limit has failed. After a failure, the limit is raised again only if the hard limit is
//! above the soft limit.
//!
//! **Ignored.** Limits that may not be raised: hard and soft limit are equal from before the run,
//! and the process has no privilege. Threads that were made without the C library.
//!
//! Source: getrlimit(2), clone(2) `CLONE_FILES`, `__libc_single_threaded`(3).

use crate::errno::{self, Errno};
use crate::held_signals::set_mask;
use crate::next;
use crate::process::{address, descriptor_limit};
use crate::scratch::Scratch;
use libc::{c_char, c_int, c_void, rlimit};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Number of hidden descriptors above the limit, at most.
const NR_OURS: u64 = 4096;
/// Lowest number of a hidden descriptor, if the hard limit allows.
pub(crate) const LOWEST: u64 = 4032;
/// Highest soft limit with hidden descriptors above it. At each fork, the kernel copies the table
/// up to the highest number.
const SOFT_MAX: u64 = 8192;
const STACK_BYTES: usize = 64 << 10;
/// Set after an attempt to raise the limit has failed, also without memory for a helper.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);
/// Hard limit that the program has set, if the kernel's hard limit is still higher.
static HARD: AtomicU64 = AtomicU64::new(UNCHANGED);
const UNCHANGED: u64 = u64::MAX;

/// Returns the limit as the program has set it.
pub(crate) fn limit_of_program() -> rlimit {
    let limit = descriptor_limit();
    rlimit { rlim_max: limit.rlim_max.min(HARD.load(Relaxed)), ..limit }
}

/// Returns the program's hard limit, or `None` if the kernel's hard limit is the same.
pub(crate) fn hard_of_program() -> Option<u64> {
    Some(HARD.load(Relaxed)).filter(|hard| *hard != UNCHANGED)
}

/// Sets the program's limit. If the program lowers its hard limit to at most [`SOFT_MAX`], the
/// kernel's hard limit stays, so that there is room above the program's.
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

/// Records the hard limit that the program before an exec had set.
pub(crate) fn take_over_hard(hard: u64) {
    HARD.store(hard, Relaxed);
}

/// Gives the kernel the program's hard limit, as the process leaves the run.
pub(crate) fn leave_run() {
    if hard_of_program().is_some() {
        set(limit_of_program());
        HARD.store(UNCHANGED, Relaxed);
    }
}

/// Returns true if this process may raise hard limits.
fn may_raise() -> bool {
    const VERSION: u32 = 0x2008_0522;
    const CAP_SYS_RESOURCE: u32 = 24;
    let (head, mut sets) = ([VERSION, 0], [0_u32; 6]);
    let arguments = [address(&head), address(&raw mut sets), 0, 0, 0, 0];
    // SAFETY: a head, and room for two of each set (S20).
    let asked = unsafe { next::system(libc::SYS_capget, arguments) };
    asked.is_ok() && sets[0] >> CAP_SYS_RESOURCE & 1 == 1
}

/// Returns the lowest number for hidden descriptors above the limit, or `None` if they stay below.
pub(crate) fn base(limit: rlimit) -> Option<c_int> {
    let (soft, hard) = (limit.rlim_cur, limit.rlim_max);
    let base = if hard > LOWEST { soft.max(LOWEST) } else { soft };
    (soft <= SOFT_MAX).then_some(base as c_int)
}

/// Calls `make`, which makes descriptors. If the table is full, calls it again with a raised limit.
pub(crate) fn with_room<T>(mut make: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let made = make();
    match made {
        Err(Errno(libc::EMFILE)) => above(&mut make).unwrap_or(made),
        _ => made,
    }
}

/// Opens an existing path past the library's own functions. If the table is full, opens it with a
/// raised limit.
pub(crate) fn open(folder: c_int, path: *const c_char, flags: c_int) -> Result<c_int, Errno> {
    let arguments = [folder as usize, path as usize, flags as usize, 0, 0, 0];
    // SAFETY: a path of our callers' (S20).
    with_room(|| unsafe { next::system(libc::SYS_openat, arguments) }).map(|fd| fd as c_int)
}

/// Calls `make` with a raised limit. Returns `None`, without a call, if the limit cannot be raised.
/// `make` may only make system calls.
pub(crate) fn above<T>(make: impl FnMut() -> T) -> Option<T> {
    let limit = descriptor_limit();
    if limit.rlim_max <= limit.rlim_cur && IS_REFUSED.load(Relaxed) {
        return None;
    }
    let mut work = Work { make, limit, result: None };
    let before = set_mask(libc::SIG_SETMASK, u64::MAX);
    if next::has_one_thread() == Some(true) {
        work.run();
        // Restores the limit, which has been valid a moment ago.
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

/// A call to make with a raised limit, and its result.
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

/// Raises this process's limit, to make room above the program's.
fn raise(limit: rlimit) -> bool {
    let wanted = limit.rlim_cur.max(LOWEST).saturating_add(NR_OURS);
    let allowed = wanted.min(limit.rlim_max);
    let is_enough = allowed >= limit.rlim_cur.saturating_add(NR_OURS);
    // With privilege, the hard limit is raised as well.
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

/// Runs `work` in a helper process, which ends before the function returns. The helper has this
/// process's memory and descriptor table, and its own limit.
fn have_helped<T, F: FnMut() -> T>(work: &mut Work<T, F>) {
    extern "C" fn run<T, F: FnMut() -> T>(work: *mut c_void) -> c_int {
        // SAFETY: the argument is `have_helped`'s work, and `have_helped` waits meanwhile (S22).
        unsafe { &mut *work.cast::<Work<T, F>>() }.run();
        0
    }
    let Ok(stack) = Scratch::new(STACK_BYTES) else { return };
    let how = libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_FS | libc::CLONE_VFORK;
    let top = stack.place(STACK_BYTES).cast::<c_void>();
    let before = errno::read();
    // SAFETY: this thread waits, so the stack lives until the helper has ended (S22). The helper
    // only makes system calls, with all signals blocked.
    let helper = unsafe { libc::clone(run::<T, F>, top, how, std::ptr::from_mut(work).cast()) };
    errno::set(before);
    if helper > 0 {
        let arguments = [helper as usize, 0, libc::__WALL as usize, 0, 0, 0];
        // SAFETY: all arguments are numbers, and only this call waits for the helper (S20).
        let _ = unsafe { next::system(libc::SYS_wait4, arguments) };
    }
}
