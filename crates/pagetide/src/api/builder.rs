//! Building a page cache: knobs in, a running cache out, or a sentence that says why not.

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

/// Collects settings and builds a [`PageCache`]. Only [`Builder::memory`], or
/// [`Builder::tier`], must be called.
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
    /// The hard limit of managed memory; rounded down to whole frames, at least 64K.
    pub fn memory(self, memory: Bytes) -> Builder {
        self.with(Knob::Memory, memory.0)
    }

    /// Instead of a fixed limit, one that follows what the container or the machine can spare,
    /// between `least`, with which it begins, and `most`: it grows while the sizing curve says that
    /// it pays, and shrinks before others lack memory. Not for memory with [tiers](Builder::tier);
    /// without [background threads](Builder::background) it stays at `least`. What it did and why:
    /// [`PageCache::size_changes`].
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
    /// not matter; one tier must be fast. [`Tier::growing_to`] lets one grow later.
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

    /// How pages move between tiers; without knobs ([`Stage::Auto`](crate::Stage)) unless set.
    /// Takes the place of what [`Builder::set`] said of `tier_...` knobs before.
    pub fn tiering(mut self, options: TieringOptions) -> Builder {
        options.knobs.put(&mut self.knobs);
        self.tiering = options;
        self
    }

    /// The most a later [`PageCache::resize`] can grow to. Reserves address space, not memory.
    pub fn memory_max(self, memory_max: Bytes) -> Builder {
        self.with(Knob::MemoryMax, memory_max.0)
    }

    /// The replacement policy; `pagetide` unless set.
    pub fn policy(mut self, policy: PolicyName) -> Builder {
        self.policy = policy;
        self
    }

    /// Which of the policy's mechanisms are on; all that are on by default unless set.
    pub fn switches(mut self, switches: Switches) -> Builder {
        self.switches = switches;
        self
    }

    /// How long the multi-gen LRU keeps a generation at least; 0 unless set. Memory in use for less
    /// is then not taken for something newer: reads that find no frame go past memory, to the
    /// caller's buffer, and guards are refused. [`PageCache::resize`] takes it all the same.
    pub fn min_ttl(self, min_ttl: Duration) -> Builder {
        let millis = u64::try_from(min_ttl.as_millis()).unwrap_or(u64::MAX);
        self.with(Knob::MinTtl, millis)
    }

    /// Touches all memory while building, so that no access faults later. Off unless set.
    pub fn pretouch(self, pretouch: bool) -> Builder {
        self.with(Knob::Pretouch, pretouch.into())
    }

    /// Asks for huge pages for the arena. On unless set.
    pub fn huge_pages(self, huge_pages: bool) -> Builder {
        self.with(Knob::HugePages, huge_pages.into())
    }

    /// Bypasses the kernel's page cache where the file system allows. On unless set.
    pub fn direct_io(self, direct_io: bool) -> Builder {
        self.with(Knob::DirectIo, direct_io.into())
    }

    /// Uses io_uring for readahead and write-back where the kernel allows. On unless set.
    pub fn io_uring(self, io_uring: bool) -> Builder {
        self.with(Knob::IoUring, io_uring.into())
    }

    /// Runs the reclaim, flusher and readahead threads. Off makes a single-threaded run
    /// deterministic: everything then happens in the caller. Dirty pages are then written by writes
    /// over the limit, syncs and the last close; pages changed through guards wait for one of
    /// these.
    pub fn background(self, background: bool) -> Builder {
        self.with(Knob::Background, background.into())
    }

    /// The largest readahead window; 0 switches readahead off.
    pub fn readahead_max(self, readahead_max: Bytes) -> Builder {
        self.with(Knob::ReadaheadMax, readahead_max.0)
    }

    /// How the per-CPU lists of frames find their length; `refill` unless set.
    pub fn pcp_tuning(self, tuning: PcpTuning) -> Builder {
        self.with(Knob::PcpTuning, tuning as u64)
    }

    /// Lets the per-CPU lists of frames together hold one in `fraction` frames, at least 8, and
    /// switches their tuning off; 0, unless set, leaves them tuned.
    pub fn percpu_pagelist_high_fraction(self, fraction: u16) -> Builder {
        self.with(Knob::PcpHighFraction, fraction.into())
    }

    /// Writes every access to a compact record that `pagetide replay` reads.
    ///
    /// A run of one thread that stays on one CPU, with [`Builder::background`] off and no
    /// [`PageCache::resize`], can be repeated from its record page for page; with
    /// [tiers](Builder::tier) or [groups](Builder::groups), too. Where it cannot be written on, it
    /// ends there, and stderr says so; the cache goes on.
    pub fn record(mut self, path: impl Into<PathBuf>) -> Builder {
        self.record = Some(path.into());
        self
    }

    /// Lets other processes be given [the frames](crate::seam::HeldFiles::shared_files), to copy
    /// resident pages from by themselves. Off unless set; not for memory with
    /// [tiers](Builder::tier).
    pub fn shared(mut self, shared: bool) -> Builder {
        self.shared = shared;
        self
    }

    /// Lets the cache have [groups](PageCache::group): a miss also finds out which pays for it.
    /// Off unless set; not for memory with [tiers](Builder::tier) of several kinds. Regions are of
    /// no group.
    pub fn groups(mut self, groups: bool) -> Builder {
        self.groups = groups;
        self
    }

    /// Sets a knob by its name in docs/config.md.
    ///
    /// # Errors
    /// [`KnobError`] if there is no such knob or the text is not a value for it.
    pub fn set(mut self, name: &str, text: &str) -> Result<Builder, KnobError> {
        self.knobs.set_text(name, text)?;
        Ok(self)
    }

    /// Takes settings from `PAGETIDE_*` variables, such as `PAGETIDE_DIRTY=30`.
    ///
    /// # Errors
    /// As [`Builder::set`], for the first variable that is wrong.
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
    /// [`BuildError`] says which setting, or which refusal of the system.
    ///
    /// # Cost
    /// Tables as long as the memory has frames are written once; the memory itself comes as it is
    /// used, unless [`Builder::pretouch`] is on.
    pub fn build(mut self) -> Result<PageCache, BuildError> {
        let plan = self.plan_tiers()?;
        let limits = Limits::check(&self.knobs)?;
        let engine = self.build_engine(&limits, plan.as_ref())?;
        let shared = CacheShared::start(engine, &limits)?;
        Ok(PageCache::new(shared))
    }

    /// What the tiers come to, if there are any. The memory limit is then their sum.
    fn plan_tiers(&mut self) -> Result<Option<TierPlan>, BuildError> {
        if self.tiers.is_empty() {
            return Ok(None);
        }
        let given = self.knobs.read(Knob::Memory).max(self.knobs.read(Knob::MemoryMax));
        if given > 0 {
            return Err(TierError::MemoryToo { memory: Bytes(given) }.into());
        }
        // A machine without a notion of nodes has none to offer.
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
        // The clock is the background thread's, or whatever the owner's ticks will say.
        let now = Millis(if limits.has_workers { read_monotonic_ns() / 1_000_000 } else { 0 });
        let io = Arc::new(IoPool::new(self.knobs.is_on(Knob::IoUring)));
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

    /// A node for each tier of frames, or the one there is.
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
