//! Ways to a file's bytes that do not pass through calls of ours: the file becomes the kernel's, or
//! the way is refused.
//!
//! ```text
//!   mmap                     the kernel gets the file: its pages and the mapping are the same
//!   aio_read, aio_write      the C library's threads call past us: the kernel gets the file
//!   backtrace_symbols_fd     the C library writes past us: the kernel gets the file
//!   io_uring, kernel AIO     refused with ENOSYS, and said so: programs have another way
//!   syscall(SYS_read, ..)    as read
//! ```
//!
//! Ignored: io_uring by instructions of the program's own (liburing's static part does that).

use crate::errno::{Errno, or_minus_one};
use crate::{channel, next, serve};
use libc::{c_int, c_long, c_void, off_t, size_t};
use pagetide_sys::wire::{Op, Reason};

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap64(
    at: *mut c_void,
    len: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    let is_file = flags & libc::MAP_ANONYMOUS == 0 && fd >= 0;
    if is_file
        && serve::managed(fd).is_some()
        && let Err(errno) = serve::hand_over(fd, Reason::Mapped)
    {
        crate::errno::set(errno);
        return libc::MAP_FAILED;
    }
    // SAFETY: our caller's arguments (S20).
    unsafe { next::mmap64(at, len, protection, flags, fd, offset) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    at: *mut c_void,
    len: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the same function (S20).
    unsafe { mmap64(at, len, protection, flags, fd, offset) }
}

/// The descriptor is the first field of a control block.
///
/// # Safety
/// `control` is a control block of our caller's.
unsafe fn hand_over_for(control: *mut c_void) -> Result<(), Errno> {
    // SAFETY: our caller says so; `aio_fildes` comes first in glibc's structure (S21).
    let fd = unsafe { *control.cast::<c_int>() };
    match serve::managed(fd) {
        Some(_) => serve::hand_over(fd, Reason::Interface),
        None => Ok(()),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn aio_read64(control: *mut c_void) -> c_int {
    // SAFETY: our caller's control block (S20).
    match unsafe { hand_over_for(control) } {
        // SAFETY: our caller's control block (S20).
        Ok(()) => unsafe { next::aio_read64(control) },
        Err(errno) => or_minus_one(Err(errno)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn aio_read(control: *mut c_void) -> c_int {
    // SAFETY: the same function (S20).
    unsafe { aio_read64(control) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn aio_write64(control: *mut c_void) -> c_int {
    // SAFETY: our caller's control block (S20).
    match unsafe { hand_over_for(control) } {
        // SAFETY: our caller's control block (S20).
        Ok(()) => unsafe { next::aio_write64(control) },
        Err(errno) => or_minus_one(Err(errno)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn aio_write(control: *mut c_void) -> c_int {
    // SAFETY: the same function (S20).
    unsafe { aio_write64(control) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn aio_fsync64(op: c_int, control: *mut c_void) -> c_int {
    // SAFETY: our caller's control block (S20).
    match unsafe { hand_over_for(control) } {
        // SAFETY: our caller's control block (S20).
        Ok(()) => unsafe { next::aio_fsync64(op, control) },
        Err(errno) => or_minus_one(Err(errno)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn aio_fsync(op: c_int, control: *mut c_void) -> c_int {
    // SAFETY: the same function (S20).
    unsafe { aio_fsync64(op, control) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn lio_listio64(
    mode: c_int,
    list: *const *mut c_void,
    nr: c_int,
    event: *mut c_void,
) -> c_int {
    for index in 0..nr.max(0) as usize {
        // SAFETY: our caller's list has `nr` entries (S20).
        let control = unsafe { *list.wrapping_add(index) };
        // SAFETY: an entry is null, or a control block (S20).
        if !control.is_null() && unsafe { hand_over_for(control) }.is_err() {
            return or_minus_one(Err(Errno(libc::EIO)));
        }
    }
    // SAFETY: our caller's arguments (S20).
    unsafe { next::lio_listio64(mode, list, nr, event) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn lio_listio(
    mode: c_int,
    list: *const *mut c_void,
    nr: c_int,
    event: *mut c_void,
) -> c_int {
    // SAFETY: the same function (S20).
    unsafe { lio_listio64(mode, list, nr, event) }
}

/// The C library writes each line by calls of its own.
#[unsafe(no_mangle)]
unsafe extern "C" fn backtrace_symbols_fd(addresses: *const *mut c_void, nr: c_int, fd: c_int) {
    if serve::managed(fd).is_some() {
        // What cannot be handed over has been said; the function reports nothing.
        let _ = serve::hand_over(fd, Reason::Interface);
    }
    // SAFETY: our caller's arguments (S20).
    unsafe { next::backtrace_symbols_fd(addresses, nr, fd) };
}

/// The program is told as by a kernel without the interface, its user by the server.
fn refuse() -> Errno {
    if crate::process::is_on() {
        let _ = channel::tell(Op::Bypass);
    }
    Errno(libc::ENOSYS)
}

/// libaio's.
#[unsafe(no_mangle)]
unsafe extern "C" fn io_setup(nr: c_int, context: *mut c_void) -> c_int {
    if crate::process::is_on() {
        // libaio's functions return what went wrong.
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
    fn openat64(folder: c_int, path: *const libc::c_char, flags: c_int, mode: c_int) -> c_int;
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

/// System calls by number that have a function of ours.
///
/// # Safety
/// As the system call's.
unsafe fn by_number(number: c_long, arguments: [usize; 6]) -> Option<c_long> {
    let [a, b, c, d, e, f] = arguments;
    let fd = a as c_int;
    match number {
        libc::SYS_io_uring_setup | libc::SYS_io_setup if crate::process::is_on() => {
            Some(or_minus_one(Err(refuse())))
        }
        // SAFETY: as our caller's (S20), in this line and the next ones.
        libc::SYS_read => Some(unsafe { read(fd, b as *mut _, c) } as c_long),
        // SAFETY: as our caller's (S20).
        libc::SYS_write => Some(unsafe { write(fd, b as *const _, c) } as c_long),
        // SAFETY: as our caller's (S20).
        libc::SYS_pread64 => Some(unsafe { pread64(fd, b as *mut _, c, d as off_t) } as c_long),
        // SAFETY: as our caller's (S20).
        libc::SYS_pwrite64 => Some(unsafe { pwrite64(fd, b as *const _, c, d as off_t) } as c_long),
        libc::SYS_openat => {
            // SAFETY: as our caller's (S20).
            Some(unsafe { openat64(fd, b as *const _, c as c_int, d as c_int) } as c_long)
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

/// As [`by_number`]: calls about descriptors themselves, ours among which are not the program's.
///
/// # Safety
/// As the system call's.
unsafe fn of_descriptors_by_number(number: c_long, arguments: [usize; 6]) -> Option<c_long> {
    let [a, b, c, ..] = arguments;
    let fd = a as c_int;
    let result = match number {
        // SAFETY: as our caller's (S20), in this line and the next ones.
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

#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: our caller's arguments; those that were not given are not looked at (S20).
    match unsafe { by_number(number, [a, b, c, d, e, f]) } {
        Some(result) => result,
        // SAFETY: as above (S20).
        None => unsafe { next::syscall(number, a, b, c, d, e, f) },
    }
}
