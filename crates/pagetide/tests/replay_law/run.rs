//! A recorded run, its replay, and their comparison.

use crate::common::PAGE;
use crate::common::pages::Random;
use crate::common::store::FaultyStore;
use crate::scripts::{Player, Script, Ticks};
use pagetide::{Builder, Bytes, CacheStats, PageCache, PolicyName};
use pagetide_core::ids::PageId;
use pagetide_core::lru::Switches;
use pagetide_core::lru::lru_gen::Detail;
use pagetide_core::vmstat::Counter;
use pagetide_lab::replay::{Memory, ReplayOutcome, Setup, World};
use pagetide_lab::trace::{Access, AccessKind, DenseTrace, Ending, Header, Trace};
use std::cell::RefCell;
use std::path::Path;

pub(crate) struct Run {
    pub(crate) stats: CacheStats,
    pub(crate) header: Header,
    pub(crate) memory: Memory,
    pub(crate) trace: DenseTrace,
    pub(crate) evicted: Vec<PageId>,
    pub(crate) moved: Vec<(PageId, AccessKind)>,
    /// Final generations by group, if inspected ([`ageless`]).
    generations: Option<Vec<String>>,
}

pub(crate) struct Replayed {
    pub(crate) outcome: ReplayOutcome,
    pub(crate) evicted: Vec<PageId>,
    pub(crate) moved: Vec<(PageId, AccessKind)>,
    /// Evicted and moved pages after each entry.
    pub(crate) progress: Vec<(usize, usize)>,
    generations: Vec<String>,
}

/// Returns generations without ages, which depend on the clock, and without group names, which are
/// not recorded.
fn ageless(text: &str) -> Vec<String> {
    let without = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields[..] {
            ["memcg", group, ..] => format!("group {group}"),
            [seq, _, anon, file] => format!("{seq}: {anon} {file}"),
            _ => line.to_owned(),
        }
    };
    text.lines().map(without).collect()
}

impl Run {
    pub(crate) fn play(
        policy: PolicyName,
        frames: u64,
        readahead: Bytes,
        script: Script,
        seed: u64,
    ) -> Run {
        Run::record(policy, frames, frames, readahead, |cache| play(cache, script, seed))
    }

    pub(crate) fn record(
        policy: PolicyName,
        frames: u64,
        frames_max: u64,
        readahead: Bytes,
        work: impl FnOnce(&PageCache),
    ) -> Run {
        let memory = (Bytes::from_pages(frames), Bytes::from_pages(frames_max));
        let builder = PageCache::builder().memory(memory.0).memory_max(memory.1);
        Run::record_with(builder.policy(policy).readahead_max(readahead), work)
    }

    pub(crate) fn record_with(builder: Builder, work: impl FnOnce(&PageCache)) -> Run {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.ptt");
        let cache = builder.background(false).record(&path).build().unwrap();
        work(&cache);
        // So that closing the cache does nothing uncounted.
        cache.flush_all().unwrap();
        let stats = cache.stats();
        let generations = ageless(&cache.describe_lru_gen(Detail::Sizes));
        cache.validate();
        drop(cache);
        Run { generations: Some(generations), ..Run::load(stats, &path) }
    }

    pub(crate) fn load(stats: CacheStats, path: &Path) -> Run {
        let mut record = Trace::open(path, None).unwrap();
        let trace = DenseTrace::read(&mut record).unwrap();
        assert_eq!(record.ending(), Some(Ending::Complete));
        let header = record.header().unwrap().clone();
        let memory = Memory::of_record(&header).unwrap();
        let evicted = trace.recorded_evictions().collect();
        let moved = trace.recorded_moves().collect();
        Run { stats, header, memory, trace, evicted, moved, generations: None }
    }

    pub(crate) fn trace_without(&self, left_out: AccessKind) -> DenseTrace {
        let mut trace = DenseTrace::default();
        for (rank, kind) in self.trace.entries().filter(|(_, kind)| *kind != left_out) {
            let page = self.trace.page(rank);
            trace.push(Access { page, kind, thread: 0 });
        }
        trace
    }

    pub(crate) fn replay(
        &self,
        policy: PolicyName,
        memory: Memory,
        trace: &DenseTrace,
    ) -> Replayed {
        let evicted = RefCell::new(Vec::new());
        let evict = |page| evicted.borrow_mut().push(page);
        let own = policy == self.stats.policy;
        let switches = if own { self.header.switches } else { Switches::default() };
        let setup = Setup { switches, ..Setup::new(policy, memory) };
        let mut world = World::new(setup, trace, evict);
        world.watch_moves();
        let mut progress = Vec::new();
        world.play_by(1, |world, _| {
            progress.push((evicted.borrow().len(), world.moves().len()));
            true
        });
        let (outcome, moved) = (world.outcome(), world.moves().to_vec());
        let generations = ageless(&world.describe_lru_gen(Detail::Sizes));
        drop(world);
        Replayed { outcome, evicted: evicted.into_inner(), moved, progress, generations }
    }

