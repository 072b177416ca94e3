//! What is in a trace: a count of everything, and how soon pages come back.
//!
//! **Problem.** Before a replay: how many accesses there are, of how many pages, whether anything
//! is used twice at all, and so which sizes are worth asking for.
//!
//! **Idea.** One pass; each access goes into plain counters and into an LRU stack, whose distances
//! say how much memory would have caught it.
//!
//! **Data and invariants.** Memory grows with distinct pages (about 64 bytes each), not with the
//! trace.
//!
//! **Ignored.** Times. Which thread shares which page.
//!
//! **Sources.** As the curve's: the distances are its own.

use super::StackDistances;
use crate::trace::{Access, AccessKind, PageRanks};
use pagetide_core::ids::MappingId;
use serde::Serialize;
use std::collections::BTreeSet;

/// Counts of a trace under way.
#[derive(Clone, Debug, Default)]
pub struct Census {
    pages: PageRanks,
    /// By rank: accesses, as far as 2.
    uses: Vec<u8>,
    distances: StackDistances,
    by_kind: [u64; AccessKind::ALL.len()],
    threads: BTreeSet<u32>,
    mappings: BTreeSet<MappingId>,
    /// The entry before: its thread and mapping are in the sets.
    last: Option<Access>,
    nr_pages_accessed: u64,
}

/// How many entries of a kind there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct KindCount {
    /// The kind's name, in small letters with hyphens.
    pub name: &'static str,
    /// Entries of it.
    pub entries: u64,
}

/// How soon pages come back. Distances are in pages: those used since, the page itself included.
/// The field names are what `trace info --json` prints, and stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Reuse {
    /// Accesses that no memory would have hit.
    pub first_uses: u64,
    /// Pages accessed exactly once.
    pub pages_used_once: u64,
    /// Half of the accesses that can hit have at most this distance; 0 where none can.
    pub distance_p50: u64,
    /// Nine in ten have: so many frames of LRU catch them.
    pub distance_p90: u64,
    /// Ninety-nine in a hundred have.
    pub distance_p99: u64,
    /// All have: memory beyond so many frames changes nothing.
    pub distance_max: u64,
}

impl Census {
    /// Nothing counted yet.
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

    /// Entries by kind, in the order of the kinds' codes; kinds without any left out.
    pub fn kinds(&self) -> impl Iterator<Item = KindCount> + '_ {
        let counts = AccessKind::ALL.iter().zip(self.by_kind);
        counts
            .filter(|(_, entries)| *entries > 0)
            .map(|(kind, entries)| KindCount { name: name_of(*kind), entries })
    }

    /// Entries of all kinds.
    pub fn nr_entries(&self) -> u64 {
        self.by_kind.iter().sum()
    }

    /// Entries that are accesses.
    pub fn nr_accesses(&self) -> u64 {
        let counts = AccessKind::ALL.iter().zip(self.by_kind);
        counts.filter(|(kind, _)| kind.is_access()).map(|(_, entries)| entries).sum()
    }

    /// Distinct pages in entries of any kind.
    pub fn nr_pages(&self) -> u64 {
        self.pages.pages().len() as u64
    }

    /// Distinct pages accessed: the footprint.
    pub fn nr_pages_accessed(&self) -> u64 {
        self.nr_pages_accessed
    }

    /// Distinct mappings: files, disks.
    pub fn nr_mappings(&self) -> u64 {
        self.mappings.len() as u64
    }

    /// Distinct threads.
    pub fn nr_threads(&self) -> u64 {
        self.threads.len() as u64
    }

    /// How soon pages came back.
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
