//! Checks of a call's arguments, in the kernel's order: a call on a managed file fails with the
//! errno that the kernel would give.
//!
//! ```text
//!   negative offset             EINVAL, before the descriptor is looked at
//!   access mode                 EBADF
//!   number of parts             EINVAL
//!   addresses beyond the user's EFAULT, also for a length of 0
//!   offset + length overflows   EINVAL
//!   pages near address 0        EFAULT, once a byte would be moved
//! ```
//!
//! Whether there is memory at other addresses, `memory` knows.
//!
//! Source: read(2), readv(2), and calls on Linux 6.18 with each of these arguments.

use crate::errno::Errno;
use crate::scratch::Scratch;
use crate::{memory, serve};
use libc::{c_int, iovec};

/// Bytes that one call moves at most.
pub(crate) const CALL_BYTES_MAX: usize = 0x7fff_f000;
/// Parts of one call, at most.
const PARTS_MAX: usize = 1024;
/// No program has memory below this address.
const LOWEST: usize = 4096;
/// Memory of programs ends below this address: 47 bits of it, without the last page.
const END: usize = (1 << 47) - 4096;

/// What a call does with a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Checks that addresses are the user's.
pub(crate) fn check_range(start: usize, len: usize) -> Result<(), Errno> {
    start.checked_add(len).filter(|end| *end <= END).map(|_| ()).ok_or(Errno(libc::EFAULT))
}

/// Returns true if there can be no memory.
pub(crate) fn is_null(start: usize) -> bool {
    start < LOWEST
}

/// Checks that there is a `T` at an address, which can be stored to or loaded.
fn check_place<T>(at: *const T, is_store: bool) -> Result<(), Errno> {
    check_range(at as usize, size_of::<T>())?;
    let is_there = !is_null(at as usize) && memory::is_there(at as usize, size_of::<T>(), is_store);
    if is_there { Ok(()) } else { Err(Errno(libc::EFAULT)) }
}

/// Reads an argument that is given by its address.
///
/// # Errors
/// EFAULT if there can be no memory.
///
/// # Safety
/// As of any call that is given such an address.
pub(crate) unsafe fn load<T: Copy>(at: *const T) -> Result<T, Errno> {
    check_place(at, false)?;
    // SAFETY: our caller's argument (S20), aligned or not.
    Ok(unsafe { at.read_unaligned() })
}

/// Writes a result to where a call is to store it.
///
/// # Errors
/// EFAULT if there can be no memory.
///
/// # Safety
/// As of any call that is given such an address.
pub(crate) unsafe fn store<T: Copy>(at: *mut T, value: T) -> Result<(), Errno> {
    check_place(at, true)?;
    // SAFETY: our caller's argument (S20), aligned or not.
    unsafe { at.write_unaligned(value) };
    Ok(())
}

/// Returns `errno`, or EBADF if the descriptor does not permit the access at all.
pub(crate) fn refuse(fd: c_int, access: Access, errno: Errno) -> Errno {
    let permitted = serve::status_flags(fd).is_ok_and(|flags| match access {
        Access::Read => flags & libc::O_ACCMODE != libc::O_WRONLY,
        Access::Write => flags & libc::O_ACCMODE != libc::O_RDONLY,
    });
    if permitted { errno } else { Errno(libc::EBADF) }
}

/// The parts of a vector call.
pub(crate) struct Vector {
    parts: *const iovec,
    nr: usize,
    /// A copy of parts that are not aligned.
    _copy: Option<Scratch>,
}

impl Vector {
    /// # Errors
    /// EINVAL for a number of parts that no call takes, EFAULT where there can be none.
    ///
    /// # Safety
    /// As readv's.
    pub(crate) unsafe fn new(parts: *const iovec, nr: c_int) -> Result<Vector, Errno> {
        let nr = usize::try_from(nr).ok().filter(|nr| *nr <= PARTS_MAX);
        let nr = nr.ok_or(Errno(libc::EINVAL))?;
        let len = nr * size_of::<iovec>();
        if nr > 0 {
            check_range(parts as usize, len)?;
            if is_null(parts as usize) || !memory::is_there(parts as usize, len, false) {
                return Err(Errno(libc::EFAULT));
            }
        }
        if nr == 0 || parts.is_aligned() {
            return Ok(Vector { parts, nr, _copy: None });
        }
        let copy = Scratch::new(len)?;
        // SAFETY: our caller's parts (S20), and a mapping of our own (S22).
        unsafe { std::ptr::copy_nonoverlapping(parts.cast::<u8>(), copy.place(0), len) };
        Ok(Vector { parts: copy.place(0).cast_const().cast(), nr, _copy: Some(copy) })
    }

    pub(crate) fn parts(&self) -> &[iovec] {
        if self.nr == 0 {
            return &[];
        }
        // SAFETY: readv's contract: `nr` of them, for the time of the call (S20).
        unsafe { std::slice::from_raw_parts(self.parts, self.nr) }
    }
}

/// Returns how many bytes a call with these parts moves at most.
///
/// # Errors
/// EINVAL for a part of more than `SSIZE_MAX` bytes, EFAULT for addresses that are not the user's.
pub(crate) fn total_of(parts: &[iovec]) -> Result<usize, Errno> {
    let is_vector = parts.len() != 1;
    if is_vector && parts.iter().any(|part| isize::try_from(part.iov_len).is_err()) {
        return Err(Errno(libc::EINVAL));
    }
    let mut total = 0_usize;
    for part in parts {
        check_range(part.iov_base as usize, part.iov_len)?;
        total = total.saturating_add(part.iov_len);
    }
    Ok(total.min(CALL_BYTES_MAX))
}

/// Returns how many of `total` bytes come before the first part where there can be no memory.
pub(crate) fn usable(parts: &[iovec], total: usize) -> usize {
    let is_bad = |part: &&iovec| part.iov_len > 0 && is_null(part.iov_base as usize);
    let good = parts.iter().take_while(|part| !is_bad(part));
    total.min(good.map(|part| part.iov_len).fold(0, usize::saturating_add))
}
