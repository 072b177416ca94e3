//! Judges: independent miss counts.
//!
//! **Problem.** A replay of the product's code cannot check that code.
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
//! **Data and invariants.** A judge shares no code with core or another judge, and is written to be
//! obvious. Every judge inserts every missed page, and evicts one page at a time when memory is
//! full.
//!
//! **Ignored.** Readahead, fills, discards, dirty pages, and time.
//!
//! **Sources.** Each judge names its own. `tests/all/golden.rs` compares judges with an established
//! simulator.

pub mod naive_clock;
pub mod naive_fifo;
pub mod naive_lru;
pub mod opt;
#[cfg(test)]
mod tests;
