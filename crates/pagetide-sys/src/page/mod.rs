//! Pages: the page word, the table of words, and the tokens that permit access to a frame.
//!
//! ```text
//!   aging          what use left behind      ->  token, table
//!   token          Pin, PinnedBytes, Lock, ->  table, wait, word
//!                  Claim
//!   table          index to word           ->  wait, word
//!   wait           sleeping for a word     ->  word
//!   word           one atomic: which frame, and what may touch it
//! ```

pub(crate) mod aging;
pub(crate) mod table;
pub(crate) mod token;
mod wait;
pub(crate) mod word;

#[cfg(test)]
mod hammer_tests;
#[cfg(all(test, loom))]
mod loom_tests;
