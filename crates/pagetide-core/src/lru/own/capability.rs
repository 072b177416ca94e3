//! Optional methods of the policy, and the victims per pass.

use super::engine::{Place, Stamp, count_hit};
use super::unread::Unread;
use super::{ANON_FIRST, BATCH_MAX, BATCH_PARTS, BATCH_PARTS_OF_PROBATION, Pagetide};
use crate::folio::{Flags, Folios};
use crate::ids::FrameId;
use crate::lru::capability::Capabilities;
use crate::lru::{Context, LruPolicy, ShadowEntry};
use core::fmt::{self, Write};

impl Pagetide {
    pub(super) fn batch(&self) -> u64 {
        let of_memory = (self.engine.capacity() / BATCH_PARTS).min(BATCH_MAX);
        let of_probation = self.engine.probation_max() / BATCH_PARTS_OF_PROBATION;
        u64::from(of_memory.min(of_probation).max(1))
    }
}

impl Capabilities for Pagetide {
    /// Skips the first young bit, left by the fault that brought the page.
    fn young(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        if !cx.folios[frame].clear(Flags::REFERENCED).any(Flags::REFERENCED) {
            count_hit(&cx.folios[frame]);
            self.touch(cx, frame);
        }
    }

    fn demoted(&mut self, cx: &mut Context<'_>, _frame: FrameId) {
        self.note_departure(cx.folios);
    }

    /// Drops the last access, which is by another node's clock.
    fn moved_in(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        cx.folios[frame].clear(Flags::WORKINGSET.with(Flags::REFERENCED));
    }

    fn set_swappiness(&mut self, swappiness: u8) {
        self.is_anon_first = swappiness >= ANON_FIRST;
    }

    fn write_state(&self, folios: &Folios, frame: FrameId, out: &mut dyn Write) -> fmt::Result {
        self.write_place(folios, frame, out)
    }

    /// Ranks main above probation, then by hits. Unread pages are coldest.
    fn heat(&self, folios: &Folios, frame: FrameId) -> u8 {
        let (folio, flags) = (&folios[frame], folios[frame].flags());
        if Unread::has(flags.link()) {
            return 0;
        }
        let nr_hits = folio.hits().count() as u8;
        match Stamp::of_flagged(folio, flags).place {
            Place::Probation => 1 + nr_hits,
            Place::Main => 8 + nr_hits,
        }
    }

    fn write_shadow(&self, shadow: ShadowEntry, out: &mut dyn Write) -> fmt::Result {
        self.write_departure(shadow, out)
    }
}
