//! A hint fault, as every world meets it: counted, and judged by where its page is.
//!
//! ```text
//!   fast memory --> a sample, or moved there: arm again, or nothing
//!   slow memory --> promoted, armed again, or served in place; no room: reclaim is woken
//! ```
//!
//! **Ignored.** Folios of several pages.

use super::decision::HintFaultAction;
use super::promotion::{Headroom, HintFault, Promotion};
use crate::folio::Folio;
use crate::units::Millis;

/// What a world does about a hint fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct JudgedFault {
    /// What becomes of the page.
    pub action: HintFaultAction,
    /// Background reclaim of the fast node is woken, which makes room for the next.
    pub wakes_reclaim: bool,
}

impl Promotion {
    /// Counts and judges the fault on a page that was armed, and whose hint the caller took, so
    /// that no other thread judges it. `room` is the fast node's, and `None` where the page is
    /// there.
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
