//! Texts about a folio's state.

use crate::folio::Folios;
use crate::ids::FrameId;
use crate::lru::ShadowEntry;
use core::fmt;

/// A policy with texts beyond a folio's flags.
pub trait Explains {
    /// Writes the position of a listed folio.
    ///
    /// # Errors
    /// Fails if `out` fails.
    fn write_state(&self, folios: &Folios, frame: FrameId, out: &mut dyn fmt::Write)
    -> fmt::Result;

    /// Returns the heat of a listed folio: a hotter one is evicted later.
    fn heat(&self, folios: &Folios, frame: FrameId) -> u8;

    /// Writes the content of a shadow entry.
    ///
    /// # Errors
    /// Fails if `out` fails.
    fn write_shadow(&self, shadow: ShadowEntry, out: &mut dyn fmt::Write) -> fmt::Result {
        let _ = (shadow, out);
        Ok(())
    }
}
