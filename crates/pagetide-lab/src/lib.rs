//! The lab: replays recorded accesses through Pagetide's own decision code.
//!
//! The lab runs the production code (`pagetide-core`) over a trace in virtual time. Independent
//! judges check it: no policy may beat Belady's optimum, and naive twins must have equal misses.
//!
//! ```text
//!   trace --> replay     one program's accesses, once          curve, judge: the reference
//!             scenario   a story that reacts to results, over many seeds
//!             machine    many CPUs and their locks, over the page allocator
//!             tiers      fast and slow memory: promotions, and their gain
//!   made                 synthetic traces from a seed
//!   background           reclaim beside the accesses, of replay and tiers
//! ```
//!
//! Not inside: Linux, real files, real clocks, threads, randomness without a seed.
#![forbid(unsafe_code)]

mod background;
pub mod curve;
pub mod judge;
pub mod machine;
pub mod made;
mod random;
pub mod replay;
pub mod scenario;
pub mod tiers;
pub mod trace;
