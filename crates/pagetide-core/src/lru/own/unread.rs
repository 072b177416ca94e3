//! Unread pages: what readahead brought, and no access has met yet.
//!
//! **Problem.** A reader has two windows of readahead in flight. Probation may be shorter than
//! that: then pages leave before they are read, and are read from the device twice. Yet a page that
//! is never asked for must not stay. And a page judged as it is brought is judged too early: by a
//! window, a stream longer than memory seems to fit.
//!
//! **Idea.** They wait on lists of their own, by age, and take no part in the judgement until they
//! are accessed: then they are new pages like any other. A turn is a few epochs long.
//!
//! ```text
//!   readahead --> [ this turn ] --turn--> [ the turn before ] --turn--> probation's old end: out
//!                       |                        |
//!                       +-------- accessed ------+--> probation's young end, or main
//! ```
//!
//! Main and probation share what is left. Windows come and go, and main must not give pages, which
//! may be what it protects, for each that is larger than the last. So a sixteenth of memory is set
//! aside as soon as any wait, and more where more do.
//!
//! **Data and invariants.** At most a quarter of memory waits: two windows of the largest there
//! are. Of more, the oldest go first. A folio's link says which of the two lists it is on.
//!
//! Ignored: which reader a page was brought for. A page whose first access was lost on the way (a
//! contended log) leaves as if unread. Source: our own.

use super::engine::{Place, Stamp};
use super::{Context, Pagetide};
use crate::folio::{Flags, Folios};
use crate::ids::FrameId;
use crate::list::FolioList;

/// A turn is so many epochs: an eighth of memory's distinct pages.
const TURN_EPOCHS: u32 = 2;
/// At most one of so many parts of memory waits.
const PARTS_MAX: u32 = 4;
/// One of so many parts is set aside for them: two windows of 512 pages in 64 MiB.
const PARTS_SET_ASIDE: u32 = 16;
/// The link of a folio on the first list; on the second it is one more.
const LINK: u32 = 2;

/// The folios that wait for their first access.
#[derive(Debug, Default)]
pub(super) struct Unread {
    lists: [FolioList; 2],
    /// The list of this turn.
    young: usize,
    nr_epochs: u32,
}

impl Unread {
    /// Whether a folio with this link waits here.
    pub(super) fn has(link: u32) -> bool {
        link >= LINK
    }

    /// Folios that wait.
    pub(super) fn len(&self) -> u32 {
        self.lists[0].len() + self.lists[1].len()
    }

    /// How many may wait in a memory of `capacity`.
    pub(super) fn len_max(capacity: u32) -> u32 {
        capacity / PARTS_MAX
    }

    /// Frames that main and probation have no share in while any folio waits.
    pub(super) fn set_aside(&self, capacity: u32) -> u32 {
        if self.len() > 0 { self.len().max(capacity / PARTS_SET_ASIDE) } else { 0 }
    }

    /// A folio begins to wait.
    pub(super) fn push(&mut self, folios: &Folios, frame: FrameId) {
        let link = LINK + self.young as u32;
        folios[frame].update(|flags| Some(flags.with_link(link)));
        self.lists[self.young].push_head(folios, frame);
    }

    /// It does not any more. Its link is the caller's to change.
    pub(super) fn remove(&mut self, folios: &Folios, frame: FrameId) {
        let nth = folios[frame].flags().link() - LINK;
        self.lists[nth as usize].remove(folios, frame);
    }

    /// Takes the one that has waited longest.
    pub(super) fn pop_oldest(&mut self, folios: &Folios) -> Option<FrameId> {
        let old = 1 - self.young;
        self.lists[old].pop_tail(folios).or_else(|| self.lists[self.young].pop_tail(folios))
    }

    /// An epoch has ended. Where a turn ends with it, `expired` gets each folio that has waited
    /// since the one before; it is off the lists then.
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

    /// The folios that wait.
    pub(super) fn iter<'a>(&'a self, folios: &'a Folios) -> impl Iterator<Item = FrameId> + 'a {
        self.lists[0].iter(folios).chain(self.lists[1].iter(folios))
    }

    /// Counts and panics if an invariant is broken. O(folios).
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
    /// Readahead is no access: what it brings waits to be read.
    pub(super) fn add_unread(&mut self, folios: &Folios, frame: FrameId) {
        let folio = &folios[frame];
        let flags = folio.clear(Flags::ACTIVE);
        let is_main = flags.any(Flags::ACTIVE);
        let place = match is_main {
            true => Place::Main,
            false => self.engine.place_of_new(false),
        };
        let stamp = Stamp::of(folio);
        // Of a page that came back it says where that may go, and when it was accessed.
        if !flags.any(Flags::WORKINGSET) {
            Stamp { epoch: self.engine.clock.never(), place, ..stamp }.put(folio);
        }
        if is_main || flags.any(self.keeps) {
            self.push(folios, frame, flags, Stamp { place, ..Stamp::of(folio) });
        } else {
            self.unread.push(folios, frame);
        }
    }

    /// Whether a page that came back, and is accessed now, goes to main; there is room for it then.
    #[inline]
    pub(super) fn gets_main(&mut self, cx: &mut Context<'_>, flags: Flags, stamp: Stamp) -> bool {
        let is_main = stamp.place == Place::Main && self.engine.judge_return(cx.folios, stamp);
        if is_main {
            self.engine.make_room_in_main(cx.folios);
            cx.count_activation(flags.page_type());
        }
        is_main
    }

    /// A folio that is not on the engine's lists is accessed, and goes there, if it may. Returns
    /// whether it was kept from there and is not any more, so that its hit may move it.
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

    /// A page that readahead brought is accessed for the first time.
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

    /// Lists a folio that is accessed the first time since its page came, or came back.
    #[inline(always)]
    pub(super) fn settle(&mut self, folios: &Folios, frame: FrameId, flags: Flags, stamp: Stamp) {
        let is_kept = self.push(folios, frame, flags, stamp);
        if flags.any(Flags::WORKINGSET) && !is_kept {
            self.engine.seat_returned(folios, frame);
        }
    }
}
