//! Write-back limits: how much may be dirty.
//!
//! Problem: dirty pages cannot be reclaimed until written, and a device writes slower than memory
//! fills. Idea: two levels, as fractions of the frames.
//!
//! ```text
//!   0 ........ background ........ hard ........ all frames
//!     leave it |  flusher writes   | writers wait until the flusher is below hard again
//! ```
//!
//! Source: the kernel's documented `dirty_background_ratio` (10 %) and `dirty_ratio` (20 %).

/// The two levels, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirtyLimits {
    /// Above this the flusher works.
    pub background: u64,
    /// Above this writers wait.
    pub hard: u64,
}

/// What a writer does after it dirtied pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Balance {
    /// Go on.
    Continue,
    /// Wake the flusher and go on.
    WakeFlusher,
    /// Wake the flusher and wait for it.
    Wait,
}

impl DirtyLimits {
    /// Limits for a cache of `nr_frames`: percentages as the knobs give them, 0 to 100, hard at
    /// least as high as background and at least one page.
    pub fn for_frames(nr_frames: u32, background_percent: u8, hard_percent: u8) -> DirtyLimits {
        let part = |percent: u8| u64::from(nr_frames) * u64::from(percent.min(100)) / 100;
        let background = part(background_percent);
        DirtyLimits { background, hard: part(hard_percent).max(background).max(1) }
    }

    /// What a writer does when `nr_dirty` pages are dirty.
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
