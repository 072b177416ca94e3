//! Policies alone: the decisions for a cache with memory of its own.

use crate::arguments::{Growing, bytes, given, options, put_sized, text};
use crate::door::{Failure, call, count};
use pagetide::policy::{Capacity, Policy, PolicyBuilder, PolicyName, key_of};
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;

/// The keys of a cache, and the decision which key leaves. Calls with the same policy are made one
/// at a time: the caller locks, or gives each thread a policy.
pub struct pt_policy(Policy);

/// The capacity of a policy.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pt_policy_options {
    /// sizeof(pt_policy_options).
    pub size: usize,
    /// The largest number of entries. 0: capacity_bytes / entry_bytes, rounded up.
    pub capacity_entries: u64,
    /// The largest sum of the entries' lengths in bytes. 0: no limit in bytes.
    pub capacity_bytes: u64,
    /// The average length of an entry, for a capacity in bytes.
    pub entry_bytes: u64,
    /// The largest capacity of a later resize, in entries. 0: the capacity.
    pub entries_max: u64,
    /// The number of evictions after which a key is forgotten. 0: two for each entry.
    pub history: u64,
}

// SAFETY: S34: as the trait requires.
unsafe impl Growing for pt_policy_options {
    const FIRST_BYTES: usize = 48;
}

/// A policy's counters since it was opened, and its present keys. accesses is hits + misses, and
/// inserted is evicted + removed + entries.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pt_policy_stats {
    /// sizeof(pt_policy_stats).
    pub size: usize,
    /// Accesses, including inserts of present keys.
    pub accesses: u64,
    /// Accesses of present keys.
    pub hits: u64,
    /// Accesses of absent keys.
    pub misses: u64,
    /// Absent keys added.
    pub inserted: u64,
    /// Keys evicted, by inserts, resizes and requests.
    pub evicted: u64,
    /// Present keys removed.
    pub removed: u64,
    /// Present keys.
    pub entries: u64,
    /// The sum of their lengths.
    pub bytes: u64,
    /// Pinned keys.
    pub pinned: u64,
}

// SAFETY: S34: as the trait requires.
unsafe impl Growing for pt_policy_stats {
    const FIRST_BYTES: usize = 80;
}

/// Makes an empty policy with a name from `pagetide policies`, as "s3fifo".
///
/// Errors: -EINVAL for an unknown name (the message lists the names), and a capacity of 0 or of
/// more than 2^28 entries. Cost: reserves all memory, some 200 bytes for each entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_policy_open(
    name: *const c_char,
    wanted: *const pt_policy_options,
    policy: Option<&mut MaybeUninit<Box<pt_policy>>>,
) -> c_int {
    call(|| {
        let policy = given(policy, "policy")?;
        // SAFETY: S34: text, or null.
        let name = unsafe { text(name, "name") }?.parse::<PolicyName>();
        let name = name.map_err(|error| Failure::invalid(error.to_string()))?;
        // SAFETY: S34: the caller vouches for the structure's size.
        let wanted = unsafe { options(wanted) }?;
        let builder = PolicyBuilder::new(name, capacity(&wanted)).entries_max(wanted.entries_max);
        let builder = match wanted.history {
            0 => builder,
            history => builder.history(history),
        };
        policy.write(Box::new(pt_policy(builder.build()?)));
        Ok(())
    })
}

/// Frees a policy. NULL is fine.
#[unsafe(no_mangle)]
pub extern "C" fn pt_policy_close(policy: Option<Box<pt_policy>>) {
    call(|| {
        drop(policy);
        Ok(())
    });
}

/// Returns a key for bytes, the same in every process. Different bytes seldom get the same key: the
/// probability is one in 37 million among a million keys. NULL with a length above 0 counts as no
/// bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_policy_key(data: *const c_void, len: usize) -> u64 {
    // SAFETY: S34: the caller's bytes, for the time of the call.
    unsafe { bytes(data, len) }.map_or_else(|_| key_of(&[]), key_of)
}

/// Accesses a key. Returns 1 for a hit, 0 for a miss. After a miss, the caller may insert the key.
#[unsafe(no_mangle)]
pub extern "C" fn pt_policy_access(policy: Option<&mut pt_policy>, key: u64) -> c_int {
    flag(|| Ok(given(policy, "policy")?.0.access(key)))
}

/// Adds a key of an entry with len bytes. Returns the number of keys evicted for it, with their
/// array in *evicted, in order. The array is valid until the next call with this policy. evicted
/// may be NULL.
///
/// The insert of a present key is an access, and sets its length. After an error, pt_policy_evicted
/// has the keys evicted before the failure.
///
/// Errors: -EFBIG for an entry longer than the capacity. -EBUSY if too much is pinned.
#[unsafe(no_mangle)]
pub extern "C" fn pt_policy_insert(
    policy: Option<&mut pt_policy>,
    key: u64,
    len: u64,
    evicted: Option<&mut MaybeUninit<*const u64>>,
) -> i64 {
    count(|| {
        let keys = given(policy, "policy")?.0.insert_sized(key, len)?;
        Ok(put_keys(keys, evicted))
    })
}

