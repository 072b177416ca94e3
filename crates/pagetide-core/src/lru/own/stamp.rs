//! A folio's stamp: what the engine notes in its descriptor.
//!
//! ```text
//!   bit 16     15 ... 0
//!   main       epoch of the last access
//! ```
//!
//! Problem: a judgement compares when pages were accessed last, and a hit must say so in one store.
//! Idea: a word of the descriptor, beside the links and the hits, in the same line of the cache.
//! Ignored: the hits, which are counted without the lock ([`Hits`](crate::folio::Hits)).

use super::page_clock::Epoch;
use crate::folio::{Flags, Folio};
use core::sync::atomic::Ordering::Relaxed;

/// What a page weighs that was read alone, where one of a stream weighs 1: so many of those come
/// with one request of the device.
pub(super) const PARTS_A_PAGE: u32 = 16;

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
    /// It came with others ([`Flags::STREAMED`]); not noted, but read with the rest.
    pub(super) is_streamed: bool,
}

impl Stamp {
    const MAIN: u32 = 1 << 16;

    #[inline]
    pub(super) fn of(folio: &Folio) -> Stamp {
        Stamp::of_flagged(folio, folio.flags())
    }

    /// As [`Stamp::of`], where the folio's flags are at hand.
    #[inline]
    pub(super) fn of_flagged(folio: &Folio, flags: Flags) -> Stamp {
        let bits = folio.stamp.load(Relaxed);
        let place = if bits & Stamp::MAIN != 0 { Place::Main } else { Place::Probation };
        let is_streamed = flags.any(Flags::STREAMED);
        Stamp { epoch: bits as Epoch, place, is_streamed }
    }

    /// What it weighs where pages are counted.
    pub(super) fn weight(self) -> u32 {
        if self.is_streamed { 1 } else { PARTS_A_PAGE }
    }

    /// How many pages like it weigh as much as one that was read alone. So often a sum of weights
    /// is the sum's number of such pages, in parts of a page.
    pub(super) fn parts(self) -> u64 {
        u64::from(PARTS_A_PAGE / self.weight())
    }

    #[inline]
    pub(super) fn put(self, folio: &Folio) {
        let main = if self.place == Place::Main { Stamp::MAIN } else { 0 };
        folio.stamp.store(u32::from(self.epoch) | main, Relaxed);
    }
}
