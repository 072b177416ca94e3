//! Texts about the position of a folio, or the eviction of a page, for human readers.
//!
//! ```text
//!   on probation, 1 of 2 hits; last accessed 900 to 1160 distinct pages ago, memory is 4096
//!   evicted 512 evictions ago, last accessed 4100 to 4360 distinct pages ago, memory is 4096
//! ```

use super::engine::{PARTS_A_PAGE, Place, Stamp};
use super::unread::Unread;
use super::{Epoch, Pagetide, Past, SelectionSummary};
use crate::folio::Folios;
use crate::ids::FrameId;
use crate::lru::ShadowEntry;
use core::fmt::{self, Write};

impl Pagetide {
    /// Returns `None` if the selection is off.
    pub(in crate::lru) fn selection_summary(&self) -> Option<SelectionSummary> {
        self.selection.as_ref().map(|selection| selection.summary())
    }

    pub(super) fn write_place(
        &self,
        folios: &Folios,
        frame: FrameId,
        out: &mut dyn Write,
    ) -> fmt::Result {
        let (flags, stamp) = (folios[frame].flags(), Stamp::of(&folios[frame]));
        let nr_hits = folios[frame].hits().count();
        if Unread::has(flags.link()) {
            return out.write_str("brought by readahead, not accessed yet");
        }
        if flags.link() > 0 {
            return out.write_str("cannot be evicted");
        }
        match stamp.place {
            Place::Probation => {
                let wanted = self.engine.setting().hits_to_main;
                write!(out, "on probation, {} of {wanted} hits", nr_hits)?;
            }
            Place::Main => write!(out, "at main, {} credits", nr_hits)?,
        }
        out.write_str("; ")?;
        self.write_distance(stamp.epoch, out)
    }

    pub(super) fn write_departure(&self, shadow: ShadowEntry, out: &mut dyn Write) -> fmt::Result {
        let Past { evicted, epoch } = self.unpack(shadow);
        let nr_evictions = evicted / u64::from(PARTS_A_PAGE);
        write!(out, "evicted {nr_evictions} evictions ago, ")?;
        self.write_distance(epoch, out)
    }

    fn write_distance(&self, epoch: Epoch, out: &mut dyn Write) -> fmt::Result {
        let clock = &self.engine.clock;
        let bounds = (clock.at_least(epoch.wrapping_add(1)), clock.at_most(epoch));
        let pages = |weight| weight / u64::from(PARTS_A_PAGE);
        match (bounds.0.map(pages), bounds.1.map(pages)) {
            (Some(low), Some(high)) if epoch != clock.now() => {
                write!(out, "last accessed {low} to {high}")?;
            }
            (_, Some(high)) => write!(out, "last accessed at most {high}")?,
            (_, None) => return out.write_str("last accessed longer ago than is known"),
        }
        write!(out, " distinct pages ago, memory is {}", self.engine.capacity())
    }
}
