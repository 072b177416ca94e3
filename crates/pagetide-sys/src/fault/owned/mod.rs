//! A region's memory as slices: where one value alone reaches it.
//!
//! **Problem.** A region is shared by its nature: any thread stores to it, so safe code gets
//! atomics of it. Sorting, libraries, `for` want `&mut [T]`.
//!
//! **Idea.** Memory that is made over to one value before anything else has seen its addresses is
//! reached through that value, as a `Vec`'s is through the `Vec`. What pages in and out below moves
//! bytes and changes none, as the kernel does below a `Vec`.
//!
//! **Data and invariants.** S43: the one address of such memory is here; its contents are what was
//! stored last. So it is not for a file, which others change, nor for stores of a caller's.
//!
//! **Ignored.** Giving the memory back as a region that is shared.

#[cfg(feature = "allocator-api2")]
mod heap;

#[cfg(feature = "allocator-api2")]
pub use heap::RegionHeap;

use crate::fault::region::RegionMemory;
use crate::memory::frames::FRAME_BYTES;
use bytemuck::Pod;
use std::slice;
use std::sync::Arc;

/// A region's memory, all zeros at first, which is reached through this alone.
///
/// # Concurrency
/// As of a `Box<[T]>`. A touch is a fault like any other of the region.
#[derive(Debug)]
pub struct OwnedMemory {
    region: Arc<RegionMemory>,
}

impl OwnedMemory {
    /// Makes memory over to this value. What serves its faults has to bring back what was stored.
    pub fn of(mut region: RegionMemory) -> OwnedMemory {
        region.own();
        OwnedMemory { region: Arc::new(region) }
    }

    /// The region, to be served; its [words](RegionMemory::words) are not to be had.
    pub fn region(&self) -> &Arc<RegionMemory> {
        &self.region
    }

    /// As many values as there is room for.
    #[inline]
    pub fn as_slice<T: Pod>(&self) -> &[T] {
        // SAFETY: S24 (mapped while self lives, page aligned), S43 (none writes; any bytes are T).
        unsafe { slice::from_raw_parts(self.region.base().cast(), self.nr::<T>()) }
    }

    /// The same, to be written.
    #[inline]
    pub fn as_mut_slice<T: Pod>(&mut self) -> &mut [T] {
        // SAFETY: S24 (mapped while self lives, page aligned), S43 (self is borrowed alone).
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
