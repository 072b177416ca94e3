//! The replacement policies alone, for a cache with memory of its own.
//!
//! **Problem.** The author of a block, object or prefix cache has storage, and lacks decisions.
//! **Idea.** A [`Policy`] has the keys of the entries, and decides which key leaves. All policies
//! of the page cache are available by name.
//!
//! ```
//! use pagetide::policy::{Capacity, Policy};
//! use std::collections::HashMap;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut policy = Policy::new("s3fifo".parse()?, Capacity::entries(2))?;
//! let mut contents = HashMap::new();
//! for key in [1, 2, 1, 3, 1] {
//!     if policy.access(key) {
//!         continue;
//!     }
//!     contents.insert(key, format!("what was read for {key}"));
//!     for evicted in policy.insert(key)? {
//!         contents.remove(evicted);
//!     }
//! }
//! assert_eq!(contents.len() as u64, policy.len());
//! assert!(contents.keys().all(|key| policy.contains(*key)));
//! # Ok(())
//! # }
//! ```
//!
//! [`ShardedPolicy`] serves several threads. [`key_of`] makes a key of bytes.
//!
//! **Which policy?** `pagetide replay` counts the misses of each policy on a recorded trace. A
//! policy here makes the same decisions as a replay with as many frames, if each miss is followed
//! by an insert, and if the [history](PolicyBuilder::history) is long enough. One difference
//! remains for the policies of the kernel: `replay` takes reads as those of one open file, so that
//! a read of the page that was read last does not count.
//!
//! **Batches.** A policy of the kernel evicts about 32 entries at once when it is full. All others
//! evict as few as needed.
//!
//! **Lengths.** A policy works on entries, whatever their length. A capacity in bytes is kept by
//! evictions until the new entry fits.
//!
//! **Memory.** 64 bytes of descriptors, 16 to 32 of index and 16 of state for each entry, and 32 to
//! 48 bytes for each eviction in the history, plus the lists of the policy. All of it is reserved
//! when the policy is built.
//!
//! ```text
//!   Policy, ShardedPolicy        the interface and its counters
//!      |
//!   entries                      a world of core's driver: entries instead of pages
//!      |-> index                 key --> place
//!      '-> history               key --> shadow entry
//! ```
//!
//! **Ignored.** Costs of misses: an entry that is expensive to read again counts as any other.

mod capacity;
mod entries;
mod history;
mod index;
mod key;
mod sharded;
mod stats;

pub use capacity::{Capacity, CapacityError, InsertError};
pub use key::key_of;
pub use pagetide_core::lru::{PolicyName, UnknownPolicy};
pub use sharded::ShardedPolicy;
pub use stats::PolicyStats;

use capacity::ENTRIES_MAX;
use entries::{Entries, Limits};
use pagetide_core::ids::FrameId;
use std::fmt;

/// Evictions in the default history for each entry.
const HISTORY_PER_ENTRY: u64 = 2;
/// The longest history.
const HISTORY_MAX: u64 = 1 << 30;

/// The keys of a cache, and the decision which key leaves.
///
/// # Concurrency
/// One thread at a time. [`ShardedPolicy`] has locks.
pub struct Policy {
    entries: Entries,
    capacity: Capacity,
    counted: PolicyStats,
}

/// Options of a [`Policy`].
#[derive(Clone, Copy, Debug)]
pub struct PolicyBuilder {
    name: PolicyName,
    capacity: Capacity,
    entries_max: u64,
    history: Option<u64>,
}

impl PolicyBuilder {
    /// Returns the default options.
    pub fn new(name: PolicyName, capacity: Capacity) -> PolicyBuilder {
        PolicyBuilder { name, capacity, entries_max: 0, history: None }
    }

    /// Sets the largest capacity of a later [`Policy::resize`], in entries. By default the first
    /// capacity. Each entry costs memory, and some policies decide by this number.
    pub fn entries_max(mut self, nr_entries: u64) -> PolicyBuilder {
        self.entries_max = nr_entries;
        self
    }

    /// Sets the number of evictions after which a key is forgotten. By default two for each entry,
    /// and never more than 2^30. Policies with ghosts or refaults lose hits with a shorter history.
    pub fn history(mut self, nr_evictions: u64) -> PolicyBuilder {
        self.history = Some(nr_evictions);
        self
    }

