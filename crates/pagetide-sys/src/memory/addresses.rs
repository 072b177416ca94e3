//! Reserves addresses that are aligned for huge pages.

use pagetide_core::units::PAGE_BYTES;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::ptr::{self, NonNull};

pub(crate) const HUGE_BYTES: usize = 2 << 20;

/// Maps private memory of `len` bytes, aligned to [`HUGE_BYTES`] unless shorter.
pub(crate) fn reserve(len: usize, access: ProtFlags, flags: MapFlags) -> io::Result<NonNull<u8>> {
    let spare = if len < HUGE_BYTES { 0 } else { HUGE_BYTES - PAGE_BYTES };
    let len = len.checked_next_multiple_of(PAGE_BYTES).ok_or(Errno::NOMEM)?;
    let padded = len.checked_add(spare).ok_or(Errno::NOMEM)?;
    // SAFETY: S1 (a fresh mapping overlaps nothing): no address is requested.
    let all =
        unsafe { mmap_anonymous(ptr::null_mut(), padded, access, flags | MapFlags::PRIVATE) }?;
    let head = if spare == 0 { 0 } else { all.cast::<u8>().align_offset(HUGE_BYTES) };
    let start = all.cast::<u8>().wrapping_add(head);
    for (end, len) in [(all.cast(), head), (start.wrapping_add(len), spare - head)] {
        // SAFETY: S1 (the ends of the mapping just made, which no other code knows).
        unsafe { give_back(end, len) };
    }
    Ok(NonNull::new(start).expect("S1: mmap never returns page zero unasked"))
}

/// Unmaps `len` bytes.
///
/// # Safety
/// The bytes belong only to the caller, and nothing reads them any more.
pub(crate) unsafe fn give_back(start: *mut u8, len: usize) {
    if len > 0 {
        // SAFETY: S1 (the caller's own range).
        let result = unsafe { munmap(start.cast(), len) };
        debug_assert!(result.is_ok(), "munmap refuses only ranges that are not page aligned");
    }
}
