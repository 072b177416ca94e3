//! Checks of a call's arguments, in the kernel's order. A call on a managed file fails with the
//! same errno as in the kernel.
//!
//! ```text
//!   negative offset             EINVAL, before the descriptor is checked
//!   access mode                 EBADF
//!   number of parts             EINVAL
//!   addresses beyond the user's EFAULT, also for a length of 0
//!   offset + length overflows   EINVAL
//!   pages near address 0        EFAULT, once a byte would be moved
//! ```
//!
//! `memory` checks other addresses.
//!
//! Source: read(2), readv(2), and calls on Linux 6.18 with each of these arguments.

use crate::errno::Errno;
use crate::scratch::Scratch;
use crate::{memory, serve};
use libc::{c_int, iovec};

/// Maximum number of bytes that one call moves.
pub(crate) const CALL_BYTES_MAX: usize = 0x7fff_f000;
/// Maximum number of parts of one call.
const PARTS_MAX: usize = 1024;
/// Lowest address at which a program may have memory.
const LOWEST: usize = 4096;
/// End of the programs' addresses: 47 bits, without the last page.
const END: usize = (1 << 47) - 4096;

/// Direction of a call on a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Checks that a range is within the user's addresses.
pub(crate) fn check_range(start: usize, len: usize) -> Result<(), Errno> {
    start.checked_add(len).filter(|end| *end <= END).map(|_| ()).ok_or(Errno(libc::EFAULT))
}

/// Returns true if there can be no memory at an address.
pub(crate) fn is_null(start: usize) -> bool {
    start < LOWEST
}

/// Checks that the memory of a `T` at an address can be stored to or loaded.
fn check_place<T>(at: *const T, is_store: bool) -> Result<(), Errno> {
    check_range(at as usize, size_of::<T>())?;
    let is_there = !is_null(at as usize) && memory::is_there(at as usize, size_of::<T>(), is_store);
    if is_there { Ok(()) } else { Err(Errno(libc::EFAULT)) }
}

/// Reads an argument that is given by its address.
///
/// # Errors
/// Fails with `EFAULT` if there is no memory.
///
/// # Safety
/// As for any call that gets such an address.
pub(crate) unsafe fn load<T: Copy>(at: *const T) -> Result<T, Errno> {
    check_place(at, false)?;
    // SAFETY: the caller's argument (S20), aligned or not.
    Ok(unsafe { at.read_unaligned() })
}

/// Writes a result to the address that a call got for it.
///
/// # Errors
/// Fails with `EFAULT` if there is no memory, or if it is read-only.
///
/// # Safety
/// As for any call that gets such an address.
pub(crate) unsafe fn store<T: Copy>(at: *mut T, value: T) -> Result<(), Errno> {
    check_place(at, true)?;
    // SAFETY: the caller's argument (S20), aligned or not.
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
    /// A copy of unaligned parts.
    _copy: Option<Scratch>,
}

impl Vector {
    /// # Errors
    /// Fails with `EINVAL` for a number of parts that no call takes. Fails with `EFAULT` if there
    /// is no memory for the parts.
    ///
    /// # Safety
    /// As for readv.
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
        // SAFETY: the caller's parts (S20), and a mapping of the library (S22).
        unsafe { std::ptr::copy_nonoverlapping(parts.cast::<u8>(), copy.place(0), len) };
        Ok(Vector { parts: copy.place(0).cast_const().cast(), nr, _copy: Some(copy) })
    }

    pub(crate) fn parts(&self) -> &[iovec] {
        if self.nr == 0 {
            return &[];
        }
        // SAFETY: readv's contract: `nr` parts, for the time of the call (S20).
        unsafe { std::slice::from_raw_parts(self.parts, self.nr) }
    }
}

/// Returns the maximum number of bytes that a call with these parts moves.
///
/// # Errors
/// Fails with `EINVAL` for a part of more than `SSIZE_MAX` bytes. Fails with `EFAULT` for addresses
/// beyond the user's.
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

/// Returns the number of bytes, of `total`, before the first part at which there can be no memory.
pub(crate) fn usable(parts: &[iovec], total: usize) -> usize {
    let is_bad = |part: &&iovec| part.iov_len > 0 && is_null(part.iov_base as usize);
    let good = parts.iter().take_while(|part| !is_bad(part));
    total.min(good.map(|part| part.iov_len).fold(0, usize::saturating_add))
}
