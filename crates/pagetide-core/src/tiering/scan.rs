//! The hint scan of one address space over time.
//!
//! ```text
//!   due? --no--> nothing
//!     | yes
//!     v
//!   run: piece after piece, armed by the world ---> end: a new round doubles the period
//! ```
//!
//! **Problem.** Page cache, replay and lab walk different tables on one schedule. **Idea.** Worlds
//! ask here and only arm.
//!
//! **Ignored.** Placement of threads.

use super::hint_scan::{HintScanner, ScanChunk, ScannedMapping};
use super::knobs::TieringKnobs;
use super::scan_period::{ScanPace, ScanPeriods};
use crate::ids::MappingId;
use crate::units::Millis;

/// Position and schedule of the scan.
#[derive(Clone, Debug)]
pub struct HintScan {
    scanner: HintScanner,
    pace: ScanPace,
    knobs: TieringKnobs,
}

impl HintScan {
    /// Creates a scan from `began` on, at the shortest period.
    pub fn new(knobs: &TieringKnobs, began: Millis, nr_pages: u64) -> HintScan {
        HintScan {
            scanner: HintScanner::new(knobs, began),
            pace: ScanPace::new(&ScanPeriods::of(nr_pages, knobs)),
            knobs: *knobs,
        }
    }

    /// Returns the current period.
    pub const fn period(&self) -> Millis {
        self.pace.period()
    }

    /// Makes a run, if due, with `nr_pages` pages in use. Returns the words armed. `runtime_ns` is
    /// the age of the address space. `worth` is
    /// [`Promotion::run_period`](super::Promotion::run_period).
    ///
    /// `first_from` returns the first scannable mapping from an id on. `arm` arms the pages of a
    /// piece selected by [`Promotion::arms`](super::Promotion::arms), and returns their number.
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

    /// Delays the next run after one of `scan_ns` CPU time.
    pub fn charge(&mut self, scan_ns: u64) {
        self.pace.charge(scan_ns);
    }
}
