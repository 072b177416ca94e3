//! SIGBUS and SIGSEGV: served for addresses of pieces, otherwise passed to the program's handler.
//!
//! **Idea.** The handler is installed with the first mapping. The program's actions for both
//! signals are kept here, and applied as the kernel would. SIGSEGV occurs when another thread is
//! mapping the piece, or in a child with own pages. Neither signal is ever blocked, since a fault
//! would end the process.
//!
//! **Data and invariants.** S36: an action is kept in atomics. A writer has all signals blocked and
//! holds a lock. A handler takes no lock: it reads until two reads agree.
//!
//! **Ignored.** Alternate stacks: the program's handler runs on the thread's stack. SA_RESTART,
//! which has no effect on faults.
//!
//! Source: sigaction(2), sigprocmask(2), signal-safety(7).

use super::fault::{Access, obtain_again, serve_fault};
use super::forks::watch_forks;
use super::{find, given};
use crate::errno;
use crate::held_signals::set_mask;
use crate::{next, own, pieces, process};
use libc::{c_int, c_void, siginfo_t};
use pagetide_run::wire::variable;
use std::cell::Cell;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};

const SIGNALS: [c_int; 2] = [libc::SIGBUS, libc::SIGSEGV];
const BITS: u64 = 1 << (libc::SIGBUS - 1) | 1 << (libc::SIGSEGV - 1);
/// Signals that an instruction may raise while a fault is served.
const RAISED: u64 = BITS
    | 1 << (libc::SIGILL - 1)
    | 1 << (libc::SIGFPE - 1)
    | 1 << (libc::SIGTRAP - 1)
    | 1 << (libc::SIGABRT - 1);

#[derive(Clone, Copy, PartialEq, Eq)]
struct Action {
    handler: usize,
    flags: u64,
    mask: u64,
}

struct Kept {
    changes: AtomicU32,
    handler: AtomicUsize,
    flags: AtomicU64,
    mask: AtomicU64,
}

static KEPT: [Kept; 2] = [const {
    Kept {
        changes: AtomicU32::new(0),
        handler: AtomicUsize::new(0),
        flags: AtomicU64::new(0),
        mask: AtomicU64::new(0),
    }
}; 2];
static LOCK: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The number of ended pieces at this thread's last touch outside pieces.
    static NR_ENDED_SEEN: Cell<u64> = const { Cell::new(0) };
}

const NOT_TRIED: u32 = 0;
const INSTALLED: u32 = 2;
const FAILED: u32 = 3;
static STATE: AtomicU32 = AtomicU32::new(NOT_TRIED);

/// Runs `change` under the lock, without handlers.
fn without_handlers<T>(change: impl FnOnce() -> T) -> T {
    let before = set_mask(libc::SIG_SETMASK, !RAISED);
    while LOCK.swap(true, SeqCst) {
        std::hint::spin_loop();
    }
    let result = change();
    LOCK.store(false, SeqCst);
    set_mask(libc::SIG_SETMASK, before);
    result
}

fn kept(nth: usize) -> Action {
    let kept = &KEPT[nth];
    loop {
        let before = kept.changes.load(SeqCst);
        let action = Action {
            handler: kept.handler.load(SeqCst),
            flags: kept.flags.load(SeqCst),
            mask: kept.mask.load(SeqCst),
        };
        if before.is_multiple_of(2) && kept.changes.load(SeqCst) == before {
            return action;
        }
        std::hint::spin_loop();
    }
}

fn keep(nth: usize, action: Action) {
    let kept = &KEPT[nth];
    kept.changes.fetch_add(1, SeqCst);
    kept.handler.store(action.handler, SeqCst);
    kept.flags.store(action.flags, SeqCst);
    kept.mask.store(action.mask, SeqCst);
    kept.changes.fetch_add(1, SeqCst);
}

/// Returns the first word of a set, which covers all 64 signals.
fn bits_of(set: &libc::sigset_t) -> u64 {
    // SAFETY: a set consists of words, at least one (S20).
    unsafe { *std::ptr::from_ref(set).cast::<u64>() }
}

fn set_of(bits: u64) -> libc::sigset_t {
    // SAFETY: numbers, with zeros as valid values (S20).
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: a set consists of words, at least one (S20).
    unsafe { *(&raw mut set).cast::<u64>() = bits };
    set
}

