//! A page cache a program owns: real files, a hard byte limit, and the reclaim of a kernel.
//!
//! The kernel's page cache is shared, sized by whoever shouts loudest, and out of reach. A database
//! or a storage engine wants the opposite: so many bytes and not one more, for its own files, with
//! a replacement policy that survives scans and tells what it did.
//!
//! ```no_run
//! use pagetide::{Bytes, OpenOptions, PageCache};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cache = PageCache::builder().memory(Bytes(64 << 20)).build()?;
//! let file = cache.open("data.bin", OpenOptions::new().read(true).write(true).create(true))?;
//! file.write_at(b"hello", 4096)?;
//! file.sync_data()?;
//! assert_eq!(&file.page(1)?[..5], b"hello");
//! println!("hit ratio {:.3}", cache.stats().hit_ratio());
//! # Ok(())
//! # }
//! ```
//!
//! What it promises: managed memory never exceeds the limit, and the limit never makes a read or a
//! write fail; a dirty page leaves memory only after its write was acknowledged; a failed
//! write-back is reported by the next sync, once to every handle; hits by copy write no shared
//! cache line.
//!
//! Not inside: any decision. What to evict, when to write, how far to read ahead is
//! [`pagetide_core`]'s; what touches memory and the system is [`pagetide_sys`]'s. Here are the
//! locks, the threads and the order of things.
#![deny(unsafe_code)]

// What loom explores: the frame allocator, with the locks of `sync`.
mod frames;
mod percpu;
mod sync;

#[cfg(not(loom))]
mod agreement;
#[cfg(not(loom))]
mod builder;
#[cfg(not(loom))]
mod cache;
#[cfg(not(loom))]
mod compressed;
#[cfg(not(loom))]
mod counters;
#[cfg(not(loom))]
mod delay;
#[cfg(not(loom))]
mod devices;
#[cfg(not(loom))]
mod dirty;
#[cfg(not(loom))]
mod engine;
#[cfg(not(loom))]
mod errors;
#[cfg(not(loom))]
mod file;
#[cfg(not(loom))]
mod fill;
#[cfg(not(loom))]
mod flush;
#[cfg(not(loom))]
mod foreign;
#[cfg(not(loom))]
mod frame_allocator;
#[cfg(not(loom))]
mod group;
#[cfg(not(loom))]
mod growth;
#[cfg(not(loom))]
mod held;
#[cfg(not(loom))]
mod hint_scan;
#[cfg(not(loom))]
mod in_flight;
#[cfg(not(loom))]
mod io_pool;
#[cfg(not(loom))]
mod leaving;
#[cfg(not(loom))]
mod locks;
#[cfg(not(loom))]
mod mapping;
#[cfg(not(loom))]
mod moving;
#[cfg(not(loom))]
mod node;
#[cfg(not(loom))]
mod open;
#[cfg(not(loom))]
mod pass;
#[cfg(not(loom))]
mod prefetch;
#[cfg(not(loom))]
mod reclaim;
#[cfg(not(loom))]
mod recorder;
#[cfg(not(loom))]
mod region;
#[cfg(not(loom))]
mod registry;
#[cfg(not(loom))]
mod resize;
#[cfg(not(loom))]
pub mod seam;
#[cfg(not(loom))]
mod sizing;
#[cfg(not(loom))]
mod staging;
#[cfg(not(loom))]
mod store;
#[cfg(not(loom))]
mod tier;
#[cfg(not(loom))]
mod tier_stats;
#[cfg(not(loom))]
mod tiering;

#[cfg(not(loom))]
mod validate;
#[cfg(not(loom))]
mod written;

#[cfg(not(loom))]
pub use {
    builder::Builder,
    cache::{OpenOptions, PageCache},
    compressed::CompressedStats,
    counters::CacheStats,
    errors::{
        AdviseError, BuildError, CreateRegionError, OpenError, ReadError, ResizeError, SyncError,
        WriteError,
    },
    file::{Advice, File, PageGuard, PageGuardMut},
    frame_allocator::{
        FrameAllocator, FrameAllocatorBuilder, FrameAllocatorStats, FrameBlock, FrameBlocks,
        JoinError,
    },
    group::{Group, GroupError, GroupOptions, GroupStats},
    pagetide_core::ids::{FrameId, Order, OrderTooLarge},
    pagetide_core::knobs::KnobError,
    pagetide_core::lru::lru_gen::{Detail, GenCommandError},
    pagetide_core::lru::pagetide::{ArmChange, ArmSummary, SelectionSummary},
    pagetide_core::lru::{Mechanism, PolicyName, Switches},
    pagetide_core::page_alloc::{FreeBlocks, MigrateType, PcpTuning, ZoneStats},
    pagetide_core::tiering::{Stage, TieringKnobs, TieringSwitches},
    pagetide_core::units::{Bytes, Millis},
    pagetide_sys::{RegionError, UffdError, UffdSource},
    region::{Region, RegionOptions, RegionStats},
    sizing::{Estimate, Sizing},
    store::Store,
    tier::plan::TierError,
    tier::{ParseTierError, Tier},
    tier_stats::{TierStats, TieringStats},
    tiering::TieringOptions,
};

/// The README's example, so that it keeps compiling and running.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeExample;
