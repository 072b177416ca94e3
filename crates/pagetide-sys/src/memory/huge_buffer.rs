//! A plain buffer on huge pages: what a program at its fastest would copy from.
//!
//! Problem: "how far is a cache hit from a bare memcpy" needs memory to copy from that is as good
//! as the cache's own: touched beforehand, and mapped with huge pages where the kernel gives them,
//! or the reference pays for TLB misses that the subject does not.
//!
//! ```text
//!   madvise(HUGEPAGE), touch    [ 2 MiB | 2 MiB | 2 MiB ]
//!                               ^ start, aligned
//! ```
//!
//! It can be cut into parts, each of which has one owner: memory in a row that requests to a device
//! take turns with.
//!
//! Data: one private anonymous mapping of whole huge pages from `start`, given back on drop; the
//! first `len` bytes of it are the buffer's.
//!
//! Ignored: NUMA placement; whether the kernel really gave huge pages (it may have none).
//!
//! Source: madvise(2), `MADV_HUGEPAGE`.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags};

use super::addresses::{self, HUGE_BYTES};

/// Zeroed, touched bytes on huge pages where the kernel has them.
#[derive(Debug)]
pub struct HugeBuffer {
    start: NonNull<u8>,
    /// Bytes mapped.
    whole: usize,
    len: usize,
}

impl HugeBuffer {
    /// Maps, advises and touches `len` bytes.
    ///
    /// # Errors
    /// `ENOMEM` where the machine will not give that much; ask for less.
    ///
    /// # Cost
    /// A page fault for every huge page (or every page, where there are none): 0.1 to 1 s a GiB.
    pub fn new(len: usize) -> io::Result<HugeBuffer> {
        let whole = len.max(1).checked_next_multiple_of(HUGE_BYTES);
        let whole = whole.ok_or(io::ErrorKind::OutOfMemory)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let start = addresses::reserve(whole, access, MapFlags::NORESERVE)?;
        let mut buffer = HugeBuffer { start, whole, len };
        // SAFETY: S7 (the range is the mapping just made); the advice changes how it is backed,
        // never what it holds. A refusal only costs speed.
        unsafe { libc::madvise(start.as_ptr().cast(), whole, libc::MADV_HUGEPAGE) };
        buffer.fill(0);
        Ok(buffer)
    }

    /// Cuts it into parts of `len` bytes; what is left over belongs to none. It is unmapped with
    /// the last of them, and is not in processes that are forked from here on: what a device is
    /// writing to must not be copied meanwhile.
    pub fn into_parts(self, len: usize) -> Vec<HugePart> {
        let address = self.start.as_ptr().cast();
        // SAFETY: S7 (the range is this buffer's own mapping): the advice changes what a child
        // process has, nothing here. A refusal leaves it the copy it would have had.
        unsafe { libc::madvise(address, self.whole, libc::MADV_DONTFORK) };
        let (starts, whole) = ((0..self.len / len).map(|nth| nth * len), Arc::new(self));
        starts.map(|start| HugePart { whole: Arc::clone(&whole), start, len }).collect()
    }
}

/// A part of a [`HugeBuffer`] that was cut.
#[derive(Debug)]
pub struct HugePart {
    whole: Arc<HugeBuffer>,
    start: usize,
    len: usize,
}

impl HugePart {
    /// Where it begins. What is written there through the pointer is written by the owner.
    pub(crate) fn first(&self) -> *mut u8 {
        // SAFETY: S7 (the part is inside the buffer).
        unsafe { self.whole.start.as_ptr().add(self.start) }
    }
}

impl Deref for HugePart {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: S7 (the parts of a buffer share no byte, and nothing borrows from the whole any
        // more; the mapping lives as long as a part).
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
        // until drop; `&self` keeps writers away).
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

// SAFETY: S7 (owned as a `Box<[u8]>` owns its bytes; nothing ties it to a thread).
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
