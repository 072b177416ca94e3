//! Fast and slow memory: placement of pages.
//!
//! **Problem.** Initial placement does not predict heat. Hot pages in slow memory cost time, and so
//! do moves back and forth.
//!
//! **Idea.** Reclaim of a fast node *demotes* cold pages instead of evicting them. A slow scan arms
//! pages, and the latency of the next access measures heat: hot pages are *promoted* at a limited
//! rate.
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
//! | `topology/` | tiers, and routes between nodes |
//! | `hint_stamp.rs` | arming time of a page |
//! | `scan.rs`, `scan_period.rs`, `hint_scan/` | rate and order of arming |
//! | `fault.rs`, `promotion/`, `decision.rs` | promotion after a fault |
//! | `auto/`, `heat.rs`, `returns.rs` | promotion by cost and benefit, without knobs |
//! | `demotion.rs` | targets of reclaim's victims |
//! | `sparing.rs` | victims that stay |
//! | `knobs.rs`, `stage.rs` | numbers, and active mechanisms |
//!
//! **Ignored.** Locality of several fast nodes, and large folios.
//!
//! **Source.** Linux 6.18. "memory tiering: hot page selection", Huang Ying, 2022.

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
