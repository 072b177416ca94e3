//! What people read of a group.

use crate::api::stats::{hit_ratio, write_accesses};
use crate::engine::Engine;
use crate::engine::errors::GroupError;
use crate::engine::groups::directory::Member;
use crate::engine::stats::counters::Event;
use pagetide_core::group::UNLIMITED;
use pagetide_core::units::Bytes;
use pagetide_core::vmstat::Counter;
use std::fmt;

/// What a group uses, and what was done in it so far. Usage, limit and protection are of the group
/// and those below it; counts are its own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupStats {
    /// Its name.
    pub name: String,
    /// The most it may use, bytes; `None` for no limit of its own.
    pub limit_bytes: Option<u64>,
    /// What is never taken, bytes.
    pub min_bytes: u64,
    /// What is taken only where nothing else is left, bytes.
    pub low_bytes: u64,
    /// Charged to it, bytes; never above the limit, but where that was lowered.
    pub usage_bytes: u64,
    /// Pages wanted of its files, through handles opened while they were its: hits and misses.
    pub accesses: u64,
    /// Pages that were resident when wanted.
    pub hits: u64,
    /// Pages that were not.
    pub misses: u64,
    /// Pages read straight to the caller because no frame could be had.
    pub bypass_reads: u64,
    /// Pages written straight to the store because no frame could be had.
    pub writes_through: u64,
    /// Pages of it that came back after their eviction, where the policy keeps shadows.
    pub refaults: u64,
    /// Refaults that were made active at once.
    pub activations: u64,
    /// Its pages evicted.
    pub evictions: u64,
}

impl GroupStats {
    /// Hits over accesses; 0 before the first access.
    pub fn hit_ratio(&self) -> f64 {
        hit_ratio(self.hits, self.accesses)
    }

    pub(super) fn collect(engine: &Engine, member: &Member) -> Result<GroupStats, GroupError> {
        let (config, usage, vmstat) = engine.source.with_group(member, |groups| {
            let tree = groups.tree();
            let vmstat = *groups.lruvec(member.id).vmstat();
            (tree.config(member.id), tree.usage(member.id), vmstat)
        })?;
        let bytes = |pages| Bytes::from_pages(pages).0;
        let count = |event| member.counters.collect(event);
        let sum = |counters: [Counter; 2]| counters.iter().map(|one| vmstat.read(*one)).sum();
        let (hits, misses) = (count(Event::Hit), count(Event::Miss));
        Ok(GroupStats {
            name: member.name.clone(),
            limit_bytes: (config.limit != UNLIMITED).then_some(bytes(config.limit)),
            min_bytes: bytes(config.min),
            low_bytes: bytes(config.low),
            usage_bytes: bytes(usage),
            accesses: hits + misses,
            hits,
            misses,
            bypass_reads: count(Event::BypassRead),
            writes_through: count(Event::WriteThrough),
            refaults: sum([Counter::WorkingsetRefaultAnon, Counter::WorkingsetRefaultFile]),
            activations: sum([Counter::WorkingsetActivateAnon, Counter::WorkingsetActivateFile]),
            evictions: sum([Counter::PgstealAnon, Counter::PgstealFile]),
        })
    }
}

impl fmt::Display for GroupStats {
    /// Four lines for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [usage, min, low] = [self.usage_bytes, self.min_bytes, self.low_bytes].map(Bytes);
        let (name, limit) = (&self.name, self.limit_bytes.map(Bytes));
        let limit = limit.map_or_else(|| "no limit".to_owned(), |limit| format!("limit {limit}"));
        writeln!(f, "group       {name}: {usage} used; {limit}, min {min}, low {low}")?;
        let past = (self.bypass_reads, self.writes_through);
        write_accesses(f, (self.hits, self.misses), past)?;
        write!(
            f,
            "refaults    {}, {} of them activated; {} evictions",
            self.refaults, self.activations, self.evictions
        )
    }
}
