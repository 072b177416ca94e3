//! How hot pages are that were moved: what came of a sample of them.
//!
//! **Problem.** How often a page is touched follows from how long it is left alone, but that of a
//! cold one is not known until much later. **Idea.** Arm each, and count those touched *soon*: of
//! pages with so many accesses, so large a share is.
//!
//! ```text
//!   share touched within t = 1 - exp(-accesses x t)         t moves until it is about a half
//! ```
//!
//! **Data and invariants.** Old counts fade by halves; those awaited still are few beside them.
//! Between a quarter and five eighths of 1024 come soon, or the time is on its way there.
//!
//! **Ignored.** That pages differ: of hot and cold ones together, the hot count for less than they
//! are. Source: our own.

use crate::units::Millis;

/// How soon moved pages are touched again: how many accesses they have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Returns {
    nr_moved: u32,
    nr_soon: u32,
    /// A fault within so long of the move comes soon.
    soon_ms: u64,
    /// The last so many count.
    pub(super) memory: u32,
}

impl Returns {
    pub(super) fn new(memory: u32) -> Returns {
        Returns { nr_moved: 0, nr_soon: 0, soon_ms: 1000, memory }
    }

    pub(super) fn count_moved(&mut self) {
        self.nr_moved += 1;
        if self.nr_moved > self.memory {
            self.nr_moved /= 2;
            self.nr_soon /= 2;
        }
    }

    pub(super) fn count_back(&mut self, latency: Millis) {
        self.nr_soon += u32::from(latency.0 < self.soon_ms);
    }

    pub(super) fn is_known(&self) -> bool {
        self.nr_moved >= self.memory / 8
    }

    /// Of 1024.
    fn share_soon(&self) -> u64 {
        (u64::from(self.nr_soon) * 1024 / u64::from(self.nr_moved.max(1))).min(1000)
    }

    /// Accesses in 1024 s.
    pub(super) fn rate(&self) -> u64 {
        // -ln(1 - share), by its series.
        let share = self.share_soon();
        let powers = [share, (share * share) >> 10, (share * share * share) >> 20];
        let accesses =
            powers[0] + powers[1] / 2 + powers[2] / 3 + ((powers[1] * powers[1]) >> 10) / 4;
        accesses * 1000 / self.soon_ms
    }

    /// Keeps the share where it tells most.
    pub(super) fn adjust(&mut self) {
        let share = self.share_soon();
        if !self.is_known() || (256..=640).contains(&share) {
            return;
        }
        // The share follows, about.
        if share > 640 && self.soon_ms > 1 {
            self.soon_ms = (self.soon_ms * 3 / 4).max(1);
            self.nr_soon = self.nr_soon * 7 / 8;
        } else if share < 256 && self.soon_ms < 1 << 16 {
            self.soon_ms = (self.soon_ms * 4).div_ceil(3);
            self.nr_soon = (self.nr_soon * 4).div_ceil(3);
        } else {
            return;
        }
        self.nr_moved /= 2;
        self.nr_soon /= 2;
    }
}
