//! The cache itself.

use crate::arguments::{Growing, bytes_mut, given, options, path_or_none, put_sized, text};
use crate::arguments::{text_or_none, texts};
use crate::door::{Failure, call, count};
use pagetide::{Builder, Bytes, CacheStats, PageCache, PolicyName, Tier};
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

/// A page cache with a hard byte limit.
pub struct pt_cache(pub(crate) PageCache);

/// What a cache is to be. One of memory_bytes and tiers must be given.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pt_cache_options {
    /// sizeof(pt_cache_options).
    pub size: usize,
    /// The hard limit of managed memory, bytes; rounded down to whole pages, at least 65536.
    pub memory_bytes: u64,
    /// The most that pt_cache_resize can grow it to, bytes. Reserves addresses, not memory. 0: the
    /// limit is the most.
    pub memory_max_bytes: u64,
    /// The replacement policy, by a name that `pagetide policies` lists. NULL: "pagetide".
    pub policy: *const c_char,
    /// Tiers instead of memory_bytes, as "dram=64M" and "slow=256M,latency=300ns"; the list ends
    /// with a NULL. NULL: one kind of memory.
    pub tiers: *const *const c_char,
    /// Knobs by the names of docs/config.md, as "readahead_max=0"; the list ends with a NULL. NULL:
    /// none.
    pub settings: *const *const c_char,
    /// Where every access is written down, for `pagetide replay`. NULL: nowhere.
    pub record: *const c_char,
    /// 1 if there are to be groups, else 0.
    pub groups: u64,
}

// SAFETY: S34: it is as that trait asks.
unsafe impl Growing for pt_cache_options {
    const FIRST_BYTES: usize = 64;
}

/// What a cache has done since it was opened, and how full it is now. Counts are exact when nothing
/// is running.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pt_cache_stats {
    /// sizeof(pt_cache_stats).
    pub size: usize,
    /// The limit, bytes.
    pub memory_bytes: u64,
    /// Memory in use, bytes; never above the limit.
    pub resident_bytes: u64,
    /// The most in use that was seen, bytes.
    pub resident_bytes_max: u64,
    /// Changed and not yet written back, bytes.
    pub dirty_bytes: u64,
    /// Pages wanted: hits and misses.
    pub accesses: u64,
    /// Pages that were in memory when wanted.
    pub hits: u64,
    /// Pages that were not.
    pub misses: u64,
    /// Pages read straight to the caller because no memory could be had.
    pub bypass_reads: u64,
    /// Pages written straight to the file because no memory could be had.
    pub writes_through: u64,
    /// Read requests to files.
    pub device_reads: u64,
    /// Bytes they read.
    pub device_read_bytes: u64,
    /// Write requests to files.
    pub device_writes: u64,
    /// Bytes they wrote.
    pub device_write_bytes: u64,
    /// Pages that came back after their eviction, where the policy keeps track.
    pub refaults: u64,
    /// Those of them that were made active at once.
    pub activations: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// CPU time spent reclaiming, nanoseconds.
    pub reclaim_cpu_ns: u64,
    /// 1 if files bypass the kernel's page cache; 0 once any file refused.
    pub direct_io: u64,
    /// 1 if batched requests go through io_uring.
    pub io_uring: u64,
}

// SAFETY: S34: it is as that trait asks.
unsafe impl Growing for pt_cache_stats {
    const FIRST_BYTES: usize = 160;
}

/// Opens a cache: reserves its memory, and starts its threads.
///
/// Errors: -EINVAL, the sentence names the option; -ENOMEM if there is not so much memory; what the
/// system says of the record and of threads.
/// Cost: tables as long as the memory has pages are written once; the memory comes as it is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_cache_open(
    wanted: *const pt_cache_options,
    cache: Option<&mut MaybeUninit<Box<pt_cache>>>,
) -> c_int {
    call(|| {
        let cache = given(cache, "cache")?;
        // SAFETY: S34: the caller's word for the structure's size.
        let wanted = unsafe { options(wanted) }?;
        let built = builder(&wanted)?.build()?;
        cache.write(Box::new(pt_cache(built)));
        Ok(())
    })
}

