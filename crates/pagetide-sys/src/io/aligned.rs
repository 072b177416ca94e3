//! A page-aligned, owned, zeroed buffer for direct I/O.
//!
//! Large buffers are mappings, because the heap keeps freed memory in each thread's arena: a server
//! kept 42 MiB beside a limit of 24 MiB.
//!
//! Invariants: S7: `start..start + len` is an allocation or a mapping of this value, depending on
//! `len`, initialised, and aligned to [`PAGE_BYTES`]. The memory does not move with the value, so
//! the kernel may use its address while the value is kept.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use pagetide_core::units::PAGE_BYTES;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Buffers of at least this length are mapped.
const MAPPED_BYTES_MIN: usize = 128 << 10;

/// Page-aligned bytes. Dereferences to a slice.
pub struct AlignedBuf {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: S7 (the allocation is this value's own), as with `Box<[u8]>`.
unsafe impl Send for AlignedBuf {}
// SAFETY: S7 (the allocation is this value's own): `&AlignedBuf` only reads.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// Allocates `len` zero bytes. An empty buffer allocates nothing.
    pub fn zeroed(len: usize) -> AlignedBuf {
        if len == 0 {
            return AlignedBuf { start: NonNull::dangling(), len };
        }
        let layout = layout(len);
        let start = if len < MAPPED_BYTES_MIN {
            // SAFETY: S7 (the allocation is this value's own): the layout is not empty.
            unsafe { alloc_zeroed(layout) }
        } else {
            map(len)
        };
        match NonNull::new(start) {
            Some(start) => AlignedBuf { start, len },
            None => handle_alloc_error(layout),
        }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: S7 (the allocation is this value's own, initialised, `len` long). The kernel
        // writes it only while the value is kept from all threads (S8).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: S7 (the allocation is this value's own), borrowed exclusively with it.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if self.len >= MAPPED_BYTES_MIN {
            // SAFETY: S7 (the mapping is this value's own), and nothing borrows from it any more.
            let result = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
            debug_assert!(result.is_ok(), "S7: what was mapped can be unmapped: {result:?}");
        } else if self.len > 0 {
            // SAFETY: S7 (the allocation is this value's own), made with the same layout.
            unsafe { dealloc(self.start.as_ptr(), layout(self.len)) };
        }
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len)
    }
}

fn map(len: usize) -> *mut u8 {
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: S7 (the mapping is this value's own): it overlaps nothing, as no address is asked.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), len, access, flags) };
    start.map_or(ptr::null_mut(), |start| start.cast())
}

fn layout(len: usize) -> Layout {
    Layout::from_size_align(len, PAGE_BYTES).expect("S7: a buffer is far shorter than memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_is_zero_aligned_and_writable() {
        let large = if cfg!(miri) { PAGE_BYTES } else { MAPPED_BYTES_MIN + 1 };
        for len in [1, 100, PAGE_BYTES, 3 * PAGE_BYTES + 1, large] {
            let mut buffer = AlignedBuf::zeroed(len);
            assert_eq!(buffer.as_ptr().addr() % PAGE_BYTES, 0);
            assert!(buffer.iter().all(|&byte| byte == 0));
            buffer.fill(7);
            assert_eq!((buffer.len(), buffer[len - 1]), (len, 7));
        }
        assert!(AlignedBuf::zeroed(0).is_empty());
    }
}
