//! Explanations, for people: where a folio is on its lists, and what speaks for it.

use crate::folio::Folios;
use crate::ids::FrameId;
use crate::lru::ShadowEntry;
use core::fmt;

/// A policy that explains more than a folio's flags do.
pub trait Explains {
    /// Writes where a folio on its lists is.
    ///
    /// # Errors
    /// What `out` returns.
    fn write_state(&self, folios: &Folios, frame: FrameId, out: &mut dyn fmt::Write)
    -> fmt::Result;

    /// How hot a folio on its lists is: more is hotter, and leaves later.
    fn heat(&self, folios: &Folios, frame: FrameId) -> u8;

    /// Writes what a shadow entry remembers.
    ///
    /// # Errors
    /// What `out` returns.
    fn write_shadow(&self, shadow: ShadowEntry, out: &mut dyn fmt::Write) -> fmt::Result {
        let _ = (shadow, out);
        Ok(())
    }
}
