//! What `pagetide ctl` does to a cache that runs, for a program to do itself; its resize, its
//! statistics, advice and groups are where those are.

use crate::arguments::{given, text};
use crate::cache::{is_on, pt_cache, put_text};
use crate::door::{Failure, call, count};
use pagetide::{Detail, ResidentSet};
use std::ffi::{c_char, c_int};

/// Writes back all that is dirty, of all files, and makes it durable; where that fails for one, the
/// others still are, and the first error is told.
///
/// Errors: as pt_cache_flush, and what the system said of a file that could not be made durable.
/// Waits as pt_cache_flush does.
#[unsafe(no_mangle)]
pub extern "C" fn pt_cache_sync(cache: Option<&pt_cache>) -> c_int {
    call(|| Ok(given(cache, "cache")?.0.sync_all()?))
}

/// Writes back what is dirty and not locked, and drops what is not in use, of all files. Returns
/// the bytes that came free.
#[unsafe(no_mangle)]
pub extern "C" fn pt_cache_drop(cache: Option<&pt_cache>) -> i64 {
    count(|| Ok(given(cache, "cache")?.0.drop_caches().0))
}

/// The generations as Linux's lru_gen has them, or with full 1 as lru_gen_full; nothing where the
/// policy has none. Returns as pt_cache_describe does.
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

/// Carries out commands to the generations, in the format of Linux's lru_gen. Returns how many
/// pages were evicted.
///
/// Errors: -EINVAL for the first that cannot be carried out; those before it are.
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

/// Which pages of files are in memory, and how hot they are, as text for pt_cache_warm (the format
/// is in docs/formats.md). Returns as pt_cache_describe does; what is in memory may have changed by
/// the next call.
///
/// Cost: a visit to each page in memory.
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

/// Brings in what a text of pt_cache_dump names, of each file once it is opened and if it has not
/// changed: the hottest pages first, beside the program, until memory is full.
///
/// Errors: -EINVAL for text that is no dump, or was cut.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_cache_warm(cache: Option<&pt_cache>, dump: *const c_char) -> c_int {
    call(|| {
        let cache = given(cache, "cache")?;
        // SAFETY: S34: text, or null.
        let set = unsafe { text(dump, "dump") }?.parse::<ResidentSet>();
        Ok(cache.0.warm(set.map_err(|error| Failure::invalid(error.to_string()))?)?)
    })
}
