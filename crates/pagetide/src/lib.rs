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

mod api;
mod engine;
mod memory;
mod region;
mod stats;

pub use {
    api::builder::Builder,
    api::cache::{OpenOptions, PageCache},
    api::errors::{
        AdviseError, BuildError, CreateRegionError, OpenError, ReadError, ResizeError, SyncError,
        WriteError,
    },
    api::file::{Advice, File, PageGuard, PageGuardMut},
    api::frame_allocator::{
        FrameAllocator, FrameAllocatorBuilder, FrameAllocatorStats, FrameBlock, FrameBlocks,
        JoinError,
    },
    api::group::{Group, GroupError, GroupOptions, GroupStats},
    api::seam,
    engine::tiering::TieringOptions,
    memory::compressed::CompressedStats,
    memory::store::Store,
    memory::tier::plan::TierError,
    memory::tier::{ParseTierError, Tier},
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
    stats::counters::CacheStats,
    stats::sizing::{Estimate, Sizing},
    stats::tier_stats::{TierStats, TieringStats},
};

/// The README's example, so that it keeps compiling and running.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeExample;
