//! Groups: tenants of one cache.

use crate::arguments::{Growing, duplicate, given, options, put_sized, text};
use crate::cache::pt_cache;
use crate::door::call;
use crate::file::{opening, pt_file};
use pagetide::{Bytes, Group, GroupOptions};
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

/// A tenant of a cache that was opened with groups.
pub struct pt_group(Group);

/// A group's limit and guarantees in bytes, including its subgroups. Rounded down to whole pages.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pt_group_options {
    /// sizeof(pt_group_options).
    pub size: usize,
    /// The maximum use in bytes, at least 65536. 0: no limit of its own.
    pub limit_bytes: u64,
    /// The use that reclaim never takes, in bytes.
    pub min_bytes: u64,
    /// The use that reclaim takes only as a last resort, in bytes.
    pub low_bytes: u64,
}

// SAFETY: S34: as the trait requires.
unsafe impl Growing for pt_group_options {
    const FIRST_BYTES: usize = 32;
}

/// A group's use of memory, including its subgroups, and the group's own counters.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pt_group_stats {
    /// sizeof(pt_group_stats).
    pub size: usize,
    /// The maximum use in bytes, 0 for no limit of its own.
    pub limit_bytes: u64,
    /// The use that reclaim never takes, in bytes.
    pub min_bytes: u64,
    /// The use that reclaim takes only as a last resort, in bytes.
    pub low_bytes: u64,
    /// Charged memory, in bytes. Above the limit only after the limit was lowered.
    pub usage_bytes: u64,
    /// Page accesses to the group's files: hits and misses.
    pub accesses: u64,
    /// Accesses to pages in memory.
    pub hits: u64,
    /// Accesses to absent pages.
    pub misses: u64,
    /// Pages read directly to the caller, because all memory was in use.
    pub bypass_reads: u64,
    /// Pages written directly to the file, because all memory was in use.
    pub writes_through: u64,
    /// The group's pages that came back after their eviction, if the policy tracks this.
    pub refaults: u64,
    /// Refaults that were activated at once.
    pub activations: u64,
    /// The group's evicted pages.
    pub evictions: u64,
}

// SAFETY: S34: as the trait requires.
unsafe impl Growing for pt_group_stats {
    const FIRST_BYTES: usize = 104;
}

/// Makes a group, with a unique name in this cache.
///
/// Errors: -EOPNOTSUPP if the cache was opened without groups. -EEXIST. -EINVAL if the options
/// contradict each other or guarantee more than there is. -EDQUOT if there are too many groups.
/// Cost: lists, which some policies size by the number of pages in memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_group_create(
    cache: Option<&pt_cache>,
    name: *const c_char,
    wanted: *const pt_group_options,
    group: Option<&mut MaybeUninit<Box<pt_group>>>,
) -> c_int {
    call(|| {
        let (cache, group) = (given(cache, "cache")?, given(group, "group")?);
        // SAFETY: S34: text, or null.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: S34: the caller vouches for the structure's size.
        let wanted = limits(&unsafe { options(wanted) }?);
        group.write(Box::new(pt_group(cache.0.group(name, wanted)?)));
        Ok(())
    })
}

/// Makes a subgroup. The use is also charged to the parent.
///
/// Errors and cost: as pt_group_create. -ENOENT if the parent was removed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_group_create_below(
    parent: Option<&pt_group>,
    name: *const c_char,
    wanted: *const pt_group_options,
    group: Option<&mut MaybeUninit<Box<pt_group>>>,
) -> c_int {
    call(|| {
        let (parent, group) = (given(parent, "parent")?, given(group, "group")?);
        // SAFETY: S34: text, or null.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: S34: the caller vouches for the structure's size.
        let wanted = limits(&unsafe { options(wanted) }?);
        group.write(Box::new(pt_group(parent.0.group(name, wanted)?)));
        Ok(())
    })
}

fn limits(wanted: &pt_group_options) -> GroupOptions {
    let options = GroupOptions::new().min(Bytes(wanted.min_bytes)).low(Bytes(wanted.low_bytes));
    match wanted.limit_bytes {
        0 => options,
        limit => options.limit(Bytes(limit)),
    }
}

