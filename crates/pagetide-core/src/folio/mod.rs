//! Folio descriptors: what is known about each frame's contents.
//!
//! Problem: a hit must note the access without a lock, while reclaim moves the same folio between
//! lists under one.
//!
//! Idea: one 64-byte descriptor a frame, so that a frame's state is one cache line, in parts with
//! different owners:
//!
//! ```text
//!   flags (u64)    any thread, atomically: generation, references, dirty, writeback, list state
//!   hits           any thread, but not in one step: of two changes at once one may be lost
//!   prev, next     the holder of the lruvec's lock, while the folio is on a list
//!   mapping, index the holder of the frame, set once when the folio is bound to a page
//!   group          the same, when the group is charged for the frame
//!   stamp          the holder of the lruvec's lock: whatever its policy notes of the folio
//!   hint_stamp     the holder of the hint of the page's word: when its table was scanned
//!   heat           the same: how soon after it the page was touched, so far
//! ```
//!
//! Beside the descriptors there is one number for all of them, the tick. A policy that wants
//! one hit of a folio logged once in a while, and not each, lets the while end by a new tick; a hit
//! compares the tick beside its folio's hits, and has nothing to say where they agree.
//!
//! Invariants: a folio is in at most one of the states pending, on a list, isolated
//! ([`Flags::PENDING`], [`Flags::ON_LIST`], [`Flags::ISOLATED`]); a free frame is in none. `GEN` is
//! zero unless a multi-gen policy put the folio on a generation's list.
//!
//! Where there is one thread ([`Folios::for_one_thread`]) nothing need be one step, and a change of
//! flags is a load and a store: a locked instruction takes as long as twenty others.
//!
//! Ignored here: large folios (every folio is one frame so far) and the contents themselves.
//! Everything is an atomic because the crate has no unsafe code; fields that a lock protects are
//! accessed relaxed, which costs what a plain field costs.

use crate::ids::{FrameId, GroupId, MappingId, PageId, PageIndex, PageType};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

mod flags;
mod hits;

pub use flags::Flags;
pub use hits::Hits;

/// The hint stamp of a page that no scan has seen where it is now: all ones, at any width.
pub const HINT_STAMP_RESET: u32 = u32::MAX;

/// One frame's descriptor. Reached through [`Folios`].
#[repr(align(64))]
pub struct Folio {
    flags: AtomicU64,
    index: AtomicU64,
    mapping: AtomicU32,
    pub(crate) prev: AtomicU32,
    pub(crate) next: AtomicU32,
    group: AtomicU16,
    /// Several threads reach it: what is to be one step must be.
    is_shared: bool,
    hits: AtomicU32,
    /// Its policy's own; means nothing until that sets it.
    pub(crate) stamp: AtomicU32,
    hint_stamp: AtomicU32,
    /// See `tiering::auto`; 0 is nothing known.
    heat: AtomicU32,
}

const _: () = assert!(size_of::<Folio>() == 64);

impl Folio {
    fn unused(is_shared: bool) -> Folio {
        Folio {
            flags: AtomicU64::new(0),
            index: AtomicU64::new(0),
            mapping: AtomicU32::new(0),
            prev: AtomicU32::new(0),
            next: AtomicU32::new(0),
            group: AtomicU16::new(0),
            is_shared,
            hits: AtomicU32::new(0),
            stamp: AtomicU32::new(0),
            hint_stamp: AtomicU32::new(HINT_STAMP_RESET),
            heat: AtomicU32::new(0),
        }
    }

    /// Gives the frame to `page`: all flags start clear but the type and those of `flags`, and the
    /// hint stamp is reset.
    ///
    /// The caller owns the frame (it came from the allocator and no word names it yet).
    #[inline]
    pub fn bind(&self, page: PageId, page_type: PageType, flags: Flags) {
        let type_flag = if page_type == PageType::Anon { Flags::ANON } else { Flags::NONE };
        self.mapping.store(page.mapping.0, Relaxed);
        self.index.store(page.index.0, Relaxed);
        self.hint_stamp.store(HINT_STAMP_RESET, Relaxed);
        self.heat.store(0, Relaxed);
        self.hits.store(0, Relaxed);
        self.flags.store(flags.with(type_flag).0, Relaxed);
    }

    /// Gives the frame to the page of `from`, with its type, its group and what it keeps
    /// ([`Flags::KEPT_ON_MOVE`]), and sets `flags` beside. The hint stamp is reset.
    ///
    /// The caller owns both frames: the page is not accessed until its word names this one.
    pub fn bind_moved(&self, from: &Folio, flags: Flags) {
        let before = from.flags();
        let kept = Flags(before.0 & Flags::KEPT_ON_MOVE.0);
        self.bind(from.page(), before.page_type(), kept.with(flags));
        self.set_group(from.group());
        self.set_heat(from.heat());
    }

    /// The page whose contents the frame holds. Stable while the caller keeps the frame from being
    /// freed (isolated it, or locked its word).
    #[inline]
    pub fn page(&self) -> PageId {
        PageId {
            mapping: MappingId(self.mapping.load(Relaxed)),
            index: PageIndex(self.index.load(Relaxed)),
        }
    }