impl Action {
    fn of(action: &libc::sigaction) -> Action {
        Action {
            handler: action.sa_sigaction,
            flags: action.sa_flags as u32 as u64,
            mask: bits_of(&action.sa_mask),
        }
    }

    fn as_libc(self) -> libc::sigaction {
        // SAFETY: numbers, with zeros as valid values (S20).
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = self.handler;
        action.sa_flags = self.flags as u32 as c_int;
        action.sa_mask = set_of(self.mask);
        action
    }
}

pub(super) fn install() -> bool {
    if STATE.load(SeqCst) == NOT_TRIED {
        without_handlers(|| {
            if STATE.load(SeqCst) == NOT_TRIED {
                let is_done = watch_forks() && SIGNALS.iter().enumerate().all(install_one);
                next::set_on_fault(given::bring_in);
                STATE.store(if is_done { INSTALLED } else { FAILED }, SeqCst);
            }
        });
    }
    STATE.load(SeqCst) == INSTALLED
}

fn install_one((nth, signal): (usize, &c_int)) -> bool {
    let ours = Action {
        handler: on_fault as *const () as usize,
        flags: (libc::SA_SIGINFO | libc::SA_NODEFER) as u32 as u64,
        mask: !RAISED,
    };
    let (ours, mut before) = (ours.as_libc(), ours.as_libc());
    // SAFETY: live actions. The handler has the prototype of its flags (S36).
    let result = unsafe { next::sigaction(*signal, &ours, &raw mut before) };
    keep(nth, Action::of(&before));
    result == 0
}

pub(crate) fn uninstall() {
    if STATE.load(SeqCst) != INSTALLED || pieces::from(0).is_some() {
        return;
    }
    without_handlers(|| {
        for (nth, signal) in SIGNALS.iter().enumerate() {
            let action = kept(nth).as_libc();
            // SAFETY: the program's action, unchanged (S20).
            unsafe { next::sigaction(*signal, &action, std::ptr::null_mut()) };
        }
        STATE.store(FAILED, SeqCst);
    });
}

fn nth_of(signal: c_int) -> Option<usize> {
    SIGNALS.iter().position(|one| *one == signal)
}

/// sigaction(2), for programs.
///
/// # Safety
/// As of sigaction.
pub(crate) unsafe fn exchange(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    let serves = process::is_on() && process::has_flag(variable::MAPS);
    let Some(nth) = nth_of(signal).filter(|_| STATE.load(SeqCst) == INSTALLED) else {
        // SAFETY: the caller's action, or null (S20).
        let given = unsafe { new.as_ref() };
        let unblocked = given.filter(|_| serves).map(|action| {
            let action = Action::of(action);
            Action { mask: action.mask & !BITS, ..action }.as_libc()
        });
        let new = unblocked.as_ref().map_or(new, std::ptr::from_ref);
        // SAFETY: the caller's arguments, with fewer signals blocked (S20).
        return unsafe { next::sigaction(signal, new, old) };
    };
    // SAFETY: the caller's action, or null (S20).
    let given = unsafe { new.as_ref() }.map(Action::of);
    let before = without_handlers(|| {
        let before = kept(nth);
        given.into_iter().for_each(|action| keep(nth, action));
        before
    });
    if !old.is_null() {
        // SAFETY: the caller's place (S20).
        unsafe { old.write(before.as_libc()) };
    }
    0
}

/// `None` if unchanged.
pub(crate) fn without_ours(how: c_int, set: *const libc::sigset_t) -> Option<libc::sigset_t> {
    if how == libc::SIG_UNBLOCK || !process::is_on() || !process::has_flag(variable::MAPS) {
        return None;
    }
    // SAFETY: the caller's set, or null (S20).
    let bits = bits_of(unsafe { set.as_ref() }?);
    (bits & BITS != 0).then(|| set_of(bits & !BITS))
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel provides both for the time of the call (S36).
    let is_served = errno::kept(|| unsafe { serve(signal, info, context) });
    if !is_served {
        // SAFETY: passed on unchanged (S36).
        unsafe { pass_on(signal, info, context) };
    }
}

