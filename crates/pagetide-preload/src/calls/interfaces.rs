//! Interfaces that bypass this library's calls: the file becomes the kernel's first, or the
//! interface is refused.
//!
//! ```text
//!   aio_read, aio_write      the C library's threads bypass the library
//!   splice, poll ..          need a real descriptor
//!   sendmsg                  with a descriptor in it, that another process will use
//!   io_uring, kernel AIO     refused with ENOSYS, and reported: programs have another way
//!   syscall(SYS_read, ..)    as read
//! ```
//!
//! Ignored: io_uring by the program's own instructions (liburing's inline part). Requests for a
//! stand-in fail with EBADF.

use crate::arguments::load;
use crate::errno::{Errno, or_minus_one};
use crate::{channel, next, process, serve};
use libc::{
    c_char, c_int, c_long, c_void, cmsghdr, fd_set, mode_t, msghdr, nfds_t, off_t, pollfd, size_t,
    timespec, timeval,
};
use pagetide_run::wire::Reason;

pub(super) fn hand_over(fds: impl IntoIterator<Item = c_int>, reason: Reason) -> Result<(), Errno> {
    if !process::is_on() {
        return Ok(());
    }
    fds.into_iter().try_for_each(|fd| serve::hand_over_managed(fd, reason))
}

/// Functions that go to the C library once these descriptors are real.
macro_rules! handing_over {
    ($($reason:ident $fds:expr, fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty;)+) => {
        taken_over! {
            $(
                fn $name($($arg: $ty),*) -> $ret {
                    let handed = hand_over($fds($($arg),*), Reason::$reason);
                    handed.err().map(|errno| or_minus_one(Err(errno)))
                }
            )+
        }
    };
}

handing_over! {
    Interface |from, _, to, _, _, _| [from, to], fn splice(
        from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, len: size_t,
        flags: libc::c_uint
    ) -> isize;
    Interface asked_by, fn aio_read64(control: *mut c_void) -> c_int;
    Interface asked_by, fn aio_write64(control: *mut c_void) -> c_int;
    Interface |_, one| asked_by(one), fn aio_fsync64(op: c_int, control: *mut c_void) -> c_int;
    Interface |_, list, nr, _| controls(list, nr), fn lio_listio64(
        mode: c_int, list: *const *mut c_void, nr: c_int, event: *mut c_void
    ) -> c_int;
    Interface |_, _, fd| [fd], fn backtrace_symbols_fd(
        addresses: *const *mut c_void, nr: c_int, fd: c_int
    ) -> c_int;
    Interface |fds, nr, _| polled(fds, nr), fn poll(fds: *mut pollfd, nr: nfds_t, ms: c_int)
        -> c_int;
    Interface |fds, nr, _, _| polled(fds, nr), fn ppoll(
        fds: *mut pollfd, nr: nfds_t, time: *const timespec, mask: *const c_void
    ) -> c_int;
    Interface |fds, nr, _, _| polled(fds, nr), fn __poll_chk(
        fds: *mut pollfd, nr: nfds_t, ms: c_int, room: size_t
    ) -> c_int;
    Interface |fds, nr, _, _, _| polled(fds, nr), fn __ppoll_chk(
        fds: *mut pollfd, nr: nfds_t, time: *const timespec, mask: *const c_void, room: size_t
    ) -> c_int;
    Interface |nr, a, b, c, _| selected(nr, [a, b, c]), fn select(
        nr: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, time: *mut timeval
    ) -> c_int;
    Interface |nr, a, b, c, _, _| selected(nr, [a, b, c]), fn pselect(
        nr: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        time: *const timespec, mask: *const c_void
    ) -> c_int;
    Interface |_, _, fd, _| [fd], fn epoll_ctl(
        queue: c_int, op: c_int, fd: c_int, event: *mut c_void
    ) -> c_int;
    Interface |socket, message, _| std::iter::once(socket).chain(sent(message)), fn sendmsg(
        socket: c_int, message: *const msghdr, flags: c_int
    ) -> isize;
}

/// Returns the descriptor, the first field of a control block.
fn asked_by(control: *mut c_void) -> Option<c_int> {
    // SAFETY: null, or the caller's control block. `aio_fildes` comes first in glibc's structure
    // (S21).
    unsafe { load(control.cast::<c_int>()) }.ok()
}

