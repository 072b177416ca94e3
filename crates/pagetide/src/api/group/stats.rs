//! Statistics of a group.

use crate::api::stats::{hit_ratio, write_accesses};
use crate::engine::Engine;
use crate::engine::errors::GroupError;
use crate::engine::groups::directory::Member;
use crate::engine::stats::counters::Event;
use pagetide_core::group::UNLIMITED;
use pagetide_core::units::Bytes;
use pagetide_core::vmstat::Counter;
use std::fmt;

/// Usage and counters of a group. Usage, limit and protection include descendants. Counters do not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupStats {
    /// Group name.
    pub name: String,
    /// Maximum usage, bytes. `None` without a limit of its own.
    pub limit_bytes: Option<u64>,
    /// Guaranteed memory, bytes.
    pub min_bytes: u64,
    /// Protected memory, bytes.
    pub low_bytes: u64,
    /// Charged memory, bytes. Above the limit only after the limit was lowered.
    pub usage_bytes: u64,
    /// Page accesses of its files, through handles opened while the file was in the group.
    pub accesses: u64,
    /// Accesses of resident pages.
    pub hits: u64,
    /// Accesses of absent pages.
    pub misses: u64,
    /// Pages read straight to the caller for lack of a frame.
    pub bypass_reads: u64,
    /// Pages written straight to the store for lack of a frame.
    pub writes_through: u64,
    /// Faults on evicted pages of the group, if the policy keeps shadows.
    pub refaults: u64,
    /// Refaults activated at once.
    pub activations: u64,
    /// Pages evicted.
    pub evictions: u64,
}

impl GroupStats {
    /// Returns hits over accesses, 0 before the first access.
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
    /// Writes four lines for people.
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
