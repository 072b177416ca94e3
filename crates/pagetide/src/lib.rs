//! A page cache inside a program: real files, a hard byte limit, and a kernel's reclaim.
//!
//! The kernel's page cache is shared, sized by the loudest program, and out of reach. A database or
//! a storage engine needs a fixed limit for its own files, and a replacement policy that survives
//! scans and reports its decisions.
//!
//! Entry points:
//!
//! - [files](#files): pages of a file, read and written by calls, or in place under a guard:
//!   [`PageCache::open`], [`File`],
//! - [regions](#regions): an address range larger than memory, for loads and stores:
//!   [`PageCache::region`], [`Region`],
//! - [groups](#groups): tenants of one cache, each with a limit and protection:
//!   [`PageCache::group`], [`Group`],
//! - [tiers](#tiers): fast memory over slow, or over compressed pages: [`Builder::tier`], [`Tier`],
//! - [policies](policy): the decisions alone, for a cache with memory of its own:
//!   [`policy::Policy`],
//! - [the frame allocator](#the-frame-allocator): the bottom layer alone, in blocks of 2^order
//!   frames: [`FrameAllocator`].
//!
//! A page and a frame have [`PAGE_BYTES`]. Sizes are [`Bytes`]. Linux only.
//!
//! # Files
//!
//! ```
//! use pagetide::{Bytes, OpenOptions, PageCache};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("data.bin");
//! let cache = PageCache::builder().memory(Bytes(64 << 20)).build()?;
//! let file = cache.open(path, OpenOptions::new().read(true).write(true).create(true))?;
//! file.write_all_at(b"hello", 4096)?;
//! file.sync_data()?;
//! // In place, without a copy: the page stays until the guard is dropped.
//! assert_eq!(&file.page(1)?[..5], b"hello");
//! // As `std::io` has it.
//! let mut text = String::new();
//! std::io::Read::read_to_string(&mut file.cursor(), &mut text)?;
//! assert!(text.ends_with("hello"));
//! println!("{}", cache.stats());
//! # Ok(())
//! # }
//! ```
//!
//! A storage engine keeps bytes for any time with [`File::pin`], reads into new buffers with
//! [`File::read_into`], and passes a descriptor that it has locked to [`PageCache::open_file`].
//!
//! [`File::advise`] announces accesses. [`PageCache::open_store`] caches contents that are not a
//! file. [`CacheStats::sizing`] estimates the effect of more memory. [`PageCache::record_metrics`]
//! feeds a metrics collector, including the crates of the features `metrics` and `opentelemetry`.
//! The feature `tracing` adds spans to slow paths. The feature `control` serves requests from
//! outside the process.
//!
//! # Regions
//!
//! ```
//! use pagetide::{Bytes, PageCache, RegionOptions};
//! use std::sync::atomic::Ordering::Relaxed;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cache = PageCache::builder().memory(Bytes(1 << 20)).build()?;
//! # if cache.region(RegionOptions::anonymous(Bytes(4096))).is_err() { return Ok(()) }
//! // Eight times the memory there is; what is not used just now is in a file without a name.
//! let region = cache.region(RegionOptions::anonymous(Bytes(8 << 20)))?;
//! let words = region.words();
//! words.iter().step_by(512).for_each(|word| word.store(1, Relaxed));
//! let sum: u64 = words.iter().map(|word| word.load(Relaxed)).sum();
//! assert_eq!(sum, 2048);
//! assert!(region.stats().resident_bytes <= 1 << 20);
//! # Ok(())
//! # }
//! ```
//!
//! # Groups
//!
//! ```
//! use pagetide::{Bytes, GroupOptions, OpenOptions, PageCache};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("index");
//! # std::fs::write(&path, vec![7; 1 << 20])?;
//! let cache = PageCache::builder().memory(Bytes(8 << 20)).groups(true).build()?;
//! let scans = cache.group("scans", GroupOptions::new().limit(Bytes(2 << 20)))?;
//! let index = cache.group("index", GroupOptions::new().low(Bytes(4 << 20)))?;
//! // The pages that a file brings in are charged to the group it was opened in.
//! let file = index.open(&path, OpenOptions::new().read(true))?;
//! file.read_exact_at(&mut [0; 4096], 0)?;
//! assert!(index.stats()?.usage_bytes > 0);
//! assert_eq!(scans.stats()?.usage_bytes, 0);
//! # Ok(())
//! # }
//! ```
//!
//! # Tiers
//!
//! ```
//! use pagetide::{Bytes, PageCache, Tier};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // What leaves the frames is compressed before it is given up; other tiers are the memory of
//! // NUMA nodes, and memory that is made slow to see what that would cost.
//! let fast = Tier::dram(Bytes(8 << 20));
//! let cache = PageCache::builder().tier(fast).tier(Tier::compressed(Bytes(2 << 20))).build()?;
//! let tiering = cache.stats().tiering.expect("there are tiers");
//! assert_eq!(tiering.compressed.expect("one of them").limit_bytes, 2 << 20);
//! # Ok(())
//! # }
//! ```
//!
//! # The frame allocator
//!
//! ```
//! use pagetide::{Bytes, FrameAllocator, Order};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let allocator = FrameAllocator::builder().memory(Bytes(16 << 20)).build()?;
//! // 2 MiB in one piece, which can be a huge page; free again when it is dropped.
//! let block = allocator.alloc(Order::new(9)?).expect("16 MiB are free");
//! assert_eq!(block.len_bytes(), 2 << 20);
//! # Ok(())
//! # }
//! ```
//!
//! # Promises
//!
//! Managed memory never exceeds the limit, and the limit never makes a read or a write fail. A
//! dirty page leaves memory only after its write was acknowledged. The next sync reports a failed
//! write-back, once to every handle. A hit by copy writes no shared cache line. A call that would
//! wait for a guard of its own thread fails with `WouldDeadlock`.
//!
//! # Errors
//!
//! Each operation has an error type. Each variant states the remedy. All convert into
//! [`std::io::Error`], with the kind of their cause or remedy: `InvalidInput` (change the
//! arguments), `PermissionDenied` (open with that access), `UnexpectedEof`, `FileTooLarge`,
//! `ResourceBusy` (release pinned, dirty or open files and retry), `OutOfMemory` and
//! `QuotaExceeded` (ask for less), `NotFound`, `AlreadyExists`, `Deadlock`, `Unsupported`. The
//! exceptions are [`JoinError`], which returns the blocks, and parse errors such as [`KnobError`].
//!
//! # Inside
//!
//! [`pagetide_core`] decides: eviction, write-back, readahead. [`pagetide_sys`] accesses memory and
//! the system. This crate holds the locks, the threads and the order of events. [`seam`] is for
//! `pagetide run` only.

