//! What the zone tells the per-CPU lists, in one word that every free reads.
//!
//! **Problem.** Lists must learn at once that frames are scarce, and must not take the zone's lock
//! to be told. **Idea.** One shared word, written rarely and so in every CPU's cache:
//!
//! ```text
//!   31                   1   0
//!   | starving allocations | below HIGH |
//! ```
//!
//! *Below HIGH*: lists stop growing and send back with every free. *Starving*: an allocation found
//! nothing anywhere and is emptying the lists one after the other. What others free behind it would
//! lie on lists it has passed, so while a call starves, lists keep nothing: a free goes on to the
//! zone, and a refill takes the one block it needs.
//!
//! **Invariants.** A starving allocation that has been at every list since it began to starve finds
//! in the zone whatever was free, and whose return was complete, when it looks: before its visit a
//! list may hold frames, and the visit sends them on; after it, the list's lock has shown the word
//! to all that free there. **Ignored.** Which allocation gets a frame when several starve.
//!
//! Source: the page allocator specification, section 7, for the flag; the rest is our own.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

const BELOW_HIGH: u32 = 1;
const ONE_STARVING: u32 = 2;

/// The word.
#[derive(Debug, Default)]
pub(super) struct Pressure(AtomicU32);

/// What the word said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PressureNow(u32);

impl Pressure {
    #[inline]
    pub(super) fn now(&self) -> PressureNow {
        PressureNow(self.0.load(Relaxed))
    }

    /// To be called under the zone's lock.
    pub(super) fn set_below_high(&self, below_high: bool) {
        if below_high {
            self.0.fetch_or(BELOW_HIGH, Relaxed);
        } else {
            self.0.fetch_and(!BELOW_HIGH, Relaxed);
        }
    }

    /// One more allocation starves.
    pub(super) fn begin_starving(&self) {
        self.0.fetch_add(ONE_STARVING, Relaxed);
    }

    /// One fewer.
    pub(super) fn end_starving(&self) {
        self.0.fetch_sub(ONE_STARVING, Relaxed);
    }
}

impl PressureNow {
    /// Neither.
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
