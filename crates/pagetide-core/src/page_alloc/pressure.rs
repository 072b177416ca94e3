//! Pressure: one word from the zone to the per-CPU lists.
//!
//! **Problem.** Lists must learn of a shortage at once, without the zone's lock. **Idea.** One
//! shared word, rarely written, so cached by every CPU:
//!
//! ```text
//!   31                   1   0
//!   | starving allocations | below HIGH |
//! ```
//!
//! *Below HIGH*: lists do not grow, and drain with every free. *Starving*: an allocation failed and
//! is draining all lists in turn. Meanwhile a free goes to the zone, and a refill takes one block,
//! so that no frame hides on a drained list.
//!
//! **Invariants.** A starving allocation that visited every list finds in the zone every frame
//! freed before. The visit drains earlier frames, and the list's lock publishes the word to later
//! frees.
//!
//! **Ignored.** Order of several starving allocations.
//!
//! **Source.** The flag is from Linux 6.18's page allocator. The rest is original.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

const BELOW_HIGH: u32 = 1;
const ONE_STARVING: u32 = 2;

#[derive(Debug, Default)]
pub(super) struct Pressure(AtomicU32);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PressureNow(u32);

impl Pressure {
    #[inline]
    pub(super) fn now(&self) -> PressureNow {
        PressureNow(self.0.load(Relaxed))
    }

    /// The caller holds the zone's lock.
    pub(super) fn set_below_high(&self, below_high: bool) {
        if below_high {
            self.0.fetch_or(BELOW_HIGH, Relaxed);
        } else {
            self.0.fetch_and(!BELOW_HIGH, Relaxed);
        }
    }

    pub(super) fn begin_starving(&self) {
        self.0.fetch_add(ONE_STARVING, Relaxed);
    }

    pub(super) fn end_starving(&self) {
        self.0.fetch_sub(ONE_STARVING, Relaxed);
    }
}

impl PressureNow {
    #[inline]
    pub(super) fn is_none(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub(super) fn is_below_high(self) -> bool {
        self.0 & BELOW_HIGH != 0
    }

    #[inline]
    pub(super) fn is_starving(self) -> bool {
        self.0 >= ONE_STARVING
    }
}