    /// Builds an empty policy.
    ///
    /// # Errors
    /// [`CapacityError`] if the capacity is 0 or too large.
    ///
    /// # Cost
    /// Reserves all memory.
    pub fn build(self) -> Result<Policy, CapacityError> {
        let nr_entries = self.capacity.check(ENTRIES_MAX)?;
        let nr_max = self.entries_max.max(nr_entries.into());
        let nr_max = Capacity::entries(nr_max).check(ENTRIES_MAX)?;
        let history = self.history.unwrap_or(HISTORY_PER_ENTRY * u64::from(nr_max));
        let history = history.min(HISTORY_MAX) as u32;
        let limits = Limits { nr_entries, bytes: self.capacity.nr_bytes() };
        Ok(Policy {
            entries: Entries::new(self.name, nr_max, history, limits),
            capacity: self.capacity,
            counted: PolicyStats::default(),
        })
    }
}

impl Policy {
    /// Creates an empty policy with the default options. The name can be parsed from text, with an
    /// error that lists the names.
    ///
    /// # Errors
    /// As [`PolicyBuilder::build`].
    pub fn new(name: PolicyName, capacity: Capacity) -> Result<Policy, CapacityError> {
        PolicyBuilder::new(name, capacity).build()
    }

    /// Accesses a key. Returns true for a hit. After a miss, the caller may
    /// [insert](Policy::insert) the key.
    ///
    /// # Cost
    /// O(1), without allocation. Two cache misses, and for policies that move entries at each hit
    /// up to three more.
    #[inline]
    pub fn access(&mut self, key: u64) -> bool {
        self.counted.accesses += 1;
        let Some(frame) = self.entries.find(key) else { return false };
        self.hit(frame);
        true
    }

    /// Adds a key of one byte. Returns the keys evicted for it, in order.
    ///
    /// # Errors
    /// As [`Policy::insert_sized`].
    pub fn insert(&mut self, key: u64) -> Result<&[u64], InsertError> {
        self.insert_sized(key, 1)
    }

    /// Adds a key of an entry with `bytes`. Returns the keys evicted for it, in order.
    ///
    /// The insert of a present key is an access, and sets its length. Entries are evicted one by
    /// one until the length fits. The policy does not prefer short entries.
    ///
    /// # Errors
    /// [`InsertError`] if the entry can not fit. [`Policy::evicted`] has the keys evicted before
    /// the failure. A present key stays as it is.
    ///
    /// # Cost
    /// O(1) for each evicted and each pinned entry met, without allocation in the long run.
    pub fn insert_sized(&mut self, key: u64, bytes: u64) -> Result<&[u64], InsertError> {
        self.entries.evicted.clear();
        let present = self.entries.find(key);
        self.check_room(bytes, present)?;
        let has_room = match present {
            Some(frame) => {
                self.counted.accesses += 1;
                self.hit(frame);
                self.entries.change_length(frame, bytes)
            }
            None => {
                let is_in = self.entries.fill(key, bytes);
                self.counted.inserted += u64::from(is_in);
                is_in
            }
        };
        self.count_evicted();
        if has_room { Ok(&self.entries.evicted) } else { Err(self.pinned()) }
    }

    /// Returns the keys evicted by the last insert, evict or resize, including a failed one.
    pub fn evicted(&self) -> &[u64] {
        &self.entries.evicted
    }

    /// Removes a key with its pins and its history. Returns false if the key was absent.
    ///
    /// # Cost
    /// O(1), without allocation.
    pub fn remove(&mut self, key: u64) -> bool {
        match self.entries.find(key) {
            Some(frame) => self.entries.remove(key, frame),
            None => {
                self.entries.remove_shadow(key);
                return false;
            }
        }
        self.counted.removed += 1;
        true
    }

    /// Evicts the key that the policy would evict next. Returns `None` if all keys are pinned, or
    /// if there are none.
    ///
    /// # Cost
    /// O(1), and O(1) for each pinned entry met, without allocation.
    pub fn evict(&mut self) -> Option<u64> {
        self.entries.evicted.clear();
        self.entries.evict_one();
        self.count_evicted();
        self.entries.evicted.first().copied()
    }

