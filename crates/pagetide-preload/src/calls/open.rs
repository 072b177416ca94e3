//! Opening: the kernel opens, with its rights and its errors; then the server takes over.
//!
//! O_TRUNC is kept from the kernel: it would cut the file behind the back of a page cache that has
//! pages of it. The server cuts it, in order with everybody's writes. What is cut although it is
//! opened only to be read becomes the kernel's before.

use crate::errno::{Errno, or_minus_one};
use crate::table::{self, Entry};
use crate::{named, next, process, serve};
use libc::{c_char, c_int, mode_t};
use pagetide_sys::wire::{Reason, adopt};

/// What an open with these flags needs of us.
#[derive(Clone, Copy)]
struct Plan {
    is_ours: bool,
    /// For the kernel.
    flags: c_int,
    truncates: bool,
}

impl Plan {
    fn new(flags: c_int) -> Plan {
        let is_temporary = flags & libc::O_TMPFILE == libc::O_TMPFILE;
        let is_no_file =
            flags & libc::O_PATH != 0 || flags & libc::O_DIRECTORY != 0 && !is_temporary;
        let is_ours = process::is_on() && !is_no_file;
        let can_write = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let truncates = is_ours && can_write && flags & libc::O_TRUNC != 0;
        Plan { is_ours, flags: if truncates { flags & !libc::O_TRUNC } else { flags }, truncates }
    }

    /// After the kernel has opened `fd`.
    fn finish(self, fd: c_int) -> c_int {
        if !self.is_ours || fd < 0 {
            return fd;
        }
        match take_over(fd, self.flags, self.truncates) {
            Ok(()) => fd,
            Err(errno) => {
                table::set(fd, Entry::Unknown);
                // SAFETY: a descriptor nobody has seen yet (S20).
                unsafe { next::close(fd) };
                or_minus_one(Err(errno))
            }
        }
    }
}

/// Before an open that cuts a file it cannot write: Linux does that, POSIX leaves it open.
fn prepare(folder: c_int, path: *const c_char, plan: Plan) {
    if plan.is_ours && plan.flags & libc::O_TRUNC != 0 {
        named::hand_over(folder, path, Reason::Interface);
    }
}

/// Makes a descriptor that was just opened the server's, if it is for that.
fn take_over(fd: c_int, flags: c_int, truncates: bool) -> Result<(), Errno> {
    let before = crate::errno::read();
    let is_file = process::stat(fd).is_ok_and(|stat| serve::is_regular(&stat));
    let mut now = Entry::Kernel;
    if is_file {
        let cut = if truncates { adopt::TRUNCATE } else { 0 };
        now = serve::adopt_descriptor(fd, u64::from(flags as u32) | adopt::FRESH | cut)?;
        if now == Entry::Kernel && truncates {
            // SAFETY: numbers only (S20).
            if unsafe { next::ftruncate64(fd, 0) } != 0 {
                return Err(crate::errno::read());
            }
        }
    }
    table::set(fd, now);
    crate::errno::set(before);
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    let plan = Plan::new(flags);
    prepare(libc::AT_FDCWD, path, plan);
    // SAFETY: our caller's arguments (S20).
    plan.finish(unsafe { next::open(path, plan.flags, mode) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the same function (S20).
    unsafe { open64(path, flags, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn openat64(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    let plan = Plan::new(flags);
    prepare(folder, path, plan);
    // SAFETY: our caller's arguments (S20).
    plan.finish(unsafe { next::openat(folder, path, plan.flags, mode) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn openat(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: the same function (S20).
    unsafe { openat64(folder, path, flags, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn creat64(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: creat is this (S20).
    unsafe { open64(path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn creat(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the same function (S20).
    unsafe { creat64(path, mode) }
}

// What compilers make of open without a mode, where they check for that.

#[unsafe(no_mangle)]
unsafe extern "C" fn __open_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: our caller's arguments, and no file is created (S20).
    unsafe { open64(path, flags, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __open64_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: our caller's arguments, and no file is created (S20).
    unsafe { open64(path, flags, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __openat_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: our caller's arguments, and no file is created (S20).
    unsafe { openat64(folder, path, flags, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: our caller's arguments, and no file is created (S20).
    unsafe { openat64(folder, path, flags, 0) }
}

// The C library makes temporary files by calls of its own.

#[unsafe(no_mangle)]
unsafe extern "C" fn mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
    // SAFETY: our caller's arguments (S20).
    let fd = unsafe { next::mkostemps(template, suffix, flags) };
    Plan::new(flags & !libc::O_ACCMODE | libc::O_RDWR).finish(fd)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkostemps64(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
    // SAFETY: the same function (S20).
    unsafe { mkostemps(template, suffix, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkostemp(template: *mut c_char, flags: c_int) -> c_int {
    // SAFETY: mkostemp is this (S20).
    unsafe { mkostemps(template, 0, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int {
    // SAFETY: mkostemp is this (S20).
    unsafe { mkostemps(template, 0, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkstemps(template: *mut c_char, suffix: c_int) -> c_int {
    // SAFETY: mkstemps is this (S20).
    unsafe { mkostemps(template, suffix, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkstemps64(template: *mut c_char, suffix: c_int) -> c_int {
    // SAFETY: mkstemps is this (S20).
    unsafe { mkostemps(template, suffix, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkstemp(template: *mut c_char) -> c_int {
    // SAFETY: mkstemp is this (S20).
    unsafe { mkostemps(template, 0, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkstemp64(template: *mut c_char) -> c_int {
    // SAFETY: mkstemp is this (S20).
    unsafe { mkostemps(template, 0, 0) }
}