    /// Computes [`Replayed::progress`] for the run: a result follows its entry.
    fn progress(&self) -> Vec<Option<(usize, usize)>> {
        let kinds: Vec<AccessKind> = self.trace.entries().map(|(_, kind)| kind).collect();
        let (mut nr_evicted, mut nr_moved) = (0, 0);
        let count = |(nth, kind): (usize, &AccessKind)| {
            nr_evicted += usize::from(*kind == AccessKind::Evict);
            nr_moved += usize::from(kind.is_result() && *kind != AccessKind::Evict);
            let is_last = kinds.get(nth + 1).is_none_or(|next| !next.is_result());
            is_last.then_some((nr_evicted, nr_moved))
        };
        kinds.iter().enumerate().map(count).collect()
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.stats.vmstat.iter().find(|(other, _)| *other == name).unwrap().1
    }

    /// Each eviction and move follows the same entry, so each access finds the same state.
    fn check_progress(&self, what: &str, replayed: &Replayed) {
        let both = self.progress().into_iter().zip(&replayed.progress).enumerate();
        for (nth, (real, virtual_)) in both {
            if let Some(real) = real.filter(|real| real != virtual_) {
                let entries: Vec<_> = self.trace.entries().collect();
                let around: Vec<_> = entries[nth.saturating_sub(12)..(nth + 3).min(entries.len())]
                    .iter()
                    .map(|(rank, kind)| (self.trace.page(*rank).index.0, *kind))
                    .collect();
                let moves = |moved: &[(PageId, AccessKind)], nr: usize| {
                    let of = |(page, kind): &(PageId, AccessKind)| (page.index.0, *kind);
                    let end = nr.min(moved.len());
                    moved[end.saturating_sub(6)..end].iter().map(of).collect::<Vec<_>>()
                };
                panic!(
                    "{what}: after entry {nth}, {real:?} were evicted and moved, {virtual_:?} in \
                     the replay; entries {around:?}, moves {:?} and {:?}",
                    moves(&self.moved, real.1),
                    moves(&replayed.moved, virtual_.1)
                );
            }
        }
        assert!(self.moved == replayed.moved, "{what}: the same moves");
    }

    fn check_tiers(&self, what: &str, replayed: &Replayed) {
        let (Some(real), Some(virtual_)) = (&self.stats.tiering, replayed.outcome.tiers) else {
            return assert!(replayed.outcome.tiers.is_none(), "{what}: tiers from nowhere");
        };
        let resident = real.tiers.iter().map(|tier| tier.resident_bytes / PAGE as u64);
        assert_eq!(resident.collect::<Vec<_>>(), virtual_.resident(), "{what}: resident");
        let served: Vec<u64> = real.tiers.iter().map(|tier| tier.served).collect();
        assert_eq!(served, virtual_.served(), "{what}: accesses served");
        assert_eq!(
            (real.too_cold, real.rate_limited, real.no_room, real.unmovable),
            (virtual_.too_cold, virtual_.rate_limited, virtual_.no_room, virtual_.unmovable),
            "{what}: too cold, over the rate, without room, unmovable"
        );
    }

    pub(crate) fn check(&self, what: &str) {
        let policy: PolicyName = self.header.policy.parse().unwrap();
        assert_eq!(policy, self.stats.policy, "{what}");
        assert_eq!(self.stats.evictions, self.evicted.len() as u64, "{what}: recorded evictions");
        assert_eq!(self.counter("touches_lost"), 0, "{what}: one thread contends with no other");
        let replayed = self.replay(policy, self.memory, &self.trace);
        let both = self.evicted.iter().zip(&replayed.evicted);
        if let Some(nth) = both.clone().position(|(real, virtual_)| real != virtual_) {
            let (real, virtual_) = (self.evicted[nth], replayed.evicted[nth]);
            panic!("{what}: eviction {nth} was {real:?}, and {virtual_:?} in the replay");
        }
        let (real, virtual_) = (self.evicted.len(), replayed.evicted.len());
        assert_eq!(real, virtual_, "{what}: evictions, the same as far as both go");
        self.check_progress(what, &replayed);
        self.check_tiers(what, &replayed);
        for &counter in Counter::ALL {
            let (real, virtual_) =
                (self.counter(counter.name()), replayed.outcome.vmstat.read(counter));
            assert_eq!(real, virtual_, "{what}: {}", counter.name());
        }
        if let Some(generations) = &self.generations {
            assert_eq!(*generations, replayed.generations, "{what}: generations");
        }
        assert_eq!(self.stats.accesses, replayed.outcome.accesses, "{what}: accesses");
        assert_eq!(self.stats.misses, replayed.outcome.misses, "{what}: misses");
        // Refused guards are not counted.
        let nr_past = self.stats.bypass_reads + self.stats.writes_through;
        assert!(nr_past <= replayed.outcome.bypasses, "{what}: {nr_past} accesses past the cache");
    }
}

impl Replayed {
    pub(crate) fn differs_from(&self, run: &Run) -> bool {
        self.evicted != run.evicted
            || self.moved != run.moved
            || self.outcome.misses != run.stats.misses
            || Counter::ALL
                .iter()
                .any(|counter| self.outcome.vmstat.read(*counter) != run.counter(counter.name()))
    }
}

pub(crate) fn play(cache: &PageCache, script: Script, seed: u64) {
    let memory = cache.stats().memory_bytes / PAGE as u64;
    let store = FaultyStore::with_contents(&vec![1; 3 * memory as usize * PAGE]);
    let file = cache.open_store(store.boxed()).unwrap();
    script(&mut Player { random: Random::new(seed), file: &file, memory, ticks: Ticks::of(cache) });
}
