//! The victim search of a reclaim pass.
//!
//! Problem: a pass must end, although a look may only take a credit.
//!
//! ```text
//!   more unread than a quarter of memory?    the oldest unread folio
//!   main over its share?                     main's oldest        (or probation's, if none)
//!   else                                     probation's oldest   (or main's, if none)
//!   neither has any                          the oldest unread folio
//! ```
//!
//! Data: the looks left per list, enough to use all credits of each folio. If anonymous folios go
//! first, a pass spares at most an eighth of memory in file folios.
//!
//! Ignored: refusals by the world. A refused folio goes back to its list.

use super::engine::{Place, Stamp};
use super::unread::Unread;
use super::{Context, LOG_LEN, LruPolicy, Pagetide};
use crate::folio::{Flags, Folios, Hits};
use crate::ids::FrameId;
use crate::lru::Scan;

/// Maximum number of looks at a folio: three credits, or a second trip on probation.
const TURNS: u64 = Hits::COUNT_MAX as u64 + 1;

/// A pass spares at most 1/8 of memory in file folios.
const SPARED_PARTS: u32 = 8;

/// Remaining looks of a pass: probation, main, unread. Set at its first batch.
#[derive(Debug, Default)]
pub struct PagetideCursor {
    budget: Option<[u64; 3]>,
    nr_spared: u32,
}

const UNREAD: usize = 2;

impl Pagetide {
    /// Measures memory and sets the budget at the first batch of a pass.
    pub(super) fn begin_batch(&mut self, cursor: &mut PagetideCursor) {
        if cursor.budget.is_none() {
            self.look_at_capacity();
            let nr_probation = u64::from(self.engine.len_of(Place::Probation));
            let nr_main = u64::from(self.engine.len_of(Place::Main)) + nr_probation;
            let nr_unread = u64::from(self.unread.len());
            cursor.budget = Some([TURNS * nr_probation, TURNS * nr_main, nr_unread]);
        }
        let set_aside = u64::from(self.unread.set_aside(self.engine.capacity()));
        self.engine.note_held(self.nr_folios().saturating_sub(set_aside) as u32);
    }

    fn look_at_capacity(&mut self) {
        let (holds, believed) = (self.nr_folios() as u32, self.engine.capacity());
        if holds.abs_diff(believed) > believed / 8 + LOG_LEN as u32 {
            self.set_capacity(holds);
        }
    }

    /// Returns the next candidate. `None`: the budget is spent. `Some(None)`: a folio was kept for
    /// another trip.
    pub(super) fn look(
        &mut self,
        folios: &Folios,
        cursor: &mut PagetideCursor,
    ) -> Option<Option<FrameId>> {
        let budget = cursor.budget.as_mut()?;
        let nr_unread = self.unread.len();
        if nr_unread > 0
            && nr_unread >= Unread::len_max(self.engine.capacity())
            && budget[UNREAD] > 0
        {
            budget[UNREAD] -= 1;
            return Some(self.give_up_unread(folios));
        }
        // Probation would return its spared folios again.
        let preferred = match cursor.nr_spared {
            0 => self.engine.victim_from(0),
            _ => Place::Main,
        };
        let other = if preferred == Place::Main { Place::Probation } else { Place::Main };
        let has_more = |place: Place| budget[place as usize] > 0 && self.engine.len_of(place) > 0;
        let place = if has_more(preferred) { preferred } else { other };
        if has_more(place) {
            budget[place as usize] -= 1;
            return Some(self.engine.look(folios, place));
        }
        budget[UNREAD] = budget[UNREAD].checked_sub(1)?;
        Some(self.give_up_unread(folios))
    }

    fn give_up_unread(&mut self, folios: &Folios) -> Option<FrameId> {
        let frame = self.unread.pop_oldest(folios)?;
        let folio = &folios[frame];
        Stamp { place: Place::Probation, ..Stamp::of(folio) }.put(folio);
        Some(frame)
    }

    /// Relists the folio if false.
    #[inline]
    pub(super) fn may_go(
        &mut self,
        cx: &Context<'_>,
        scan: &mut Scan,
        cursor: &mut PagetideCursor,
        frame: FrameId,
    ) -> bool {
        let doubts = scan.unclean().with(self.keeps).with(Flags::ANON);
        let is_plain = !cx.flags(frame).any(doubts) && !self.is_anon_first;
        is_plain || !self.must_stay(cx, scan, frame) && !self.spares(cx, cursor, frame)
    }

    /// Relists a spared file folio. Spares none after a search of all memory without an anonymous
    /// folio.
    fn spares(&mut self, cx: &Context<'_>, cursor: &mut PagetideCursor, frame: FrameId) -> bool {
        if cx.flags(frame).any(Flags::ANON) {
            self.nr_files_spared = 0;
            return false;
        }
        let spares = self.is_anon_first
            && u64::from(self.nr_files_spared) < self.nr_folios()
            && cursor.nr_spared < self.engine.capacity() / SPARED_PARTS;
        if spares {
            cursor.nr_spared += 1;
            self.nr_files_spared += 1;
            self.relist(cx.folios, frame);
        }
        spares
    }

    /// Relists the folio if true.
    fn must_stay(&mut self, cx: &Context<'_>, scan: &mut Scan, frame: FrameId) -> bool {
        let flags = cx.flags(frame);
        let is_dirty = scan.waits_for_writing(flags);
        if is_dirty {
            scan.dirty += 1;
            cx.folios[frame].set(Flags::RECLAIM);
        }
        let stays = is_dirty || flags.any(self.keeps);
        if stays {
            self.relist(cx.folios, frame);
        }
        stays
    }
}
