//! The handlers around a fork.
#![expect(unsafe_code, reason = "fork and signals are C's")]

use super::{Noted, arrive_in_child, lock_noted};
use std::cell::RefCell;
use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::{MutexGuard, OnceLock, TryLockError};

const TOUCHED: &[u8] =
    b"pagetide: this child of fork touched an array without a file, whose memory \
    is its parent's alone: start workers by \"spawn\" or \"forkserver\"\n";
const STORED: &[u8] =
    b"pagetide: this child of fork stored to an array of its parent: the store is \
    lost\n";
const LOST: &CStr = c"a store to an array was lost: the array belongs to the process that was \
    forked; make a PageCache in the child, or start workers by \"spawn\" or \"forkserver\"";
/// The exit status of Python for errors in its last flush.
const FAILED: c_int = 120;

thread_local! {
    /// The list, locked while a child is made.
    static HELD: RefCell<Option<MutexGuard<'static, Vec<Noted>>>> = const { RefCell::new(None) };
}

/// Registers the fork handlers.
pub(super) fn at_fork() -> io::Result<()> {
    // SAFETY: S42: three functions with the prototype of pthread_atfork(3), of a library that is
    // never unloaded.
    let errno = unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
    if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
}

extern "C" fn prepare() {
    HELD.with_borrow_mut(|held| *held = Some(lock_noted()));
}

extern "C" fn in_parent() {
    HELD.with_borrow_mut(|held| *held = None);
}

extern "C" fn in_child() {
    if let Some(mut noted) = HELD.with_borrow_mut(Option::take) {
        arrive_in_child(&mut noted);
    }
}

/// Maps the file for reading, or inaccessible memory, at the parent's region.
pub(super) fn replace_in_child(range: &Noted) {
    let mode = libc::MAP_PRIVATE | libc::MAP_FIXED;
    let (fd, mode, access) = match &range.file {
        Some(file) => (file.as_raw_fd(), mode, libc::PROT_READ),
        None => (-1, mode | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, libc::PROT_NONE),
    };
    // SAFETY: S42: the child has nothing at the addresses of a region (S24), and no other thread.
    unsafe { libc::mmap(ptr::without_provenance_mut(range.start), range.len, access, mode, fd, 0) };
    explain_touches();
}

/// Makes stores to the parent's regions fail again.
pub(super) fn protect_again(noted: &[Noted]) {
    for range in noted.iter().filter(|range| !range.is_here && range.file.is_some()) {
        set_access(range, libc::PROT_READ);
    }
}

fn set_access(range: &Noted, access: c_int) -> bool {
    let start = ptr::without_provenance_mut(range.start);
    // SAFETY: S42: a mapping of the child's own, of which no Rust reference exists.
    unsafe { libc::mprotect(start, range.len, access) == 0 }
}

/// The previous action, which ends the child.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs a handler that reports a touch of the parent's memory.
fn explain_touches() {
    if BEFORE.get().is_some() {
        return;
    }
    // SAFETY: S42: all zeros are a sigaction without flags.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = on_touch as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    let mut before = action;
    // SAFETY: S42: both are live values of that type.
    if unsafe { libc::sigaction(libc::SIGSEGV, &action, &mut before) } == 0 {
        let _ = BEFORE.set(before);
    }
}

extern "C" fn on_touch(signal: c_int, info: *const libc::siginfo_t, _context: *const c_void) {
    // SAFETY: S42: the kernel gives a siginfo that lives until the handler returns.
    let info = unsafe { &*info };
    // SAFETY: S42: SIGSEGV's siginfo has an address.
    let address = unsafe { info.si_addr() }.addr();
    let contains = |range: &&Noted| {
        !range.is_here && (range.start..range.start + range.len).contains(&address)
    };
    // A thread that holds the list touches no region.
    let noted = loop {
        match super::NOTED.try_lock() {
            Ok(noted) => break noted,
            Err(TryLockError::Poisoned(noted)) => break noted.into_inner(),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    };
    let touched = noted.iter().find(contains);
    let is_store = touched.is_some_and(|range| {
        range.file.is_some() && set_access(range, libc::PROT_READ | libc::PROT_WRITE)
    });
    if touched.is_some() {
        let said = if is_store { STORED } else { TOUCHED };
        // SAFETY: S9: a call that only reads a live value.
        unsafe { libc::write(2, said.as_ptr().cast(), said.len()) };
    }
    if is_store {
        // SAFETY: S42: the call may be made by any thread, and calls back with the interpreter
        // attached.
        unsafe { pyo3::ffi::Py_AddPendingCall(Some(raise_lost_store), ptr::null_mut()) };
        return;
    }
    if let Some(before) = BEFORE.get() {
        // SAFETY: S42: the action that the kernel gave. The touch is repeated, and ends in that
        // action.
        unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
    }
}

/// Runs in the child's main thread, attached to the interpreter.
extern "C" fn raise_lost_store(_: *mut c_void) -> c_int {
    protect_again(&lock_noted());
    // SAFETY: S42: the interpreter lives, and so does its exception.
    let kind = unsafe { pyo3::ffi::PyExc_RuntimeError };
    // SAFETY: S42: the caller is attached to the interpreter, and the text ends with a 0.
    unsafe { pyo3::ffi::PyErr_SetString(kind, LOST.as_ptr()) };
    -1
}

extern "C" fn end_with_failure() {
    // SAFETY: S42: the interpreter is finalized, and the process would return from main next.
    unsafe { libc::exit(FAILED) }
}

/// Makes the process end with status 120, as Python does if it cannot flush its output.
pub(super) fn fail_at_exit() {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    REGISTERED.get_or_init(|| {
        // SAFETY: S42: a function without arguments, of a library that is never unloaded. The
        // caller is attached to the interpreter.
        unsafe { pyo3::ffi::Py_AtExit(Some(end_with_failure)) };
    });
}