fn builder(wanted: &pt_cache_options) -> Result<Builder, Failure> {
    let invalid = |error: &dyn std::error::Error| Failure::invalid(error.to_string());
    let mut builder = PageCache::builder().groups(is_on(wanted.groups, "groups")?);
    if wanted.memory_bytes > 0 {
        builder = builder.memory(Bytes(wanted.memory_bytes));
    }
    if wanted.memory_max_bytes > 0 {
        builder = builder.memory_max(Bytes(wanted.memory_max_bytes));
    }
    // SAFETY: S34: text, or null.
    if let Some(name) = unsafe { text_or_none(wanted.policy, "policy") }? {
        let policy: PolicyName = name.parse().map_err(|error| invalid(&error))?;
        builder = builder.policy(policy);
    }
    // SAFETY: S34: a list of texts, or null.
    for text in unsafe { texts(wanted.tiers, "a tier") }? {
        builder = builder.tier(text.parse::<Tier>()?);
    }
    // SAFETY: S34: a list of texts, or null.
    for text in unsafe { texts(wanted.settings, "a setting") }? {
        let Some((name, value)) = text.split_once('=') else {
            return Err(Failure::invalid(format!("the setting {text:?} is not name=value")));
        };
        builder = builder.set(name, value).map_err(|error| invalid(&error))?;
    }
    // SAFETY: S34: text, or null.
    if let Some(path) = unsafe { path_or_none(wanted.record) } {
        builder = builder.record(path);
    }
    Ok(builder)
}

pub(crate) fn is_on(value: u64, name: &'static str) -> Result<bool, Failure> {
    match value {
        0 | 1 => Ok(value == 1),
        _ => Err(Failure::invalid(format!("{name} is {value}, and can be 0 or 1"))),
    }
}

/// Closes a cache. It lives on until its last file and region are closed, then writes back what is
/// dirty, and stops its threads. Errors of that last write-back cannot be told: sync first. NULL
/// does nothing.
///
/// Cost: of the last one, that write-back, and the memory's return to the system.
#[unsafe(no_mangle)]
pub extern "C" fn pt_cache_close(cache: Option<Box<pt_cache>>) {
    call(|| {
        drop(cache);
        Ok(())
    });
}

/// Changes the limit, up to memory_max_bytes. Shrinking evicts until it fits, and gives the memory
/// to the system.
///
/// Errors: -EINVAL outside what it was opened for, or less than groups are promised, and then
/// nothing changed; -EBUSY if too much is pinned or cannot be written back: some was given up.
/// Waits for another resize, where there are tiers.
/// Cost: an eviction for each page that has to go, and the write-back of those that are dirty.
#[unsafe(no_mangle)]
pub extern "C" fn pt_cache_resize(cache: Option<&pt_cache>, memory_bytes: u64) -> c_int {
    call(|| Ok(given(cache, "cache")?.0.resize(Bytes(memory_bytes))?))
}

/// Writes back all that is dirty, of all files; does not make it durable: pt_cache_sync does.
///
/// Errors: what the system said of a page that could not be written, which stays dirty; -EDEADLK if
/// this thread has a page locked.
/// Waits for other threads that have dirty pages locked.
/// Cost: the device's, one request for up to 64 neighbouring pages, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn pt_cache_flush(cache: Option<&pt_cache>) -> c_int {
    call(|| Ok(given(cache, "cache")?.0.flush_all()?))
}

/// What the cache has done so far: fills the structure, whose size must be set.
///
/// Cost: takes locks in turn, and reads every thread's counts: not for every request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_cache_get_stats(
    cache: Option<&pt_cache>,
    stats: *mut pt_cache_stats,
) -> c_int {
    call(|| {
        let now = numbers(&given(cache, "cache")?.0.stats());
        // SAFETY: S34: the caller's word for the structure's size.
        unsafe { put_sized(stats, now) }
    })
}

