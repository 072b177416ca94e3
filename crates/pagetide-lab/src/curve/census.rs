//! The census of a trace: counts, and reuse distances.
//!
//! **Problem.** Choosing sizes needs the footprint and the reuse. **Idea.** One pass over plain
//! counters and an LRU stack.
//!
//! **Data and invariants.** Memory grows with distinct pages (about 64 bytes each).
//!
//! **Ignored.** Times. Sharing between threads. **Sources.** As the curve's.

use super::StackDistances;
use crate::trace::{Access, AccessKind, PageRanks};
use pagetide_core::ids::MappingId;
use serde::Serialize;
use std::collections::BTreeSet;

/// Counts of a trace in progress.
#[derive(Clone, Debug, Default)]
pub struct Census {
    pages: PageRanks,
    /// Accesses by rank, up to 2.
    uses: Vec<u8>,
    distances: StackDistances,
    by_kind: [u64; AccessKind::ALL.len()],
    threads: BTreeSet<u32>,
    mappings: BTreeSet<MappingId>,
    /// The previous entry, already in the sets.
    last: Option<Access>,
    nr_pages_accessed: u64,
}

/// The number of entries of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct KindCount {
    /// The kind's name in kebab-case.
    pub name: &'static str,
    /// Number of entries.
    pub entries: u64,
}

/// Reuse of pages. A distance counts the distinct pages since the last use, including the page.
/// `trace info --json` prints the field names, so they are stable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Reuse {
    /// Accesses that miss in any memory.
    pub first_uses: u64,
    /// Pages accessed exactly once.
    pub pages_used_once: u64,
    /// Median distance of the accesses that can hit, 0 if none can.
    pub distance_p50: u64,
    /// 90th percentile: this many LRU frames catch nine in ten.
    pub distance_p90: u64,
    /// 99th percentile.
    pub distance_p99: u64,
    /// Maximum: more frames change nothing.
    pub distance_max: u64,
}

impl Census {
    /// Returns an empty census.
    pub fn new() -> Census {
        Census::default()
    }

    /// Counts one entry.
    pub fn count(&mut self, access: &Access) {
        self.by_kind[access.kind as usize] += 1;
        let last = self.last.replace(*access);
        if last.is_none_or(|last| last.thread != access.thread) {
            self.threads.insert(access.thread);
        }
        if last.is_none_or(|last| last.page.mapping != access.page.mapping) {
            self.mappings.insert(access.page.mapping);
        }
        let rank = self.pages.rank_of(access.page);
        if self.uses.len() <= rank as usize {
            self.uses.push(0);
        }
        if access.kind.is_access() {
            let uses = &mut self.uses[rank as usize];
            self.nr_pages_accessed += u64::from(*uses == 0);
            *uses = (*uses + 1).min(2);
        }
        self.distances.apply(rank, access.kind);
    }

    /// Returns the entries by kind, in code order, without empty kinds.
    pub fn kinds(&self) -> impl Iterator<Item = KindCount> + '_ {
        let counts = AccessKind::ALL.iter().zip(self.by_kind);
        counts
            .filter(|(_, entries)| *entries > 0)
            .map(|(kind, entries)| KindCount { name: name_of(*kind), entries })
    }

    /// Returns the entries of all kinds.
    pub fn nr_entries(&self) -> u64 {
        self.by_kind.iter().sum()
    }

    /// Returns the entries that are accesses.
    pub fn nr_accesses(&self) -> u64 {
        let counts = AccessKind::ALL.iter().zip(self.by_kind);
        counts.filter(|(kind, _)| kind.is_access()).map(|(_, entries)| entries).sum()
    }

    /// Returns the distinct pages in entries of any kind.
    pub fn nr_pages(&self) -> u64 {
        self.pages.pages().len() as u64
    }

    /// Returns the distinct pages accessed: the footprint.
    pub fn nr_pages_accessed(&self) -> u64 {
        self.nr_pages_accessed
    }

    /// Returns the distinct mappings: files, disks.
    pub fn nr_mappings(&self) -> u64 {
        self.mappings.len() as u64
    }

    /// Returns the distinct threads.
    pub fn nr_threads(&self) -> u64 {
        self.threads.len() as u64
    }

    /// Returns the reuse of pages.
    pub fn into_reuse(self) -> Reuse {
        let pages_used_once = self.uses.iter().filter(|&&uses| uses == 1).count() as u64;
        let histogram = self.distances.into_histogram();
        Reuse {
            first_uses: histogram.nr_first(),
            pages_used_once,
            distance_p50: histogram.frames_for(0.5),
            distance_p90: histogram.frames_for(0.9),
            distance_p99: histogram.frames_for(0.99),
            distance_max: histogram.distance_max(),
        }
    }
}

const fn name_of(kind: AccessKind) -> &'static str {
    match kind {
        AccessKind::Read => "read",
        AccessKind::ReadAgain => "read-again",
        AccessKind::Write => "write",
        AccessKind::Table => "table",
        AccessKind::Readahead => "readahead",
        AccessKind::Discard => "discard",
        AccessKind::TableWrite => "table-write",
        AccessKind::Fill => "fill",
        AccessKind::Dirty => "dirty",
        AccessKind::Clean => "clean",
        AccessKind::Unpin => "unpin",
        AccessKind::Evict => "evict",
        AccessKind::Filled => "filled",
        AccessKind::Bypass => "bypass",
        AccessKind::Demote => "demote",
        AccessKind::Promote => "promote",
        AccessKind::Around => "around",
    }
}
