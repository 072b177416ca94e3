//! This process's userfaultfd, which turns touches of holes into signals.
//!
//! **Data.** One number. A child opens its own. **Ignored.** A refusal is not remembered.
//!
//! Source: userfaultfd(2), ioctl_userfaultfd(2).

use crate::errno::Errno;
use crate::pieces::Piece;
use crate::{next, own, room};
use libc::c_int;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Half a word the process's number, half the descriptor plus one.
static UFFD: AtomicU64 = AtomicU64::new(0);
/// True if stores are not reported.
static IS_FOR_LOADS: AtomicBool = AtomicBool::new(false);

/// Features: holes of memory files, as signals.
const HOLES: u64 = 1 << 5 | 1 << 7;
/// Adds stores to protected pages, and touches of unmapped pages.
const STORES: u64 = HOLES | 1 << 0 | 1 << 10 | 1 << 12;

const REGISTER_HOLES: u64 = 1 << 0;
/// Also limits the kernel to one page per touch, without neighbours. No page is protected.
const REGISTER_ALONE: u64 = 1 << 0 | 1 << 1;
const REGISTER_ALL: u64 = 1 << 0 | 1 << 1 | 1 << 2;
const SHOW_PROTECTED: u64 = 1 << 1;

/// Returns this process's userfaultfd. The server holds it too: touches of holes raise signals
/// until both have closed it.
pub(super) fn own_uffd() -> Result<c_int, Errno> {
    let known = UFFD.load(Acquire);
    let (process, fd) = (known >> 32, known as u32 as c_int - 1);
    if process == own::number() & u64::from(u32::MAX) && own::has(fd) {
        return Ok(fd);
    }
    let opened = open_uffd(STORES).or_else(|_| {
        IS_FOR_LOADS.store(true, Relaxed);
        open_uffd(HOLES)
    });
    let fd = own::keep(opened?);
    let word = own::number() << 32 | u64::from((fd + 1) as u32);
    if UFFD.compare_exchange(known, word, AcqRel, Acquire).is_err() {
        // Another thread has opened one meanwhile.
        own::close_own(fd);
        return own_uffd();
    }
    Ok(fd)
}

fn open_uffd(features: u64) -> Result<c_int, Errno> {
    const USER_MODE_ONLY: usize = 1;
    const IOC_API: usize = 0xc018_aa3f;
    let flags = libc::O_CLOEXEC as usize | USER_MODE_ONLY;
    // SAFETY: numbers (S20).
    let make = || unsafe { next::system(libc::SYS_userfaultfd, [flags, 0, 0, 0, 0, 0]) };
    let uffd = room::with_room(make)?;
    let mut api = [0xaa_u64, features, 0];
    let arguments = [uffd, IOC_API, api.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: three words, as in the manual page, that live through the call (S20).
    match unsafe { next::system(libc::SYS_ioctl, arguments) } {
        Ok(_) => Ok(uffd as c_int),
        Err(errno) => {
            own::close(uffd as c_int);
            Err(errno)
        }
    }
}

/// Registers a mapping for its holes. For a writable mapping, also for touches of unmapped pages
/// and for stores to protected pages.
///
/// # Errors
/// Fails if the kernel cannot.
pub(super) fn register(uffd: c_int, start: usize, piece: &Piece) -> Result<(), Errno> {
    const IOC_REGISTER: usize = 0xc020_aa00;
    if piece.is_written && IS_FOR_LOADS.load(Relaxed) {
        return Err(Errno(libc::ENOSYS));
    }
    let is_alone = piece.is_random && !IS_FOR_LOADS.load(Relaxed);
    let mode = match (piece.is_written, is_alone) {
        (true, _) => REGISTER_ALL,
        (false, true) => REGISTER_ALONE,
        (false, false) => REGISTER_HOLES,
    };
    let mut range = [start as u64, piece.len as u64, mode, 0];
    let arguments = [uffd as usize, IOC_REGISTER, range.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: four words, as in the manual page, that live through the call (S20).
    unsafe { next::system(libc::SYS_ioctl, arguments) }?;
    match piece.is_written.then(|| show(uffd, start, 1 << 12)) {
        // Kernels before 6.4 cannot map pages protected.
        Some(Err(Errno(libc::EINVAL))) => Err(Errno(libc::ENOSYS)),
        _ => Ok(()),
    }
}

/// Maps pages of the memory file read-only, from the first of a range.
///
/// # Errors
/// Fails if the first page is not mapped, with EFAULT if it is a hole.
pub(super) fn show(uffd: c_int, start: usize, len: usize) -> Result<(), Errno> {
    const IOC_CONTINUE: usize = 0xc020_aa07;
    let mut range = [start as u64, len as u64, SHOW_PROTECTED, 0];
    let arguments = [uffd as usize, IOC_CONTINUE, range.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: four words, as in the manual page, that live through the call (S20).
    match unsafe { next::system(libc::SYS_ioctl, arguments) } {
        Err(errno) if errno.0 != libc::EEXIST && range[3] as i64 <= 0 => Err(errno),
        _ => Ok(()),
    }
}
