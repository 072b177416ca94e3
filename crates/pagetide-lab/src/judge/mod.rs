//! Judges: independent answers to "how many misses should that have been?".
//!
//! **Problem.** A replay that runs the product's own code cannot tell whether that code is right.
//! Other code has to count.
//!
//! **Idea.**
//!
//! ```text
//!            replay of core ---- misses ----+
//!   trace <                                 +-- compare
//!            judge ------------- misses ----+
//!
//!   opt         no policy may have fewer     (Belady)
//!   naive_*     lru, fifo, clock must have exactly as many
//! ```
//!
//! **Data and invariants.** A judge shares no code with core and none with another judge; it is
//! written to be seen to be right, not to be fast. Every judge inserts every missed page, evicts
//! only when memory is full, and evicts one page at a time.
//!
//! **Ignored.** Readahead, fills and discards (only accesses are judged), dirty pages, and time.
//!
//! **Sources.** Each judge names its own. They are checked against the miss ratios of an
//! established simulator in `tests/all/golden.rs`.

pub mod naive_clock;
pub mod naive_fifo;
pub mod naive_lru;
pub mod opt;
#[cfg(test)]
mod tests;