fn controls(list: *const *mut c_void, nr: c_int) -> impl Iterator<Item = c_int> {
    // SAFETY: our caller's list has `nr` entries (S20).
    let at = move |index| unsafe { load(list.wrapping_add(index)) };
    (0..nr.max(0) as usize).map_while(move |index| at(index).ok()).filter_map(asked_by)
}

fn polled(fds: *mut pollfd, nr: nfds_t) -> impl Iterator<Item = c_int> {
    // No process has more descriptors, and the kernel refuses such an array.
    let nr = if nr > process::nr_descriptors_max() { 0 } else { nr as usize };
    // SAFETY: our caller's array has `nr` entries (S20).
    (0..nr).map_while(move |index| unsafe { load(fds.wrapping_add(index)) }.ok()).map(|one| one.fd)
}

fn selected(nr: c_int, sets: [*mut fd_set; 3]) -> impl Iterator<Item = c_int> {
    let words = sets.into_iter().filter(|set| !set.is_null()).map(|set| set.cast::<u64>());
    let nr_words = (nr.max(0) as usize).div_ceil(64);
    words
        .flat_map(move |words| (0..nr_words).map(move |index| (words.wrapping_add(index), index)))
        .flat_map(move |(word, index)| {
            // SAFETY: our caller's sets have `nr` bits, in words (S20).
            let word = unsafe { load(word) }.unwrap_or(0);
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| (index * 64 + bit) as c_int)
        })
        .filter(move |fd| *fd < nr)
}

