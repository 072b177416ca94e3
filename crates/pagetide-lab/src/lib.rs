//! The virtual world: recorded accesses replayed through Pagetide's own decision code.
//!
//! How much memory does a program need, and which policy serves it best? The lab answers with the
//! code that runs for real (`pagetide-core`), in virtual time, over a trace, and lets independent
//! judges check the answers: Belady's optimum is a bound no policy may beat, and naive twins of the
//! plain policies must agree to the last miss.
//!
//! ```text
//!   trace --> replay     one program's accesses, once          curve, judge: what to hold it to
//!             scenario   a story that reacts to what it finds, over many seeds
//!             machine    many CPUs and their locks, over the page allocator
//!             tiers      fast and slow memory: what is promoted, and what it is worth
//!   made                 traces made up from a seed
//!   background           reclaim beside the accesses, of replay and tiers
//! ```
//!
//! Not inside: Linux, files managed for real, clocks that tick by themselves, threads, randomness
//! without a seed.
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
