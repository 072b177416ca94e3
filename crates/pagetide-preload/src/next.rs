//! The next definition of each function: the C library's, or another preloaded library's.
//!
//! ```text
//!   program --> ours --> next::read --dlsym(RTLD_NEXT, "read"), once--> the C library's
//! ```
//!
//! Ignored: libraries that are loaded later with a definition of their own. They come after ours in
//! the search, and the first answer is kept.

use crate::errno::{self, Errno};
use libc::{
    c_char, c_int, c_long, c_void, dlsym, fd_set, gid_t, iovec, nfds_t, off_t, pollfd, size_t,
    ssize_t, timespec, uid_t,
};
use std::mem::transmute_copy;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// A `FILE`, whatever that is.
pub(crate) type Stream = libc::FILE;
/// An environment or argument vector.
pub(crate) type Strings = *const *const c_char;

macro_rules! next {
    ($($(#[$only:meta])? fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;)+) => {
        $(
            $(#[$only])?
            /// The next definition.
            ///
            /// # Safety
            /// As the C function's of this name.
            pub(crate) unsafe fn $name($($arg: $ty),*) -> $ret {
                static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
                let found = find(&NEXT, concat!(stringify!($name), "\0"));
                if found.is_null() {
                    errno::set(Errno(libc::ENOSYS));
                    // SAFETY: all results here are integers or pointers; all ones is -1 (S21).
                    return unsafe { transmute_copy(&usize::MAX) };
                }
                type Function = unsafe extern "C" fn($($ty),*) -> $ret;
                // SAFETY: the symbol of this name has this C prototype (S21).
                let function = unsafe { transmute_copy::<*mut c_void, Function>(&found) };
                let mut nr_repeats = 0;
                loop {
                    // SAFETY: our caller keeps the C function's contract (S20).
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

/// Called when a call has failed with EFAULT, with its name and arguments: whether what they point
/// to may be there now.
pub(crate) type OnFault = fn(&str, &[usize]) -> bool;

static ON_FAULT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// What is brought in may leave again before it is looked at.
const REPEATS_MAX: u32 = 16;

/// Has calls that fail with EFAULT repeated where this says so.
pub(crate) fn set_on_fault(on_fault: OnFault) {
    ON_FAULT.store(on_fault as *mut c_void, Relaxed);
}

#[cold]
fn may_repeat(call: &str, arguments: &[usize], nr_repeats: &mut u32) -> bool {
    let on_fault = ON_FAULT.load(Relaxed);
    let failed = errno::read();
    if on_fault.is_null() || failed.0 != libc::EFAULT || *nr_repeats == REPEATS_MAX {
        return false;
    }
    *nr_repeats += 1;
    // SAFETY: what was stored is such a function (S21).
    let on_fault = unsafe { transmute_copy::<*mut c_void, OnFault>(&on_fault) };
    let is_there = on_fault(call, arguments);
    errno::set(failed);
    is_there
}

/// Results, of which all ones says that a call has failed.
trait CallResult {
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

fn find(kept: &AtomicPtr<c_void>, name: &'static str) -> *mut c_void {
    let found = kept.load(Relaxed);
    if !found.is_null() {
        return found;
    }
    // SAFETY: `name` ends with a zero, as the macro above has it (S21).
    let found = unsafe { dlsym(libc::RTLD_NEXT, name.as_ptr().cast()) };
    kept.store(found, Relaxed);
    found
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
    fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t;
    fn readv(fd: c_int, parts: *const iovec, nr: c_int) -> ssize_t;
    fn pread64(fd: c_int, buffer: *mut c_void, len: size_t, offset: off_t) -> ssize_t;
    fn preadv64(fd: c_int, parts: *const iovec, nr: c_int, offset: off_t) -> ssize_t;
    fn preadv64v2(fd: c_int, p: *const iovec, nr: c_int, offset: off_t, flags: c_int) -> ssize_t;
    fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t;
    fn writev(fd: c_int, parts: *const iovec, nr: c_int) -> ssize_t;
    fn pwrite64(fd: c_int, buffer: *const c_void, len: size_t, offset: off_t) -> ssize_t;
    fn pwritev64(fd: c_int, parts: *const iovec, nr: c_int, offset: off_t) -> ssize_t;
    fn pwritev64v2(fd: c_int, p: *const iovec, nr: c_int, offset: off_t, flags: c_int) -> ssize_t;
    fn lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t;
    fn ftruncate64(fd: c_int, len: off_t) -> c_int;
    fn fallocate64(fd: c_int, mode: c_int, offset: off_t, len: off_t) -> c_int;
    fn posix_fallocate64(fd: c_int, offset: off_t, len: off_t) -> c_int;
    fn fsync(fd: c_int) -> c_int;
    fn fdatasync(fd: c_int) -> c_int;
    fn sync_file_range(fd: c_int, offset: off_t, len: off_t, flags: libc::c_uint) -> c_int;
    fn sync() -> c_int;
    fn syncfs(fd: c_int) -> c_int;
    fn posix_fadvise64(fd: c_int, offset: off_t, len: off_t, advice: c_int) -> c_int;
    fn readahead(fd: c_int, offset: off_t, len: size_t) -> ssize_t;
    fn futimens(fd: c_int, times: *const timespec) -> c_int;
    fn futimes(fd: c_int, times: *const libc::timeval) -> c_int;
    fn utimensat(d: c_int, p: *const c_char, times: *const timespec, flags: c_int) -> c_int;
    fn futimesat(d: c_int, p: *const c_char, times: *const libc::timeval) -> c_int;
    fn utimes(path: *const c_char, times: *const libc::timeval) -> c_int;
    fn utime(path: *const c_char, times: *const c_void) -> c_int;
    fn sendfile64(out: c_int, from: c_int, offset: *mut off_t, len: size_t) -> ssize_t;
    fn copy_file_range(
        from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, len: size_t,
        flags: libc::c_uint,
    ) -> ssize_t;
    fn splice(
        from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, len: size_t,
        flags: libc::c_uint,
    ) -> ssize_t;
    fn mmap64(
        at: *mut c_void, len: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t,
    ) -> *mut c_void;
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
    fn munmap(at: *mut c_void, len: size_t) -> c_int;
    fn mprotect(at: *mut c_void, len: size_t, protection: c_int) -> c_int;
    fn mremap(
        old: *mut c_void, old_len: size_t, len: size_t, flags: c_int, new: *mut c_void,
    ) -> *mut c_void;
    fn madvise(at: *mut c_void, len: size_t, advice: c_int) -> c_int;
    fn posix_madvise(at: *mut c_void, len: size_t, advice: c_int) -> c_int;
    fn msync(at: *mut c_void, len: size_t, flags: c_int) -> c_int;
    fn mlock(at: *const c_void, len: size_t) -> c_int;
    fn mlock2(at: *const c_void, len: size_t, flags: libc::c_uint) -> c_int;
    fn mlockall(flags: c_int) -> c_int;
    fn sigaction(
        signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction,
    ) -> c_int;
    fn signal(signal: c_int, handler: usize) -> usize;
    fn sigprocmask(how: c_int, set: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int;
    fn pthread_sigmask(
        how: c_int, set: *const libc::sigset_t, old: *mut libc::sigset_t,
    ) -> c_int;
    fn aio_read64(control: *mut c_void) -> c_int;
    fn aio_write64(control: *mut c_void) -> c_int;
    fn aio_fsync64(op: c_int, control: *mut c_void) -> c_int;
    fn lio_listio64(mode: c_int, list: *const *mut c_void, nr: c_int, event: *mut c_void) -> c_int;
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut Stream;
    fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut Stream) -> *mut Stream;
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut Stream;
    fn fclose(stream: *mut Stream) -> c_int;
    fn tmpfile64() -> *mut Stream;
    fn backtrace_symbols_fd(addresses: *const *mut c_void, nr: c_int, fd: c_int) -> c_int;
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
    fn fchmod(fd: c_int, mode: libc::mode_t) -> c_int;
    fn fchown(fd: c_int, user: uid_t, group: gid_t) -> c_int;
    fn fgetxattr(fd: c_int, name: *const c_char, value: *mut c_void, len: size_t) -> ssize_t;
    fn fsetxattr(
        fd: c_int, name: *const c_char, value: *const c_void, len: size_t, flags: c_int,
    ) -> c_int;
    fn flistxattr(fd: c_int, list: *mut c_char, len: size_t) -> ssize_t;
    fn fremovexattr(fd: c_int, name: *const c_char) -> c_int;
    fn isatty(fd: c_int) -> c_int;
    fn flock(fd: c_int, operation: c_int) -> c_int;
    fn poll(fds: *mut pollfd, nr: nfds_t, ms: c_int) -> c_int;
    fn ppoll(
        fds: *mut pollfd, nr: nfds_t, time: *const timespec, mask: *const c_void,
    ) -> c_int;
    fn __poll_chk(fds: *mut pollfd, nr: nfds_t, ms: c_int, room: size_t) -> c_int;
    fn __ppoll_chk(
        fds: *mut pollfd, nr: nfds_t, time: *const timespec, mask: *const c_void, room: size_t,
    ) -> c_int;
    fn select(
        nr: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        time: *mut libc::timeval,
    ) -> c_int;
    fn pselect(
        nr: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        time: *const timespec, mask: *const c_void,
    ) -> c_int;
    fn epoll_ctl(queue: c_int, op: c_int, fd: c_int, event: *mut c_void) -> c_int;
    fn sendmsg(socket: c_int, message: *const libc::msghdr, flags: c_int) -> ssize_t;
    fn sendmmsg(socket: usize, messages: usize, nr: usize, flags: usize) -> c_int;
    fn connect(socket: usize, address: usize, len: usize) -> c_int;
    fn bind(socket: usize, address: usize, len: usize) -> c_int;
    fn setsockopt(socket: usize, level: usize, name: usize, value: usize, len: usize) -> c_int;
    fn stat(path: usize, stat: usize) -> c_int;
    fn lstat(path: usize, stat: usize) -> c_int;
    fn fstatat(folder: usize, path: usize, stat: usize, flags: usize) -> c_int;
    fn stat64(path: usize, stat: usize) -> c_int;
    fn lstat64(path: usize, stat: usize) -> c_int;
    fn fstatat64(folder: usize, path: usize, stat: usize, flags: usize) -> c_int;
    fn statx(folder: usize, path: usize, flags: usize, mask: usize, stat: usize) -> c_int;
    fn access(path: usize, mode: usize) -> c_int;
    fn faccessat(folder: usize, path: usize, mode: usize, flags: usize) -> c_int;
    fn readlink(path: usize, target: usize, len: usize) -> ssize_t;
    fn readlinkat(folder: usize, path: usize, target: usize, len: usize) -> ssize_t;
    fn unlink(path: usize) -> c_int;
    fn unlinkat(folder: usize, path: usize, flags: usize) -> c_int;
    fn rename(from: usize, to: usize) -> c_int;
    fn renameat(folder: usize, from: usize, other: usize, to: usize) -> c_int;
    fn renameat2(folder: usize, from: usize, other: usize, to: usize, flags: usize) -> c_int;
    fn link(from: usize, to: usize) -> c_int;
    fn linkat(folder: usize, from: usize, other: usize, to: usize, flags: usize) -> c_int;
    fn symlink(to: usize, path: usize) -> c_int;
    fn symlinkat(to: usize, folder: usize, path: usize) -> c_int;
    fn mkdir(path: usize, mode: usize) -> c_int;
    fn mkdirat(folder: usize, path: usize, mode: usize) -> c_int;
    fn rmdir(path: usize) -> c_int;
    fn chdir(path: usize) -> c_int;
    fn chmod(path: usize, mode: usize) -> c_int;
    fn chown(path: usize, user: usize, group: usize) -> c_int;
    fn lchown(path: usize, user: usize, group: usize) -> c_int;
    fn fchownat(folder: usize, path: usize, user: usize, group: usize, flags: usize) -> c_int;
    fn truncate64(path: usize, len: usize) -> c_int;
    fn setuid(user: uid_t) -> c_int;
    fn seteuid(user: uid_t) -> c_int;
    fn setreuid(real: uid_t, effective: uid_t) -> c_int;
    fn setresuid(real: uid_t, effective: uid_t, saved: uid_t) -> c_int;
    fn setfsuid(user: uid_t) -> c_int;
    fn setgid(group: gid_t) -> c_int;
    fn setegid(group: gid_t) -> c_int;
    fn setregid(real: gid_t, effective: gid_t) -> c_int;
    fn setresgid(real: gid_t, effective: gid_t, saved: gid_t) -> c_int;
    fn setfsgid(group: gid_t) -> c_int;
    fn setgroups(nr: size_t, groups: *const gid_t) -> c_int;
}

/// A system call whose arguments are numbers, or point to what lives through it. errno stays as it
/// is: a call that succeeds in the end has not failed on the way, for all the program knows.
///
/// Not a cancellation point, unlike most functions of the C library.
///
/// # Safety
/// As the system call's.
pub(crate) unsafe fn system(number: c_long, arguments: [usize; 6]) -> Result<usize, Errno> {
    let [a, b, c, d, e, f] = arguments;
    let before = errno::read();
    // SAFETY: our caller keeps the system call's contract (S20).
    let result = unsafe { syscall(number, a, b, c, d, e, f) };
    if result != -1 {
        return Ok(result as usize);
    }
    let failed = errno::read();
    errno::set(before);
    Err(failed)
}
