//! The page allocator.
//!
//! **Problem.** CPUs that take and return frames must not contend for one lock, must not exhaust
//! memory, and must keep long free runs for large folios.
//!
//! **Idea.** Three layers, each a fast path for the next:
//!
//! ```text
//!   CPU 0        CPU 1        CPU 2
//!  [ Pcp ]      [ Pcp ]      [ Pcp ]      a few frames each, a try-lock, hardly contended
//!      \            |            /        refill a batch, drain the coldest
//!       \           |           /
//!        [         Zone         ]         one lock, limited by watermarks
//!        [      buddy lists     ]         blocks of 2^0..2^10 frames, split and merged
//!        [      FrameTable      ]         one word a frame, shared by all of the above
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `watermark` | levels and their check |
//! | `pcp` | per-CPU lists, and **the seam**: the calls of both worlds |
//! | `pcp_limits` | batch and limit as functions of the zone |
//! | `pcp_tuning` | list length: fixed, depth, refill |
//! | `zone` | watermark checks, resizing, splits, joins, runs |
//! | `buddy`, `free_blocks` | splitting, merging, fragmentation |
//! | `frame_table` | one word per frame, and its owner |
//! | `pressure` | shortage signal to the lists |
//! | `slow_path` | attempts after the fast path |
//! | `fair_zones` | turns among several zones, for models |
//! | `whole_blocks` | blocks to empty before memory is given up |
//! | `single` | zone and lists without locks, for the lab and tests |
//!
//! **Data and invariants.** managed = free in the zone + on per-CPU lists + allocated. Only the
//! first is `NR_FREE`, compared with watermarks. Nothing here locks, waits or wakes. After `None`,
//! the caller wakes background reclaim, tries a lower level, or reclaims.
//!
//! **Cost.** 8 bytes a frame, 0.2 % of the memory.
//!
//! **Ignored.** Several zones per arena (but see [`WatermarkInputs`] and [`FairZones`]). Migrate
//! types.
//!
//! **Source.** Linux 6.18's page allocator.

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
