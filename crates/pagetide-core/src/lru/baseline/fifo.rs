//! First in, first out: ignores accesses.
//!
//! Weak if pages are accessed twice. Source: folklore; Belady, "A study of replacement algorithms
//! for a virtual-storage computer", 1966, measures it.

use super::queue::{Queue, QueueRule};
use crate::lru::AccessRule;

/// The rule of FIFO.
#[derive(Debug, Default)]
pub struct FifoRule;

/// First in, first out.
pub type Fifo = Queue<FifoRule>;

impl QueueRule for FifoRule {
    const ACCESS: AccessRule = AccessRule::Ignore;
    const TURNS: u64 = 1;
}
