//! SIGBUS and SIGSEGV: ours where an address is a piece's, the program's own in all else.
//!
//! **Idea.** The handler is installed with the first mapping. What the program does about the two
//! signals, before and after, is kept here, and called as the kernel would. SIGSEGV matters only
//! where a thread touches a piece in the moment in which another puts it in place, or a child one
//! that has its own pages. Neither is ever blocked: a fault would end the process.
//!
//! **Data and invariants.** S36: an action is kept in atomics, changed by a thread that has all
//! signals blocked and a lock that no handler waits for: it reads until two looks are the same.
//!
//! **Ignored.** An alternate stack that the program's handler asks for: it runs on the stack of the
//! thread. SA_RESTART, which does not matter for faults.
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
/// Both, as bits of a set.
const BITS: u64 = 1 << (libc::SIGBUS - 1) | 1 << (libc::SIGSEGV - 1);
/// What an instruction may raise while we serve a fault.
const RAISED: u64 = BITS
    | 1 << (libc::SIGILL - 1)
    | 1 << (libc::SIGFPE - 1)
    | 1 << (libc::SIGTRAP - 1)
    | 1 << (libc::SIGABRT - 1);

/// What the program does about a signal.
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
    /// Pieces that had ended when this thread last touched memory that is none.
    static NR_ENDED_SEEN: Cell<u64> = const { Cell::new(0) };
}

const NOT_TRIED: u32 = 0;
const INSTALLED: u32 = 2;
const FAILED: u32 = 3;
static STATE: AtomicU32 = AtomicU32::new(NOT_TRIED);

/// Has `change` run by one thread at a time, which no handler interrupts.
fn alone<T>(change: impl FnOnce() -> T) -> T {
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

/// The first word of a set: there are 64 signals.
fn bits_of(set: &libc::sigset_t) -> u64 {
    // SAFETY: a set is words, and has one at least (S20).
    unsafe { *std::ptr::from_ref(set).cast::<u64>() }
}

fn set_of(bits: u64) -> libc::sigset_t {
    // SAFETY: numbers, for which zeros are valid (S20).
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: a set is words, and has one at least (S20).
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
        // SAFETY: numbers, for which zeros are valid (S20).
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = self.handler;
        action.sa_flags = self.flags as u32 as c_int;
        action.sa_mask = set_of(self.mask);
        action
    }
}

/// Puts our handler in place, the first time; whether it is there.
pub(super) fn install() -> bool {
    if STATE.load(SeqCst) == NOT_TRIED {
        alone(|| {
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
    // SAFETY: live actions; the handler has the prototype that its flags say (S36).
    let result = unsafe { next::sigaction(*signal, &ours, &raw mut before) };
    keep(nth, Action::of(&before));
    result == 0
}

/// The program's own actions are the kernel's to do again.
pub(crate) fn uninstall() {
    if STATE.load(SeqCst) != INSTALLED || pieces::from(0).is_some() {
        return;
    }
    alone(|| {
        for (nth, signal) in SIGNALS.iter().enumerate() {
            let action = kept(nth).as_libc();
            // SAFETY: the program's action, as it has given it (S20).
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
        // SAFETY: our caller's action, or null (S20).
        let given = unsafe { new.as_ref() };
        let unblocked = given.filter(|_| serves).map(|action| {
            let action = Action::of(action);
            Action { mask: action.mask & !BITS, ..action }.as_libc()
        });
        let new = unblocked.as_ref().map_or(new, std::ptr::from_ref);
        // SAFETY: our caller's arguments, with fewer signals blocked (S20).
        return unsafe { next::sigaction(signal, new, old) };
    };
    // SAFETY: our caller's action, or null (S20).
    let given = unsafe { new.as_ref() }.map(Action::of);
    let before = alone(|| {
        let before = kept(nth);
        given.into_iter().for_each(|action| keep(nth, action));
        before
    });
    if !old.is_null() {
        // SAFETY: our caller's place (S20).
        unsafe { old.write(before.as_libc()) };
    }
    0
}

/// A set to be blocked, without what must not be; `None` where that is the same.
pub(crate) fn without_ours(how: c_int, set: *const libc::sigset_t) -> Option<libc::sigset_t> {
    if how == libc::SIG_UNBLOCK || !process::is_on() || !process::has_flag(variable::MAPS) {
        return None;
    }
    // SAFETY: our caller's set, or null (S20).
    let bits = bits_of(unsafe { set.as_ref() }?);
    (bits & BITS != 0).then(|| set_of(bits & !BITS))
}

/// The handler.
extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let before = errno::read();
    // SAFETY: the kernel hands over both, for the time of the call (S36).
    let is_served = unsafe { serve(signal, info, context) };
    errno::set(before);
    if !is_served {
        // SAFETY: handed on as it came (S36).
        unsafe { pass_on(signal, info, context) };
    }
}

/// # Safety
/// The arguments are what the kernel has handed to the handler.
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
        // Another thread is putting it in place.
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
    // If it may be done now, it could not a moment ago.
    piece.protection & wanted != 0 && (is_own || obtain_again(&piece, &piece))
}

/// Returns true if a piece may have ended between the touch and the look at the table, as when
/// another thread has the kernel's file in its place by now. The touch is made again, once for all
/// pieces that had ended by then: if it fails again, the program's handler is called.
fn has_just_ended() -> bool {
    let nr = pieces::nr_ended();
    NR_ENDED_SEEN.replace(nr) != nr
}

/// What the processor says that it was, if not an instruction's fetch.
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

/// Does what the program wants done.
///
/// # Safety
/// As of [`serve`].
unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(nth) = nth_of(signal) else { return };
    let action = kept(nth);
    // SAFETY: by the caller's word (S36): a signal that was sent does not come again by itself.
    let was_sent = unsafe { &*info }.si_code <= 0;
    match action.handler {
        libc::SIG_IGN if was_sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            let default = Action { handler: libc::SIG_DFL, flags: 0, mask: 0 }.as_libc();
            // SAFETY: a live action (S20). The access is made again, and ends the process.
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
            // SAFETY: the program's handler, of the prototype that its flags say; a plain one looks
            // at the first argument alone (S36).
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
    // SAFETY: live actions, and our caller's handler (S20).
    match unsafe { exchange(signal, &new, &raw mut old) } {
        0 => old.sa_sigaction,
        _ => libc::SIG_ERR,
    }
}

/// Whether a plain call that sets a handler is ours to answer.
pub(crate) fn is_kept(signal: c_int) -> bool {
    nth_of(signal).is_some() && STATE.load(SeqCst) == INSTALLED
}
