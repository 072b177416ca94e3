//! The hint scan's state between two ticks.

use pagetide_core::tiering::{HintScanner, ScanPace, ScanPeriods, TieringKnobs};
use pagetide_core::units::Millis;

/// Where the scan is, and when it goes on.
pub(crate) struct HintScan {
    pub(in crate::engine) scanner: HintScanner,
    pub(in crate::engine) pace: ScanPace,
    pub(in crate::engine) began: Millis,
}

impl HintScan {
    pub(crate) fn new(knobs: &TieringKnobs, began: Millis) -> HintScan {
        HintScan {
            scanner: HintScanner::new(knobs, began),
            pace: ScanPace::new(&ScanPeriods::of(0, knobs)),
            began,
        }
    }
}
