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

use super::hint_scan::{HintScanner, ScanChunk, ScannedMapping};
use super::knobs::TieringKnobs;
use super::scan_period::{ScanPace, ScanPeriods};
use crate::ids::MappingId;
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

    /// Makes a run, if it is time for one, in a world with `nr_pages` pages in use; returns how
    /// many words it armed. `runtime_ns` is how long the address space has been there; `worth` is
    /// the period that [`Promotion::run_period`](super::Promotion::run_period) says, if it says
    /// any.
    ///
    /// `first_from` names the mapping with the lowest id at or above the one it is given, among
    /// those that hold pages to be scanned. `arm` arms the pages of a piece that
    /// [`Promotion::arms`](super::Promotion::arms) names, and says how many.
    pub fn run(
        &mut self,
        (now, runtime_ns): (Millis, u64),
        worth: Option<Millis>,
        nr_pages: u64,
        mut first_from: impl FnMut(MappingId) -> Option<ScannedMapping>,
        mut arm: impl FnMut(&ScanChunk) -> u64,
    ) -> Option<u64> {
        if let Some(period) = worth {
            self.pace.set_period(period);
        }
        if !self.pace.is_due(runtime_ns) {
            return None;
        }
        let mut run = self.scanner.start_run(now, self.pace.period())?;
        while let Some(chunk) = run.next_chunk(&mut first_from) {
            run.scanned(arm(&chunk));
        }
        if self.scanner.end_run(&run) {
            self.pace.lengthen(&ScanPeriods::of(nr_pages, &self.knobs));
        }
        Some(run.nr_armed())
    }

    /// Puts the next run off, after one that took so much CPU time.
    pub fn charge(&mut self, scan_ns: u64) {
        self.pace.charge(scan_ns);
    }
}
