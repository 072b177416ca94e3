//! What a process does about a signal: the calls, in Rust's terms.
//!
//! S31: each is given live values of the types its manual page says.

use std::ffi::c_void;
use std::ptr;

/// A handler that is told where a signal came from.
pub(super) type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void);

/// What `handler` asks for: to be told where a signal came from, with these signals blocked, and
/// not SIGBUS itself.
pub(super) fn of(handler: Handler, masked: libc::sigset_t) -> libc::sigaction {
    let mut action = empty();
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
    action.sa_mask = masked;
    action
}

fn empty() -> libc::sigaction {
    // SAFETY: S31: all zeros is a value of the type.
    unsafe { std::mem::zeroed() }
}

/// Has SIGBUS do this from now on, if anything is given; returns what it did before.
pub(super) fn exchange(action: Option<&libc::sigaction>) -> libc::sigaction {
    let mut before = empty();
    let action = action.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: S31: a handler lives for ever, and has the prototype that its flags say.
    let result = unsafe { libc::sigaction(libc::SIGBUS, action, &raw mut before) };
    assert!(result == 0, "sigaction refuses only signals there are not");
    before
}

/// Has SIGBUS do what it does by default.
pub(super) fn reset() {
    // SAFETY: S31: no handler is installed.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
}

/// Sends this thread the signal.
pub(super) fn raise(signal: libc::c_int) {
    // SAFETY: S9 (a call without pointers).
    unsafe { libc::raise(signal) };
}

/// All signals but those of the C library's own.
pub(super) fn all_signals() -> libc::sigset_t {
    let mut all = empty().sa_mask;
    // SAFETY: S31.
    unsafe { libc::sigfillset(&raw mut all) };
    all
}

pub(super) fn add(mask: &mut libc::sigset_t, signal: libc::c_int) {
    // SAFETY: S31.
    unsafe { libc::sigaddset(mask, signal) };
}

/// Adds those of `others`.
pub(super) fn add_all(mask: &mut libc::sigset_t, others: &libc::sigset_t) {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: S31.
        if unsafe { libc::sigismember(others, signal) } == 1 {
            add(mask, signal);
        }
    }
}

pub(super) fn remove(mask: &mut libc::sigset_t, signal: libc::c_int) {
    // SAFETY: S31.
    unsafe { libc::sigdelset(mask, signal) };
}

/// Blocks these signals, and no others, in this thread.
pub(super) fn block(mask: &libc::sigset_t) {
    // SAFETY: S31.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut()) };
}

/// Calls what an action has for a handler.
///
/// # Safety
/// It has one, and the arguments are what the kernel has handed over.
pub(super) unsafe fn call(
    action: &libc::sigaction,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    if action.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: S31: a function of the prototype that the flags say.
        let handler = unsafe { std::mem::transmute::<usize, Handler>(action.sa_sigaction) };
        handler(signal, info, context);
    } else {
        type Plain = extern "C" fn(libc::c_int);
        // SAFETY: S31: a function of the prototype that the flags say.
        let handler = unsafe { std::mem::transmute::<usize, Plain>(action.sa_sigaction) };
        handler(signal);
    }
}

/// The C library's number of the last error, of this thread.
pub(super) fn set_errno(errno: libc::c_int) {
    // SAFETY: S9 (a call without pointers to memory of ours).
    let place = unsafe { libc::__errno_location() };
    // SAFETY: S31: the place is this thread's, as long as it lives.
    unsafe { place.write(errno) };
}
