//! Regions with a single owner: arrays, and memory for collections.
//!
//! Problem: [`Region::words`] are atomics. Idea: a region without other users is accessed like a
//! `Vec`, by `&[T]` and `&mut [T]`, or through an allocator. Both are sound because only the owner
//! changes the contents. So only anonymous regions that swap to an unnamed file qualify.

use super::{Region, RegionOptions, RegionStats};
use crate::api::cache::PageCache;
use crate::engine::errors::{CreateRegionError, ReadError, SyncError};
use pagetide_sys::{OwnedMemory, Pod};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

/// An array that may be larger than memory: a [`Region`] used as a slice.
///
/// For faults and their signals see [`Region`].
pub struct RegionArray<T> {
    memory: OwnedMemory,
    region: OwnedRegion,
    values: PhantomData<T>,
}

/// An allocator over a region, for `allocator_api2::vec::Vec`, `hashbrown::HashMap` and the like,
/// which may then be larger than memory. Clones and allocations share the region and keep it alive.
///
/// Fails with `AllocError` if the region is full: then `push` aborts the process, and `try_reserve`
/// returns an error. Growing in place needs free space behind the allocation. Otherwise the
/// collection is copied, and takes the space twice meanwhile.
#[cfg(feature = "allocator-api2")]
pub type RegionAllocator = pagetide_sys::RegionHeap<OwnedRegion>;

/// The region of an array or an allocator.
#[derive(Debug)]
pub struct OwnedRegion(Region);

impl PageCache {
    /// Creates an array of zeros, with as many values as fit into the region.
    ///
    /// # Errors
    /// As for [`PageCache::region`], and [`CreateRegionError::NotPrivate`] unless the options are
    /// for an anonymous region without a store.
    ///
    /// ```
    /// # use pagetide::{Bytes, PageCache, RegionOptions};
    /// let cache = PageCache::builder().memory(Bytes(1 << 20)).build()?;
    /// # if cache.region(RegionOptions::anonymous(Bytes(4096))).is_err() { return Ok(()) }
    /// let mut numbers = cache.region_array::<u32>(RegionOptions::anonymous(Bytes(4 << 20)))?;
    /// numbers.iter_mut().rev().zip(0..).for_each(|(number, nth)| *number = nth);
    /// numbers.sort_unstable();
    /// assert_eq!(numbers.binary_search(&70_000), Ok(70_000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn region_array<T: Pod>(
        &self,
        options: RegionOptions,
    ) -> Result<RegionArray<T>, CreateRegionError> {
        let (memory, region) = self.own_region(options)?;
        Ok(RegionArray { memory, region, values: PhantomData })
    }

    /// Creates an allocator over a region.
    ///
    /// # Errors
    /// As for [`PageCache::region_array`].
    ///
    /// ```
    /// # use pagetide::{Bytes, PageCache, RegionOptions};
    /// let cache = PageCache::builder().memory(Bytes(1 << 20)).build()?;
    /// # if cache.region(RegionOptions::anonymous(Bytes(4096))).is_err() { return Ok(()) }
    /// let memory = cache.region_allocator(RegionOptions::anonymous(Bytes(8 << 20)))?;
    /// let mut lines = allocator_api2::vec::Vec::new_in(memory);
    /// lines.extend((0..100_000).map(|nth| [nth, nth * nth]));
    /// assert_eq!(lines[70_000], [70_000, 4_900_000_000_u64]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "allocator-api2")]
    pub fn region_allocator(
        &self,
        options: RegionOptions,
    ) -> Result<RegionAllocator, CreateRegionError> {
        let (memory, region) = self.own_region(options)?;
        Ok(RegionAllocator::new(memory, region))
    }

    fn own_region(
        &self,
        options: RegionOptions,
    ) -> Result<(OwnedMemory, OwnedRegion), CreateRegionError> {
        if !options.is_private() {
            return Err(CreateRegionError::NotPrivate);
        }
        let mut owned = None;
        let region = Region::create(&self.shared, options, |memory| {
            Arc::clone(owned.insert(OwnedMemory::of(memory)).region())
        })?;
        let owned = owned.expect("a region that was made has memory");
        Ok((owned, OwnedRegion(region)))
    }
}

impl<T> RegionArray<T> {
    /// Returns the region.
    pub fn owner(&self) -> &OwnedRegion {
        &self.region
    }
}

impl<T: Pod> Deref for RegionArray<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.memory.as_slice()
    }
}

impl<T: Pod> DerefMut for RegionArray<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        self.memory.as_mut_slice()
    }
}

impl<T> fmt::Debug for RegionArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegionArray({} in {:?})", std::any::type_name::<T>(), self.region.0)
    }
}

impl OwnedRegion {
    /// Returns the same as [`Region::stats`].
    pub fn stats(&self) -> RegionStats {
        self.0.stats()
    }

    /// Reports whether pages could be swapped out since the last call.
    ///
    /// # Errors
    /// As for [`Region::sync`] of an anonymous region.
    pub fn sync(&self) -> Result<(), SyncError> {
        self.0.sync()
    }

    /// Maps pages as [`Region::populate`] does, by byte range of the region.
    ///
    /// # Errors
    /// As for [`Region::populate`].
    pub fn populate(&self, range: Range<u64>) -> Result<(), ReadError> {
        self.0.populate(range)
    }

    /// Maps pages as [`Region::populate_for_writes`] does, by byte range of the region.
    ///
    /// # Errors
    /// As for [`Region::populate`].
    pub fn populate_for_writes(&self, range: Range<u64>) -> Result<(), ReadError> {
        self.0.populate_for_writes(range)
    }
}
