//! The hint scan of one address space, run after run: when one begins, and what its end changes.
//!
//! ```text
//!   due? --no--> nothing
//!     | yes
//!     v
//!   run: piece after piece, armed by the world ---> end: a new round doubles the period
//! ```
//!
//! **Problem.** The page cache, the replay and the lab's tiers each walk tables of their own, and
//! each would decide for itself when a run is due. **Idea.** They ask here, and only arm.
//!
//! **Ignored.** Where threads run: faults on slow memory say nothing of it.

use super::hint_scan::{HintScanner, ScanRun};
use super::knobs::TieringKnobs;
use super::scan_period::{ScanPace, ScanPeriods};
use crate::units::Millis;

/// Where the scan is, and when it goes on.
#[derive(Clone, Debug)]
pub struct HintScan {
    scanner: HintScanner,
    pace: ScanPace,
    knobs: TieringKnobs,
}

impl HintScan {
    /// A scan of what exists from `began` on, with so many pages in use then. Runs come at the
    /// shortest period at first.
    pub fn new(knobs: &TieringKnobs, began: Millis, nr_pages: u64) -> HintScan {
        HintScan {
            scanner: HintScanner::new(knobs, began),
            pace: ScanPace::new(&ScanPeriods::of(nr_pages, knobs)),
            knobs: *knobs,
        }
    }

    /// The period of runs now.
    pub const fn period(&self) -> Millis {
        self.pace.period()
    }

    /// Begins a run, if it is time for one. `runtime_ns` is how long the address space has been
    /// there; `worth` is the period that [`Promotion::run_period`](super::Promotion::run_period)
    /// says, if it says any.
    ///
    /// The world arms each piece of [`ScanRun::next_chunk`], counts what it armed
    /// ([`Promotion::count_armed`](super::Promotion::count_armed)), and ends the run here.
    pub fn begin(
        &mut self,
        now: Millis,
        runtime_ns: u64,
        worth: Option<Millis>,
    ) -> Option<ScanRun> {
        if let Some(period) = worth {
            self.pace.set_period(period);
        }
        if !self.pace.is_due(runtime_ns) {
            return None;
        }
        self.scanner.start_run(now, self.pace.period())
    }

    /// Ends a run. `nr_pages` are in use.
    pub fn end(&mut self, run: &ScanRun, nr_pages: u64) {
        if self.scanner.end_run(run) {
            self.pace.lengthen(&ScanPeriods::of(nr_pages, &self.knobs));
        }
    }

    /// Puts the next run off, after one that took so much CPU time.
    pub fn charge(&mut self, scan_ns: u64) {
        self.pace.charge(scan_ns);
    }
}