fn sent(message: *const msghdr) -> impl Iterator<Item = c_int> {
    // SAFETY: our caller's message (S20).
    let message = unsafe { load(message) }.ok();
    let first = message.as_ref().map_or(std::ptr::null(), |message| {
        // SAFETY: a message (S20).
        unsafe { libc::CMSG_FIRSTHDR(message) }.cast_const()
    });
    // SAFETY: a block of our caller's message (S20).
    let is_there = |block: &*const cmsghdr| unsafe { load(*block) }.is_ok();
    let blocks = std::iter::successors(Some(first).filter(is_there), move |block| {
        let message = message.as_ref()?;
        // SAFETY: a block of this message (S20).
        Some(unsafe { libc::CMSG_NXTHDR(message, *block) }.cast_const()).filter(is_there)
    });
    blocks.flat_map(|block| {
        // SAFETY: a block's head (S20).
        let head = unsafe { &*block };
        let is_rights = (head.cmsg_level, head.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        let nr_bytes = head.cmsg_len.saturating_sub(size_of_val(head)) * usize::from(is_rights);
        // SAFETY: a block's contents (S20).
        let fds = unsafe { libc::CMSG_DATA(block) }.cast::<c_int>();
        // SAFETY: inside the block (S20).
        (0..nr_bytes / size_of::<c_int>()).map(move |index| unsafe { *fds.wrapping_add(index) })
    })
}

/// Also tells the user through the server.
fn refuse() -> Errno {
    channel::say(
        u64::MAX,
        b"pagetide: a program asked for io_uring or kernel AIO, and was refused",
    );
    Errno(libc::ENOSYS)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn io_setup(nr: c_int, context: *mut c_void) -> c_int {
    if process::is_on() {
        // libaio's functions return a negated error.
        return -refuse().0;
    }
    let arguments = [nr as usize, context as usize, 0, 0, 0, 0];
    // SAFETY: our caller's arguments (S20).
    let made = unsafe { next::system(libc::SYS_io_setup, arguments) };
    made.map_or_else(|errno| -errno.0, |result| result as c_int)
}

unsafe extern "C" {
    fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> isize;
    fn write(fd: c_int, buffer: *const c_void, len: size_t) -> isize;
    fn pread64(fd: c_int, buffer: *mut c_void, len: size_t, at: off_t) -> isize;
    fn pwrite64(fd: c_int, buffer: *const c_void, len: size_t, at: off_t) -> isize;
    fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t;
    fn close(fd: c_int) -> c_int;
    fn close_range(first: libc::c_uint, last: libc::c_uint, flags: c_int) -> c_int;
    fn dup(fd: c_int) -> c_int;
    fn dup3(fd: c_int, target: c_int, flags: c_int) -> c_int;
    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int;
    fn fsync(fd: c_int) -> c_int;
    fn fdatasync(fd: c_int) -> c_int;
    fn ftruncate64(fd: c_int, len: off_t) -> c_int;
    fn copy_file_range(
        from: c_int,
        from_at: *mut off_t,
        to: c_int,
        to_at: *mut off_t,
        len: size_t,
        flags: libc::c_uint,
    ) -> isize;
}

/// Runs a system call for which this library has a function.
///
/// # Safety
/// As the system call.
unsafe fn by_number(number: c_long, arguments: [usize; 6]) -> Option<c_long> {
    let [a, b, c, d, e, f] = arguments;
    let fd = a as c_int;
    match number {
        libc::SYS_io_uring_setup | libc::SYS_io_setup if process::is_on() => {
            Some(or_minus_one(Err(refuse())))
        }
        // SAFETY: as the caller's (S20), in this line and the next ones.
        libc::SYS_read => Some(unsafe { read(fd, b as *mut _, c) } as c_long),
        // SAFETY: as our caller's (S20).
        libc::SYS_write => Some(unsafe { write(fd, b as *const _, c) } as c_long),
        // SAFETY: as our caller's (S20).
        libc::SYS_pread64 => Some(unsafe { pread64(fd, b as *mut _, c, d as off_t) } as c_long),
        // SAFETY: as our caller's (S20).
        libc::SYS_pwrite64 => Some(unsafe { pwrite64(fd, b as *const _, c, d as off_t) } as c_long),
        libc::SYS_openat => {
            // SAFETY: as our caller's (S20).
            Some(unsafe { openat64(fd, b as *const _, c as c_int, d as mode_t) } as c_long)
        }
        // SAFETY: as our caller's (S20).
        libc::SYS_lseek => Some(unsafe { lseek64(fd, b as off_t, c as c_int) } as c_long),
        // SAFETY: as our caller's (S20).
        libc::SYS_fsync => Some(unsafe { fsync(fd) } as c_long),
        // SAFETY: as our caller's (S20).
        libc::SYS_fdatasync => Some(unsafe { fdatasync(fd) } as c_long),
        // SAFETY: as our caller's (S20).
        libc::SYS_ftruncate => Some(unsafe { ftruncate64(fd, b as off_t) } as c_long),
        libc::SYS_copy_file_range => {
            let flags = f as libc::c_uint;
            let (from_at, to_at) = (b as *mut _, d as *mut _);
            // SAFETY: as our caller's (S20).
            let nr = unsafe { copy_file_range(fd, from_at, c as c_int, to_at, e, flags) };
            Some(nr as c_long)
        }
        // SAFETY: as our caller's (S20).
        _ => unsafe { of_descriptors_by_number(number, arguments) },
    }
}

/// As [`by_number`], for calls about descriptors. Hidden descriptors look closed.
///
/// # Safety
/// As the system call.
unsafe fn of_descriptors_by_number(number: c_long, arguments: [usize; 6]) -> Option<c_long> {
    let [a, b, c, ..] = arguments;
    let fd = a as c_int;
    let result = match number {
        // SAFETY: as the caller's (S20), in this line and the next ones.
        libc::SYS_close => unsafe { close(fd) },
        // SAFETY: as our caller's (S20).
        libc::SYS_close_range => unsafe { close_range(a as _, b as _, c as c_int) },
        // SAFETY: as our caller's (S20).
        libc::SYS_dup => unsafe { dup(fd) },
        // SAFETY: as our caller's (S20).
        libc::SYS_dup3 => unsafe { dup3(fd, b as c_int, c as c_int) },
        // SAFETY: as our caller's (S20).
        libc::SYS_fcntl => unsafe { fcntl64(fd, b as c_int, c) },
        _ => return None,
    };
    Some(c_long::from(result))
}

taken_over! {
    fn syscall(
        number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
    ) -> c_long {
        super::seccomp::before_number(number, [a, b, c, d, e, f]);
        // SAFETY: the caller's arguments. Missing arguments are not read (S20).
        unsafe { by_number(number, [a, b, c, d, e, f]) }
    }
}
