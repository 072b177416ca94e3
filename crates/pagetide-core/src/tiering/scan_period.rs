//! How often a hint scan runs.
//!
//! **Problem.** A scan that runs often learns much and costs much: every page it arms is a fault.
//! How much memory there is, and whether the last scans found anything that could be better placed,
//! says how often it is worth it.
//!
//! **Idea.** Two bounds, and a period between them. The bounds shrink with resident memory, so that
//! a whole pass takes about as long whatever its length, down to a floor. The period of each task
//! moves by tenths: longer while its faults are local or private, shorter while they are not,
//! doubled while there are none.
//!
//! ```text
//!   period   min |-----x---------------------------------| max
//!                  <-- scattered faults     local, private -->      none: x2
//!
//!   a run is due when the task has run for a period, and 32 times what its last run cost
//! ```
//!
//! **Data and invariants.** min <= max, both at least a millisecond; a task's period is between the
//! bounds that it was updated with last. At most one part in 32 of a task's time goes to scans.
//!
//! **Deliberately ignored.** Groups of tasks that share memory, for which the kernel scales both
//! bounds up.
//!
//! Source: the tiering specification, sections 2 and 4 (Linux 6.18).

use super::TieringKnobs;
use crate::units::Millis;

const NANOS_PER_MILLI: u64 = 1_000_000;
/// A task runs so many times as long as its scan took before its next.
const OVERHEAD_FACTOR: u64 = 32;
/// The parts a period is cut into, and faults are.
const SLOTS: u64 = 10;
/// Parts of the faults that must be local or private for a period to grow.
const SLOTS_TO_GROW: u64 = 7;

/// The bounds of a scan period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanPeriods {
    /// The shortest.
    pub min: Millis,
    /// The longest.
    pub max: Millis,
}

impl ScanPeriods {
    /// The bounds for so many resident pages, by knobs that were checked.
    pub fn of(nr_resident: u64, knobs: &TieringKnobs) -> ScanPeriods {
        let nr_windows = nr_resident.div_ceil(knobs.scan_pages).max(1);
        let runs_per_second = (knobs.scan_rate_max / knobs.scan_pages).max(1);
        let floor = 1000 / runs_per_second;
        let min = floor.max(knobs.scan_period_min.0 / nr_windows).max(1);
        let max = min.max(knobs.scan_period_max.0 / nr_windows);
        ScanPeriods { min: Millis(min), max: Millis(max) }
    }
}

/// The hint faults of a task since its period was updated last. In pages. Where slow memory is
/// tiered, faults on it are in no count: promotion makes them remote on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FaultCounts {
    /// On the node of the task's CPU.
    pub nr_local: u64,
    /// On another node.
    pub nr_remote: u64,
    /// On pages that no other task faulted on.
    pub nr_private: u64,
    /// On pages that others faulted on too.
    pub nr_shared: u64,
    /// Moves that failed.
    pub nr_failed: u64,
}

/// When one task looks whether a hint scan is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanPace {
    period: Millis,
    /// The runtime the period is counted from.
    stamp_ns: u64,
}

impl ScanPace {
    /// The pace of a new task: the shortest period, from its first moment.
    pub const fn new(periods: &ScanPeriods) -> ScanPace {
        ScanPace { period: periods.min, stamp_ns: 0 }
    }

    /// The period now.
    pub const fn period(&self) -> Millis {
        self.period
    }

    /// Sets the period from outside.
    pub const fn set_period(&mut self, period: Millis) {
        self.period = period;
    }

    /// Whether the task has run for a period since it last was told so. `runtime_ns` is the CPU
    /// time it has used in its life.
    pub fn is_due(&mut self, runtime_ns: u64) -> bool {
        let period_ns = self.period.0 * NANOS_PER_MILLI;
        let is_due = runtime_ns >= self.stamp_ns.saturating_add(period_ns);
        if is_due {
            self.stamp_ns += period_ns;
        }
        is_due
    }

    /// Puts the task's next scan off, after one that took so much CPU time.
    pub fn charge(&mut self, scan_ns: u64) {
        self.stamp_ns = self.stamp_ns.saturating_add(scan_ns.saturating_mul(OVERHEAD_FACTOR));
    }

    /// Adapts the period to the faults since the last update: once each sequence.
    pub fn update(&mut self, faults: &FaultCounts, periods: &ScanPeriods) {
        let period = self.period.0;
        let period = if faults.nr_local + faults.nr_shared == 0 || faults.nr_failed > 0 {
            period * 2
        } else {
            let slot = period.div_ceil(SLOTS);
            let local = slots(faults.nr_local, faults.nr_remote);
            let private = slots(faults.nr_private, faults.nr_shared);
            if private >= SLOTS_TO_GROW {
                period + slot * (private - SLOTS_TO_GROW).max(1)
            } else if local >= SLOTS_TO_GROW {
                period + slot * (local - SLOTS_TO_GROW).max(1)
            } else {
                period.saturating_sub(slot * (SLOTS_TO_GROW - local.max(private)))
            }
        };
        self.period = Millis(period.clamp(periods.min.0, periods.max.0));
    }
}

/// How many tenths `part` is of it and `rest`.
fn slots(part: u64, rest: u64) -> u64 {
    (part * SLOTS).checked_div(part + rest).unwrap_or(0)
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

    /// The period after one update from 1000 ms.
    fn updated(faults: FaultCounts) -> u64 {
        let periods = ScanPeriods { min: Millis(250), max: Millis(60_000) };
        let mut pace = ScanPace { period: Millis(1000), stamp_ns: 0 };
        pace.update(&faults, &periods);
        pace.period().0
    }

    #[test]
    fn periods_adapt_to_where_faults_were() {
        let faults = |local, private| FaultCounts {
            nr_local: local,
            nr_remote: 10 - local,
            nr_private: private,
            nr_shared: 10 - private,
            nr_failed: 0,
        };
        assert_eq!(updated(faults(2, 10)), 1300, "all private");
        assert_eq!(updated(faults(10, 10)), 1300);
        assert_eq!(updated(faults(0, 7)), 1100, "one slot at least");
        assert_eq!(updated(faults(9, 5)), 1200, "mostly local");
        assert_eq!(updated(faults(2, 5)), 800, "scattered");
        assert_eq!(updated(faults(0, 0)), 300);
        assert_eq!(updated(FaultCounts::default()), 2000);
        assert_eq!(updated(FaultCounts { nr_failed: 1, ..faults(2, 5) }), 2000);
        // Remote and private: no fault that scanning more could help.
        assert_eq!(updated(faults(0, 10)), 2000);
    }

    #[test]
    fn periods_stay_between_their_bounds() {
        let periods = ScanPeriods { min: Millis(900), max: Millis(1500) };
        let mut pace = ScanPace::new(&periods);
        assert_eq!(pace.period(), Millis(900));
        pace.update(&FaultCounts::default(), &periods);
        assert_eq!(pace.period(), Millis(1500));
        let scattered = FaultCounts { nr_remote: 1, nr_shared: 1, ..FaultCounts::default() };
        for _ in 0..5 {
            pace.update(&scattered, &periods);
        }
        assert_eq!(pace.period(), Millis(900));
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
