//! The builder of a page cache.

use crate::api::cache::PageCache;
use crate::engine::Engine;
use crate::engine::dirty::DirtyPages;
use crate::engine::errors::BuildError;
use crate::engine::fill::Filler;
use crate::engine::flush::Flusher;
use crate::engine::frame_source::FrameSource;
use crate::engine::frame_source::here::Here;
use crate::engine::limits::Limits;
use crate::engine::pages::Pages;
use crate::engine::prefetch::Prefetcher;
use crate::engine::registry::Registry;
use crate::engine::sizer::Sizer;
use crate::engine::stats::recorder::Recorder;
use crate::engine::stats::sizing::ReuseSampler;
use crate::engine::tiering::{Tiering, TieringOptions};
use crate::memory::compressed::CompressedPool;
use crate::memory::frames::ArenaFrames;
use crate::memory::io_pool::IoPool;
use crate::memory::locks::Signal;
use crate::memory::node::{Node, Nodes};
use crate::memory::tier::Tier;
use crate::memory::tier::plan::{TierError, TierPlan};
use crate::workers::CacheShared;
use crossbeam_utils::CachePadded;
use pagetide_core::folio::Folios;
use pagetide_core::group::{Grouping, NodeLists};
use pagetide_core::ids::FrameId;
use pagetide_core::knobs::{Knob, KnobError, Knobs};
use pagetide_core::lru::{LruConfig, LruvecId, PolicyName, Statistics, Switches};
use pagetide_core::page_alloc::PcpTuning;
use pagetide_core::record::{GroupNote, Header, Note, Reclaimer};
use pagetide_core::tiering::TieringKnobs;
use pagetide_core::units::{Bytes, Millis, PAGE_BYTES};
use pagetide_sys::numa::{NODES, read_nodes};
use pagetide_sys::{ArenaOptions, FrameArena, fetch_to_write, read_monotonic_ns};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Collects settings and builds a [`PageCache`]. Only [`Builder::memory`] or [`Builder::tier`] is
/// required.
#[derive(Clone, Default, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    knobs: Knobs,
    policy: PolicyName,
    switches: Switches,
    record: Option<PathBuf>,
    tiers: Vec<Tier>,
    tiering: TieringOptions,
    shared: bool,
    groups: bool,
    auto: Option<(Bytes, Bytes)>,
}

impl PageCache {
    /// Starts building a cache.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Builder {
    /// Sets the hard limit of managed memory, rounded down to whole frames, at least 64K.
    pub fn memory(self, memory: Bytes) -> Builder {
        self.with(Knob::Memory, memory.0)
    }

    /// Lets the limit follow the spare memory of the container or the machine, between `least`, the
    /// initial limit, and `most`. It grows while the sizing curve predicts a gain, and shrinks
    /// before other programs lack memory. Not for memory with [tiers](Builder::tier). Stays at
    /// `least` without [background threads](Builder::background). [`PageCache::size_changes`]
    /// returns the changes and their reasons.
    ///
    /// ```
    /// # use pagetide::{Bytes, PageCache};
    /// let cache = PageCache::builder().memory_auto(Bytes(1 << 20), Bytes(64 << 20)).build()?;
    /// assert!(cache.stats().memory_bytes >= 1 << 20);
    /// # Ok::<(), pagetide::BuildError>(())
    /// ```
    pub fn memory_auto(mut self, least: Bytes, most: Bytes) -> Builder {
        self.auto = Some((least, most.max(least)));
        self.memory(least).memory_max(most.max(least))
    }

    /// Adds a kind of memory, instead of [`Builder::memory`]: see [`Tier`]. The order of calls does
    /// not matter. One tier must be fast. [`Tier::growing_to`] allows later growth.
    ///
    /// ```
    /// # use pagetide::{Bytes, PageCache, Tier};
    /// # use std::time::Duration;
    /// let slow = Tier::emulated(Bytes(8 << 20), Duration::from_nanos(300));
    /// let cache = PageCache::builder().tier(Tier::dram(Bytes(2 << 20))).tier(slow).build()?;
    /// assert_eq!(cache.stats().memory_bytes, 10 << 20);
    /// # Ok::<(), pagetide::BuildError>(())
    /// ```
    pub fn tier(mut self, tier: Tier) -> Builder {
        self.tiers.push(tier);
        self
    }

