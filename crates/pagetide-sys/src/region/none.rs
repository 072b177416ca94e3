//! No regions: what Miri and loom have in their place, so that the rest of the crate need not ask.

use std::ops::Range;

use crate::memory::FrameMemory;

/// What the user of a region may do to a page without a fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum UserAccess {
    /// Nothing.
    None,
    /// Read it.
    Read,
    /// Read and write it.
    Write,
}

/// A region that cannot be made.
#[derive(Debug)]
pub enum RegionMemory {}

impl RegionMemory {
    pub(crate) fn back(&self) -> &FrameMemory {
        match *self {}
    }

    pub(crate) fn access(&self, _page: u64) -> UserAccess {
        match *self {}
    }

    /// # Safety
    /// As for the real one.
    pub(crate) unsafe fn unmap(&self, _pages: Range<u32>) {
        match *self {}
    }

    /// # Safety
    /// As for the real one.
    pub(crate) unsafe fn protect(&self, _pages: Range<u32>) {
        match *self {}
    }

    /// # Safety
    /// As for the real one.
    pub(crate) unsafe fn punch(&self, _page: u32) {
        match *self {}
    }

    pub(crate) fn place(&self, _page: u32, _node: u32) {
        match *self {}
    }
}
