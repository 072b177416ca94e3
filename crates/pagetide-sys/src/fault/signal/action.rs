//! The system calls around a signal's action.
//!
//! S31: each call gets live values of the types that its manual page requires.

use std::ffi::c_void;
use std::ptr;

/// A handler with three arguments (SA_SIGINFO).
pub(super) type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void);

/// Does not block SIGBUS itself.
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

/// Installs an action for SIGBUS, if given. Returns the previous action.
pub(super) fn exchange(action: Option<&libc::sigaction>) -> libc::sigaction {
    let mut before = empty();
    let action = action.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: S31: a handler lives for ever, and has the prototype of its flags.
    let result = unsafe { libc::sigaction(libc::SIGBUS, action, &raw mut before) };
    assert!(result == 0, "sigaction refuses only signals there are not");
    before
}

pub(super) fn reset() {
    // SAFETY: S31: no handler is installed.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
}

pub(super) fn raise(signal: libc::c_int) {
    // SAFETY: S9 (a call without pointers).
    unsafe { libc::raise(signal) };
}

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

pub(super) fn block(mask: &libc::sigset_t) {
    // SAFETY: S31.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut()) };
}

/// # Safety
/// The action has a handler, and the arguments are the kernel's.
pub(super) unsafe fn call(
    action: &libc::sigaction,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    if action.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: S31: a function with the prototype of the flags.
        let handler = unsafe { std::mem::transmute::<usize, Handler>(action.sa_sigaction) };
        handler(signal, info, context);
    } else {
        type Plain = extern "C" fn(libc::c_int);
        // SAFETY: S31: a function with the prototype of the flags.
        let handler = unsafe { std::mem::transmute::<usize, Plain>(action.sa_sigaction) };
        handler(signal);
    }
}

pub(super) fn set_errno(errno: libc::c_int) {
    // SAFETY: S9 (a call without pointers to the library's memory).
    let place = unsafe { libc::__errno_location() };
    // SAFETY: S31: the place is this thread's while the thread lives.
    unsafe { place.write(errno) };
}
