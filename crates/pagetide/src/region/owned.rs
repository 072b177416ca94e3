//! Regions that one value owns: arrays, and what collections allocate from.
//!
//! Problem: [`Region::words`] are atomics, as any thread may store to them. Idea: a region that has
//! no other user is reached as a `Vec` is, by `&[T]` and `&mut [T]`, or is cut up by an allocator.
//! Either is safe as what is stored comes back, and changes by nothing else: so it is for anonymous
//! regions alone, which swap to a file of ours without a name.

use super::{Region, RegionOptions, RegionStats};
use crate::api::cache::PageCache;
use crate::engine::errors::{CreateRegionError, ReadError, SyncError};
use pagetide_sys::{OwnedMemory, Pod};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

/// An array larger than the memory it may take: a [`Region`] that is used as a slice.
///
/// What holds for faults and their signals is said at [`Region`].
pub struct RegionArray<T> {
    memory: OwnedMemory,
    region: OwnedRegion,
    values: PhantomData<T>,
}

/// An allocator over a region, for `allocator_api2::vec::Vec`, `hashbrown::HashMap` and whatever
/// else takes one: what is in them may be larger than memory. Clones share it, and with what was
/// allocated keep it.
///
/// Where there is no room, allocating fails (`AllocError`): what grows by `push` ends the process
/// then, what grows by `try_reserve` says so. To grow in place takes free room behind; otherwise a
/// collection is copied, and is there twice meanwhile.
#[cfg(feature = "allocator-api2")]
pub type RegionAllocator = pagetide_sys::RegionHeap<OwnedRegion>;

/// What can be asked of a region whose bytes belong to an array or an allocator.
#[derive(Debug)]
pub struct OwnedRegion(Region);

impl PageCache {
    /// Makes an array of zeros, larger than the memory it may take: as many values as the region
    /// has room for.
    ///
    /// # Errors
    /// As for [`PageCache::region`]; [`CreateRegionError::NotPrivate`] where the options are others
    /// than those of an anonymous region, or name a store.
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

    /// Makes an allocator over a region.
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
    /// What serves it.
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
    /// As [`Region::stats`].
    pub fn stats(&self) -> RegionStats {
        self.0.stats()
    }

    /// Whether pages could leave memory since the last call.
    ///
    /// # Errors
    /// As for [`Region::sync`] of an anonymous region.
    pub fn sync(&self) -> Result<(), SyncError> {
        self.0.sync()
    }

    /// As [`Region::populate`], of bytes of the whole.
    ///
    /// # Errors
    /// As for [`Region::populate`].
    pub fn populate(&self, range: Range<u64>) -> Result<(), ReadError> {
        self.0.populate(range)
    }

    /// As [`Region::populate_for_writes`], of bytes of the whole.
    ///
    /// # Errors
    /// As for [`Region::populate`].
    pub fn populate_for_writes(&self, range: Range<u64>) -> Result<(), ReadError> {
        self.0.populate_for_writes(range)
    }
}
