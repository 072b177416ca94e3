//! Fast and slow memory in virtual time: page placement and its gain.
//!
//! **Problem.** Hot-page selection was measured on large servers, for minutes a run.
//! Thresholds and rates can be tuned only there.
//!
//! **Idea.** Core's decisions, thousands of times smaller, beside judges without decisions or with
//! knowledge of the future:
//!
//! ```text
//!   programs/ --touches--> run.rs --> world/: core decides     --> TierRow: score, MB/s, precision
//!                            |                                      recall, ping-pong
//!                            +------> judge.rs: no decisions   --> TierRow: the bounds
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `prices` | sourced prices of accesses and moves |
//! | `load` | busy memory answers later |
//! | `access_loop` | the loop over accesses, and its clock |
//! | `programs` | streams of touches |
//! | `world` | the machine: scan, hint faults, promotion, demotion |
//! | `tally` | the outcome of promotions |
//! | `judge` | all fast, all slow, and the oracle |
//! | `run` | set-up, warm-up, measurement, rows |
//! | `published` | published measurements |
//!
//! **Data and invariants.** The same set-up, program and seed give the same row.
//!
//! **Ignored.** Sockets, huge pages, file pages and write-back, caches, and interrupts to other
//! CPUs at a move. Scores compare only within one set of prices.
//!
//! **Source.** "memory tiering: hot page selection", Huang Ying, 2022.

mod access_loop;
mod judge;
mod load;
pub mod prices;
pub mod programs;
mod published;
mod run;
mod tally;
mod world;

pub use access_loop::{Node, TierAccess};
pub use published::{PublishedScore, change};
pub use run::{NotARatio, Placer, Ratio, SCALE_MAX, TierOutcome, TierRow, TierSetup, run_while};
