//! A policy for several threads.

use super::capacity::{Capacity, CapacityError, InsertError};
use super::index::hash_of;
use super::stats::PolicyStats;
use super::{Policy, PolicyBuilder};
use crossbeam_utils::CachePadded;
use pagetide_core::lru::PolicyName;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A policy in shards, for any number of threads.
///
/// Each key belongs to one shard, a [`Policy`] with an equal part of the capacity behind a lock of
/// its own. A shard evicts its own keys only. The hit ratio is therefore a little lower than that
/// of one policy. Keep shards above a thousand entries.
///
/// # Concurrency
/// A call waits for other calls to its shard. The closures run with the shard locked: they must not
/// call this policy.
pub struct ShardedPolicy {
    shards: Box<[CachePadded<Mutex<Policy>>]>,
}

impl ShardedPolicy {
    /// Creates an empty policy of `nr_shards`, rounded up to a power of two, at most 2^16.
    ///
    /// # Errors
    /// [`CapacityError`] if a shard has no entries, no bytes, or too many entries.
    pub fn new(
        name: PolicyName,
        capacity: Capacity,
        nr_shards: usize,
    ) -> Result<ShardedPolicy, CapacityError> {
        let nr_shards = nr_shards.clamp(1, SHARDS_MAX).next_power_of_two() as u64;
        let shard = |nth| PolicyBuilder::new(name, capacity.shard(nth, nr_shards)).build();
        let shards = (0..nr_shards).map(|nth| Ok(CachePadded::new(Mutex::new(shard(nth)?))));
        Ok(ShardedPolicy { shards: shards.collect::<Result<_, _>>()? })
    }

    /// Accesses a key as [`Policy::access`].
    pub fn access(&self, key: u64) -> bool {
        self.shard(key).access(key)
    }

    /// Adds a key as [`Policy::insert_sized`]. `evicted` gets each evicted key, also before an
    /// error.
    ///
    /// # Errors
    /// As [`Policy::insert_sized`], with the shard's part of the capacity.
    pub fn insert_sized(
        &self,
        key: u64,
        bytes: u64,
        evicted: impl FnMut(u64),
    ) -> Result<(), InsertError> {
        let mut shard = self.shard(key);
        let inserted = shard.insert_sized(key, bytes).map(|_| ());
        shard.evicted().iter().copied().for_each(evicted);
        inserted
    }

    /// Adds a key as [`Policy::insert`]. `evicted` gets each evicted key, also before an error.
    ///
    /// # Errors
    /// As [`ShardedPolicy::insert_sized`].
    pub fn insert(&self, key: u64, evicted: impl FnMut(u64)) -> Result<(), InsertError> {
        self.insert_sized(key, 1, evicted)
    }

    /// Removes a key as [`Policy::remove`].
    pub fn remove(&self, key: u64) -> bool {
        self.shard(key).remove(key)
    }

    /// Evicts the next key of the shard with the most entries, or of another if all of its keys are
    /// pinned.
    ///
    /// # Cost
    /// A look at each shard.
    pub fn evict(&self) -> Option<u64> {
        let fullest = self.shards.iter().max_by_key(|shard| locked(shard).len());
        fullest.into_iter().chain(&self.shards).find_map(|shard| locked(shard).evict())
    }

    /// Pins a key as [`Policy::pin`].
    pub fn pin(&self, key: u64) -> bool {
        self.shard(key).pin(key)
    }

    /// Unpins a key as [`Policy::unpin`].
    pub fn unpin(&self, key: u64) -> bool {
        self.shard(key).unpin(key)
    }

    /// Returns true if the key is present. Not an access.
    pub fn contains(&self, key: u64) -> bool {
        self.shard(key).contains(key)
    }

    /// Changes the capacity as [`Policy::resize`], shard by shard. `evicted` gets each evicted key.
    ///
    /// # Errors
    /// As [`Policy::resize`]. The shards before the failed one keep the new capacity.
    pub fn resize(
        &self,
        capacity: Capacity,
        mut evicted: impl FnMut(u64),
    ) -> Result<(), CapacityError> {
        let nr_shards = self.shards.len() as u64;
        for (nth, shard) in (0..).zip(&self.shards) {
            let mut shard = locked(shard);
            let resized = shard.resize(capacity.shard(nth, nr_shards)).map(|_| ());
            shard.evicted().iter().copied().for_each(&mut evicted);
            resized?;
        }
        Ok(())
    }

    /// Returns the sums of the shards' counters, each read at its own instant.
    pub fn stats(&self) -> PolicyStats {
        let mut sum = PolicyStats::default();
        self.shards.iter().for_each(|shard| sum.add(&locked(shard).stats()));
        sum
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, Policy> {
        // The index of a shard takes the upper half of the hash.
        locked(&self.shards[hash_of(key) as usize & (self.shards.len() - 1)])
    }
}

impl fmt::Debug for ShardedPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedPolicy").field("nr_shards", &self.shards.len()).finish()
    }
}

const SHARDS_MAX: usize = 1 << 16;

fn locked(shard: &Mutex<Policy>) -> MutexGuard<'_, Policy> {
    // A closure of a caller may panic, but only after the policy has finished its call.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
