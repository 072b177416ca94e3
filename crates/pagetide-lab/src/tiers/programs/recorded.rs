//! A recorded trace, repeated endlessly.
//!
//! ```text
//!   trace   a b c a d e   a b c a d e   a b ...
//! ```
//!
//! Problem: slow memory costs each program differently, and a trace may be shorter than one scan of
//! memory. Idea: repeat the accesses in order. Ignored: times, and entries that are no accesses
//! (readahead, fills, discards). Source: our own.

use super::AccessStream;
use crate::tiers::access_loop::TierAccess;
use crate::trace::DenseTrace;
use std::sync::Arc;

/// A repeated trace.
#[derive(Clone, Debug)]
pub struct Recorded {
    touches: Arc<[TierAccess]>,
    nr_pages: u32,
    at: usize,
}

impl Recorded {
    /// Returns the accesses of `trace`, with ranks as pages. Returns `None` without accesses, or
    /// with 2^26 pages or more.
    pub fn new(trace: &DenseTrace) -> Option<Recorded> {
        let accesses = trace.entries().filter(|(_, kind)| kind.is_access());
        let touch = |(rank, kind): (u32, crate::trace::AccessKind)| {
            if kind.is_write() { TierAccess::write(rank) } else { TierAccess::read(rank) }
        };
        let touches: Arc<[TierAccess]> = accesses.map(touch).collect();
        let nr_pages = u32::try_from(trace.nr_pages()).ok().filter(|pages| *pages < 1 << 26)?;
        (!touches.is_empty()).then_some(Recorded { touches, nr_pages, at: 0 })
    }

    /// Returns the accesses of one round.
    pub fn len(&self) -> u64 {
        self.touches.len() as u64
    }

    /// Returns false: `new` refuses an empty program.
    pub fn is_empty(&self) -> bool {
        self.touches.is_empty()
    }
}

impl AccessStream for Recorded {
    fn nr_pages(&self) -> u32 {
        self.nr_pages
    }

    fn touch(&mut self, mut nr: usize, touches: &mut Vec<TierAccess>) {
        while nr > 0 {
            let stretch = &self.touches[self.at..][..nr.min(self.touches.len() - self.at)];
            touches.extend_from_slice(stretch);
            nr -= stretch.len();
            self.at = (self.at + stretch.len()) % self.touches.len();
        }
    }
}
