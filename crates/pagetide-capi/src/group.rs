//! Groups: tenants of one cache.

use crate::arguments::{Growing, given, options, put_sized, text};
use crate::cache::pt_cache;
use crate::door::call;
use crate::file::{opening, pt_file};
use pagetide::{Bytes, Group, GroupOptions};
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

/// A tenant of a cache that was opened with groups.
pub struct pt_group(Group);

/// What a group may use and may keep, with those below it; rounded down to whole pages.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pt_group_options {
    /// sizeof(pt_group_options).
    pub size: usize,
    /// The most it may use, bytes, at least 65536. 0: no limit of its own.
    pub limit_bytes: u64,
    /// What it keeps whatever others need, bytes.
    pub min_bytes: u64,
    /// What it keeps unless nothing else is left, bytes.
    pub low_bytes: u64,
}

// SAFETY: S34: it is as that trait asks.
unsafe impl Growing for pt_group_options {
    const FIRST_BYTES: usize = 32;
}

/// What a group uses, with those below it, and what was done in it alone.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pt_group_stats {
    /// sizeof(pt_group_stats).
    pub size: usize,
    /// The most it may use, bytes; 0 for no limit of its own.
    pub limit_bytes: u64,
    /// What is never taken, bytes.
    pub min_bytes: u64,
    /// What is taken only where nothing else is left, bytes.
    pub low_bytes: u64,
    /// Charged to it, bytes; never above the limit, but where that was lowered.
    pub usage_bytes: u64,
    /// Pages wanted of its files: hits and misses.
    pub accesses: u64,
    /// Pages that were in memory when wanted.
    pub hits: u64,
    /// Pages that were not.
    pub misses: u64,
    /// Pages read straight to the caller because no memory could be had.
    pub bypass_reads: u64,
    /// Pages written straight to the file because no memory could be had.
    pub writes_through: u64,
    /// Pages of it that came back after their eviction, where the policy keeps track.
    pub refaults: u64,
    /// Those of them that were made active at once.
    pub activations: u64,
    /// Its pages evicted.
    pub evictions: u64,
}

// SAFETY: S34: it is as that trait asks.
unsafe impl Growing for pt_group_stats {
    const FIRST_BYTES: usize = 104;
}

/// Makes a group. Its name is its alone in this cache.
///
/// Errors: -EOPNOTSUPP if the cache was opened without groups; -EEXIST; -EINVAL if the options make
/// no sense together or promise more than there is; -EDQUOT if there are too many.
/// Cost: lists of its own, which for some policies are as long as the memory has pages.
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
        // SAFETY: S34: the caller's word for the structure's size.
        let wanted = limits(&unsafe { options(wanted) }?);
        group.write(Box::new(pt_group(cache.0.group(name, wanted)?)));
        Ok(())
    })
}

/// Makes a group below another: what it uses, that one uses, too.
///
/// Errors and cost: as pt_group_create; -ENOENT if that one was removed.
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
        // SAFETY: S34: the caller's word for the structure's size.
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

/// Lets go of the handle; the group stays: pt_group_remove removes it. NULL does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn pt_group_close(group: Option<Box<pt_group>>) {
    call(|| {
        drop(group);
        Ok(())
    });
}

/// Opens a file for the group, as pt_file_open: the pages it brings in are charged to the group. A
/// file is of one group at a time, that of the first of its handles that are open.
///
/// Errors: as pt_file_open; -ENOENT if the group was removed.
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

/// Gives the group other limits. Where it uses more than it now may, pages go until it fits; what
/// is dirty or pinned stays until later misses find it.
///
/// Errors: as pt_group_create; -ENOENT if it was removed.
/// Cost: an eviction for each page that has to go.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_group_set(
    group: Option<&pt_group>,
    wanted: *const pt_group_options,
) -> c_int {
    call(|| {
        let group = given(group, "group")?;
        // SAFETY: S34: the caller's word for the structure's size.
        let wanted = unsafe { options(wanted) }?;
        Ok(group.0.set(limits(&wanted))?)
    })
}

/// What the group uses, and what it did: fills the structure, whose size must be set.
///
/// Errors: -ENOENT if it was removed.
/// Cost: takes a lock, and reads every thread's counts: not for every request.
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
        // SAFETY: S34: the caller's word for the structure's size.
        unsafe { put_sized(stats, now) }
    })
}

/// Frees memory of the group before it is needed, in the calling thread; writes how many bytes came
/// free, which may be fewer. freed_bytes may be NULL.
///
/// Errors: -ENOENT if it was removed.
/// Cost: an eviction for each page.
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

/// Removes the group. Its files and pages are its parent's from now on. The handle is still to be
/// closed.
///
/// Errors: -EBUSY if there are groups below it; -ENOENT if it was removed before.
#[unsafe(no_mangle)]
pub extern "C" fn pt_group_remove(group: Option<&pt_group>) -> c_int {
    call(|| Ok(given(group, "group")?.0.remove()?))
}
