//! What S3-FIFO and Clock2Q+ share: a small queue that most pages leave as ghosts, before a main.
//!
//! Until something was evicted, pages that find small full go straight to main, as the simulator of
//! S3-FIFO's authors has it: main is not empty when the evictions begin. A ghost hit leaves the
//! ghost queue at once.

use super::ghosts::Ghosts;
use super::segmented::Ghost;

/// Small's share of memory, in percent; main has what is left.
const SMALL_PERCENT: u64 = 10;

/// How much each of the two holds, and what has left small.
#[derive(Debug)]
pub(super) struct SmallQueue {
    pub(super) small_max: u64,
    main_max: u64,
    ghosts: Ghosts,
    /// The evictions, or demotions, have begun.
    is_warm: bool,
}

impl SmallQueue {
    /// For a memory of so many frames that remembers at most so many ghosts.
    pub(super) fn new(nr_frames: u64, nr_ghosts_max: u64) -> SmallQueue {
        let small_max = (nr_frames * SMALL_PERCENT / 100).max(1);
        let main_max = nr_frames - small_max;
        SmallQueue { small_max, main_max, ghosts: Ghosts::new(nr_ghosts_max), is_warm: false }
    }

    /// Whether a page that comes goes to main at once, though it is not recalled.
    pub(super) fn overflows(&self, nr_small: u64) -> bool {
        !self.is_warm && nr_small >= self.small_max
    }

    /// Whether main has more than its share.
    pub(super) fn is_main_over(&self, nr_main: u64) -> bool {
        nr_main > self.main_max
    }

    /// Whether the ghost is remembered; it no longer is.
    pub(super) fn recall(&mut self, ghost: Ghost) -> bool {
        self.ghosts.take(ghost.token)
    }

    /// A page was evicted, or demoted without a ghost.
    pub(super) fn warm(&mut self) {
        self.is_warm = true;
    }

    /// A page of small was evicted.
    pub(super) fn leave_small(&mut self) -> Ghost {
        Ghost { token: self.ghosts.push(), is_second: false }
    }

    pub(super) fn validate(&self) {
        self.ghosts.validate();
    }
}
