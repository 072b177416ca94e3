//! File locks whose place is told from the position: the kernel would take its own position for
//! that, which is no position of a managed file (`pagetide_sys::wire`, "tag").
//!
//! ```text
//!   fcntl(fd, F_SETLK, from SEEK_CUR)   our position is added, the kernel is given SEEK_SET
//!   lockf(fd, ..)                       is that
//! ```
//!
//! All others are the kernel's as they are: it knows a managed file's length, and who has it open.

use crate::errno::{Errno, or_minus_one};
use crate::{next, serve};
use libc::{c_int, flock64, off_t};
use pagetide_sys::wire::{Op, Request};

/// The commands of fcntl(2) that have a lock for an argument.
pub(super) fn is_about_locks(command: c_int) -> bool {
    matches!(
        command,
        libc::F_SETLK
            | libc::F_SETLKW
            | libc::F_GETLK
            | libc::F_OFD_SETLK
            | libc::F_OFD_SETLKW
            | libc::F_OFD_GETLK
    )
}

/// fcntl(2) with such a command.
///
/// # Safety
/// `lock` is a lock of our caller's.
pub(super) unsafe fn control(fd: c_int, command: c_int, lock: *mut flock64) -> c_int {
    // SAFETY: null, or our caller's lock (S20).
    let given = unsafe { lock.as_ref() }.copied();
    let mut placed = match given.map_or(Ok(None), |given| place(fd, given)) {
        Ok(Some(placed)) => placed,
        // SAFETY: our caller's lock (S20).
        Ok(None) => return unsafe { next::fcntl(fd, command, lock as usize) },
        Err(errno) => return or_minus_one(Err(errno)),
    };
    // SAFETY: a lock that lives through the call (S20).
    let result = unsafe { next::fcntl(fd, command, &raw mut placed as usize) };
    let is_question = matches!(command, libc::F_GETLK | libc::F_OFD_GETLK);
    if is_question && result == 0 && placed.l_type != libc::F_UNLCK as i16 {
        // SAFETY: our caller's lock (S20).
        unsafe { *lock = placed };
    } else if is_question && result == 0 {
        // Nobody has one: the kernel changes no more than this.
        // SAFETY: our caller's lock (S20).
        unsafe { (*lock).l_type = placed.l_type };
    }
    result
}

/// The lock with its place told from the start of the file; `None` if it is to stay as it is.
fn place(fd: c_int, mut lock: flock64) -> Result<Option<flock64>, Errno> {
    if lock.l_whence != libc::SEEK_CUR as i16 {
        return Ok(None);
    }
    let Some(position) = position(fd)? else { return Ok(None) };
    lock.l_whence = libc::SEEK_SET as i16;
    lock.l_start = lock.l_start.checked_add(position).ok_or(Errno(libc::EOVERFLOW))?;
    Ok(Some(lock))
}

/// As the C library makes it of fcntl(2); its own would call that past us.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockf64(fd: c_int, command: c_int, len: off_t) -> c_int {
    let (command, kind) = match command {
        libc::F_ULOCK => (libc::F_SETLK, libc::F_UNLCK),
        libc::F_LOCK => (libc::F_SETLKW, libc::F_WRLCK),
        libc::F_TLOCK => (libc::F_SETLK, libc::F_WRLCK),
        libc::F_TEST => (libc::F_GETLK, libc::F_WRLCK),
        _ => return or_minus_one(Err(Errno(libc::EINVAL))),
    };
    // SAFETY: numbers, for which zeros are valid (S20).
    let mut lock: flock64 = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_whence, lock.l_len) = (kind as i16, libc::SEEK_CUR as i16, len);
    // SAFETY: a lock that lives through the call (S20).
    let result = unsafe { control(fd, command, &mut lock) };
    if result == 0 && command == libc::F_GETLK && lock.l_type != libc::F_UNLCK as i16 {
        // A process's own locks are never in its way.
        return or_minus_one(Err(Errno(libc::EACCES)));
    }
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn lockf(fd: c_int, command: c_int, len: off_t) -> c_int {
    // SAFETY: the same function (S20).
    unsafe { lockf64(fd, command, len) }
}

/// Where a managed descriptor is; `None` if it is the kernel's.
fn position(fd: c_int) -> Result<Option<off_t>, Errno> {
    let Some(id) = serve::managed(fd) else { return Ok(None) };
    let one = Request { flags: libc::SEEK_CUR as u64, ..Request::new(Op::Seek, id) };
    Ok(serve::plain(fd, one)?.map(|reply| reply.result))
}
