//! The handlers around a fork.
#![expect(unsafe_code, reason = "fork and signals are C's")]

use super::{Noted, arrive_in_child, lock_noted};
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::{MutexGuard, OnceLock, TryLockError};

const SAID: &[u8] = b"pagetide: this child of fork touched an array without a file, whose memory \
    is its parent's alone: start workers by \"spawn\" or \"forkserver\"\n";

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

/// Maps the file, or inaccessible memory, at the parent's region.
pub(super) fn replace_in_child(range: &Noted) {
    let mode = libc::MAP_PRIVATE | libc::MAP_FIXED;
    let (fd, mode, access) = match &range.file {
        Some(file) => (file.as_raw_fd(), mode, libc::PROT_READ | libc::PROT_WRITE),
        None => (-1, mode | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, libc::PROT_NONE),
    };
    // SAFETY: S42: the child has nothing at the addresses of a region (S24), and no other thread.
    let mapped = unsafe {
        libc::mmap(ptr::without_provenance_mut(range.start), range.len, access, mode, fd, 0)
    };
    if mapped == libc::MAP_FAILED || range.file.is_none() {
        explain_touches();
    }
}

/// The previous action, which ends the child.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs a handler that reports the cause of a fatal touch.
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
    let is_in = |range: &Noted| (range.start..range.start + range.len).contains(&address);
    let is_ours = match super::NOTED.try_lock() {
        Ok(noted) => noted.iter().any(is_in),
        Err(TryLockError::Poisoned(noted)) => noted.into_inner().iter().any(is_in),
        Err(TryLockError::WouldBlock) => false,
    };
    if is_ours {
        // SAFETY: S9: a call that only reads a live value.
        unsafe { libc::write(2, SAID.as_ptr().cast(), SAID.len()) };
    }
    if let Some(before) = BEFORE.get() {
        // SAFETY: S42: the action that the kernel gave. The touch is repeated, and ends in that
        // action.
        unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
    }
}
