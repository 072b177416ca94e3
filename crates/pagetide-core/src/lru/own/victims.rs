//! Victims: which folio a reclaim pass looks at next, and how long it goes on.
//!
//! Problem: a pass must end, though a look may only take a credit from a folio and send it round;
//! and three places have folios to give.
//!
//! ```text
//!   more unread than a quarter of memory?    the one that has waited longest
//!   main over its share?                     main's oldest        (or what the other has)
//!   else                                     probation's oldest
//!   neither has any                          the one that has waited longest
//! ```
//!
//! Where swappiness says so, anonymous folios go first: files are spared, at most an eighth of
//! memory in a pass, lest it goes through all of it for the last few.
//!
//! Data: the looks that a pass has left at each place, enough to see each folio until it is a
//! victim.
//!
//! Ignored: whether the world can free a victim; a refused one is put back where it was.

use super::engine::{Place, Stamp};
use super::unread::Unread;
use super::{Context, LOG_LEN, LruPolicy, Pagetide};
use crate::folio::{Flags, Folios, Hits};
use crate::ids::FrameId;
use crate::lru::Scan;

/// Looks at a folio until it is a victim: three credits, or a second trip on probation.
const TURNS: u64 = Hits::COUNT_MAX as u64 + 1;

/// Where anonymous folios go first, a pass spares files one of so many parts of memory at most.
const SPARED_PARTS: u32 = 8;

/// Looks left in this pass, on probation, at main and among the unread; set at its first batch.
#[derive(Debug, Default)]
pub struct PagetideCursor {
    budget: Option<[u64; 3]>,
    /// Folios of files that were spared.
    nr_spared: u32,
}

/// The third place to look at, after the engine's two.
const UNREAD: usize = 2;

impl Pagetide {
    /// A batch of victims is looked for. At the first of a pass, memory is what it holds.
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

    /// The folio to look at next, if one is left to look at; `Some(None)`: it is worth another
    /// trip.
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
        // Probation would offer again what it was spared.
        let preferred = match cursor.nr_spared {
            0 => self.engine.victim_from(0),
            _ => Place::Main,
        };
        let other = if preferred == Place::Main { Place::Probation } else { Place::Main };
        let has_more = |place: Place| budget[place as usize] > 0 && self.engine.len_of(place) > 0;
        if let Some(place) = [preferred, other].into_iter().find(|place| has_more(*place)) {
            budget[place as usize] -= 1;
            return Some(self.engine.look(folios, place));
        }
        budget[UNREAD] = budget[UNREAD].checked_sub(1)?;
        Some(self.give_up_unread(folios))
    }

    /// Takes what has waited longest to be read.
    fn give_up_unread(&mut self, folios: &Folios) -> Option<FrameId> {
        let frame = self.unread.pop_oldest(folios)?;
        let folio = &folios[frame];
        Stamp { place: Place::Probation, ..Stamp::of(folio) }.put(folio);
        Some(frame)
    }

    /// Whether a folio can be a victim now; if not, it is on a list again.
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

    /// Whether a victim is a file's, and anonymous folios are to go first; it is on a list again
    /// then. Where memory was gone through and there was none, the files go.
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

    /// Whether a folio cannot be a victim now; it is on a list again then.
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