/// Returns the number of keys evicted by the last insert, evict or resize, and their array as
/// pt_policy_insert.
#[unsafe(no_mangle)]
pub extern "C" fn pt_policy_evicted(
    policy: Option<&pt_policy>,
    evicted: Option<&mut MaybeUninit<*const u64>>,
) -> i64 {
    count(|| Ok(put_keys(given(policy, "policy")?.0.evicted(), evicted)))
}

/// Evicts the key that the policy would evict next, into *key. Returns 1, or 0 if all keys are
/// pinned, or if there are none.
#[unsafe(no_mangle)]
pub extern "C" fn pt_policy_evict(
    policy: Option<&mut pt_policy>,
    key: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    flag(|| {
        let (policy, key) = (given(policy, "policy")?, given(key, "key")?);
        Ok(policy.0.evict().map(|evicted| key.write(evicted)).is_some())
    })
}

/// Removes a key with its pins and its history. Returns 1, or 0 if the key was absent.
#[unsafe(no_mangle)]
pub extern "C" fn pt_policy_remove(policy: Option<&mut pt_policy>, key: u64) -> c_int {
    flag(|| Ok(given(policy, "policy")?.0.remove(key)))
}

/// Adds a pin to a key, which is not evicted until it has none. Returns 1, or 0 if the key is
/// absent.
#[unsafe(no_mangle)]
pub extern "C" fn pt_policy_pin(policy: Option<&mut pt_policy>, key: u64) -> c_int {
    flag(|| Ok(given(policy, "policy")?.0.pin(key)))
}

/// Takes a pin from a key. Returns 1, or 0 if the key is absent or has no pin.
#[unsafe(no_mangle)]
pub extern "C" fn pt_policy_unpin(policy: Option<&mut pt_policy>, key: u64) -> c_int {
    flag(|| Ok(given(policy, "policy")?.0.unpin(key)))
}

/// Returns 1 if a key is present, 0 if not. Not an access.
#[unsafe(no_mangle)]
pub extern "C" fn pt_policy_contains(policy: Option<&pt_policy>, key: u64) -> c_int {
    flag(|| Ok(given(policy, "policy")?.0.contains(key)))
}

/// Changes the capacity to that of the options. Returns the number of keys evicted for it, and
/// their array as pt_policy_insert. entries_max and history are ignored.
///
/// Errors: -EINVAL if the capacity is 0 or above the first entries_max. -EBUSY if more is pinned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_policy_resize(
    policy: Option<&mut pt_policy>,
    wanted: *const pt_policy_options,
    evicted: Option<&mut MaybeUninit<*const u64>>,
) -> i64 {
    count(|| {
        let policy = given(policy, "policy")?;
        // SAFETY: S34: the caller vouches for the structure's size.
        let wanted = unsafe { options(wanted) }?;
        Ok(put_keys(policy.0.resize(capacity(&wanted))?, evicted))
    })
}

/// Writes the counters.
///
/// Errors: -EINVAL for a size below the first version's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_policy_get_stats(
    policy: Option<&pt_policy>,
    stats: *mut pt_policy_stats,
) -> c_int {
    call(|| {
        let of = given(policy, "policy")?.0.stats();
        let counted = pt_policy_stats {
            size: size_of::<pt_policy_stats>(),
            accesses: of.accesses,
            hits: of.hits,
            misses: of.misses,
            inserted: of.inserted,
            evicted: of.evicted,
            removed: of.removed,
            entries: of.nr_entries,
            bytes: of.nr_bytes,
            pinned: of.nr_pinned,
        };
        // SAFETY: S34: the caller vouches for the structure's size.
        unsafe { put_sized(stats, counted) }
    })
}

fn capacity(wanted: &pt_policy_options) -> Capacity {
    match (wanted.capacity_entries, wanted.capacity_bytes) {
        (nr_entries, 0) => Capacity::entries(nr_entries),
        (0, bytes) => Capacity::bytes(bytes, wanted.entry_bytes),
        (nr_entries, bytes) => Capacity::entries(nr_entries).with_bytes(bytes),
    }
}

fn put_keys(keys: &[u64], to: Option<&mut MaybeUninit<*const u64>>) -> u64 {
    if let Some(to) = to {
        to.write(if keys.is_empty() { ptr::null() } else { keys.as_ptr() });
    }
    keys.len() as u64
}

/// Runs a call that returns yes or no.
fn flag(work: impl FnOnce() -> Result<bool, Failure>) -> c_int {
    // An errno fits.
    count(|| work().map(u64::from)) as c_int
}