    /// The memory group that pays for the frame. Stable while [`Folio::page`] is.
    #[inline]
    pub fn group(&self) -> GroupId {
        GroupId(self.group.load(Relaxed))
    }

    /// Names the group that was charged for the frame. The caller owns the frame, as for
    /// [`Folio::bind`]; a world without groups never calls it, and the root pays for all.
    #[inline]
    pub fn set_group(&self, group: GroupId) {
        self.group.store(group.0, Relaxed);
    }

    /// When a hint scan last armed the page, milliseconds modulo 2^32; [`HINT_STAMP_RESET`] until
    /// one did.
    pub fn hint_stamp(&self) -> u32 {
        self.hint_stamp.load(Relaxed)
    }

    /// Notes a stamp; returns the one before. The caller has the page's hint: it arms the word, or
    /// took the fault.
    pub fn swap_hint_stamp(&self, stamp: u32) -> u32 {
        self.hint_stamp.swap(stamp, Relaxed)
    }

    /// How hot tiering without knobs takes the page to be; it goes along when the page is moved.
    pub(crate) fn heat(&self) -> u32 {
        self.heat.load(Relaxed)
    }

    /// Notes it, under the rule of [`Folio::swap_hint_stamp`].
    pub(crate) fn set_heat(&self, heat: u32) {
        self.heat.store(heat, Relaxed);
    }

    /// A snapshot of the flags.
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags(self.flags.load(Relaxed))
    }

    /// Sets the flags of `mask`; returns what was there before.
    #[inline]
    pub fn set(&self, mask: Flags) -> Flags {
        if !self.is_shared {
            return self.replace(|flags| flags.with(mask));
        }
        Flags(self.flags.fetch_or(mask.0, Relaxed))
    }

    /// Clears the flags of `mask`; returns what was there before.
    #[inline]
    pub fn clear(&self, mask: Flags) -> Flags {
        if !self.is_shared {
            return self.replace(|flags| flags.without(mask));
        }
        Flags(self.flags.fetch_and(!mask.0, Relaxed))
    }

    /// Replaces the flags by `change(flags)` atomically; `None` leaves them. Returns what was there
    /// before.
    #[inline]
    pub fn update(&self, mut change: impl FnMut(Flags) -> Option<Flags>) -> Flags {
        if !self.is_shared {
            return self.replace(|flags| change(flags).unwrap_or(flags));
        }
        let outcome =
            self.flags.fetch_update(Relaxed, Relaxed, |now| change(Flags(now)).map(|next| next.0));
        Flags(match outcome {
            Ok(before) => before,
            Err(unchanged) => unchanged,
        })
    }

    /// Changes the flags where no other thread can. Returns what was there before.
    #[inline]
    fn replace(&self, change: impl FnOnce(Flags) -> Flags) -> Flags {
        let before = self.flags();
        self.flags.store(change(before).0, Relaxed);
        before
    }

    /// The hits, as [`AccessRule::mark`] counts them for policies that have them apart from flags.
    ///
    /// [`AccessRule::mark`]: crate::lru::AccessRule::mark
    #[inline]
    pub fn hits(&self) -> Hits {
        Hits(self.hits.load(Relaxed))
    }

    /// Writes them; a hit at the same moment may be lost, or win.
    #[inline]
    pub fn set_hits(&self, hits: Hits) {
        self.hits.store(hits.0, Relaxed);
    }
}

/// All descriptors of an arena, indexed by frame. 64 bytes a frame: 1.6 % of the memory described.
pub struct Folios {
    slots: Box<[Folio]>,
    prefetch: Prefetch,
    /// Never 0. Read by each hit, written so seldom that it stays in every processor's cache.
    ///
    /// In a place of its own: nothing in here changes then, and a writer of one descriptor need
    /// not look again for the next one.
    tick: Box<AtomicU16>,
}

/// Starts bringing a descriptor into the processor's cache, to be written. A hint: it may do
/// nothing, and changes nothing but time.
pub type Prefetch = fn(&Folio);

impl Folios {
    /// Descriptors for `nr_frames` free frames.
    pub fn new(nr_frames: u32) -> Folios {
        Folios::with_prefetch(nr_frames, |_| ())
    }

    /// As [`Folios::new`], with the world's way to prefetch; this crate has none, as there is none
    /// without unsafe code.
    pub fn with_prefetch(nr_frames: u32, prefetch: Prefetch) -> Folios {
        let slots = (0..nr_frames).map(|_| Folio::unused(true)).collect();
        Folios { slots, prefetch, tick: first_tick() }
    }

    /// As [`Folios::new`], for a world of one thread: the same answers, sooner. Should two threads
    /// change a folio at once after all, one of the changes may be lost.
    pub fn for_one_thread(nr_frames: u32) -> Folios {
        let slots = (0..nr_frames).map(|_| Folio::unused(false)).collect();
        Folios { slots, prefetch: |_| (), tick: first_tick() }
    }

