//! Fast and slow memory in virtual time: which pages should live where, and what it is worth.
//!
//! **Problem.** Hot-page selection was measured on servers with hundreds of gigabytes of two kinds
//! of memory, for minutes a run. Whether a threshold or a rate is right can be found out there only
//! on one, and why it is right not even there.
//!
//! **Idea.** Core's own decisions, thousands of times smaller, beside judges that make none or know
//! the future:
//!
//! ```text
//!   programs/ --touches--> run.rs --> world/: core decides     --> TierRow: score, MB/s, precision
//!                            |                                      recall, ping-pong
//!                            +------> judge.rs: no decisions   --> TierRow: the bounds
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `prices` | what an access and a move cost, and where the numbers come from |
//! | `load` | busy memory answers later |
//! | `access_loop` | the loop over accesses, and its clock |
//! | `programs` | what is touched |
//! | `world` | the machine: scan, hint faults, promotion, demotion |
//! | `tally` | whether promotions paid |
//! | `judge` | all fast, all slow, and the oracle |
//! | `run` | set-up, warm-up, measurement, rows |
//! | `published` | what others measured |
//!
//! **Data and invariants.** The same set-up, program and seed give the same row, to the last digit.
//!
//! **Ignored.** Sockets, huge pages, file pages and their write-back, caches, and what interrupts
//! cost other CPUs when a page moves. Scores are comparable within one set of prices only.
//!
//! **Sources.** The tiering specification, section 10, and the benchmark specification, section D.

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