    /// Adds a pin to a key, which is not evicted until it has none. Not an access. Returns false if
    /// the key is absent.
    ///
    /// # Panics
    /// At the 2^32nd pin of a key.
    pub fn pin(&mut self, key: u64) -> bool {
        let frame = self.entries.find(key);
        frame.map(|frame| self.entries.pin(frame)).is_some()
    }

    /// Takes a pin from a key. Returns false if the key is absent or has no pin.
    pub fn unpin(&mut self, key: u64) -> bool {
        self.entries.find(key).is_some_and(|frame| self.entries.unpin(frame))
    }

    /// Returns true if the key is present. Not an access.
    pub fn contains(&self, key: u64) -> bool {
        self.entries.find(key).is_some()
    }

    /// Changes the capacity. Returns the keys evicted for it, in order.
    ///
    /// # Errors
    /// [`CapacityError`], without an eviction, if the capacity is 0, larger than
    /// [`PolicyBuilder::entries_max`], or smaller than the pinned entries.
    ///
    /// # Cost
    /// O(1) for each evicted and each pinned entry met.
    pub fn resize(&mut self, capacity: Capacity) -> Result<&[u64], CapacityError> {
        self.entries.evicted.clear();
        let nr_entries = capacity.check(self.entries.nr_max())?;
        let pinned = self.entries.pinned;
        let refused =
            CapacityError::Pinned { pinned_entries: pinned.nr_entries, pinned_bytes: pinned.bytes };
        if pinned.nr_entries > nr_entries || pinned.bytes > capacity.nr_bytes() {
            return Err(refused);
        }
        let before = self.entries.limits;
        self.entries.limits = Limits { nr_entries, bytes: capacity.nr_bytes() };
        let has_shrunk = self.entries.shrink();
        self.count_evicted();
        if !has_shrunk {
            self.entries.limits = before;
            return Err(refused);
        }
        self.capacity = capacity;
        Ok(&self.entries.evicted)
    }

    /// Returns the number of present keys.
    pub fn len(&self) -> u64 {
        self.entries.used.nr_entries.into()
    }

    /// Returns true if no key is present.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the capacity.
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// Returns the policy's name.
    pub fn name(&self) -> PolicyName {
        self.entries.policy_name()
    }

    /// Returns the counters.
    pub fn stats(&self) -> PolicyStats {
        let Entries { used, pinned, .. } = &self.entries;
        PolicyStats {
            misses: self.counted.accesses - self.counted.hits,
            nr_entries: used.nr_entries.into(),
            nr_bytes: used.bytes,
            nr_pinned: pinned.nr_entries.into(),
            ..self.counted
        }
    }

    /// Checks all invariants, for tests. O(entries).
    ///
    /// # Panics
    /// If an invariant is broken.
    pub fn validate(&mut self) {
        self.entries.validate();
        let stats = self.stats();
        assert_eq!(stats.inserted, stats.evicted + stats.removed + stats.nr_entries);
        let Limits { nr_entries, bytes } = self.entries.limits;
        assert!(stats.nr_entries <= nr_entries.into() && stats.nr_bytes <= bytes);
    }

    #[inline]
    fn hit(&mut self, frame: FrameId) {
        self.counted.hits += 1;
        self.entries.mark(frame);
    }

    fn check_room(&self, bytes: u64, present: Option<FrameId>) -> Result<(), InsertError> {
        let Limits { nr_entries, bytes: capacity } = self.entries.limits;
        if bytes > capacity {
            return Err(InsertError::TooLarge { bytes, capacity });
        }
        let pinned = self.entries.pinned;
        let others = pinned.bytes - present.map_or(0, |frame| self.entries.pinned_bytes(frame));
        let has_place = present.is_some() || pinned.nr_entries < nr_entries;
        if has_place && capacity - others >= bytes { Ok(()) } else { Err(self.pinned()) }
    }

    fn pinned(&self) -> InsertError {
        InsertError::Pinned {
            pinned_entries: self.entries.pinned.nr_entries,
            nr_entries: self.entries.used.nr_entries,
        }
    }

    fn count_evicted(&mut self) {
        self.counted.evicted += self.entries.evicted.len() as u64;
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("name", &self.name())
            .field("capacity", &self.capacity)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