    /// Sets how pages move between tiers, by default without knobs ([`Stage::Auto`](crate::Stage)).
    /// Overrides earlier calls of [`Builder::set`] for `tier_...` knobs.
    pub fn tiering(mut self, options: TieringOptions) -> Builder {
        options.knobs.put(&mut self.knobs);
        self.tiering = options;
        self
    }

    /// Sets the maximum for a later [`PageCache::resize`]. Reserves address space, not memory.
    pub fn memory_max(self, memory_max: Bytes) -> Builder {
        self.with(Knob::MemoryMax, memory_max.0)
    }

    /// Sets the replacement policy, by default `pagetide`.
    pub fn policy(mut self, policy: PolicyName) -> Builder {
        self.policy = policy;
        self
    }

    /// Turns the policy's mechanisms on or off, by default as in `Switches::default()`.
    pub fn switches(mut self, switches: Switches) -> Builder {
        self.switches = switches;
        self
    }

    /// Sets the minimum age of a generation before the multi-gen LRU evicts it, by default 0.
    /// Younger memory is not evicted for new pages: reads without a frame bypass the cache, and
    /// guards are refused. [`PageCache::resize`] evicts it all the same.
    pub fn min_ttl(self, min_ttl: Duration) -> Builder {
        let millis = u64::try_from(min_ttl.as_millis()).unwrap_or(u64::MAX);
        self.with(Knob::MinTtl, millis)
    }

    /// Touches all memory while building, so that no access faults later. Off by default.
    pub fn pretouch(self, pretouch: bool) -> Builder {
        self.with(Knob::Pretouch, pretouch.into())
    }

    /// Requests huge pages for the arena. On by default.
    pub fn huge_pages(self, huge_pages: bool) -> Builder {
        self.with(Knob::HugePages, huge_pages.into())
    }

    /// Bypasses the kernel's page cache if the file system allows. On by default.
    pub fn direct_io(self, direct_io: bool) -> Builder {
        self.with(Knob::DirectIo, direct_io.into())
    }

    /// Uses io_uring for readahead and write-back if the kernel allows. On by default.
    pub fn io_uring(self, io_uring: bool) -> Builder {
        self.with(Knob::IoUring, io_uring.into())
    }

    /// Runs the reclaim, flusher and readahead threads. Without them a single-threaded run is
    /// deterministic: the caller does all work. Dirty pages are then written by writes over the
    /// limit, syncs and the last close, pages changed through guards only by these.
    pub fn background(self, background: bool) -> Builder {
        self.with(Knob::Background, background.into())
    }

    /// Sets the largest readahead window. 0 turns readahead off.
    pub fn readahead_max(self, readahead_max: Bytes) -> Builder {
        self.with(Knob::ReadaheadMax, readahead_max.0)
    }

    /// Sets how the per-CPU frame lists find their length, by default `refill`.
    pub fn pcp_tuning(self, tuning: PcpTuning) -> Builder {
        self.with(Knob::PcpTuning, tuning as u64)
    }

    /// Lets all per-CPU frame lists together hold one in `fraction` frames, at least 8, and turns
    /// their tuning off. 0, the default, leaves it on.
    pub fn percpu_pagelist_high_fraction(self, fraction: u16) -> Builder {
        self.with(Knob::PcpHighFraction, fraction.into())
    }

    /// Records every access in a compact file for `pagetide replay`.
    ///
    /// A run of one thread on one CPU, with [`Builder::background`] off and no
    /// [`PageCache::resize`], replays page for page, also with [tiers](Builder::tier) or
    /// [groups](Builder::groups). A write error ends the record with a message on stderr. The cache
    /// goes on.
    pub fn record(mut self, path: impl Into<PathBuf>) -> Builder {
        self.record = Some(path.into());
        self
    }

    /// Allows sharing [the frames](crate::seam::HeldFiles::shared_files) with other processes,
    /// which can then copy resident pages. Off by default. Not for memory with
    /// [tiers](Builder::tier).
    pub fn shared(mut self, shared: bool) -> Builder {
        self.shared = shared;
        self
    }

    /// Enables [groups](PageCache::group), at the cost of a charge for each miss. Off by default.
    /// Not for memory with [tiers](Builder::tier) of several kinds. Regions belong to no group.
    pub fn groups(mut self, groups: bool) -> Builder {
        self.groups = groups;
        self
    }

