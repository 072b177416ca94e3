//! An allocator over a region's memory.
//!
//! **Problem.** Collections are many, and grow. A region is one range of addresses.
//!
//! **Idea.** Two-level segregated fit: free lists by block length, with their heads outside the
//! region, find a block without touching cold pages. Links are in free blocks, and in 16 bytes
//! before each block.
//!
//! **Data and invariants.** S44: blocks do not overlap, and live as long as any clone. The lock is
//! held during faults on free blocks, so the server of faults must not take it.
//!
//! **Ignored.** Free pages, which are still written out.
//!
//! Source: M. Masmano and others, "TLSF: a new dynamic memory allocator for real-time systems"
//! (2004), `rlsf`.

use super::OwnedMemory;
use allocator_api2::alloc::{AllocError, Allocator};
use rlsf::Tlsf;
use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

/// Blocks of up to 2^(32 + 5) bytes, 128 GiB, with 32 lists per power of two.
type Blocks = Tlsf<'static, u32, u32, 32, 32>;

/// Allocates from a region's memory, which lives as long as a clone or a block.
///
/// Allocation fails if no free block is long enough, and for more than 128 GiB.
///
/// # Concurrency
/// Shared freely. One lock, held during faults on free blocks.
///
/// # Cost
/// 16 bytes per block, in units of 32. A few touches of the block and its neighbours.
#[derive(Debug)]
pub struct RegionHeap<O>(Arc<Shared<O>>);

#[derive(Debug)]
struct Shared<O> {
    blocks: Mutex<Blocks>,
    /// Serves the memory's faults.
    owner: O,
    _memory: OwnedMemory,
}

impl<O> RegionHeap<O> {
    /// Makes an allocator over memory with faults that `owner` serves.
    pub fn new(memory: OwnedMemory, owner: O) -> RegionHeap<O> {
        let start = NonNull::new(memory.region.base()).expect("S24: it is mapped");
        let all = NonNull::slice_from_raw_parts(start, memory.len());
        let mut blocks = Blocks::new();
        // SAFETY: S44 (this value owns the memory exclusively, and keeps it alive).
        let inserted = unsafe { blocks.insert_free_block_ptr(all) };
        inserted.expect("S24: a region has a page at least");
        RegionHeap(Arc::new(Shared { blocks: Mutex::new(blocks), owner, _memory: memory }))
    }

    /// Returns the server of the memory's faults.
    pub fn owner(&self) -> &O {
        &self.0.owner
    }

    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.0.blocks.lock().expect("S44: nothing panics under this lock")
    }

    /// Resizes a block, in place if possible.
    ///
    /// # Safety
    /// As of [`Allocator::grow`] and [`Allocator::shrink`].
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if old.align() == new.align() && old.size() > 0 && new.size() > 0 {
            // SAFETY: S44, by the caller's word.
            let start = unsafe { self.blocks().reallocate(block, new) };
            return start.map(|start| with_len(start, new)).ok_or(AllocError);
        }
        let moved = self.allocate(new)?;
        let nr_bytes = old.size().min(new.size());
        // SAFETY: S44: two distinct blocks of at least that length, by the caller's word and just
        // allocated.
        unsafe { moved.cast::<u8>().copy_from_nonoverlapping(block, nr_bytes) };
        // SAFETY: S44, by the caller's word.
        unsafe { self.deallocate(block, old) };
        Ok(moved)
    }
}

impl<O> Clone for RegionHeap<O> {
    fn clone(&self) -> RegionHeap<O> {
        RegionHeap(Arc::clone(&self.0))
    }
}

fn with_len(start: NonNull<u8>, layout: Layout) -> NonNull<[u8]> {
    NonNull::slice_from_raw_parts(start, layout.size())
}

// SAFETY: S44: blocks stay until freed, or until the last clone is dropped.
unsafe impl<O> Allocator for RegionHeap<O> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(with_len(layout.dangling_ptr(), layout));
        }
        let start = self.blocks().allocate(layout).ok_or(AllocError)?;
        Ok(with_len(start, layout))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() > 0 {
            // SAFETY: S44, by the caller's word.
            unsafe { self.blocks().deallocate(block, layout.align()) };
        }
    }

    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: S44, by the caller's word.
        unsafe { self.resize(block, old, new) }
    }

    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: S44, by the caller's word.
        unsafe { self.resize(block, old, new) }
    }
}
