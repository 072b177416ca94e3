//! The page allocator: which frame a page gets, and when there is none to give.
//!
//! **Problem.** Many CPUs take and return frames all the time. They must not fight over one lock,
//! must not run memory down to the last frame, and must leave long runs of free frames for large
//! folios.
//!
//! **Idea.** Three layers, each the common case of the one behind it:
//!
//! ```text
//!   CPU 0        CPU 1        CPU 2
//!  [ Pcp ]      [ Pcp ]      [ Pcp ]      a few frames each, a try-lock, hardly contended
//!      \            |            /        refill: a batch; drain: the coldest
//!       \           |           /
//!        [         Zone         ]         one lock; watermarks say how much may be taken
//!        [      buddy lists     ]         blocks of 2^0..2^10 frames, split and merged
//!        [      FrameTable      ]         one word a frame, shared by all of the above
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `watermark` | the levels, their derivation, the check |
//! | `pcp` | per-CPU lists, and **the seam**: the calls both worlds make |
//! | `pcp_limits` | batch and limit as functions of the zone |
//! | `pcp_tuning` | how long the lists may grow: fixed, depth, refill |
//! | `zone` | the check at every way out; resizing, splits, joins, runs |
//! | `buddy`, `free_blocks` | splitting and merging; what fragmentation looks like |
//! | `frame_table` | one word a frame; its owner at each moment |
//! | `pressure` | the word that tells lists that frames are scarce |
//! | `slow_path` | what to try, in order, when the fast path finds nothing |
//! | `fair_zones` | whose turn it is among several zones: for models of them |
//! | `whole_blocks` | which blocks to empty, of memory that is given up |
//! | `single` | zone and lists without locks, for one thread: the lab's and the tests' |
//!
//! **Data and invariants.** managed = free in the zone + on per-CPU lists + handed out. Only the
//! first of these is `NR_FREE`, and only `NR_FREE` is compared with watermarks. Nothing here locks,
//! waits or wakes: `None` tells the caller that its request is at its level, and the caller wakes
//! background reclaim, tries a lower level or reclaims itself.
//!
//! Cost: 8 bytes a frame, 0.2 % of the memory managed.
//!
//! **Deliberately ignored.** NUMA and more than one zone: an arena is one zone. (What knows
//! several zones is here: [`WatermarkInputs`], and [`FairZones`].) Migrate types: all frames can be
//! given up.
//!
//! Source: the page allocator specification, sections 1 to 4.

mod buddy;
mod fair_zones;
mod frame_table;
mod free_blocks;
mod pcp;
mod pcp_limits;
mod pcp_tuning;
mod pressure;
mod single;
mod slow_path;
mod starving;
mod watermark;
mod whole_blocks;
mod zone;

#[cfg(test)]
mod tests;

pub use fair_zones::FairZones;
pub use frame_table::{FRAMES_MAX, FrameState, FrameTable};
pub use free_blocks::FreeBlocks;
pub use pcp::{Drain, PCP_HUGE_ORDER, Pcp};
pub use pcp_limits::{
    HighFraction, HighFractionError, PCP_ORDER_MAX, PcpInputs, PcpLimits, batch_of,
};
pub use pcp_tuning::{PCP_BATCH_SCALE_MAX, PcpTuning, UnknownPcpTuning, ZoneSignals};
pub use single::PageAllocator;
pub use slow_path::{Attempt, Attempted, SlowPath};
pub use starving::Starving;
pub use watermark::{
    SCALE_FACTOR_DEFAULT, SCALE_FACTOR_MAX, WatermarkInputs, WatermarkLevel, Watermarks,
    min_free_kbytes,
};
pub use whole_blocks::{block_of, blocks_to_empty};
pub use zone::run::{run_min, stock_max};
pub use zone::{AllocRequest, Zone, ZoneConfig, ZoneStats};
