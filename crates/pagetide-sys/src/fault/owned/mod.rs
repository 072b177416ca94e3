//! A region's memory as slices, for one exclusive owner.
//!
//! **Problem.** A shared region gives safe code only atomics. Sorting and `for` need `&mut [T]`.
//!
//! **Idea.** Memory that is moved into one value before its address is known is accessed like the
//! buffer of a `Vec`. Paging does not change bytes.
//!
//! **Data and invariants.** S43: this value holds the only address, and the memory keeps the last
//! stored bytes, so files and the caller's stores are excluded.
//!
//! **Ignored.** Turning the memory back into a shared region.

#[cfg(feature = "allocator-api2")]
mod heap;

#[cfg(feature = "allocator-api2")]
pub use heap::RegionHeap;

use crate::fault::region::RegionMemory;
use crate::memory::frames::FRAME_BYTES;
use bytemuck::Pod;
use std::slice;
use std::sync::Arc;

/// Exclusively owned memory of a region, initially zero.
///
/// # Concurrency
/// As of a `Box<[T]>`. A touch faults as in any region.
#[derive(Debug)]
pub struct OwnedMemory {
    region: Arc<RegionMemory>,
}

impl OwnedMemory {
    /// Takes ownership of the memory. The server of its faults must bring back the stored bytes.
    pub fn of(mut region: RegionMemory) -> OwnedMemory {
        region.own();
        OwnedMemory { region: Arc::new(region) }
    }

    /// Returns the region, for serving its faults. Its [words](RegionMemory::words) are
    /// inaccessible.
    pub fn region(&self) -> &Arc<RegionMemory> {
        &self.region
    }

    /// Returns the memory as a slice of as many values as fit.
    #[inline]
    pub fn as_slice<T: Pod>(&self) -> &[T] {
        // SAFETY: S24 (mapped while self lives, page aligned), S43 (no writer, any bytes are T).
        unsafe { slice::from_raw_parts(self.region.base().cast(), self.nr::<T>()) }
    }

    /// Returns the memory as a mutable slice.
    #[inline]
    pub fn as_mut_slice<T: Pod>(&mut self) -> &mut [T] {
        // SAFETY: S24 (mapped while self lives, page aligned), S43 (self is borrowed exclusively).
        unsafe { slice::from_raw_parts_mut(self.region.base().cast(), self.nr::<T>()) }
    }

    fn nr<T>(&self) -> usize {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= FRAME_BYTES) };
        self.len() / size_of::<T>()
    }

    fn len(&self) -> usize {
        self.region.nr_pages() as usize * FRAME_BYTES
    }
}
