//! Record locks. A POSIX lock belongs to the process, not to a descriptor, so the kernel locks a
//! managed file through the direct descriptor.
//!
//! ```text
//!   fcntl(fd, F_SETLK, ..)   managed: the same call on the direct descriptor; SEEK_CUR becomes an
//!                            offset from the start
//!                            no direct descriptor: the kernel gets the file
//!   lockf(fd, ..)            the same
//! ```
//!
//! flock locks the open file description, so the server locks. To wait, this process gets the
//! description's lock descriptor, and asks again afterwards: the file may have been handed over
//! meanwhile. F_OFD_SETLK makes the server hand the file over.
//!
//! Source: fcntl(2), "Advisory record locking", flock(2).

use crate::arguments::{load, store};
use crate::channel::{Answer, Parcel};
use crate::errno::{Errno, or_minus_one};
use crate::{lent, next, own, serve};
use libc::{c_int, flock64, off_t};
use pagetide_run::wire::{Op, Reason, Request};

/// # Safety
/// `lock` is the caller's lock.
pub(super) unsafe fn control(fd: c_int, command: c_int, lock: *mut flock64) -> c_int {
    let by = match serve::managed(fd).map_or(Ok(None), borrow) {
        Ok(by) => by,
        Err(errno) => return or_minus_one(Err(errno)),
    };
    let changes = command != libc::F_GETLK && crate::process::is_on();
    let _locking = changes.then(|| lent::note_lock(fd));
    // SAFETY: our caller's lock (S20).
    let given = unsafe { load(lock) };
    let (Some((id, by)), Ok(given)) = (by, given) else {
        if by.is_some() {
            return or_minus_one(Err(Errno(libc::EFAULT)));
        }
        // SAFETY: our caller's lock (S20).
        return unsafe { next::fcntl(fd, command, lock as usize) };
    };
    let mut placed = match place(id, given) {
        Ok(Some(placed)) => placed,
        // SAFETY: our caller's lock (S20).
        Ok(None) => return unsafe { next::fcntl(fd, command, lock as usize) },
        Err(errno) => return or_minus_one(Err(errno)),
    };
    // SAFETY: a lock that lives through the call (S20).
    let result = unsafe { next::fcntl(by, command, &raw mut placed as usize) };
    if command == libc::F_GETLK && result == 0 {
        let answer = match placed.l_type == libc::F_UNLCK as i16 {
            // No lock: the kernel changes only the type.
            true => flock64 { l_type: placed.l_type, ..given },
            false => placed,
        };
        // SAFETY: our caller's lock, just read (S20).
        if let Err(errno) = unsafe { store(lock, answer) } {
            return or_minus_one(Err(errno));
        }
    }
    result
}

/// Returns the direct descriptor of description `id`. Returns `None` if the kernel has the file
/// now.
fn borrow(id: u64) -> Result<Option<(u64, c_int)>, Errno> {
    match lent::borrow(id) {
        Some(lent) => Ok(Some((id, lent.fd))),
        None => serve::hand_over(id, Reason::Locked).map(|()| None),
    }
}

/// Makes a lock relative to the start of the file. Returns `None` if the kernel has the position
/// now.
fn place(id: u64, mut lock: flock64) -> Result<Option<flock64>, Errno> {
    if lock.l_whence == libc::SEEK_CUR as i16 {
        let one = Request { flags: libc::SEEK_CUR as u64, ..Request::new(Op::Seek, id) };
        let Some(reply) = serve::plain(one)? else { return Ok(None) };
        lock.l_whence = libc::SEEK_SET as i16;
        lock.l_start = lock.l_start.checked_add(reply.result).ok_or(Errno(libc::EOVERFLOW))?;
    }
    Ok(Some(lock))
}

taken_over! {
    fn flock(fd: c_int, operation: c_int) -> c_int {
        let id = serve::managed(fd)?;
        let flags = u64::from(operation as u32);
        loop {
            let request = Request { flags, ..Request::new(Op::Flock, id) };
            let asked = serve::exchange(&request, Parcel::default());
            let Answer { reply, files: [lock, ..] } = match asked {
                Ok(answer) => answer?,
                Err(errno) => return Some(or_minus_one(Err(errno))),
            };
            if reply.result == 0 {
                return Some(0);
            }
            let lock = own::keep(lock);
            let arguments = [lock as usize, operation as usize, 0, 0, 0, 0];
            // SAFETY: numbers only (S20).
            let waited = unsafe { next::system(libc::SYS_flock, arguments) };
            own::close_own(lock);
            if let Err(errno) = waited {
                return Some(or_minus_one(Err(errno)));
            }
        }
    }
}

/// Works as the C library's lockf, which would call fcntl(2) without interposition.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockf64(fd: c_int, command: c_int, len: off_t) -> c_int {
    let (command, kind) = match command {
        libc::F_ULOCK => (libc::F_SETLK, libc::F_UNLCK),
        libc::F_LOCK => (libc::F_SETLKW, libc::F_WRLCK),
        libc::F_TLOCK => (libc::F_SETLK, libc::F_WRLCK),
        // The C library tests only for exclusive locks.
        libc::F_TEST => (libc::F_GETLK, libc::F_RDLCK),
        _ => return or_minus_one(Err(Errno(libc::EINVAL))),
    };
    // SAFETY: numbers, with zeros as valid values (S20).
    let mut lock: flock64 = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_whence, lock.l_len) = (kind as i16, libc::SEEK_CUR as i16, len);
    // SAFETY: a lock that lives through the call (S20).
    let result = unsafe { control(fd, command, &mut lock) };
    if result == 0 && command == libc::F_GETLK && lock.l_type != libc::F_UNLCK as i16 {
        // A process's own locks do not conflict.
        return or_minus_one(Err(Errno(libc::EACCES)));
    }
    result
}
