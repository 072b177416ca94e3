//! Fast and slow memory: which pages live where.
//!
//! **Problem.** A machine may have little fast memory and much slow memory. Where a page was put
//! when it came says nothing about how hot it will be, and both kinds of mistake cost: hot pages in
//! slow memory, and pages moved back and forth.
//!
//! **Idea.** Two opposite flows. Reclaim of a fast node *demotes* what the replacement policy calls
//! cold, instead of evicting it. A slow scan over page tables arms pages, and the fault of the next
//! access tells how soon it came: soon enough, and not too many a second, and the page is
//! *promoted*.
//!
//! ```text
//!                 hint fault soon after the scan (promotion)
//!            +------------------------------------------------+
//!            v                                                |
//!      [ fast node ] --- cold, at reclaim (demotion) ---> [ slow node ] --- cold ---> evicted
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `topology/` | tiers, and the ways between nodes |
//! | `hint_stamp.rs` | when a page was armed |
//! | `scan.rs`, `scan_period.rs`, `hint_scan/` | how often pages are armed, and which |
//! | `fault.rs`, `promotion/`, `decision.rs` | whether a page that faulted is promoted |
//! | `auto/`, `heat.rs`, `returns.rs` | the same without knobs, by cost and benefit |
//! | `demotion.rs` | where reclaim's victims go instead of away |
//! | `sparing.rs` | which of them stay |
//! | `knobs.rs`, `stage.rs` | the numbers of it; which of its mechanisms are on |
//!
//! **Deliberately ignored.** Which of several fast nodes is nearer to a thread (locality balancing
//! moves nothing here), and folios of several pages.
//!
//! Source: the tiering specification; "memory tiering: hot page selection", Huang Ying, 2022.

mod auto;
mod decision;
mod demotion;
mod fault;
mod heat;
mod hint_scan;
mod hint_stamp;
mod knobs;
mod promotion;
mod returns;
mod scan;
mod scan_period;
mod sparing;
mod stage;
mod topology;

pub use auto::{Auto, TierCosts};
pub use decision::{Decision, HintFaultAction, Migration, PromotionReason, Refusals};
pub use demotion::{
    Demotion, DemotionMode, Leftover, background_level, background_target, room_for_demoted,
};
pub use fault::JudgedFault;
pub use hint_scan::{BalancingMode, EntryFacts, ScanChunk, ScannedMapping, scattered};
pub use knobs::{TieringKnobError, TieringKnobs, frames_per_second};
pub use promotion::{Headroom, HintFault, Promotion};
pub use scan::HintScan;
pub use stage::{Stage, TieringSwitches, UnknownStage};
pub use topology::{
    AbstractDistance, DISTANCE_LOCAL, DISTANCE_REMOTE, MemoryPerformance, NODES_MAX,
    NodeDescription, Topology, TopologyError,
};