    /// The running tick, which is never 0.
    #[inline]
    pub fn tick(&self) -> u16 {
        self.tick.load(Relaxed)
    }

    /// Begins another tick: the next access of each folio is worth logging again. Of several
    /// lruvecs over the same folios each may; that of one costs the others some entries, no more.
    pub fn end_tick(&self) {
        let after = |tick: u16| Some(tick.wrapping_add(1).max(1));
        let _ = self.tick.fetch_update(Relaxed, Relaxed, after);
    }

    /// Asks for a frame's descriptor, soon to be written.
    #[inline]
    pub fn prefetch(&self, frame: FrameId) {
        (self.prefetch)(&self[frame]);
    }

    /// The descriptors, by frame.
    #[inline]
    pub fn as_slice(&self) -> &[Folio] {
        &self.slots
    }

    /// A frame's descriptor, or `None` past the last.
    #[inline]
    pub fn get(&self, frame: FrameId) -> Option<&Folio> {
        self.slots.get(frame.0 as usize)
    }

    /// How many frames are described.
    pub fn nr_frames(&self) -> u32 {
        self.slots.len() as u32
    }
}

fn first_tick() -> Box<AtomicU16> {
    Box::new(AtomicU16::new(1))
}

impl core::ops::Index<FrameId> for Folios {
    type Output = Folio;

    #[inline]
    fn index(&self, frame: FrameId) -> &Folio {
        &self.slots[frame.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn fields_do_not_disturb_each_other() {
        let fields = |it: Flags| (it.generation(), it.refs(), it.link());
        let flags = Flags::DIRTY.with_generation(Some(3)).with_refs(2).with_link(9);
        assert_eq!(fields(flags), (Some(3), 2, 9));
        assert!(flags.any(Flags::DIRTY));
        let moved = flags.with_generation(None).with_refs(3).with_link(6);
        assert_eq!(fields(moved), (None, 3, 6));
        assert!(moved.any(Flags::DIRTY));
        assert_eq!(moved.page_type(), PageType::File);
    }

    #[test]
    fn parts_of_hits_do_not_disturb_each_other() {
        let parts = |it: Hits| (it.count(), it.tick(), it.is_watched());
        let hits = Hits::default().with_count(2).with_tick(0xfedc).with_watched(true);
        assert_eq!(parts(hits), (2, 0xfedc, true));
        let moved = hits.with_count(3).with_tick(1).with_watched(false);
        assert_eq!(parts(moved), (3, 1, false));
        assert_eq!(moved, Hits::quiet(1));
    }

    #[test]
    fn bind_starts_a_folio_afresh() {
        let folios = Folios::new(2);
        let folio = &folios[FrameId(1)];
        folio.set(Flags::DIRTY.with(Flags::ACTIVE));
        assert_eq!(folio.swap_hint_stamp(77), HINT_STAMP_RESET);
        assert_eq!(folio.hint_stamp(), 77);
        folio.set_hits(Hits::quiet(5));
        let page = PageId { mapping: MappingId(7), index: PageIndex(9) };
        folio.bind(page, PageType::Anon, Flags::PENDING);
        assert_eq!(folio.page(), page);
        assert_eq!(folio.hint_stamp(), HINT_STAMP_RESET);
        assert_eq!(folio.flags(), Flags::ANON.with(Flags::PENDING));
        assert_eq!(folio.hits(), Hits::default());
        assert_eq!(format!("{:?}", folio.flags()), "gen None refs 0 anon pending");
    }

    #[test]
    fn moved_pages_keep_what_is_theirs() {
        let folios = Folios::new(2);
        let (from, to) = (&folios[FrameId(0)], &folios[FrameId(1)]);
        let page = PageId { mapping: MappingId(7), index: PageIndex(9) };
        let kept = Flags::DIRTY.with(Flags::REFERENCED);
        from.bind(page, PageType::Anon, kept.with(Flags::ISOLATED).with_generation(Some(2)));
        from.set_group(GroupId(3));
        from.swap_hint_stamp(77);
        to.swap_hint_stamp(78);
        to.bind_moved(from, Flags::ACTIVE);
        assert_eq!((to.page(), to.group()), (page, GroupId(3)));
        assert_eq!(to.flags(), kept.with(Flags::ANON).with(Flags::ACTIVE));
        assert_eq!(to.hint_stamp(), HINT_STAMP_RESET);
    }

    #[test]
    fn update_reports_what_was_there() {
        for folios in [Folios::new(1), Folios::for_one_thread(1)] {
            let folio = &folios[FrameId(0)];
            assert_eq!(folio.update(|flags| Some(flags.with_refs(2))), Flags::NONE);
            assert_eq!(folio.update(|_| None).refs(), 2);
            assert_eq!(folio.set(Flags::DIRTY), Flags::NONE.with_refs(2));
            assert_eq!(folio.clear(Flags::REFS), Flags::DIRTY.with_refs(2));
            assert_eq!(folio.flags(), Flags::DIRTY);
        }
    }
}