    /// Sets a knob by its name in docs/config.md.
    ///
    /// # Errors
    /// [`KnobError`] if the knob does not exist or the value is invalid.
    pub fn set(mut self, name: &str, text: &str) -> Result<Builder, KnobError> {
        self.knobs.set_text(name, text)?;
        Ok(self)
    }

    /// Reads settings from `PAGETIDE_*` variables, such as `PAGETIDE_DIRTY=30`.
    ///
    /// # Errors
    /// As [`Builder::set`], for the first invalid variable.
    pub fn from_env(mut self) -> Result<Builder, KnobError> {
        for knob in Knob::ALL {
            let name = knob.row().name;
            if let Ok(text) = std::env::var(format!("PAGETIDE_{}", name.to_uppercase())) {
                self = self.set(name, &text)?;
            }
        }
        Ok(self)
    }

    fn with(mut self, knob: Knob, value: u64) -> Builder {
        self.knobs.set(knob, value);
        self
    }

    /// Reserves the memory and starts the threads.
    ///
    /// # Errors
    /// [`BuildError`] names the setting, or the system's refusal.
    ///
    /// # Cost
    /// Writes tables as long as the memory has frames. The memory itself is allocated on use,
    /// unless [`Builder::pretouch`] is on.
    pub fn build(mut self) -> Result<PageCache, BuildError> {
        let plan = self.plan_tiers()?;
        let limits = Limits::check(&self.knobs)?;
        let engine = self.build_engine(&limits, plan.as_ref())?;
        let shared = CacheShared::start(engine, &limits)?;
        Ok(PageCache::new(shared))
    }

    /// Checks the tiers, if there are any. The memory limit is then their sum.
    fn plan_tiers(&mut self) -> Result<Option<TierPlan>, BuildError> {
        if self.tiers.is_empty() {
            return Ok(None);
        }
        let given = self.knobs.read(Knob::Memory).max(self.knobs.read(Knob::MemoryMax));
        if given > 0 {
            return Err(TierError::MemoryToo { memory: Bytes(given) }.into());
        }
        // A machine without NUMA has no nodes to list.
        let machine = read_nodes(NODES).unwrap_or_default();
        let plan = TierPlan::check(&self.tiers, &machine)?;
        self.tiering.knobs = TieringKnobs::of(&self.knobs);
        if plan.nodes.len() > 1 && self.groups {
            return Err(TierError::Groups { nr_nodes: plan.nodes.len() }.into());
        }
        self.tiering.knobs.check().map_err(BuildError::Tiering)?;
        if self.tiering.switches.auto {
            self.tiering.knobs = self.tiering.knobs.in_small_runs(plan.nr_frames().into());
        }
        self.knobs.set(Knob::Memory, Bytes::from_pages(plan.nr_frames().into()).0);
        self.knobs.set(Knob::MemoryMax, Bytes::from_pages(plan.nr_frames_max().into()).0);
        Ok(Some(plan))
    }

