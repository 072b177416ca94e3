//! What was recorded, over and over.
//!
//! ```text
//!   trace   a b c a d e   a b c a d e   a b ...
//! ```
//!
//! Problem: what would slow memory cost *this* program? Its trace may be shorter than one scan of
//! its memory. Idea: the accesses in their order, from the start again at the end. Ignored: the
//! times of the trace; what is no access (readahead, fills, discards). Source: our own.

use super::AccessStream;
use crate::tiers::access_loop::TierAccess;
use crate::trace::DenseTrace;
use std::sync::Arc;

/// See the module.
#[derive(Clone, Debug)]
pub struct Recorded {
    touches: Arc<[TierAccess]>,
    nr_pages: u32,
    at: usize,
}

impl Recorded {
    /// The accesses of `trace`; pages are its ranks. `None` where there are none, or more pages
    /// than can be told apart (2^26).
    pub fn new(trace: &DenseTrace) -> Option<Recorded> {
        let accesses = trace.entries().filter(|(_, kind)| kind.is_access());
        let touch = |(rank, kind): (u32, crate::trace::AccessKind)| {
            if kind.is_write() { TierAccess::write(rank) } else { TierAccess::read(rank) }
        };
        let touches: Arc<[TierAccess]> = accesses.map(touch).collect();
        let nr_pages = u32::try_from(trace.nr_pages()).ok().filter(|pages| *pages < 1 << 26)?;
        (!touches.is_empty()).then_some(Recorded { touches, nr_pages, at: 0 })
    }

    /// Accesses from its start to its end.
    pub fn len(&self) -> u64 {
        self.touches.len() as u64
    }

    /// Never: a program without accesses is not made.
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
