//! This process's userfaultfd, by which a touch of a hole is a signal.
//!
//! **Data.** One number for the process: a child makes its own. **Ignored.** What the kernel
//! refused once is asked for again by the next mapping.
//!
//! Source: userfaultfd(2), ioctl_userfaultfd(2).

use crate::errno::Errno;
use crate::pieces::Piece;
use crate::{next, own, room};
use libc::c_int;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Half the process's number, half the descriptor plus one.
static UFFD: AtomicU64 = AtomicU64::new(0);
/// It does not tell of stores.
static IS_FOR_LOADS: AtomicBool = AtomicBool::new(false);

/// Holes of memory files, told by signals.
const HOLES: u64 = 1 << 5 | 1 << 7;
/// Stores to protected pages of those, and touches of pages that are not mapped yet.
const STORES: u64 = HOLES | 1 << 0 | 1 << 10 | 1 << 12;

/// What a mapping is to tell of.
const REGISTER_HOLES: u64 = 1 << 0;
/// And no store is told of, as nothing is protected; but the kernel maps one page at a touch, and
/// nothing around it.
const REGISTER_ALONE: u64 = 1 << 0 | 1 << 1;
const REGISTER_ALL: u64 = 1 << 0 | 1 << 1 | 1 << 2;
/// Pages that are shown are protected.
const SHOW_PROTECTED: u64 = 1 << 1;

/// This process's userfaultfd. The server has it as well: as long as one of us has, and so the
/// mapping's end, a touch of a hole is a signal.
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
        // Another thread has made one meanwhile.
        own::close_own(fd);
        return own_uffd();
    }
    Ok(fd)
}

/// A userfaultfd with these features.
fn open_uffd(features: u64) -> Result<c_int, Errno> {
    const USER_MODE_ONLY: usize = 1;
    const IOC_API: usize = 0xc018_aa3f;
    let flags = libc::O_CLOEXEC as usize | USER_MODE_ONLY;
    // SAFETY: numbers (S20).
    let make = || unsafe { next::system(libc::SYS_userfaultfd, [flags, 0, 0, 0, 0, 0]) };
    let uffd = room::with_room(make)?;
    let mut api = [0xaa_u64, features, 0];
    let arguments = [uffd, IOC_API, api.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: three words, as the manual page has it, that live through the call (S20).
    match unsafe { next::system(libc::SYS_ioctl, arguments) } {
        Ok(_) => Ok(uffd as c_int),
        Err(errno) => {
            own::close(uffd as c_int);
            Err(errno)
        }
    }
}

/// Has holes of a mapping told of; of one that may be written, each touch of what is not mapped
/// there yet, and each store that was not allowed.
///
/// # Errors
/// Where the kernel cannot.
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
    // SAFETY: four words, as the manual page has it, that live through the call (S20).
    unsafe { next::system(libc::SYS_ioctl, arguments) }?;
    match piece.is_written.then(|| show(uffd, start, 1 << 12)) {
        // Kernels before 6.4 show no page protected.
        Some(Err(Errno(libc::EINVAL))) => Err(Errno(libc::ENOSYS)),
        _ => Ok(()),
    }
}

/// Maps pages that are in the memory file, from the first of a range on, to be read.
///
/// # Errors
/// The first is not mapped: EFAULT where it is a hole.
pub(super) fn show(uffd: c_int, start: usize, len: usize) -> Result<(), Errno> {
    const IOC_CONTINUE: usize = 0xc020_aa07;
    let mut range = [start as u64, len as u64, SHOW_PROTECTED, 0];
    let arguments = [uffd as usize, IOC_CONTINUE, range.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: four words, as the manual page has it, that live through the call (S20).
    match unsafe { next::system(libc::SYS_ioctl, arguments) } {
        Err(errno) if errno.0 != libc::EEXIST && range[3] as i64 <= 0 => Err(errno),
        _ => Ok(()),
    }
}