#[macro_use]
mod span;

mod api;
mod engine;
mod memory;
pub mod policy;
mod region;
mod workers;

#[cfg(feature = "control")]
pub use api::control;

pub use {
    api::builder::Builder,
    api::cache::{OpenOptions, PageCache},
    api::file::{Advice, File, FileCursor, PageGuard, PageGuardMut, PinnedRange},
    api::files::FileStats,
    api::frame_allocator::{
        FrameAllocator, FrameAllocatorBuilder, FrameAllocatorStats, FrameBlock, FrameBlocks,
        JoinError,
    },
    api::group::{Group, GroupStats},
    api::metrics::exposition::ExpositionFormat,
    api::metrics::{MetricKind, MetricSample, MetricValue, MetricsRecorder},
    api::seam,
    api::stats::cache::CacheStats,
    api::stats::tiers::{TierStats, TieringStats},
    engine::errors::{
        AdviseError, BuildError, CreateRegionError, GroupError, OpenError, ReadError, ResizeError,
        SyncError, WriteError, errno_of, find_errno,
    },
    engine::groups::options::GroupOptions,
    engine::resident::{ParseResidentError, ResidentFile, ResidentRange, ResidentSet, WarmStats},
    engine::sizer::{SizeChange, SizeChanges},
    engine::stats::latency::LatencyStats,
    engine::stats::sizing::{Estimate, Sizing},
    engine::tiering::TieringOptions,
    memory::compressed::CompressedStats,
    memory::store::Store,
    memory::tier::plan::TierError,
    memory::tier::{ParseTierError, Tier},
    pagetide_core::autosize::SizeReason,
    pagetide_core::ids::{FrameId, Order, OrderTooLarge},
    pagetide_core::knobs::{Knob, KnobError},
    pagetide_core::lru::lru_gen::Detail,
    pagetide_core::lru::own::{SelectionSummary, SettingChange, SettingSummary},
    pagetide_core::lru::{
        GenCommandError, Mechanism, PolicyName, Switches, UnknownMechanism, UnknownPolicy,
    },
    pagetide_core::page_alloc::{FreeBlocks, PcpTuning, UnknownPcpTuning, ZoneStats},
    pagetide_core::tiering::{
        Stage, TieringKnobError, TieringKnobs, TieringSwitches, UnknownStage,
    },
    pagetide_core::units::{Bytes, Millis, PAGE_BYTES, ParseBytesError},
    pagetide_sys::{
        FaultDelivery, Pod, RegionError, ReserveError, UffdError, UffdFeatures, UffdSource,
    },
    region::{OwnedRegion, Region, RegionArray, RegionOptions, RegionStats},
};

#[cfg(feature = "allocator-api2")]
pub use region::RegionAllocator;

#[cfg(feature = "metrics")]
pub use api::metrics::exporters::ForMetrics;
#[cfg(feature = "opentelemetry")]
pub use api::metrics::exporters::ForOpenTelemetry;

/// The README's example, as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeExample;
