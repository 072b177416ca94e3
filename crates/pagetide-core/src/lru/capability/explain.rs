//! Explanations, for people: where a folio is on its lists, and what speaks for it.

use crate::folio::Folios;
use crate::ids::FrameId;
use crate::lru::pagetide::SelectionSummary;
use crate::lru::{Lruvec, ShadowEntry};
use core::fmt;

/// A policy that explains more than a folio's flags do.
pub trait Explains {
    /// Writes where a folio on its lists is.
    ///
    /// # Errors
    /// What `out` returns.
    fn write_state(&self, folios: &Folios, frame: FrameId, out: &mut dyn fmt::Write)
    -> fmt::Result;

    /// Writes what a shadow entry remembers.
    ///
    /// # Errors
    /// What `out` returns.
    fn write_shadow(&self, shadow: ShadowEntry, out: &mut dyn fmt::Write) -> fmt::Result {
        let _ = (shadow, out);
        Ok(())
    }

    /// Which of several designs is in charge, and what speaks for it. O(designs).
    fn selection(&self) -> Option<SelectionSummary> {
        None
    }
}

impl Lruvec {
    /// Writes in words where a folio on the lists is and what speaks for it; its flags, if the
    /// policy knows no more.
    ///
    /// # Errors
    /// What `out` returns.
    pub fn write_standing(&self, frame: FrameId, out: &mut dyn fmt::Write) -> fmt::Result {
        match self.policy.explains() {
            Some(policy) => policy.write_state(&self.folios, frame, out),
            None => write!(out, "{:?}", self.folios[frame].flags()),
        }
    }

    /// Writes in words what a shadow entry remembers; nothing if the policy has nothing to say.
    ///
    /// # Errors
    /// What `out` returns.
    pub fn write_past(&self, shadow: ShadowEntry, out: &mut dyn fmt::Write) -> fmt::Result {
        self.policy.explains().map_or(Ok(()), |policy| policy.write_shadow(shadow, out))
    }

    /// Which arm is in charge and what it saw, if the policy chooses between arms. O(arms).
    pub fn selection_summary(&self) -> Option<SelectionSummary> {
        self.policy.explains()?.selection()
    }
}
