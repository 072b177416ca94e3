//! A folio's stamp: what the engine notes in its descriptor.
//!
//! ```text
//!   bit 17     16     15 ... 0
//!   streamed   main   epoch of the last access
//! ```
//!
//! Problem: a judgement compares when pages were accessed last, and a hit must say so in one store.
//! Idea: a word of the descriptor, beside the links and the hits, in the same line of the cache.
//! Ignored: the hits, which are counted without the lock ([`Hits`](crate::folio::Hits)).

use super::page_clock::Epoch;
use crate::folio::Folio;
use core::sync::atomic::Ordering::Relaxed;

/// See [`Stamp::parts`].
const STREAMED_PARTS: u64 = 4;

/// One of the engine's lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Probation,
    Main,
}

/// What is noted of a folio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp {
    pub(super) epoch: Epoch,
    pub(super) place: Place,
    /// Readahead brought it.
    pub(super) is_streamed: bool,
}

impl Stamp {
    const MAIN: u32 = 1 << 16;
    const STREAMED: u32 = 1 << 17;

    #[inline]
    pub(super) fn of(folio: &Folio) -> Stamp {
        let bits = folio.stamp.load(Relaxed);
        let place = if bits & Stamp::MAIN != 0 { Place::Main } else { Place::Probation };
        Stamp { epoch: bits as Epoch, place, is_streamed: bits & Stamp::STREAMED != 0 }
    }

    /// A hit that saves readahead a page is worth one of so many parts of one that saves a wait.
    pub(super) fn parts(self) -> u64 {
        if self.is_streamed { STREAMED_PARTS } else { 1 }
    }

    #[inline]
    pub(super) fn put(self, folio: &Folio) {
        let main = if self.place == Place::Main { Stamp::MAIN } else { 0 };
        let streamed = if self.is_streamed { Stamp::STREAMED } else { 0 };
        folio.stamp.store(u32::from(self.epoch) | main | streamed, Relaxed);
    }
}
