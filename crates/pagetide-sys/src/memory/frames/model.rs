//! A model of the mapping for loom, made of cells that loom watches.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use crate::memory::copy::portable::{self, Cell};
use crate::sync::{AtomicU64, Ordering};

pub(super) struct Mapping {
    cells: Box<[AtomicU64]>,
}

impl Cell for AtomicU64 {
    fn bytes(&self) -> [u8; 8] {
        self.load(Ordering::Relaxed).to_ne_bytes()
    }

    fn set_bytes(&self, bytes: [u8; 8]) {
        self.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
    }
}

impl Mapping {
    pub(super) fn reserve(len: usize, _huge_pages: bool) -> io::Result<Mapping> {
        Ok(Mapping { cells: (0..len / 8).map(|_| AtomicU64::new(0)).collect() })
    }

    /// # Safety
    /// `target` is valid for writes of `len` bytes.
    pub(super) unsafe fn copy_out(&self, at: usize, target: *mut u8, len: usize) {
        // SAFETY: S57: the caller vouches for the target.
        unsafe { target.write_bytes(0, len) };
        // SAFETY: S57: the target is initialised now.
        portable::copy_out(&self.cells, at, unsafe { std::slice::from_raw_parts_mut(target, len) });
    }

    pub(super) fn copy_in(&self, at: usize, source: &[u8]) {
        portable::copy_in(&self.cells, at, source);
    }

    pub(super) fn copy_within(&self, source: usize, target: usize, len: usize) {
        portable::copy_within(&self.cells, source, target, len);
    }

    pub(super) fn zero(&self, at: usize, len: usize) {
        portable::zero(&self.cells, at, len);
    }

    /// # Safety
    /// As for the real one.
    pub(super) unsafe fn discard(&self, start: usize, len: usize) -> io::Result<()> {
        self.zero(start, len);
        Ok(())
    }

    pub(super) fn count_resident_bytes(&self) -> u64 {
        size_of_val(&*self.cells) as u64
    }

    /// Loom's cells are not bytes.
    pub(super) fn base(&self) -> *mut u8 {
        panic!("loom explores nothing that asks where frames are")
    }

    pub(super) fn reserve_thin(_len: usize) -> io::Result<Mapping> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Loom could not watch these accesses.
    pub(super) fn cells(&self) -> &[std::sync::atomic::AtomicU64] {
        &[]
    }

    pub(super) fn stay_small(&self) {}

    pub(super) fn nr_to_collapse(&self) -> usize {
        0
    }

    pub(super) fn split(&self, _start: usize) {}

    pub(super) fn is_full(&self, _block: usize) -> bool {
        false
    }

    pub(super) fn collapse_one(&self, _block: usize) {}

    pub(super) fn make_huge(&self, _bytes: std::ops::Range<usize>) {}

    pub(super) fn collapse(&self, _block: usize) -> bool {
        false
    }

    /// # Safety
    /// As for the real one.
    pub(super) unsafe fn empty(&self, start: usize, len: usize) -> io::Result<()> {
        self.zero(start, len);
        Ok(())
    }

    pub(super) fn reserve_shared(_len: usize, _huge_pages: bool) -> io::Result<Mapping> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn file(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    pub(super) fn bind(&self, _start: usize, _len: usize, _node: u32) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn keep_from_children(&self) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn touch(&self) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn fetch(&self, _at: usize) {}

    pub(super) fn withhold(&self, _bytes: Range<usize>) {}

    pub(super) fn take_again(&self, _bytes: Range<usize>) {}
}
