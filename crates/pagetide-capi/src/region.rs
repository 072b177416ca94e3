//! Regions: address ranges of which only what the limit allows is in memory.

use crate::arguments::{Growing, given, options, path_or_none, put_sized};
use crate::cache::pt_cache;
use crate::door::{Failure, call, count};
use crate::file::{PT_READ, PT_WRITE, advice_of};
use pagetide::{Bytes, FaultDelivery, Region, RegionOptions};
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

/// An address range whose pages come and go; any code may load from it and store to it.
pub struct pt_region(Region);

/// What a region is to be: len_bytes of zeros, or over the file at path.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pt_region_options {
    /// sizeof(pt_region_options).
    pub size: usize,
    /// The length of an anonymous region, bytes, rounded up to whole pages. 0: over a file.
    pub len_bytes: u64,
    /// The file that exists whose bytes it has, to be read and written. While the region lives it
    /// is the cache's only way to the file. NULL: an anonymous region.
    pub path: *const c_char,
    /// The folder for what leaves an anonymous region's memory. NULL: TMPDIR, else /var/tmp.
    pub swap_folder: *const c_char,
    /// Threads that serve its faults. 0: the thread that touched a page serves its fault, where
    /// that can be, at a fraction of the cost; see docs/regions.md for what it asks of the program.
    pub handlers: u64,
    /// 1: the file is opened for reading alone, and need not be writable. What is stored in the
    /// region all the same reaches no file, and stays in memory. 0, or without a path: no such
    /// thing.
    pub read_only: u64,
}

// SAFETY: S34: it is as that trait asks.
unsafe impl Growing for pt_region_options {
    const FIRST_BYTES: usize = 40;
}

/// Faults of a region so far, and memory it takes now.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pt_region_stats {
    /// sizeof(pt_region_stats).
    pub size: usize,
    /// Faults on pages that were not in memory.
    pub missing_faults: u64,
    /// On pages in memory that were not mapped: to learn that they are used.
    pub minor_faults: u64,
    /// Stores to pages that were mapped for reading.
    pub wp_faults: u64,
    /// On pages that could not be had: the thread got SIGBUS.
    pub failed_faults: u64,
    /// Memory that its pages take now, bytes.
    pub resident_bytes: u64,
    /// 1 if the thread that touched a page serves its fault: system calls that are given addresses
    /// of pages that are not mapped then fail with EFAULT. 0 if threads of the region do.
    pub is_served_in_place: u64,
}

// SAFETY: S34: it is as that trait asks.
unsafe impl Growing for pt_region_stats {
    const FIRST_BYTES: usize = 56;
}

/// Makes a region, which competes for memory with all else in the cache. A page that cannot be had
/// ends the access with SIGBUS, as in a mapped file; pt_region_sync says why. Not for memory that
/// devices write, nor for a child after fork.
///
/// Errors: -EINVAL if not just one of len_bytes and path is given; -EBUSY if the file is open in
/// this cache; -EACCES or -EPERM where the system refuses userfaultfd; the system's.
/// Cost: a reservation of addresses, whatever its length, and threads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_region_create(
    cache: Option<&pt_cache>,
    wanted: *const pt_region_options,
    region: Option<&mut MaybeUninit<Box<pt_region>>>,
) -> c_int {
    call(|| {
        let (cache, region) = (given(cache, "cache")?, given(region, "region")?);
        // SAFETY: S34: the caller's word for the structure's size.
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

/// Ends a region: no code may use its addresses any more. The contents of an anonymous one are
/// gone, those over a file are written back, whose errors cannot be told: sync first. NULL does
/// nothing.
///
/// Cost: that write-back, and a visit to each page that was touched.
#[unsafe(no_mangle)]
pub extern "C" fn pt_region_destroy(region: Option<Box<pt_region>>) {
    call(|| {
        drop(region);
        Ok(())
    });
}

/// Where it begins; page aligned. NULL of NULL. Free.
#[unsafe(no_mangle)]
pub extern "C" fn pt_region_address(region: Option<&pt_region>) -> *mut c_void {
    region.map_or(std::ptr::null_mut(), |region| region.0.as_ptr().cast())
}

/// Its length, bytes. Of a file whose last page is partial, what is stored past this reaches no
/// file. Free.
#[unsafe(no_mangle)]
pub extern "C" fn pt_region_len(region: Option<&pt_region>) -> i64 {
    count(|| Ok(given(region, "region")?.0.len()))
}

/// Maps the pages of a range of bytes, as far as they fit, so that a system call can be given their
/// addresses: one that reads from them with access PT_READ, one that writes to them with PT_WRITE.
/// Nothing keeps them from leaving again: a call that fails with EFAULT is to be repeated.
///
/// Errors: -EINVAL for other access; -ENODATA if the range leaves the region; the system's.
/// Cost: a fill for each absent page, and a system call for each that is not mapped.
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

/// Writes back what is dirty, and makes it durable. Of an anonymous region nothing is written; the
/// call says whether its pages could leave memory.
///
/// Errors: as pt_file_sync; of an anonymous region what the system said of the swap folder.
/// Cost: as pt_file_sync; of an anonymous region none.
#[unsafe(no_mangle)]
pub extern "C" fn pt_region_sync(region: Option<&pt_region>) -> c_int {
    call(|| Ok(given(region, "region")?.0.sync()?))
}

/// Takes advice about a range of bytes; len 0 is to the end. PT_ADVICE_WILLNEED brings it into
/// memory, PT_ADVICE_DONTNEED writes it back and lets the memory go, but keeps the contents; other
/// advice has no meaning here.
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

/// Faults so far, and memory taken now: fills the structure, whose size must be set.
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
        // SAFETY: S34: the caller's word for the structure's size.
        unsafe { put_sized(stats, now) }
    })
}