fn numbers(stats: &CacheStats) -> pt_cache_stats {
    pt_cache_stats {
        size: size_of::<pt_cache_stats>(),
        memory_bytes: stats.memory_bytes,
        resident_bytes: stats.resident_bytes,
        resident_bytes_max: stats.resident_bytes_max,
        dirty_bytes: stats.dirty_bytes,
        accesses: stats.accesses,
        hits: stats.hits,
        misses: stats.misses,
        bypass_reads: stats.bypass_reads,
        writes_through: stats.writes_through,
        device_reads: stats.device_reads,
        device_read_bytes: stats.device_read_bytes,
        device_writes: stats.device_writes,
        device_write_bytes: stats.device_write_bytes,
        refaults: stats.refaults,
        activations: stats.activations,
        evictions: stats.evictions,
        reclaim_cpu_ns: stats.reclaim_cpu_ns,
        direct_io: stats.direct_io.into(),
        io_uring: stats.io_uring.into(),
    }
}

/// One counter, by its name: the kernel's in /proc/vmstat where it has one, as "pgsteal_file".
///
/// Errors: -ENOENT if there is none of that name; pt_cache_describe_counters lists them.
/// Cost: that of pt_cache_get_stats.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_cache_get_counter(
    cache: Option<&pt_cache>,
    name: *const c_char,
    value: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    call(|| {
        let (cache, value) = (given(cache, "cache")?, given(value, "value")?);
        // SAFETY: S34: text, or null.
        let name = unsafe { text(name, "name") }?;
        let counters = cache.0.stats().vmstat;
        let Some((_, nr)) = counters.iter().find(|(one, _)| *one == name) else {
            let said = format!("there is no counter {name:?}");
            return Err(Failure::new(libc::ENOENT, said));
        };
        value.write(*nr);
        Ok(())
    })
}

/// Some ten lines for people: how full it is, hits, files, reclaim, tiers. As snprintf has it: at
/// most capacity bytes are written, the last of them zero, and the length of the whole text is
/// returned. A buffer of 0 bytes may be NULL.
///
/// Cost: that of pt_cache_get_stats.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_cache_describe(
    cache: Option<&pt_cache>,
    buffer: *mut c_char,
    capacity: usize,
) -> i64 {
    count(|| {
        let text = given(cache, "cache")?.0.stats().to_string();
        // SAFETY: S34: the caller's buffer, for the time of the call.
        unsafe { put_text(&text, buffer, capacity) }
    })
}

/// Every counter, a line each: its name, a space, its value. Returns as pt_cache_describe does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_cache_describe_counters(
    cache: Option<&pt_cache>,
    buffer: *mut c_char,
    capacity: usize,
) -> i64 {
    count(|| {
        let counters = given(cache, "cache")?.0.stats().vmstat;
        let text: String = counters.iter().map(|(name, nr)| format!("{name} {nr}\n")).collect();
        // SAFETY: S34: the caller's buffer, for the time of the call.
        unsafe { put_text(&text, buffer, capacity) }
    })
}

/// Text, cut to what there is room for, with a zero byte at its end; returns the whole length.
///
/// # Safety
/// As [`bytes_mut`].
pub(crate) unsafe fn put_text(
    text: &str,
    buffer: *mut c_char,
    capacity: usize,
) -> Result<u64, Failure> {
    // SAFETY: S34: this function's contract is that one's.
    let target = unsafe { bytes_mut(buffer.cast(), capacity) }?;
    if let Some(room) = capacity.checked_sub(1) {
        let nr = text.len().min(room);
        target[..nr].copy_from_slice(&text.as_bytes()[..nr]);
        target[nr] = 0;
    }
    Ok(text.len() as u64)
}
