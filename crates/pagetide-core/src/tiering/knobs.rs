//! The knobs of tiering.
//!
//! Defaults are the kernel's. Times are in the world's milliseconds.
//!
//! **Source.** `Documentation/admin-guide/sysctl/kernel.rst` (`numa_balancing`,
//! `numa_balancing_promote_rate_limit_MBps`). Linux 6.18, debugfs `sched/numa_balancing`.

use crate::knobs::{Knob, Knobs};
use crate::units::{Bytes, Millis};

/// Converts a rate in MiB/s to frames a second.
pub const fn frames_per_second(mb_per_s: u64) -> u64 {
    Bytes(mb_per_s.saturating_mul(1 << 20)).whole_pages()
}

/// The knobs of tiering, unchecked. See [`TieringKnobs::check`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TieringKnobs {
    /// Minimum time between hint scan runs over little memory. Default 1000 ms, at least 1. Higher:
    /// less work, later knowledge.
    pub scan_period_min: Millis,
    /// Maximum time, and the period of threshold adjustment. Default 60,000 ms, at least the
    /// minimum.
    pub scan_period_max: Millis,
    /// Maximum of resident pages armed per run. Default 65,536 (256 MiB), at least 1. Higher:
    /// fewer, longer runs.
    pub scan_pages: u64,
    /// Maximum of pages armed a second. Default 655,360 (2560 MiB). Higher: more runs over much
    /// memory.
    pub scan_rate_max: u64,
    /// Age of a mapping at its first scan. Default 1000 ms.
    pub scan_delay: Millis,
    /// Initial latency below which a page is hot. Default 1000 ms, at least 8. Higher: more
    /// candidates.
    pub hot_threshold: Millis,
    /// Candidates promoted a second. Default 16,777,216 frames (64 GiB). Higher: hot pages arrive
    /// sooner, moves cost more.
    pub promote_rate_frames: u64,
    /// Window of the rate limit. Default 1000 ms, at least 1.
    pub rate_window: Millis,
    /// Free frames above PROMO that make a fast node accept any page, at least a 16th of the node.
    /// Default 262,144 (1 GiB).
    pub free_space_frames: u64,
}

impl Default for TieringKnobs {
    fn default() -> TieringKnobs {
        TieringKnobs::of(&Knobs::default())
    }
}

/// Reason for rejected knobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TieringKnobError {
    /// Invalid scan periods. Raise the maximum.
    #[error("scan periods from {min} to {max} ms: the least is 1 ms, and the maximum not below it")]
    ScanPeriods {
        /// Given minimum, ms.
        min: u64,
        /// Given maximum, ms.
        max: u64,
    },
    /// Empty scan runs. Allow at least one page.
    #[error("a hint scan of 0 pages a run: give it at least one")]
    NoScanPages,
    /// The threshold moves in eighths. Give at least 8 ms.
    #[error("a hot threshold of {given} ms: it moves in eighths, give it at least 8 ms")]
    HotThreshold {
        /// Given threshold, ms.
        given: u64,
    },
    /// Empty rate window. Give at least 1 ms.
    #[error("a promotion window of 0 ms: give it at least one")]
    NoRateWindow,
    /// Overflow in products. Give a smaller number.
    #[error("{given} does not fit in 32 bits: give a smaller number")]
    TooLarge {
        /// Given number.
        given: u64,
    },
}

impl TieringKnobs {
    /// Reads the knobs from the table. Amounts of memory round down to frames.
    pub fn of(knobs: &Knobs) -> TieringKnobs {
        let millis = |knob| Millis(knobs.read(knob));
        let frames = |knob| Bytes(knobs.read(knob)).whole_pages();
        TieringKnobs {
            scan_period_min: millis(Knob::TierScanPeriodMin),
            scan_period_max: millis(Knob::TierScanPeriodMax),
            scan_pages: frames(Knob::TierScanRun),
            scan_rate_max: frames(Knob::TierScanRate),
            scan_delay: millis(Knob::TierScanDelay),
            hot_threshold: millis(Knob::TierHotThreshold),
            promote_rate_frames: frames(Knob::TierPromoteRate),
            rate_window: millis(Knob::TierRateWindow),
            free_space_frames: frames(Knob::TierFreeSpace),
        }
    }

    /// Writes the knobs to the table.
    pub fn put(&self, knobs: &mut Knobs) {
        let bytes = |frames: u64| Bytes::from_pages(frames.min(u64::from(u32::MAX) + 1)).0;
        for (knob, value) in [
            (Knob::TierScanPeriodMin, self.scan_period_min.0),
            (Knob::TierScanPeriodMax, self.scan_period_max.0),
            (Knob::TierScanRun, bytes(self.scan_pages)),
            (Knob::TierScanRate, bytes(self.scan_rate_max)),
            (Knob::TierScanDelay, self.scan_delay.0),
            (Knob::TierHotThreshold, self.hot_threshold.0),
            (Knob::TierPromoteRate, bytes(self.promote_rate_frames)),
            (Knob::TierRateWindow, self.rate_window.0),
            (Knob::TierFreeSpace, bytes(self.free_space_frames)),
        ] {
            knobs.set(knob, value);
        }
    }

