//! Regions: address ranges with pages in memory only as far as the limit allows.

use crate::arguments::{Growing, given, options, path_or_none, put_sized};
use crate::cache::pt_cache;
use crate::door::{Failure, call, count};
use crate::file::{PT_READ, PT_WRITE, advice_of};
use pagetide::{Bytes, FaultDelivery, Region, RegionOptions};
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

/// An address range with pages that are filled on faults and evicted. Any code may load and store.
pub struct pt_region(Region);

/// Options for a region: len_bytes of zeros, or over the file at path.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pt_region_options {
    /// sizeof(pt_region_options).
    pub size: usize,
    /// The length of an anonymous region in bytes, rounded up to whole pages. 0: over a file.
    pub len_bytes: u64,
    /// The existing file that the region reads and writes. While the region lives, the cache has no
    /// other access to the file. NULL: an anonymous region.
    pub path: *const c_char,
    /// The folder for evicted pages of an anonymous region. NULL: TMPDIR, else /var/tmp.
    pub swap_folder: *const c_char,
    /// Threads that serve the region's faults. 0: the faulting thread serves its own fault if
    /// possible, at a fraction of the cost. See docs/regions.md for the requirements.
    pub handlers: u64,
    /// 1: opens the file read-only, without need of write access. Stores to the region stay in
    /// memory, and reach no file. 0, or without a path: no effect.
    pub read_only: u64,
}

// SAFETY: S34: as the trait requires.
unsafe impl Growing for pt_region_options {
    const FIRST_BYTES: usize = 40;
}

/// A region's faults so far, and its current use of memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pt_region_stats {
    /// sizeof(pt_region_stats).
    pub size: usize,
    /// Faults on absent pages.
    pub missing_faults: u64,
    /// Faults on unmapped pages in memory, which reveal their use.
    pub minor_faults: u64,
    /// Stores to pages mapped for reading.
    pub wp_faults: u64,
    /// Faults that could not be served: the thread got SIGBUS.
    pub failed_faults: u64,
    /// Memory of the pages now, in bytes.
    pub resident_bytes: u64,
    /// 1 if the faulting thread serves its own fault: system calls given addresses of unmapped
    /// pages then fail with EFAULT. 0 if threads of the region do.
    pub is_served_in_place: u64,
}

// SAFETY: S34: as the trait requires.
unsafe impl Growing for pt_region_stats {
    const FIRST_BYTES: usize = 56;
}

/// Makes a region, which competes for memory with the rest of the cache. A page that cannot be read
/// raises SIGBUS, as in a mapped file, and pt_region_sync returns the cause. Not for memory that
/// devices write, nor for a child after fork.
///
/// Errors: -EINVAL unless exactly one of len_bytes and path is given. -EBUSY if the file is open in
/// this cache. -EACCES or -EPERM if the system refuses userfaultfd. The system's.
/// Cost: a reservation of addresses, independent of the length, and threads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_region_create(
    cache: Option<&pt_cache>,
    wanted: *const pt_region_options,
    region: Option<&mut MaybeUninit<Box<pt_region>>>,
) -> c_int {
    call(|| {
        let (cache, region) = (given(cache, "cache")?, given(region, "region")?);
        // SAFETY: S34: the caller vouches for the structure's size.
        let wanted = unsafe { options(wanted) }?;
        // SAFETY: S34: text, or null.
        let path = unsafe { path_or_none(wanted.path) };
        // SAFETY: S34: text, or null.
        let swap = unsafe { path_or_none(wanted.swap_folder) };
        let mut options = match (wanted.len_bytes, path) {
            (1.., None) => RegionOptions::anonymous(Bytes(wanted.len_bytes)),
            (0, Some(path)) if wanted.read_only > 0 => RegionOptions::over(path).read_only(),
            (0, Some(path)) => RegionOptions::over(path),
            (0, None) => return Err(Failure::invalid("give the region len_bytes or a path")),
            _ => return Err(Failure::invalid("a region over a file is as long as the file")),
        };
        if let Some(folder) = swap {
            options = options.swap_in(folder);
        }
        if wanted.handlers > 0 {
            options = options.handlers(wanted.handlers.try_into().unwrap_or(usize::MAX));
        }
        region.write(Box::new(pt_region(cache.0.region(options)?)));
        Ok(())
    })
}