/// # Safety
/// The arguments are the handler's arguments from the kernel.
unsafe fn serve(signal: c_int, info: *const siginfo_t, context: *const c_void) -> bool {
    const BUS_ADRERR: c_int = 2;
    // SAFETY: by the caller's word (S36).
    let info = unsafe { &*info };
    if info.si_code <= 0 || signal == libc::SIGBUS && info.si_code != BUS_ADRERR {
        return false;
    }
    // SAFETY: a fault has an address (S36).
    let address = unsafe { info.si_addr() } as usize;
    let Some(piece) = find(address) else { return has_just_ended() };
    if piece.is_moving {
        // Another thread is mapping the piece.
        // SAFETY: no arguments (S20).
        let _ = unsafe { next::system(libc::SYS_sched_yield, [0; 6]) };
        return true;
    }
    // SAFETY: by the caller's word (S36).
    let access = unsafe { access_of(context) };
    if signal == libc::SIGBUS {
        return serve_fault(address, &piece, access.unwrap_or(Access::Load));
    }
    let is_own = piece.process == own::number();
    let wanted = match access {
        Some(Access::Load) => libc::PROT_READ,
        Some(Access::Store) => libc::PROT_WRITE,
        None if is_own => libc::PROT_NONE,
        None => !libc::PROT_NONE,
    };
    // If the access is allowed now, it was not a moment ago.
    piece.protection & wanted != 0 && (is_own || obtain_again(&piece, &piece))
}

/// Returns true if a piece may have ended between the touch and the lookup. The touch is repeated
/// once for all pieces ended by then. If it fails again, the program's handler is called.
fn has_just_ended() -> bool {
    let nr = pieces::nr_ended();
    NR_ENDED_SEEN.replace(nr) != nr
}

/// Reads the kind of access from the processor's error code, `None` for an instruction fetch.
///
/// # Safety
/// As of [`serve`].
#[cfg(target_arch = "x86_64")]
unsafe fn access_of(context: *const c_void) -> Option<Access> {
    const STORE: i64 = 1 << 1;
    const FETCH: i64 = 1 << 4;
    // SAFETY: by the caller's word (S36).
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    match context.uc_mcontext.gregs[libc::REG_ERR as usize] {
        error if error & FETCH != 0 => None,
        error if error & STORE != 0 => Some(Access::Store),
        _ => Some(Access::Load),
    }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn access_of(_: *const c_void) -> Option<Access> {
    None
}

/// # Safety
/// As of [`serve`].
unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(nth) = nth_of(signal) else { return };
    let action = kept(nth);
    // SAFETY: by the caller's word (S36): a sent signal does not recur by itself.
    let was_sent = unsafe { &*info }.si_code <= 0;
    match action.handler {
        libc::SIG_IGN if was_sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            let default = Action { handler: libc::SIG_DFL, flags: 0, mask: 0 }.as_libc();
            // SAFETY: a live action (S20). The access is repeated, and ends the process.
            unsafe { next::sigaction(signal, &default, std::ptr::null_mut()) };
            if was_sent {
                // SAFETY: a number (S20).
                unsafe { libc::raise(signal) };
            }
        }
        handler => {
            if action.flags & libc::SA_RESETHAND as u32 as u64 != 0 {
                keep(nth, Action { handler: libc::SIG_DFL, flags: 0, mask: 0 });
            }
            // SAFETY: by the caller's word (S36).
            let context_now = unsafe { &*context.cast::<libc::ucontext_t>() };
            set_mask(libc::SIG_SETMASK, bits_of(&context_now.uc_sigmask) | action.mask & !BITS);
            // SAFETY: the program's handler, with the prototype of its flags. A plain handler reads
            // only the first argument (S36).
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
    }
}

/// signal(2) by sigaction(2).
///
/// # Safety
/// As of signal.
pub(crate) unsafe fn set_handler(signal: c_int, handler: usize, flags: c_int) -> usize {
    let new = Action { handler, flags: flags as u32 as u64, mask: 0 }.as_libc();
    let mut old = new;
    // SAFETY: live actions, and the caller's handler (S20).
    match unsafe { exchange(signal, &new, &raw mut old) } {
        0 => old.sa_sigaction,
        _ => libc::SIG_ERR,
    }
}

/// Returns true if this module answers plain calls that set the signal's handler.
pub(crate) fn is_kept(signal: c_int) -> bool {
    nth_of(signal).is_some() && STATE.load(SeqCst) == INSTALLED
}
