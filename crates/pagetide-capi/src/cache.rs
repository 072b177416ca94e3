//! The page cache.

use crate::arguments::{Growing, bytes_mut, given, options, path_or_none, put_sized, text};
use crate::arguments::{text_or_none, texts};
use crate::door::{Failure, call, count};
use pagetide::{Builder, Bytes, CacheStats, PageCache, PolicyName, Tier};
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

/// A page cache with a hard byte limit.
pub struct pt_cache(pub(crate) PageCache);

/// Options for opening a cache. Either memory_bytes or tiers must be given.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pt_cache_options {
    /// sizeof(pt_cache_options).
    pub size: usize,
    /// The hard limit of managed memory in bytes, rounded down to whole pages, at least 65536.
    pub memory_bytes: u64,
    /// The maximum for pt_cache_resize in bytes. Reserves addresses, not memory. 0: memory_bytes.
    pub memory_max_bytes: u64,
    /// The replacement policy, by name (`pagetide policies`). NULL: "pagetide".
    pub policy: *const c_char,
    /// Tiers instead of memory_bytes, as "dram=64M" and "slow=256M,latency=300ns", a list that ends
    /// with NULL. NULL: one kind of memory.
    pub tiers: *const *const c_char,
    /// Knobs by name (docs/config.md), as "readahead_max=0", a list that ends with NULL.
    /// NULL: none.
    pub settings: *const *const c_char,
    /// The file to record every access in, for `pagetide replay`. NULL: none.
    pub record: *const c_char,
    /// 1 to allow groups, else 0.
    pub groups: u64,
}

// SAFETY: S34: as the trait requires.
unsafe impl Growing for pt_cache_options {
    const FIRST_BYTES: usize = 64;
}

/// A cache's counters since its opening, and its current use of memory. Counts are exact when no
/// call is running.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pt_cache_stats {
    /// sizeof(pt_cache_stats).
    pub size: usize,
    /// The limit, in bytes.
    pub memory_bytes: u64,
    /// Memory in use, in bytes. Never above the limit.
    pub resident_bytes: u64,
    /// The peak of memory in use, in bytes.
    pub resident_bytes_max: u64,
    /// Changed and not yet written back, in bytes.
    pub dirty_bytes: u64,
    /// Page accesses: hits and misses.
    pub accesses: u64,
    /// Accesses to pages in memory.
    pub hits: u64,
    /// Accesses to absent pages.
    pub misses: u64,
    /// Pages read directly to the caller, because all memory was in use.
    pub bypass_reads: u64,
    /// Pages written directly to the file, because all memory was in use.
    pub writes_through: u64,
    /// Read requests to files.
    pub device_reads: u64,
    /// Bytes read by these requests.
    pub device_read_bytes: u64,
    /// Write requests to files.
    pub device_writes: u64,
    /// Bytes written by these requests.
    pub device_write_bytes: u64,
    /// Pages that came back after their eviction, if the policy tracks this.
    pub refaults: u64,
    /// Refaults that were activated at once.
    pub activations: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// CPU time spent reclaiming, in nanoseconds.
    pub reclaim_cpu_ns: u64,
    /// 1 if files bypass the kernel's page cache. 0 once any file refused.
    pub direct_io: u64,
    /// 1 if batched requests go through io_uring.
    pub io_uring: u64,
}

// SAFETY: S34: as the trait requires.
unsafe impl Growing for pt_cache_stats {
    const FIRST_BYTES: usize = 160;
}

/// Opens a cache: reserves memory, and starts threads.
///
/// Errors: -EINVAL if an option is wrong, which the message names. -ENOMEM if memory is short. The
/// system's errors for the record and for threads.
/// Cost: writes tables proportional to the number of pages. Memory is allocated on use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_cache_open(
    wanted: *const pt_cache_options,
    cache: Option<&mut MaybeUninit<Box<pt_cache>>>,
) -> c_int {
    call(|| {
        let cache = given(cache, "cache")?;
        // SAFETY: S34: the caller vouches for the structure's size.
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

/// Closes a cache. The cache lives until the last file and region are closed, then writes back
/// dirty pages, and stops all threads. Errors of this write-back are lost, so sync first. NULL
/// does nothing.
///
/// Cost: of the last close, the write-back, and returning the memory to the system.
#[unsafe(no_mangle)]
pub extern "C" fn pt_cache_close(cache: Option<Box<pt_cache>>) {
    call(|| {
        drop(cache);
        Ok(())
    });
}

/// Changes the limit, up to memory_max_bytes. Shrinking evicts pages, and returns the memory to
/// the system.
///
/// Errors: -EINVAL if outside the cache's range, or below the groups' guarantees, without any
/// change. -EBUSY if too much is pinned or cannot be written back, after a partial eviction.
/// Waits for another resize of a cache with tiers.
/// Cost: an eviction per page removed, and the write-back of dirty ones.
#[unsafe(no_mangle)]
pub extern "C" fn pt_cache_resize(cache: Option<&pt_cache>, memory_bytes: u64) -> c_int {
    call(|| Ok(given(cache, "cache")?.0.resize(Bytes(memory_bytes))?))
}

/// Writes back all dirty pages of all files, but not durably: use pt_cache_sync.
///
/// Errors: the system's error for a page that could not be written and stays dirty. -EDEADLK if
/// this thread has a page locked.
/// Waits for threads that have dirty pages locked.
/// Cost: the device's, one request per up to 64 neighbouring pages, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn pt_cache_flush(cache: Option<&pt_cache>) -> c_int {
    call(|| Ok(given(cache, "cache")?.0.flush_all()?))
}

/// Fills the structure with the cache's statistics. Set stats->size before.
///
/// Cost: takes several locks in turn, and reads every thread's counts. Not for every request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_cache_get_stats(
    cache: Option<&pt_cache>,
    stats: *mut pt_cache_stats,
) -> c_int {
    call(|| {
        let now = numbers(&given(cache, "cache")?.0.stats());
        // SAFETY: S34: the caller vouches for the structure's size.
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

/// Reads a counter by name, which is the kernel's name in /proc/vmstat if it has one, as
/// "pgsteal_file".
///
/// Errors: -ENOENT if there is no such counter. See pt_cache_describe_counters.
/// Cost: of pt_cache_get_stats.
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

/// Writes about ten lines for people: use of memory, hits, files, reclaim, tiers. As snprintf:
/// writes at most capacity bytes, the last of them zero, and returns the length of the whole text.
/// A buffer of 0 bytes may be NULL.
///
/// Cost: of pt_cache_get_stats.
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

/// Writes every counter, one per line: name, space, value. Returns as pt_cache_describe.
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

/// Writes text, truncated to the buffer, with a final zero. Returns the whole length.
///
/// # Safety
/// As [`bytes_mut`].
pub(crate) unsafe fn put_text(
    text: &str,
    buffer: *mut c_char,
    capacity: usize,
) -> Result<u64, Failure> {
    // SAFETY: S34: both functions have the same contract.
    let target = unsafe { bytes_mut(buffer.cast(), capacity) }?;
    if let Some(room) = capacity.checked_sub(1) {
        let nr = text.len().min(room);
        target[..nr].copy_from_slice(&text.as_bytes()[..nr]);
        target[nr] = 0;
    }
    Ok(text.len() as u64)
}
