//! The functions of `pagetide ctl` for a program's own cache. Resize, statistics, advice and groups
//! are in other files.

use crate::arguments::{given, text};
use crate::cache::{is_on, pt_cache, put_text};
use crate::door::{Failure, call, count};
use pagetide::{Detail, ResidentSet};
use std::ffi::{c_char, c_int};

/// Makes all changes of all files durable. Continues after an error, and returns the first one.
///
/// Errors: as pt_cache_flush, and the system's error for a file that could not be made durable.
/// Waits as pt_cache_flush.
#[unsafe(no_mangle)]
pub extern "C" fn pt_cache_sync(cache: Option<&pt_cache>) -> c_int {
    call(|| Ok(given(cache, "cache")?.0.sync_all()?))
}

/// Writes back dirty unlocked pages, and drops unused pages, of all files. Returns the bytes freed.
#[unsafe(no_mangle)]
pub extern "C" fn pt_cache_drop(cache: Option<&pt_cache>) -> i64 {
    count(|| Ok(given(cache, "cache")?.0.drop_caches().0))
}

/// Writes the generations in the format of Linux's lru_gen, or with full 1 of lru_gen_full. Empty
/// if the policy has none. Returns as pt_cache_describe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_cache_describe_lru_gen(
    cache: Option<&pt_cache>,
    full: u64,
    buffer: *mut c_char,
    capacity: usize,
) -> i64 {
    count(|| {
        let detail = if is_on(full, "full")? { Detail::Full } else { Detail::Sizes };
        let text = given(cache, "cache")?.0.describe_lru_gen(detail);
        // SAFETY: S34: the caller's buffer, for the time of the call.
        unsafe { put_text(&text, buffer, capacity) }
    })
}

/// Runs commands to the generations, in the format of Linux's lru_gen. Returns the number of pages
/// evicted.
///
/// Errors: -EINVAL for the first command that fails. Earlier commands took effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_cache_command_lru_gen(
    cache: Option<&pt_cache>,
    commands: *const c_char,
) -> i64 {
    count(|| {
        let cache = given(cache, "cache")?;
        // SAFETY: S34: text, or null.
        let commands = unsafe { text(commands, "commands") }?;
        let evicted = cache.0.command_lru_gen(commands);
        evicted.map_err(|error| Failure::invalid(error.to_string()))
    })
}

/// Writes the files' pages in memory, with heat, as text for pt_cache_warm (the format is in
/// docs/formats.md). Returns as pt_cache_describe. Pages in memory may have changed by the next
/// call.
///
/// Cost: a visit of each page in memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_cache_dump(
    cache: Option<&pt_cache>,
    buffer: *mut c_char,
    capacity: usize,
) -> i64 {
    count(|| {
        let text = given(cache, "cache")?.0.dump().to_string();
        // SAFETY: S34: the caller's buffer, for the time of the call.
        unsafe { put_text(&text, buffer, capacity) }
    })
}

/// Fills the pages listed by pt_cache_dump, for each unchanged file once opened: hottest first,
/// in the background, until memory is full.
///
/// Errors: -EINVAL for text that is not a dump, or was truncated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_cache_warm(cache: Option<&pt_cache>, dump: *const c_char) -> c_int {
    call(|| {
        let cache = given(cache, "cache")?;
        // SAFETY: S34: text, or null.
        let set = unsafe { text(dump, "dump") }?.parse::<ResidentSet>();
        Ok(cache.0.warm(set.map_err(|error| Failure::invalid(error.to_string()))?)?)
    })
}
