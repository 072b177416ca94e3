//! Limits of dirty pages.
//!
//! **Problem.** Dirty pages cannot be reclaimed before a write. **Idea.** Two levels, as fractions
//! of the frames.
//!
//! ```text
//!   0 ........ background ........ hard ........ all frames
//!     idle     |  flusher writes   | writers wait until below hard
//! ```
//!
//! **Source.** The kernel's documented `dirty_background_ratio` (10 %) and `dirty_ratio` (20 %).

/// Limits, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirtyLimits {
    /// Level above which the flusher works.
    pub background: u64,
    /// Level above which writers wait.
    pub hard: u64,
}

/// Reaction of a writer after dirtying pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Balance {
    /// Continue.
    Continue,
    /// Wake the flusher and continue.
    WakeFlusher,
    /// Wake the flusher and wait.
    Wait,
}

impl DirtyLimits {
    /// Returns the limits from percentages (0 to 100). Hard is at least background, and one page.
    pub fn for_frames(nr_frames: u32, background_percent: u8, hard_percent: u8) -> DirtyLimits {
        let part = |percent: u8| u64::from(nr_frames) * u64::from(percent.min(100)) / 100;
        let background = part(background_percent);
        DirtyLimits { background, hard: part(hard_percent).max(background).max(1) }
    }

    /// Returns the reaction for `nr_dirty` dirty pages.
    pub fn balance(&self, nr_dirty: u64) -> Balance {
        if nr_dirty > self.hard {
            Balance::Wait
        } else if nr_dirty > self.background {
            Balance::WakeFlusher
        } else {
            Balance::Continue
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_fractions_of_the_frames() {
        let limits = DirtyLimits::for_frames(1000, 10, 20);
        assert_eq!(limits, DirtyLimits { background: 100, hard: 200 });
        assert_eq!(limits.balance(100), Balance::Continue);
        assert_eq!(limits.balance(101), Balance::WakeFlusher);
        assert_eq!(limits.balance(201), Balance::Wait);
    }

    #[test]
    fn tiny_and_contradictory_settings_stay_usable() {
        assert_eq!(DirtyLimits::for_frames(4, 10, 20), DirtyLimits { background: 0, hard: 1 });
        let swapped = DirtyLimits::for_frames(1000, 50, 20);
        assert_eq!(swapped, DirtyLimits { background: 500, hard: 500 });
    }
}