    /// Limits runs to a 64th of `nr_frames`, to spread faults and promotions. For tiering without
    /// knobs ([`TieringSwitches::auto`](super::TieringSwitches)).
    pub fn in_small_runs(self, nr_frames: u64) -> TieringKnobs {
        TieringKnobs { scan_pages: self.scan_pages.min((nr_frames / 64).max(1)), ..self }
    }

    /// Checks the ranges. All numbers fit in 32 bits, so that no product overflows.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self) -> Result<(), TieringKnobError> {
        let (min, max) = (self.scan_period_min.0, self.scan_period_max.0);
        if min == 0 || max < min {
            return Err(TieringKnobError::ScanPeriods { min, max });
        }
        if self.scan_pages == 0 {
            return Err(TieringKnobError::NoScanPages);
        }
        if self.hot_threshold.0 < 8 {
            return Err(TieringKnobError::HotThreshold { given: self.hot_threshold.0 });
        }
        if self.rate_window.0 == 0 {
            return Err(TieringKnobError::NoRateWindow);
        }
        let times = [self.scan_period_max, self.scan_delay, self.hot_threshold, self.rate_window];
        let counts =
            [self.scan_pages, self.scan_rate_max, self.promote_rate_frames, self.free_space_frames];
        let all = times.iter().map(|time| time.0).chain(counts);
        match all.max() {
            Some(given) if given > u64::from(u32::MAX) => Err(TieringKnobError::TooLarge { given }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn defaults_are_the_kernels() {
        let knobs = TieringKnobs::default();
        assert_eq!(knobs.check(), Ok(()));
        assert_eq!(knobs.scan_pages, 65_536);
        assert_eq!(knobs.promote_rate_frames, 16_777_216);
        assert_eq!(knobs.scan_rate_max, 655_360);
        assert_eq!(knobs.free_space_frames, 262_144);
        assert_eq!((frames_per_second(100), frames_per_second(2)), (25_600, 512));
    }

    #[test]
    fn the_table_of_all_knobs_has_these() {
        let numbers = TieringKnobs {
            scan_period_min: Millis(2),
            scan_period_max: Millis(3),
            scan_pages: 4,
            scan_rate_max: 5,
            scan_delay: Millis(6),
            hot_threshold: Millis(8),
            promote_rate_frames: 9,
            rate_window: Millis(10),
            free_space_frames: 11,
        };
        let mut knobs = Knobs::default();
        numbers.put(&mut knobs);
        assert_eq!(TieringKnobs::of(&knobs), numbers);
        assert_eq!(knobs.read(Knob::TierPromoteRate), 9 * 4096);
        // Excessive values stay excessive.
        let huge = TieringKnobs { free_space_frames: u64::MAX, ..numbers };
        huge.put(&mut knobs);
        assert!(knobs.check().is_err() && TieringKnobs::of(&knobs).check().is_err());
    }

    #[test]
    fn small_runs_are_a_64th_of_memory_and_never_longer_than_asked_for() {
        let scan_pages = |nr_frames| TieringKnobs::default().in_small_runs(nr_frames).scan_pages;
        assert_eq!([0, 64_000, 1 << 30].map(scan_pages), [1, 1000, 65_536]);
    }

    #[test]
    fn knobs_out_of_range_say_what_to_do() {
        let knobs = TieringKnobs::default();
        let said = |knobs: TieringKnobs| knobs.check().unwrap_err().to_string();
        assert_eq!(
            said(TieringKnobs { scan_period_max: Millis(999), ..knobs }),
            "scan periods from 1000 to 999 ms: the least is 1 ms, and the maximum not below it"
        );
        assert_eq!(
            said(TieringKnobs { scan_pages: 0, ..knobs }),
            "a hint scan of 0 pages a run: give it at least one"
        );
        assert_eq!(
            said(TieringKnobs { hot_threshold: Millis(7), ..knobs }),
            "a hot threshold of 7 ms: it moves in eighths, give it at least 8 ms"
        );
        assert_eq!(
            said(TieringKnobs { rate_window: Millis(0), ..knobs }),
            "a promotion window of 0 ms: give it at least one"
        );
        assert_eq!(
            said(TieringKnobs { promote_rate_frames: 1 << 32, ..knobs }),
            "4294967296 does not fit in 32 bits: give a smaller number"
        );
    }
}