    fn build_engine(&self, limits: &Limits, plan: Option<&TierPlan>) -> Result<Engine, BuildError> {
        let options = ArenaOptions {
            huge_pages: self.knobs.is_on(Knob::HugePages),
            pretouch: self.knobs.is_on(Knob::Pretouch),
        };
        limits.check_machine()?;
        let places = plan.map(TierPlan::placements).unwrap_or_default();
        let arena = Arc::new(if self.shared && plan.is_none() {
            FrameArena::reserve_shared(limits.nr_frames_max, options)?
        } else {
            FrameArena::reserve_on(limits.nr_frames_max, &places, options)?
        });
        let folios = Arc::new(Folios::with_prefetch(limits.nr_frames_max, fetch_to_write));
        let nodes = self.build_nodes(limits, plan, &arena, &folios);
        let is_tiered = nodes.len() > 1;
        let rule = nodes.first().lock_lists().root().access_rule();
        let compressed = plan.and_then(|plan| plan.compressed);
        // The clock of the background thread, or else of the owner's ticks.
        let now = Millis(if limits.has_workers { read_monotonic_ns() / 1_000_000 } else { 0 });
        let cache_bytes = limits.nr_frames as usize * PAGE_BYTES;
        let io = Arc::new(IoPool::new(self.knobs.is_on(Knob::IoUring), cache_bytes));
        let has_free = AtomicBool::new(nodes.is_ample());
        let tiering =
            plan.filter(|_| is_tiered).map(|plan| Box::new(Tiering::new(plan, self.tiering, now)));
        let pages = Arc::new(Pages {
            rule,
            slow_from: if is_tiered { nodes.at(1).range().start.0 } else { u32::MAX },
            pool: compressed.map(|len| Box::new(CompressedPool::new(len))),
            nodes,
            arena,
            folios,
            dirty: DirtyPages::new(limits.dirty_limits(limits.nr_frames)),
            nr_locked: AtomicU64::new(0),
            counters: Arc::default(),
            recorder: self.create_record(limits, plan.filter(|_| is_tiered), now)?,
            reuse: ReuseSampler::new(limits.nr_frames),
            read_times: CachePadded::default(),
        });
        let mappings = Arc::new(Registry::default());
        let flusher = Arc::new(Flusher::new(&pages, &mappings, &io, limits.has_workers));
        let source = Arc::new(FrameSource {
            pages: Arc::clone(&pages),
            mappings: Arc::clone(&mappings),
            flusher: Arc::clone(&flusher),
            tiering,
            groups: self.groups.then(Box::default),
            started_at: Instant::now(),
            background: Signal::default(),
            has_workers: limits.has_workers,
            here: Here::default(),
            spare_batch: Mutex::default(),
            has_free,
        });
        Ok(Engine {
            filler: Filler::new(&source),
            prefetcher: Prefetcher::new(&source, &io),
            warmer: Default::default(),
            sizer: self.auto.map(|bounds| Sizer::new(bounds, limits)),
            collapser: Signal::default(),
            lender: Mutex::default(),
            pages,
            mappings,
            flusher,
            source,
            direct_io: AtomicBool::new(limits.direct_io),
            io_uring: io.probe_uring(),
        })
    }

    fn build_nodes(
        &self,
        limits: &Limits,
        plan: Option<&TierPlan>,
        arena: &Arc<FrameArena>,
        folios: &Arc<Folios>,
    ) -> Nodes {
        let ranges = match plan {
            Some(plan) => plan.ranges(),
            None => std::iter::once(0..limits.nr_frames_max).collect(),
        };
        let nr_online =
            |nth: usize| plan.map_or(limits.nr_frames, |plan| plan.nodes[nth].nr_frames);
        let grouping = if self.groups { Grouping::On } else { Grouping::Off };
        let build = |(nth, range): (usize, Range<u32>)| {
            let config = LruConfig {
                nr_frames: range.len() as u32,
                first_frame: FrameId(range.start),
                id: LruvecId { group: 0, node: nth as u8 },
                swappiness: self.knobs.read(Knob::Swappiness) as u8,
                can_swap: false,
                min_ttl: Millis(self.knobs.read(Knob::MinTtl)),
                switches: self.switches,
                statistics: Statistics::Live,
            };
            let lists = NodeLists::new(self.policy, &config, Arc::clone(folios), grouping);
            let frames = ArenaFrames::new(Arc::clone(arena), range, nr_online(nth), limits.pcp);
            Node::new(frames, lists, limits.pcp.nr_cpus)
        };
        Nodes::new(ranges.into_iter().enumerate().map(build).collect())
    }

    fn create_record(
        &self,
        limits: &Limits,
        plan: Option<&TierPlan>,
        now: Millis,
    ) -> Result<Option<Recorder>, BuildError> {
        let Some(path) = &self.record else { return Ok(None) };
        let header = Header {
            page_bytes: PAGE_BYTES as u32,
            memory_frames: u64::from(limits.nr_frames),
            memory_frames_max: u64::from(limits.nr_frames_max),
            nr_cpus: limits.pcp.nr_cpus,
            swappiness: self.knobs.read(Knob::Swappiness) as u8,
            pcp_tuning: limits.pcp.tuning,
            pcp_high_fraction: self.knobs.read(Knob::PcpHighFraction) as u16,
            reclaimer: Some(match limits.has_workers {
                true => Reclaimer::Background,
                false => Reclaimer::Accesses,
            }),
            policy: self.policy.to_string(),
            tiers: plan.map(|plan| self.tiering.recorded(plan.recorded(), now)),
            switches: self.switches,
        };
        let recorder = Recorder::create(path, &header);
        if let (Ok(recorder), true) = (&recorder, self.groups) {
            recorder.note(&Note::Group(GroupNote::Begin));
        }
        recorder.map(Some).map_err(|source| BuildError::Record { path: path.clone(), source })
    }
}
