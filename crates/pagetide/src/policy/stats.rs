//! Counters of a policy.

/// A policy's counters since it was built, and its current use.
///
/// `accesses` is `hits + misses`, and `inserted` is `evicted + removed + nr_entries`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct PolicyStats {
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
    pub nr_entries: u64,
    /// The sum of their lengths.
    pub nr_bytes: u64,
    /// Pinned keys.
    pub nr_pinned: u64,
}

impl PolicyStats {
    /// Returns hits per access, 0 before the first access.
    pub fn hit_ratio(&self) -> f64 {
        if self.accesses == 0 { 0.0 } else { self.hits as f64 / self.accesses as f64 }
    }

    /// Adds the counters of another policy.
    pub(super) fn add(&mut self, other: &PolicyStats) {
        let PolicyStats {
            accesses,
            hits,
            misses,
            inserted,
            evicted,
            removed,
            nr_entries,
            nr_bytes,
            nr_pinned,
        } = other;
        self.accesses += accesses;
        self.hits += hits;
        self.misses += misses;
        self.inserted += inserted;
        self.evicted += evicted;
        self.removed += removed;
        self.nr_entries += nr_entries;
        // Lengths are the caller's, and each policy alone may count up to the largest number.
        self.nr_bytes = self.nr_bytes.saturating_add(*nr_bytes);
        self.nr_pinned += nr_pinned;
    }
}
