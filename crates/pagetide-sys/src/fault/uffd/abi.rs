//! Numbers and argument layouts of userfaultfd's calls, as in the manual pages.

use std::io;
use std::os::fd::RawFd;

pub(super) const API: u64 = 0xaa;
pub(super) const USER_MODE_ONLY: libc::c_int = 1;

// ioctl requests: direction, size of the argument, type, number.
pub(super) const IOC_NEW: u64 = 0xaa00;
pub(super) const IOC_API: u64 = read_write::<ApiArgument>(0x3f);
pub(super) const IOC_REGISTER: u64 = read_write::<RegisterArgument>(0x00);
pub(super) const IOC_WAKE: u64 = 2 << 30 | (size_of::<RangeArgument>() as u64) << 16 | 0xaa02;
pub(super) const IOC_COPY: u64 = read_write::<TransferArgument>(0x03);
pub(super) const IOC_MOVE: u64 = read_write::<TransferArgument>(0x05);
pub(super) const IOC_WRITEPROTECT: u64 = read_write::<ProtectArgument>(0x06);
pub(super) const IOC_CONTINUE: u64 = read_write::<PagesArgument>(0x07);
pub(super) const IOC_POISON: u64 = read_write::<PagesArgument>(0x08);

pub(super) const REGISTER_MISSING: u64 = 1 << 0;
pub(super) const REGISTER_WP: u64 = 1 << 1;
pub(super) const WRITEPROTECT_ON: u64 = 1 << 0;
pub(super) const COPY_WP: u64 = 1 << 1;

const fn read_write<T>(number: u64) -> u64 {
    3 << 30 | (size_of::<T>() as u64) << 16 | 0xaa00 | number
}

#[repr(C)]
pub(super) struct ApiArgument {
    pub(super) api: u64,
    pub(super) features: u64,
    pub(super) ioctls: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RangeArgument {
    pub(super) start: u64,
    pub(super) len: u64,
}

#[repr(C)]
pub(super) struct RegisterArgument {
    pub(super) range: RangeArgument,
    pub(super) mode: u64,
    pub(super) ioctls: u64,
}

#[repr(C)]
pub(super) struct ProtectArgument {
    pub(super) range: RangeArgument,
    pub(super) mode: u64,
}

/// COPY and MOVE. `done` is the number of bytes done, or a negated error.
#[repr(C)]
pub(super) struct TransferArgument {
    pub(super) target: u64,
    pub(super) source: u64,
    pub(super) len: u64,
    pub(super) mode: u64,
    pub(super) done: i64,
}

/// CONTINUE and POISON: `done` as of [`TransferArgument`].
#[repr(C)]
pub(super) struct PagesArgument {
    pub(super) range: RangeArgument,
    pub(super) mode: u64,
    pub(super) done: i64,
}

/// # Safety
/// `request` takes a pointer to a `T`, and the caller may do the request's changes to memory.
pub(super) unsafe fn ioctl<T>(descriptor: RawFd, request: u64, argument: &mut T) -> io::Result<()> {
    // SAFETY: S9 (a live value with the request's layout, by the caller's word).
    let result = unsafe { libc::ioctl(descriptor, request, std::ptr::from_mut(argument)) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
