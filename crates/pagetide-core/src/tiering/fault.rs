//! Counts and judges hint faults.
//!
//! ```text
//!   fast memory --> a sample, or just moved: arm again, or nothing
//!   slow memory --> promoted, armed again, or served in place. No headroom: wake reclaim
//! ```
//!
//! **Ignored.** Large folios.

use super::decision::HintFaultAction;
use super::promotion::{Headroom, HintFault, Promotion};
use crate::folio::Folio;
use crate::units::Millis;

/// Reaction of a world to a hint fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct JudgedFault {
    /// Action for the page.
    pub action: HintFaultAction,
    /// True if background reclaim of the fast node must be woken.
    pub wakes_reclaim: bool,
}

impl Promotion {
    /// Counts and judges a fault on an armed page with its hint taken. `room` is the fast node's,
    /// or `None` for a page there.
    ///
    /// # Cost
    /// O(1).
    pub fn judge_fault(
        &mut self,
        now: Millis,
        folio: &Folio,
        room: Option<&Headroom>,
    ) -> JudgedFault {
        self.count_hint_fault(room.is_none());
        let Some(room) = room else {
            let action = self.note_fast_fault(now, folio);
            return JudgedFault { action, wakes_reclaim: false };
        };
        let decision = self.decide(now, &HintFault { folio, nr_frames: 1 }, room);
        JudgedFault { action: decision.action(), wakes_reclaim: decision.wakes_reclaim() }
    }
}
