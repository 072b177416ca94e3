//! The next definition of each function: the C library's, or another preloaded library's.
//!
//! ```text
//!   program --> this library --> next::read --dlsym(RTLD_NEXT, "read"), once--> the C library
//! ```
//!
//! Functions with several callers are declared here, the rest by `taken_over`.
//!
//! Ignored: libraries that are loaded later, since the first answer is kept.

use crate::errno::{self, Errno};
use libc::{c_char, c_int, c_long, c_void, dlsym, iovec, off_t, size_t, ssize_t, timespec};
use std::mem::transmute_copy;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

pub(crate) type Stream = libc::FILE;
pub(crate) type Strings = *const *const c_char;

macro_rules! next {
    ($($(#[$only:meta])? fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;)+) => {
        $(
            $(#[$only])?
            /// The next definition.
            ///
            /// # Safety
            /// As the C function of this name.
            pub(crate) unsafe fn $name($($arg: $ty),*) -> $ret {
                use $crate::next::{CallResult, find, may_repeat};
                use std::{ffi::c_void, mem::transmute_copy, sync::atomic::AtomicPtr};
                static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
                let found = find(&NEXT, concat!(stringify!($name), "\0"));
                if found.is_null() {
                    $crate::errno::set($crate::errno::Errno(libc::ENOSYS));
                    // SAFETY: all results here are integers or pointers, and all ones is -1 (S21).
                    return unsafe { transmute_copy(&usize::MAX) };
                }
                type Function = unsafe extern "C" fn($($ty),*) -> $ret;
                // SAFETY: the symbol of this name has this C prototype (S21).
                let function = unsafe { transmute_copy::<*mut c_void, Function>(&found) };
                let mut nr_repeats = 0;
                loop {
                    // SAFETY: the caller keeps the C function's contract (S20).
                    let result = unsafe { function($($arg),*) };
                    if !result.is_all_ones()
                        || !may_repeat(stringify!($name), &[$($arg as usize),*], &mut nr_repeats)
                    {
                        return result;
                    }
                }
            }
        )+
    };
}
pub(crate) use next;

/// Called with the name and arguments of a call that failed with EFAULT. Returns true if their
/// memory may be present now.
pub(crate) type OnFault = fn(&str, &[usize]) -> bool;

static ON_FAULT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// Filled pages may leave again before the repeated call.
const REPEATS_MAX: u32 = 16;

/// Repeats calls that fail with EFAULT if `on_fault` agrees.
pub(crate) fn set_on_fault(on_fault: OnFault) {
    ON_FAULT.store(on_fault as *mut c_void, Relaxed);
}

#[cold]
pub(crate) fn may_repeat(call: &str, arguments: &[usize], nr_repeats: &mut u32) -> bool {
    let on_fault = ON_FAULT.load(Relaxed);
    let failed = errno::read();
    if on_fault.is_null() || failed.0 != libc::EFAULT || *nr_repeats == REPEATS_MAX {
        return false;
    }
    *nr_repeats += 1;
    // SAFETY: the stored value is such a function (S21).
    let on_fault = unsafe { transmute_copy::<*mut c_void, OnFault>(&on_fault) };
    let is_there = on_fault(call, arguments);
    errno::set(failed);
    is_there
}

/// A result that is all ones on failure.
pub(crate) trait CallResult {
    fn is_all_ones(&self) -> bool;
}

macro_rules! results {
    ($($number:ty)+) => {
        $(
            impl CallResult for $number {
                #[inline]
                fn is_all_ones(&self) -> bool {
                    *self == !0
                }
            }
        )+
    };
}

results! { c_int i64 isize usize }

impl<T> CallResult for *mut T {
    #[inline]
    fn is_all_ones(&self) -> bool {
        self.addr() == usize::MAX
    }
}

pub(crate) fn find(kept: &AtomicPtr<c_void>, name: &'static str) -> *mut c_void {
    let found = kept.load(Relaxed);
    if !found.is_null() {
        return found;
    }
    // SAFETY: `name` ends with a zero, by the macro above (S21).
    let found = unsafe { dlsym(libc::RTLD_NEXT, name.as_ptr().cast()) };
    kept.store(found, Relaxed);
    found
}

/// Returns true if the process has one thread. `None` if the C library is too old to tell.
pub(crate) fn has_one_thread() -> Option<bool> {
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let mut found = FOUND.load(Relaxed);
    if found.is_null() {
        // The program may have a copy of the variable, which the C library then uses.
        // SAFETY: a string (S21).
        found = unsafe { dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
        FOUND.store(found, Relaxed);
    }
    // SAFETY: a variable of the C library that is one byte (S21).
    (!found.is_null()).then(|| unsafe { found.cast::<u8>().read_volatile() } != 0)
}

next! {
    fn syscall(n: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long;
    fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int;
    fn mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn dup(fd: c_int) -> c_int;
    fn dup3(fd: c_int, target: c_int, flags: c_int) -> c_int;
    fn dup2(fd: c_int, target: c_int) -> c_int;
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int;
    fn ioctl(fd: c_int, request: libc::c_ulong, argument: usize) -> c_int;
    fn pread64(fd: c_int, buffer: *mut c_void, len: size_t, offset: off_t) -> ssize_t;
    fn preadv64(fd: c_int, parts: *const iovec, nr: c_int, offset: off_t) -> ssize_t;
    fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t;
    fn writev(fd: c_int, parts: *const iovec, nr: c_int) -> ssize_t;
    fn pwrite64(fd: c_int, buffer: *const c_void, len: size_t, offset: off_t) -> ssize_t;
    fn pwritev64(fd: c_int, parts: *const iovec, nr: c_int, offset: off_t) -> ssize_t;
    fn sync() -> c_int;
    fn posix_fadvise64(fd: c_int, offset: off_t, len: off_t, advice: c_int) -> c_int;
    fn utimensat(d: c_int, p: *const c_char, times: *const timespec, flags: c_int) -> c_int;
    fn utimes(path: *const c_char, times: *const libc::timeval) -> c_int;
    fn sendfile64(out: c_int, from: c_int, offset: *mut off_t, len: size_t) -> ssize_t;
    fn copy_file_range(
        from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, len: size_t,
        flags: libc::c_uint,
    ) -> ssize_t;
    fn recv(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    fn recvfrom(
        fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int, address: *mut c_void,
        address_len: *mut libc::socklen_t,
    ) -> ssize_t;
    fn recvmsg(socket: c_int, message: *mut libc::msghdr, flags: c_int) -> ssize_t;
    fn fread(bytes: *mut c_void, size: size_t, nr: size_t, stream: *mut Stream) -> size_t;
    fn fread_unlocked(bytes: *mut c_void, size: size_t, nr: size_t, stream: *mut Stream) -> size_t;
    fn send(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    fn sendto(
        fd: c_int, buffer: *const c_void, len: size_t, flags: c_int, address: *const c_void,
        address_len: libc::socklen_t,
    ) -> ssize_t;
    fn fwrite(bytes: *const c_void, size: size_t, nr: size_t, stream: *mut Stream) -> size_t;
    fn fwrite_unlocked(
        bytes: *const c_void, size: size_t, nr: size_t, stream: *mut Stream,
    ) -> size_t;
    fn sigaction(
        signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction,
    ) -> c_int;
    fn sigprocmask(how: c_int, set: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int;
    fn pthread_sigmask(
        how: c_int, set: *const libc::sigset_t, old: *mut libc::sigset_t,
    ) -> c_int;
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut Stream;
    fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut Stream) -> *mut Stream;
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut Stream;
    fn fclose(stream: *mut Stream) -> c_int;
    fn tmpfile64() -> *mut Stream;
    fn fork() -> libc::pid_t;
    fn wait(status: *mut c_int) -> libc::pid_t;
    fn waitpid(child: libc::pid_t, status: *mut c_int, options: c_int) -> libc::pid_t;
    fn wait3(status: *mut c_int, options: c_int, usage: *mut c_void) -> libc::pid_t;
    fn wait4(
        child: libc::pid_t, status: *mut c_int, options: c_int, usage: *mut c_void,
    ) -> libc::pid_t;
    fn waitid(
        kind: libc::idtype_t, id: libc::id_t, about: *mut libc::siginfo_t, options: c_int,
    ) -> c_int;
    fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int;
    fn execvpe(name: *const c_char, arguments: Strings, environment: Strings) -> c_int;
    fn execveat(
        folder: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int,
    ) -> c_int;
    fn fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int;
    fn posix_spawn(
        pid: *mut libc::pid_t, path: *const c_char, actions: *const c_void, attr: *const c_void,
        arguments: Strings, environment: Strings,
    ) -> c_int;
    fn posix_spawnp(
        pid: *mut libc::pid_t, name: *const c_char, actions: *const c_void, attr: *const c_void,
        arguments: Strings, environment: Strings,
    ) -> c_int;
    fn posix_spawn_file_actions_adddup2(actions: *mut c_void, fd: c_int, target: c_int) -> c_int;
}

/// A system call with arguments that are numbers, or point to live values. Preserves errno, so that
/// a call with a failed attempt can still succeed.
///
/// Unlike most functions of the C library, not a cancellation point.
///
/// # Safety
/// As the system call.
pub(crate) unsafe fn system(number: c_long, arguments: [usize; 6]) -> Result<usize, Errno> {
    let [a, b, c, d, e, f] = arguments;
    let before = errno::read();
    // SAFETY: the caller keeps the system call's contract (S20).
    let result = unsafe { syscall(number, a, b, c, d, e, f) };
    if result != -1 {
        return Ok(result as usize);
    }
    let failed = errno::read();
    errno::set(before);
    Err(failed)
}
