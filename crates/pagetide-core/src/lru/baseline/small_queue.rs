//! The small queue of S3-FIFO and Clock2Q+. Most pages leave it as ghosts and never enter main.
//!
//! Until the first eviction, pages go to main if small is full, as in the simulator of S3-FIFO's
//! authors, so that main is not empty when evictions begin.

use super::ghosts::Ghosts;
use super::segmented::Ghost;

/// Small's share of memory, in percent.
const SMALL_PERCENT: u64 = 10;

#[derive(Debug)]
pub(super) struct SmallQueue {
    pub(super) small_max: u64,
    main_max: u64,
    ghosts: Ghosts,
    /// True after the first eviction or demotion.
    is_warm: bool,
}

impl SmallQueue {
    pub(super) fn new(nr_frames: u64, nr_ghosts_max: u64) -> SmallQueue {
        let small_max = (nr_frames * SMALL_PERCENT / 100).max(1);
        let main_max = nr_frames - small_max;
        SmallQueue { small_max, main_max, ghosts: Ghosts::new(nr_ghosts_max), is_warm: false }
    }

    pub(super) fn overflows(&self, nr_small: u64) -> bool {
        !self.is_warm && nr_small >= self.small_max
    }

    pub(super) fn is_main_over(&self, nr_main: u64) -> bool {
        nr_main > self.main_max
    }

    pub(super) fn recall(&mut self, ghost: Ghost) -> bool {
        self.ghosts.take(ghost.token)
    }

    pub(super) fn warm(&mut self) {
        self.is_warm = true;
    }

    pub(super) fn leave_small(&mut self) -> Ghost {
        Ghost { token: self.ghosts.push(), is_second: false }
    }

    pub(super) fn validate(&self) {
        self.ghosts.validate();
    }
}
