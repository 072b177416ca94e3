//! A plain buffer on huge pages.
//!
//! Problem: a memcpy benchmark, the reference for cache hits, needs memory without TLB misses.
//!
//! ```text
//!   madvise(HUGEPAGE), touch    [ 2 MiB | 2 MiB | 2 MiB ]
//!                               ^ start, aligned
//! ```
//!
//! The buffer can be split into parts with one owner each, for device requests.
//!
//! Data: one private mapping of whole huge pages. Its first `len` bytes are the buffer.
//!
//! Ignored: NUMA placement. The kernel may lack huge pages.
//!
//! Source: madvise(2), `MADV_HUGEPAGE`.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags};

use super::addresses::{self, HUGE_BYTES};

/// Zeroed, touched bytes, on huge pages if available.
#[derive(Debug)]
pub struct HugeBuffer {
    start: NonNull<u8>,
    whole: usize,
    len: usize,
}

impl HugeBuffer {
    /// Maps, advises and touches `len` bytes.
    ///
    /// # Errors
    /// Fails with `ENOMEM` if the machine lacks the memory. Ask for less.
    ///
    /// # Cost
    /// One page fault per huge page, or per page without huge pages: 0.1 to 1 s per GiB.
    pub fn new(len: usize) -> io::Result<HugeBuffer> {
        let whole = len.max(1).checked_next_multiple_of(HUGE_BYTES);
        let whole = whole.ok_or(io::ErrorKind::OutOfMemory)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let start = addresses::reserve(whole, access, MapFlags::NORESERVE)?;
        let mut buffer = HugeBuffer { start, whole, len };
        // SAFETY: S7 (the range is the mapping just made). The advice changes no contents. A
        // refusal only costs speed.
        unsafe { libc::madvise(start.as_ptr().cast(), whole, libc::MADV_HUGEPAGE) };
        buffer.fill(0);
        Ok(buffer)
    }

    /// Splits the buffer into parts of `len` bytes, without the remainder. Dropping the last part
    /// unmaps the buffer. Later children do not have the buffer: memory that a device writes must
    /// not be copied.
    pub fn into_parts(self, len: usize) -> Vec<HugePart> {
        let address = self.start.as_ptr().cast();
        // SAFETY: S7 (the range is this buffer's own mapping): the advice only affects children. If
        // refused, a child has a copy.
        unsafe { libc::madvise(address, self.whole, libc::MADV_DONTFORK) };
        let (starts, whole) = ((0..self.len / len).map(|nth| nth * len), Arc::new(self));
        starts.map(|start| HugePart { whole: Arc::clone(&whole), start, len }).collect()
    }
}

/// Moves values to huge pages, except at the two ends, if the kernel can. The values stay as they
/// are, at their addresses.
///
/// # Cost
/// A copy of the memory. Nothing below 4 MiB.
pub fn move_to_huge_pages<T>(values: &[T]) {
    let (start, len) = (values.as_ptr().cast::<u8>(), size_of_val(values));
    let head = start.align_offset(HUGE_BYTES);
    let whole = len.saturating_sub(head) / HUGE_BYTES * HUGE_BYTES;
    if len >= 2 * HUGE_BYTES && whole > 0 {
        // SAFETY: S7 (the range is inside the borrowed values). The advice changes no contents. A
        // refusal only costs speed.
        unsafe {
            libc::madvise(start.wrapping_add(head).cast_mut().cast(), whole, libc::MADV_COLLAPSE)
        };
    }
}

/// A part of a split [`HugeBuffer`].
#[derive(Debug)]
pub struct HugePart {
    whole: Arc<HugeBuffer>,
    start: usize,
    len: usize,
}

impl HugePart {
    /// Returns the part's address. Only the owner writes through the pointer.
    pub(crate) fn first(&self) -> *mut u8 {
        // SAFETY: S7 (the part is inside the buffer).
        unsafe { self.whole.start.as_ptr().add(self.start) }
    }
}

impl Deref for HugePart {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: S7 (the parts of a buffer share no byte, nothing borrows from the whole any more,
        // and the mapping lives as long as a part).
        unsafe { std::slice::from_raw_parts(self.first(), self.len) }
    }
}

impl DerefMut for HugePart {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: S7, as in `deref`, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.first(), self.len) }
    }
}

impl Deref for HugeBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: S7 (`len` is within the mapping, which is readable and zero-filled, and lives
        // until drop). `&self` keeps writers away.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for HugeBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: S7, as in `deref`, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for HugeBuffer {
    fn drop(&mut self) {
        // SAFETY: S7 (the mapping is this buffer's own and no slice of it outlives `self`).
        unsafe { addresses::give_back(self.start.as_ptr(), self.whole) };
    }
}

// SAFETY: S7 (owned as a `Box<[u8]>` owns its bytes, and not tied to a thread).
unsafe impl Send for HugeBuffer {}
// SAFETY: S7 (shared references only read).
unsafe impl Sync for HugeBuffer {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_is_zero_writable_and_aligned() {
        let mut buffer = HugeBuffer::new(3 << 20).expect("3 MiB");
        assert_eq!(buffer.as_ptr().addr() % HUGE_BYTES, 0);
        assert!(buffer.iter().all(|&byte| byte == 0));
        let last = buffer.len() - 1;
        buffer[last] = 9;
        assert_eq!((buffer.len(), buffer[last]), (3 << 20, 9));
    }

    #[test]
    fn values_on_huge_pages_are_the_same() {
        for len in [0, 3, 100_000, 1_000_000] {
            let values: Vec<u64> = (0..len).collect();
            move_to_huge_pages(&values);
            assert!(values.iter().copied().eq(0..len));
        }
    }

    #[test]
    fn parts_share_no_byte() {
        let buffer = HugeBuffer::new(10_000).expect("a little");
        let mut parts = buffer.into_parts(4096);
        assert_eq!(parts.len(), 2, "the rest is no part");
        for (byte, part) in (1..).zip(&mut parts) {
            part.fill(byte);
        }
        for (byte, part) in (1..).zip(&parts) {
            assert_eq!(part[..], [byte; 4096]);
        }
        let last = parts.pop().expect("two");
        drop(parts);
        assert_eq!(last[4095], 2, "the mapping outlives the other part");
    }

    #[test]
    fn impossible_size_is_refused() {
        assert!(HugeBuffer::new(usize::MAX - 4096).is_err());
    }
}
