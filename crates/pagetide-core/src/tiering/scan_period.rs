//! Period of hint scans.
//!
//! **Problem.** Scans cost a fault per armed page. The right rate depends on the size of memory and
//! the yield of recent scans.
//!
//! **Idea.** A period between two bounds, which shrink with resident memory, so that a full round
//! takes constant time. The period doubles with each round, as in the kernel while no fault shows
//! remote access.
//!
//! ```text
//!   period   min |--x--->x------->x----------------------| max
//!
//!   a run is due after a period of task time, plus 32 times the cost of the last run
//! ```
//!
//! **Data and invariants.** min <= max, both at least 1 ms. A task's period is within the bounds of
//! its last update. Scans take at most 1/32 of a task's time.
//!
//! **Ignored.** Groups of tasks that share memory, for which the kernel raises both bounds. Faults
//! between nodes of one tier.
//!
//! **Source.** Linux 6.18's NUMA balancing.

use super::TieringKnobs;
use crate::units::Millis;

const NANOS_PER_MILLI: u64 = 1_000_000;
/// Run time of a task between scans, per scan time.
const OVERHEAD_FACTOR: u64 = 32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ScanPeriods {
    pub(super) min: Millis,
    pub(super) max: Millis,
}

impl ScanPeriods {
    /// Returns the bounds for `nr_resident` pages, with checked knobs.
    pub(super) fn of(nr_resident: u64, knobs: &TieringKnobs) -> ScanPeriods {
        let nr_windows = nr_resident.div_ceil(knobs.scan_pages).max(1);
        let runs_per_second = (knobs.scan_rate_max / knobs.scan_pages).max(1);
        let floor = 1000 / runs_per_second;
        let min = floor.max(knobs.scan_period_min.0 / nr_windows).max(1);
        let max = min.max(knobs.scan_period_max.0 / nr_windows);
        ScanPeriods { min: Millis(min), max: Millis(max) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ScanPace {
    period: Millis,
    /// Run time at the start of the period.
    stamp_ns: u64,
}

impl ScanPace {
    /// Starts with the shortest period.
    pub(super) const fn new(periods: &ScanPeriods) -> ScanPace {
        ScanPace { period: periods.min, stamp_ns: 0 }
    }

    pub(super) const fn period(&self) -> Millis {
        self.period
    }

    pub(super) const fn set_period(&mut self, period: Millis) {
        self.period = period;
    }

    /// Returns true once per period. `runtime_ns` is the task's total CPU time.
    pub(super) fn is_due(&mut self, runtime_ns: u64) -> bool {
        let period_ns = self.period.0 * NANOS_PER_MILLI;
        let is_due = runtime_ns >= self.stamp_ns.saturating_add(period_ns);
        if is_due {
            self.stamp_ns += period_ns;
        }
        is_due
    }

    /// Delays the next scan after one of `scan_ns` CPU time.
    pub(super) fn charge(&mut self, scan_ns: u64) {
        self.stamp_ns = self.stamp_ns.saturating_add(scan_ns.saturating_mul(OVERHEAD_FACTOR));
    }

    /// Doubles the period within the bounds, once per sequence.
    pub(super) fn lengthen(&mut self, periods: &ScanPeriods) {
        self.period = Millis((self.period.0 * 2).clamp(periods.min.0, periods.max.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    const MILLI: u64 = NANOS_PER_MILLI;

    #[test]
    fn bounds_shrink_with_resident_memory() {
        let knobs = TieringKnobs::default();
        let of = |mbytes: u64| {
            let periods = ScanPeriods::of(Bytes(mbytes << 20).whole_pages(), &knobs);
            (periods.min.0, periods.max.0)
        };
        assert_eq!(of(0), (1000, 60_000));
        assert_eq!(of(256), (1000, 60_000));
        assert_eq!(of(257), (500, 30_000), "a second window");
        assert_eq!(of(1024), (250, 15_000));
        assert_eq!(of(2560), (100, 6000));
        assert_eq!(of(10 << 10), (100, 1500));
        assert_eq!(of(64 << 10), (100, 234));
        assert_eq!(of(1 << 20), (100, 100), "the floor is the least maximum");
    }

    #[test]
    fn floor_follows_the_length_of_a_run() {
        let knobs = TieringKnobs { scan_pages: 16 << 20, ..TieringKnobs::default() };
        assert_eq!(ScanPeriods::of(1 << 40, &knobs).min, Millis(1000), "64 GiB at once");
        let knobs = TieringKnobs { scan_pages: 16, ..knobs };
        assert_eq!(ScanPeriods::of(1 << 40, &knobs).min, Millis(1), "never nothing");
    }

    #[test]
    fn periods_stay_between_their_bounds() {
        let periods = ScanPeriods { min: Millis(900), max: Millis(1500) };
        let mut pace = ScanPace::new(&periods);
        assert_eq!(pace.period(), Millis(900));
        pace.lengthen(&periods);
        assert_eq!(pace.period(), Millis(1500));
        let lower = ScanPeriods { min: Millis(250), max: Millis(60_000) };
        pace.lengthen(&lower);
        assert_eq!(pace.period(), Millis(3000), "doubled");
        pace.lengthen(&periods);
        assert_eq!(pace.period(), Millis(1500));
    }

    #[test]
    fn a_task_is_due_once_a_period_of_its_own_time() {
        let periods = ScanPeriods { min: Millis(100), max: Millis(1000) };
        let mut pace = ScanPace::new(&periods);
        let due: alloc::vec::Vec<u64> = (0..=350).filter(|ms| pace.is_due(ms * MILLI)).collect();
        assert_eq!(due, [100, 200, 300]);
    }

    #[test]
    fn scans_take_one_part_in_32_of_a_task_at_most() {
        let periods = ScanPeriods { min: Millis(1), max: Millis(1) };
        let mut pace = ScanPace::new(&periods);
        let (mut runtime, mut scanning) = (0, 0);
        while runtime < 10_000 * MILLI {
            if pace.is_due(runtime) {
                let cost = 5 * MILLI;
                scanning += cost;
                runtime += cost;
                pace.charge(cost);
            }
            runtime += MILLI / 10;
        }
        let paid = scanning - 5 * MILLI;
        assert!(paid * 32 <= runtime, "{scanning} of {runtime}, the last on credit");
        assert!(scanning * 40 >= runtime, "{scanning} of {runtime}: it does scan");
    }
}
