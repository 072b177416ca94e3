//! Length, durability, advice and times.
//!
//! The kernel knows a managed file's length at any moment, so stat and its relatives are not here.
//! Its times are those of the last write, and of write-back; who sets times has the file written
//! back first.

use crate::channel;
use crate::errno::{Errno, or_minus_one};
use crate::table::{self, Entry};
use crate::{limits, named, next, process, serve};
use libc::{c_char, c_int, c_uint, c_void, off_t, size_t, ssize_t, timespec, timeval};
use pagetide_sys::wire::{Op, Request, Status};

/// Asks for a managed descriptor: the errno, 0 for none; `None` if it is the kernel's.
fn ask(fd: c_int, request: impl FnOnce(u64) -> Request) -> Option<Result<(), Errno>> {
    let id = serve::managed(fd)?;
    match serve::plain(fd, request(id)) {
        Ok(None) => None,
        Ok(Some(_)) => Some(Ok(())),
        Err(errno) => Some(Err(errno)),
    }
}

fn as_status(result: Result<(), Errno>) -> c_int {
    or_minus_one(result.map(|()| 0))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate64(fd: c_int, len: off_t) -> c_int {
    if len < 0 {
        return as_status(Err(Errno(libc::EINVAL)));
    }
    if serve::managed(fd).is_some()
        && let Err(errno) = limits::check_len(fd, len)
    {
        return as_status(Err(errno));
    }
    match ask(fd, |id| Request { len: len as u64, ..Request::new(Op::SetLen, id) }) {
        Some(result) => as_status(result),
        // SAFETY: numbers (S20).
        None => unsafe { next::ftruncate64(fd, len) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate(fd: c_int, len: off_t) -> c_int {
    // SAFETY: the same function (S20).
    unsafe { ftruncate64(fd, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn truncate64(path: *const c_char, len: off_t) -> c_int {
    if !process::is_on() {
        // SAFETY: our caller's arguments (S20).
        return unsafe { next::truncate64(path, len) };
    }
    // Not by a descriptor of our own: to close that would give up the program's locks.
    let mut cut = None;
    if len >= 0 && may_write(path) {
        named::with_file(libc::AT_FDCWD, path, 0, |fd| cut = cut_file(fd, len).transpose());
    }
    match cut {
        Some(result) => as_status(result),
        // SAFETY: our caller's arguments (S20).
        None => unsafe { next::truncate64(path, len) },
    }
}

/// Whether this process may write the file at a path; the server may do more.
fn may_write(path: *const c_char) -> bool {
    // SAFETY: our caller's path (S20).
    unsafe { libc::faccessat(libc::AT_FDCWD, path, libc::W_OK, libc::AT_EACCESS) == 0 }
}

/// Has the file that a descriptor names be so long; `None` if the kernel is to do that.
fn cut_file(fd: c_int, len: off_t) -> Result<Option<()>, Errno> {
    if !process::stat(fd).is_ok_and(|stat| serve::is_regular(&stat)) {
        return Ok(None);
    }
    limits::check_len(fd, len)?;
    let one = Request { len: len as u64, ..Request::new(Op::CutFile, 0) };
    let reply = channel::ask(&one, &[], Some(fd), &[])?;
    match (reply.status, reply.result) {
        (Status::Kernel, _) => Ok(None),
        (_, 0..) => Ok(Some(())),
        (_, failed) => Err(Errno(-failed as c_int)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn truncate(path: *const c_char, len: off_t) -> c_int {
    // SAFETY: the same function (S20).
    unsafe { truncate64(path, len) }
}

fn allocate(fd: c_int, mode: c_int, offset: off_t, len: off_t) -> Option<Result<(), Errno>> {
    let is_wrong = offset < 0 || len <= 0;
    if is_wrong && serve::managed(fd).is_some() {
        return Some(Err(Errno(libc::EINVAL)));
    }
    if mode & libc::FALLOC_FL_KEEP_SIZE == 0
        && serve::managed(fd).is_some()
        && let Err(errno) = limits::check_len(fd, offset.saturating_add(len))
    {
        return Some(Err(errno));
    }
    let flags = mode as u32 as u64;
    ask(fd, |id| Request { flags, offset, len: len as u64, ..Request::new(Op::Allocate, id) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fallocate64(fd: c_int, mode: c_int, offset: off_t, len: off_t) -> c_int {
    match allocate(fd, mode, offset, len) {
        Some(result) => as_status(result),
        // SAFETY: numbers (S20).
        None => unsafe { next::fallocate64(fd, mode, offset, len) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fallocate(fd: c_int, mode: c_int, offset: off_t, len: off_t) -> c_int {
    // SAFETY: the same function (S20).
    unsafe { fallocate64(fd, mode, offset, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_fallocate64(fd: c_int, offset: off_t, len: off_t) -> c_int {
    match allocate(fd, 0, offset, len) {
        Some(Ok(())) => 0,
        // Where the file system has no allocation, a longer file is what was asked for.
        Some(Err(Errno(libc::EOPNOTSUPP))) => lengthen(fd, offset.saturating_add(len)),
        Some(Err(errno)) => errno.0,
        // SAFETY: numbers (S20).
        None => unsafe { next::posix_fallocate64(fd, offset, len) },
    }
}

fn lengthen(fd: c_int, end: off_t) -> c_int {
    let is_long = process::stat(fd).is_ok_and(|stat| stat.st_size >= end);
    let grown = |id| Request { len: end as u64, ..Request::new(Op::SetLen, id) };
    match (is_long, ask(fd, grown)) {
        (true, _) | (_, Some(Ok(()))) => 0,
        (_, Some(Err(errno))) => errno.0,
        (_, None) => libc::EOPNOTSUPP,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_fallocate(fd: c_int, offset: off_t, len: off_t) -> c_int {
    // SAFETY: the same function (S20).
    unsafe { posix_fallocate64(fd, offset, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    match ask(fd, |id| Request { flags: 1, ..Request::new(Op::Sync, id) }) {
        Some(result) => as_status(result),
        // SAFETY: a number (S20).
        None => unsafe { next::fsync(fd) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    match ask(fd, |id| Request::new(Op::Sync, id)) {
        Some(result) => as_status(result),
        // SAFETY: a number (S20).
        None => unsafe { next::fdatasync(fd) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sync_file_range(fd: c_int, at: off_t, len: off_t, flags: c_uint) -> c_int {
    match ask(fd, |id| Request::new(Op::Flush, id)) {
        Some(result) => as_status(result),
        // SAFETY: numbers (S20).
        None => unsafe { next::sync_file_range(fd, at, len, flags) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sync() {
    if process::is_on() {
        // sync reports nothing.
        let _ = channel::tell(Op::FlushAll);
    }
    // SAFETY: no arguments (S20).
    unsafe { next::sync() };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn syncfs(fd: c_int) -> c_int {
    if process::is_on()
        && let Err(errno) = channel::tell(Op::FlushAll).and_then(|reply| match reply.result {
            0.. => Ok(()),
            failed => Err(Errno(-failed as c_int)),
        })
    {
        return as_status(Err(errno));
    }
    // SAFETY: a number (S20).
    unsafe { next::syncfs(fd) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_fadvise64(fd: c_int, offset: off_t, len: off_t, advice: c_int) -> c_int {
    if len < 0 && serve::managed(fd).is_some() {
        return libc::EINVAL;
    }
    match advise(fd, offset, len as u64, advice) {
        Some(result) => result.map_or_else(|errno| errno.0, |()| 0),
        // SAFETY: numbers (S20).
        None => unsafe { next::posix_fadvise64(fd, offset, len, advice) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_fadvise(fd: c_int, offset: off_t, len: off_t, advice: c_int) -> c_int {
    // SAFETY: the same function (S20).
    unsafe { posix_fadvise64(fd, offset, len, advice) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn readahead(fd: c_int, offset: off_t, len: size_t) -> ssize_t {
    let cannot_read = || serve::status_flags(fd) & libc::O_ACCMODE as u64 == libc::O_WRONLY as u64;
    match advise(fd, offset, len as u64, libc::POSIX_FADV_WILLNEED) {
        Some(_) if cannot_read() => or_minus_one(Err(Errno(libc::EBADF))),
        Some(result) => or_minus_one(result.map(|()| 0)),
        // SAFETY: numbers (S20).
        None => unsafe { next::readahead(fd, offset, len) },
    }
}

/// Advice about a range, of which the kernel takes any start.
fn advise(fd: c_int, offset: off_t, len: u64, advice: c_int) -> Option<Result<(), Errno>> {
    let (flags, offset) = (advice as u32 as u64, offset.max(0));
    ask(fd, |id| Request { flags, offset, len, ..Request::new(Op::Advise, id) })
}

/// Times are about to be set: a later write-back must not change them again.
fn write_back(fd: c_int) {
    if process::is_on() && fd >= 0 && table::entry(fd) != Entry::Kernel {
        // What cannot be written now, changes the times once it can.
        let _ = ask(fd, |id| Request::new(Op::Flush, id));
    }
}

/// As [`write_back`], for the file at a path.
fn write_back_path(folder: c_int, path: *const c_char, no_follow: bool) {
    named::with_file(folder, path, if no_follow { libc::O_NOFOLLOW } else { 0 }, |fd| {
        let _ = channel::ask(&Request::new(Op::FlushFile, 0), &[], Some(fd), &[]);
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn futimens(fd: c_int, times: *const timespec) -> c_int {
    write_back(fd);
    // SAFETY: our caller's arguments (S20).
    unsafe { next::futimens(fd, times) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn futimes(fd: c_int, times: *const timeval) -> c_int {
    write_back(fd);
    // SAFETY: our caller's arguments (S20).
    unsafe { next::futimes(fd, times) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn utimensat(
    folder: c_int,
    path: *const c_char,
    times: *const timespec,
    flags: c_int,
) -> c_int {
    if path.is_null() {
        write_back(folder);
    }
    write_back_path(folder, path, flags & libc::AT_SYMLINK_NOFOLLOW != 0);
    // SAFETY: our caller's arguments (S20).
    unsafe { next::utimensat(folder, path, times, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn futimesat(folder: c_int, path: *const c_char, times: *const timeval) -> c_int {
    write_back_path(folder, path, false);
    // SAFETY: our caller's arguments (S20).
    unsafe { next::futimesat(folder, path, times) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn utimes(path: *const c_char, times: *const timeval) -> c_int {
    write_back_path(libc::AT_FDCWD, path, false);
    // SAFETY: our caller's arguments (S20).
    unsafe { next::utimes(path, times) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn utime(path: *const c_char, times: *const c_void) -> c_int {
    write_back_path(libc::AT_FDCWD, path, false);
    // SAFETY: our caller's arguments (S20).
    unsafe { next::utime(path, times) }
}