/// Closes the handle. The group stays until pt_group_remove. NULL does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn pt_group_close(group: Option<Box<pt_group>>) {
    call(|| {
        drop(group);
        Ok(())
    });
}

/// Opens a file as pt_file_open, and charges its pages to the group. A file belongs to one group at
/// a time: the group of its oldest open handle.
///
/// Errors: as pt_file_open. -ENOENT if the group was removed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_group_open_file(
    group: Option<&pt_group>,
    path: *const c_char,
    flags: u32,
    file: Option<&mut MaybeUninit<Box<pt_file>>>,
) -> c_int {
    call(|| {
        let (group, file) = (given(group, "group")?, given(file, "file")?);
        // SAFETY: S34: text, or null.
        let (path, options) = unsafe { opening(path, flags) }?;
        file.write(Box::new(pt_file(group.0.open(path, options)?)));
        Ok(())
    })
}

/// Opens the file of a descriptor as pt_file_open_fd, and charges its pages to the group.
///
/// Errors: as pt_file_open_fd. -ENOENT if the group was removed.
#[unsafe(no_mangle)]
pub extern "C" fn pt_group_open_fd(
    group: Option<&pt_group>,
    fd: c_int,
    file: Option<&mut MaybeUninit<Box<pt_file>>>,
) -> c_int {
    call(|| {
        let (group, file) = (given(group, "group")?, given(file, "file")?);
        file.write(Box::new(pt_file(group.0.open_file(duplicate(fd)?)?)));
        Ok(())
    })
}

/// Changes the group's limits. Evicts pages above the new limit. Dirty or pinned pages stay until
/// later misses.
///
/// Errors: as pt_group_create. -ENOENT if the group was removed.
/// Cost: an eviction per page removed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_group_set(
    group: Option<&pt_group>,
    wanted: *const pt_group_options,
) -> c_int {
    call(|| {
        let group = given(group, "group")?;
        // SAFETY: S34: the caller vouches for the structure's size.
        let wanted = unsafe { options(wanted) }?;
        Ok(group.0.set(limits(&wanted))?)
    })
}

/// Fills the structure with the group's statistics. Set stats->size before.
///
/// Errors: -ENOENT if the group was removed.
/// Cost: takes a lock, and reads every thread's counts. Not for every request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_group_get_stats(
    group: Option<&pt_group>,
    stats: *mut pt_group_stats,
) -> c_int {
    call(|| {
        let now = given(group, "group")?.0.stats()?;
        let now = pt_group_stats {
            size: size_of::<pt_group_stats>(),
            limit_bytes: now.limit_bytes.unwrap_or(0),
            min_bytes: now.min_bytes,
            low_bytes: now.low_bytes,
            usage_bytes: now.usage_bytes,
            accesses: now.accesses,
            hits: now.hits,
            misses: now.misses,
            bypass_reads: now.bypass_reads,
            writes_through: now.writes_through,
            refaults: now.refaults,
            activations: now.activations,
            evictions: now.evictions,
        };
        // SAFETY: S34: the caller vouches for the structure's size.
        unsafe { put_sized(stats, now) }
    })
}

/// Frees memory of the group in advance, in the calling thread. Writes the number of bytes freed,
/// which may be less than wanted_bytes. freed_bytes may be NULL.
///
/// Errors: -ENOENT if the group was removed.
/// Cost: an eviction per page.
#[unsafe(no_mangle)]
pub extern "C" fn pt_group_reclaim(
    group: Option<&pt_group>,
    wanted_bytes: u64,
    freed_bytes: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    call(|| {
        let freed = given(group, "group")?.0.reclaim(Bytes(wanted_bytes))?;
        if let Some(target) = freed_bytes {
            target.write(freed.0);
        }
        Ok(())
    })
}

/// Removes the group. The parent gets all files and pages. The handle must still be closed.
///
/// Errors: -EBUSY if the group has subgroups. -ENOENT if removed before.
#[unsafe(no_mangle)]
pub extern "C" fn pt_group_remove(group: Option<&pt_group>) -> c_int {
    call(|| Ok(given(group, "group")?.0.remove()?))
}
