//! This process's userfaultfd, by which a touch of a hole is a signal.
//!
//! **Data.** One number for the process: a child makes its own. **Ignored.** What the kernel
//! refused once is asked for again by the next mapping.
//!
//! Source: userfaultfd(2), ioctl_userfaultfd(2).

use crate::errno::Errno;
use crate::{next, own};
use libc::c_int;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

/// Half the process's number, half the descriptor plus one.
static UFFD: AtomicU64 = AtomicU64::new(0);

/// This process's userfaultfd. The server has it as well: as long as one of us has, and so the
/// mapping's end, a touch of a hole is a signal.
pub(super) fn own_uffd() -> Result<c_int, Errno> {
    let known = UFFD.load(Acquire);
    let (process, fd) = (known >> 32, known as u32 as c_int - 1);
    if process == own::number() & u64::from(u32::MAX) && own::has(fd) {
        return Ok(fd);
    }
    let fd = own::keep(open_uffd()?);
    let word = own::number() << 32 | u64::from((fd + 1) as u32);
    if UFFD.compare_exchange(known, word, AcqRel, Acquire).is_err() {
        // Another thread has made one meanwhile.
        own::close_own(fd);
        return own_uffd();
    }
    Ok(fd)
}

/// A userfaultfd that tells of holes by signals.
fn open_uffd() -> Result<c_int, Errno> {
    const USER_MODE_ONLY: usize = 1;
    const IOC_API: usize = 0xc018_aa3f;
    /// Holes of memory files, told by signals.
    const FEATURES: u64 = 1 << 5 | 1 << 7;
    let flags = libc::O_CLOEXEC as usize | USER_MODE_ONLY;
    // SAFETY: numbers (S20).
    let uffd = unsafe { next::system(libc::SYS_userfaultfd, [flags, 0, 0, 0, 0, 0]) }?;
    let mut api = [0xaa_u64, FEATURES, 0];
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

pub(super) fn register(uffd: c_int, start: usize, len: usize) -> Result<usize, Errno> {
    const IOC_REGISTER: usize = 0xc020_aa00;
    const MISSING: u64 = 1;
    let mut range = [start as u64, len as u64, MISSING, 0];
    let arguments = [uffd as usize, IOC_REGISTER, range.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: four words, as the manual page has it, that live through the call (S20).
    unsafe { next::system(libc::SYS_ioctl, arguments) }
}
