//! Unread pages: readahead pages without an access.
//!
//! **Problem.** If probation is shorter than a reader's two readahead windows, pages are evicted
//! before they are read. A page judged on arrival is judged one window too early.
//!
//! **Idea.** Readahead pages wait on separate lists and are judged at their first access. A turn
//! lasts a few epochs.
//!
//! ```text
//!   readahead --> [ this turn ] --turn--> [ the turn before ] --turn--> probation's old end: out
//!                       |                        |
//!                       +-------- accessed ------+--> probation's young end, or main
//! ```
//!
//! A sixteenth of memory is set aside as soon as any page waits, so that growing windows take no
//! frames from main.
//!
//! **Data and invariants.** At most a quarter of memory waits. Beyond that the oldest are evicted.
//! LINK tells the list of a folio.
//!
//! Ignored: the reader of a page. A page with a lost first access (contended log) leaves as unread.
//! Source: our own.

use super::engine::{Place, Stamp};
use super::{Context, Pagetide};
use crate::folio::{Flags, Folios};
use crate::ids::FrameId;
use crate::list::FolioList;

/// Epochs per turn: an eighth of memory's distinct pages.
const TURN_EPOCHS: u32 = 2;
/// At most 1/4 of memory waits.
const PARTS_MAX: u32 = 4;
/// 1/16 of memory is set aside: two windows of 512 pages in 64 MiB.
const PARTS_SET_ASIDE: u32 = 16;
/// LINK of the first list. The second list has `LINK + 1`.
const LINK: u32 = 2;

#[derive(Debug, Default)]
pub(super) struct Unread {
    lists: [FolioList; 2],
    young: usize,
    nr_epochs: u32,
}

impl Unread {
    pub(super) fn has(link: u32) -> bool {
        link >= LINK
    }

    pub(super) fn len(&self) -> u32 {
        self.lists[0].len() + self.lists[1].len()
    }

    pub(super) fn len_max(capacity: u32) -> u32 {
        capacity / PARTS_MAX
    }

    /// Returns the frames without a share for main and probation.
    pub(super) fn set_aside(&self, capacity: u32) -> u32 {
        if self.len() > 0 { self.len().max(capacity / PARTS_SET_ASIDE) } else { 0 }
    }

    pub(super) fn push(&mut self, folios: &Folios, frame: FrameId) {
        let link = LINK + self.young as u32;
        folios[frame].update(|flags| Some(flags.with_link(link)));
        self.lists[self.young].push_head(folios, frame);
    }

    /// Removes a folio. The caller changes its LINK.
    pub(super) fn remove(&mut self, folios: &Folios, frame: FrameId) {
        let nth = folios[frame].flags().link() - LINK;
        self.lists[nth as usize].remove(folios, frame);
    }

    pub(super) fn pop_oldest(&mut self, folios: &Folios) -> Option<FrameId> {
        let old = 1 - self.young;
        self.lists[old].pop_tail(folios).or_else(|| self.lists[self.young].pop_tail(folios))
    }

    /// Ends an epoch. At the end of a turn, removes the folios of the turn before and passes each
    /// to `expired`.
    pub(super) fn end_epoch(&mut self, folios: &Folios, mut expired: impl FnMut(FrameId)) {
        self.nr_epochs += 1;
        if self.nr_epochs < TURN_EPOCHS {
            return;
        }
        self.nr_epochs = 0;
        let old = 1 - self.young;
        while let Some(frame) = self.lists[old].pop_tail(folios) {
            expired(frame);
        }
        self.young = old;
    }

    pub(super) fn iter<'a>(&'a self, folios: &'a Folios) -> impl Iterator<Item = FrameId> + 'a {
        self.lists[0].iter(folios).chain(self.lists[1].iter(folios))
    }

    /// Panics if an invariant is broken. O(folios).
    pub(super) fn validate(&self, folios: &Folios) {
        for (list, link) in self.lists.iter().zip(LINK..) {
            list.validate(folios);
            for frame in list.iter(folios) {
                assert_eq!(folios[frame].flags().link(), link, "{frame} waits on another list");
            }
        }
    }
}

impl Pagetide {
    pub(super) fn add_unread(&mut self, folios: &Folios, frame: FrameId) {
        let folio = &folios[frame];
        let flags = folio.clear(Flags::ACTIVE);
        let is_main = flags.any(Flags::ACTIVE);
        let place = match is_main {
            true => Place::Main,
            false => self.engine.place_of_new(false),
        };
        let stamp = Stamp::of(folio);
        // A refaulted page keeps its stamp.
        if !flags.any(Flags::WORKINGSET) {
            Stamp { epoch: self.engine.clock.never(), place, ..stamp }.put(folio);
        }
        if is_main || flags.any(self.keeps) {
            self.push(folios, frame, flags, Stamp { place, ..Stamp::of(folio) });
        } else {
            self.unread.push(folios, frame);
        }
    }

    /// Returns true if a refaulted, accessed page goes to main, and makes room for it.
    #[inline]
    pub(super) fn gets_main(&mut self, cx: &mut Context<'_>, flags: Flags, stamp: Stamp) -> bool {
        let is_main = stamp.place == Place::Main && self.engine.judge_return(cx.folios, stamp);
        if is_main {
            self.engine.make_room_in_main(cx.folios);
            cx.count_activation(flags.page_type());
        }
        is_main
    }

    /// Lists an accessed folio that is not on the engine's lists. Returns true if its hit may move
    /// it.
    #[cold]
    pub(super) fn touch_unlisted(&mut self, cx: &mut Context<'_>, frame: FrameId) -> bool {
        let flags = cx.flags(frame);
        if Unread::has(flags.link()) {
            self.first_access(cx, frame);
            return false;
        }
        let is_listed = !flags.any(self.keeps);
        if is_listed {
            self.unlink(cx.folios, frame);
            self.relist(cx.folios, frame);
        }
        is_listed
    }

    fn first_access(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        let folio = &cx.folios[frame];
        let flags = folio.flags();
        self.unread.remove(cx.folios, frame);
        let stamp = Stamp::of_flagged(folio, flags);
        let gets_main = flags.any(Flags::WORKINGSET) && self.gets_main(cx, flags, stamp);
        let place = match gets_main {
            true => Place::Main,
            false => self.engine.place_of_new(!self.is_full),
        };
        self.settle(cx.folios, frame, flags, Stamp { place, ..stamp });
    }

    #[inline(always)]
    pub(super) fn settle(&mut self, folios: &Folios, frame: FrameId, flags: Flags, stamp: Stamp) {
        let is_kept = self.push(folios, frame, flags, stamp);
        if flags.any(Flags::WORKINGSET) && !is_kept {
            self.engine.seat_returned(folios, frame);
        }
    }
}
