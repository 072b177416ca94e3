//! A folio's stamp: the engine's word in the descriptor.
//!
//! ```text
//!   bit 16     15 ... 0
//!   main       epoch of the last access
//! ```
//!
//! Problem: a hit must record its time with a single store. Idea: a word in the cache line of links
//! and hits. Ignored: the hits, which are counted without the lock ([`Hits`](crate::folio::Hits)).

use super::page_clock::Epoch;
use crate::folio::{Flags, Folio};
use core::sync::atomic::Ordering::Relaxed;

/// A streamed page weighs 1: one device request brings 16.
pub(super) const PARTS_A_PAGE: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Probation,
    Main,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp {
    pub(super) epoch: Epoch,
    pub(super) place: Place,
    /// Read from the flags, not stored.
    pub(super) is_streamed: bool,
}

impl Stamp {
    const MAIN: u32 = 1 << 16;

    #[inline]
    pub(super) fn of(folio: &Folio) -> Stamp {
        Stamp::of_flagged(folio, folio.flags())
    }

    #[inline]
    pub(super) fn of_flagged(folio: &Folio, flags: Flags) -> Stamp {
        let bits = folio.stamp.load(Relaxed);
        let place = if bits & Stamp::MAIN != 0 { Place::Main } else { Place::Probation };
        let is_streamed = flags.any(Flags::STREAMED);
        Stamp { epoch: bits as Epoch, place, is_streamed }
    }

    pub(super) fn weight(self) -> u32 {
        if self.is_streamed { 1 } else { PARTS_A_PAGE }
    }

    /// Returns the factor from weights to parts of pages of this weight.
    pub(super) fn parts(self) -> u64 {
        u64::from(PARTS_A_PAGE / self.weight())
    }

    #[inline]
    pub(super) fn put(self, folio: &Folio) {
        let main = if self.place == Place::Main { Stamp::MAIN } else { 0 };
        folio.stamp.store(u32::from(self.epoch) | main, Relaxed);
    }
}