/// Ends a region: no code may use the addresses any more. Contents of an anonymous region are lost.
/// Contents over a file are written back, and errors are lost, so sync first. NULL does nothing.
///
/// Cost: the write-back, and a visit of each touched page.
#[unsafe(no_mangle)]
pub extern "C" fn pt_region_destroy(region: Option<Box<pt_region>>) {
    call(|| {
        drop(region);
        Ok(())
    });
}

/// Returns the first address, page aligned. NULL for NULL. Free.
#[unsafe(no_mangle)]
pub extern "C" fn pt_region_address(region: Option<&pt_region>) -> *mut c_void {
    region.map_or(std::ptr::null_mut(), |region| region.0.as_ptr().cast())
}

/// Returns the length in bytes. Stores past this in a partial last page reach no file. Free.
#[unsafe(no_mangle)]
pub extern "C" fn pt_region_len(region: Option<&pt_region>) -> i64 {
    count(|| Ok(given(region, "region")?.0.len()))
}

/// Maps the pages of a range of bytes, as far as memory allows, so that system calls can be given
/// addresses in the range: PT_READ for calls that read there, PT_WRITE for calls that write there.
/// Pages may leave again, so repeat a call that fails with EFAULT.
///
/// Errors: -EINVAL for other access. -ENODATA if the range leaves the region. The system's.
/// Cost: a fill per absent page, and a system call per unmapped page.
#[unsafe(no_mangle)]
pub extern "C" fn pt_region_populate(
    region: Option<&pt_region>,
    offset: u64,
    len: u64,
    access: u32,
) -> c_int {
    call(|| {
        let region = given(region, "region")?;
        let range = offset..offset.saturating_add(len);
        match access {
            PT_READ => region.0.populate(range)?,
            PT_WRITE => region.0.populate_for_writes(range)?,
            _ => return Err(Failure::invalid(format!("{access} is not PT_READ or PT_WRITE"))),
        }
        Ok(())
    })
}

/// Writes back dirty pages, and makes them durable. An anonymous region writes nothing, and reports
/// if its pages could not leave memory.
///
/// Errors: as pt_file_sync. For an anonymous region, the system's error for the swap folder.
/// Cost: as pt_file_sync. For an anonymous region, none.
#[unsafe(no_mangle)]
pub extern "C" fn pt_region_sync(region: Option<&pt_region>) -> c_int {
    call(|| Ok(given(region, "region")?.0.sync()?))
}

/// Takes advice about a range of bytes. len 0 is to the end. PT_ADVICE_WILLNEED fills the range,
/// PT_ADVICE_DONTNEED writes back and frees the memory, but keeps the contents. Other advice has
/// no effect.
///
/// Errors and cost: as pt_file_advise.
#[unsafe(no_mangle)]
pub extern "C" fn pt_region_advise(
    region: Option<&pt_region>,
    advice: u32,
    offset: u64,
    len: u64,
) -> c_int {
    call(|| Ok(given(region, "region")?.0.advise(advice_of(advice)?, offset, len)?))
}

/// Fills the structure with the region's statistics. Set stats->size before.
///
/// Cost: a look at every page that was ever touched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_region_get_stats(
    region: Option<&pt_region>,
    stats: *mut pt_region_stats,
) -> c_int {
    call(|| {
        let now = given(region, "region")?.0.stats();
        let now = pt_region_stats {
            size: size_of::<pt_region_stats>(),
            missing_faults: now.missing_faults,
            minor_faults: now.minor_faults,
            wp_faults: now.wp_faults,
            failed_faults: now.failed_faults,
            resident_bytes: now.resident_bytes,
            is_served_in_place: (now.delivery == FaultDelivery::Signal).into(),
        };
        // SAFETY: S34: the caller vouches for the structure's size.
        unsafe { put_sized(stats, now) }
    })
}
