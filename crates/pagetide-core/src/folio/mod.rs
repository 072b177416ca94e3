//! Folio descriptors: the state of each frame's contents.
//!
//! **Problem.** A hit records an access without a lock, while reclaim moves the same folio between
//! lists.
//!
//! **Idea.** One 64-byte descriptor per frame, a cache line, in parts with different owners:
//!
//! ```text
//!   flags (u64)    any thread, atomically: generation, references, dirty, writeback, list state
//!   hits           any thread, not atomically: one of two concurrent changes may be lost
//!   prev, next     the holder of the lruvec's lock, while the folio is on a list
//!   mapping, index the holder of the frame, set once when the folio is bound to a page
//!   group          the same, when the group is charged for the frame
//!   stamp          the holder of the lruvec's lock: private to the policy
//!   hint_stamp     the holder of the page word's hint: time of the last table scan
//!   heat           the same: estimate from the latencies after a scan
//! ```
//!
//! All descriptors share one number, the tick. A hit logs nothing if its folio has the current
//! tick, so a policy that needs one log entry per period starts a new tick.
//!
//! **Data and invariants.** A folio is in at most one of the states pending, listed and isolated
//! ([`Flags::PENDING`], [`Flags::ON_LIST`], [`Flags::ISOLATED`]). A free frame is in none. `GEN` is
//! 0 except on a generation's list.
//!
//! With one thread ([`Folios::for_one_thread`]), flag changes are a load and a store: a locked
//! instruction costs as much as twenty plain ones. All fields are atomics, because the crate has no
//! unsafe code. Relaxed access under a lock costs no more than plain access.
//!
//! **Ignored.** Large folios, and contents.

use crate::ids::{FrameId, GroupId, MappingId, PageId, PageIndex, PageType};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

mod flags;
mod hits;

pub use flags::Flags;
pub use hits::Hits;

/// Hint stamp of a page not scanned since its last move.
pub const HINT_STAMP_RESET: u32 = u32::MAX;

/// One frame's descriptor, from [`Folios`].
#[repr(align(64))]
pub struct Folio {
    flags: AtomicU64,
    index: AtomicU64,
    mapping: AtomicU32,
    pub(crate) prev: AtomicU32,
    pub(crate) next: AtomicU32,
    group: AtomicU16,
    is_shared: bool,
    hits: AtomicU32,
    /// Owned by the policy. Invalid until set.
    pub(crate) stamp: AtomicU32,
    hint_stamp: AtomicU32,
    /// See `tiering::auto`. 0 is unknown.
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

    /// Binds the frame to `page` with type and `flags`. Clears other flags and the hint stamp.
    ///
    /// The caller owns the frame, in no page word yet.
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

    /// Binds the frame to the page of `from`, with type, group and [`Flags::KEPT_ON_MOVE`]. Adds
    /// `flags` and resets the hint stamp.
    ///
    /// The caller owns both frames. The page is not accessed until its word names this frame.
    pub fn bind_moved(&self, from: &Folio, flags: Flags) {
        let before = from.flags();
        let kept = Flags(before.0 & Flags::KEPT_ON_MOVE.0);
        self.bind(from.page(), before.page_type(), kept.with(flags));
        self.set_group(from.group());
        self.set_heat(from.heat());
    }

    /// Returns the page in the frame. Stable while the folio is isolated or its word locked.
    #[inline]
    pub fn page(&self) -> PageId {
        PageId {
            mapping: MappingId(self.mapping.load(Relaxed)),
            index: PageIndex(self.index.load(Relaxed)),
        }
    }

    /// Returns the group that pays for the frame. Stable as [`Folio::page`].
    #[inline]
    pub fn group(&self) -> GroupId {
        GroupId(self.group.load(Relaxed))
    }

    /// Sets the group that pays, by default the root. The caller owns the frame.
    #[inline]
    pub fn set_group(&self, group: GroupId) {
        self.group.store(group.0, Relaxed);
    }

    /// Returns the time of the last arming, in ms modulo 2^32, or [`HINT_STAMP_RESET`].
    pub fn hint_stamp(&self) -> u32 {
        self.hint_stamp.load(Relaxed)
    }

    /// Stores a stamp and returns the old one. The caller holds the page's hint.
    pub fn swap_hint_stamp(&self, stamp: u32) -> u32 {
        self.hint_stamp.swap(stamp, Relaxed)
    }

    pub(crate) fn heat(&self) -> u32 {
        self.heat.load(Relaxed)
    }

    /// Follows the rule of [`Folio::swap_hint_stamp`].
    pub(crate) fn set_heat(&self, heat: u32) {
        self.heat.store(heat, Relaxed);
    }

    /// Returns a snapshot of the flags.
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags(self.flags.load(Relaxed))
    }

    /// Sets the flags of `mask`. Returns the old flags.
    #[inline]
    pub fn set(&self, mask: Flags) -> Flags {
        if !self.is_shared {
            return self.replace(|flags| flags.with(mask));
        }
        Flags(self.flags.fetch_or(mask.0, Relaxed))
    }

    /// Clears the flags of `mask`. Returns the old flags.
    #[inline]
    pub fn clear(&self, mask: Flags) -> Flags {
        if !self.is_shared {
            return self.replace(|flags| flags.without(mask));
        }
        Flags(self.flags.fetch_and(!mask.0, Relaxed))
    }

    /// Replaces the flags atomically, unless `change` returns `None`. Returns the old flags.
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

    /// Same, without concurrent changes.
    #[inline]
    fn replace(&self, change: impl FnOnce(Flags) -> Flags) -> Flags {
        let before = self.flags();
        self.flags.store(change(before).0, Relaxed);
        before
    }

    /// Returns the hits counted by [`AccessRule::mark`].
    ///
    /// [`AccessRule::mark`]: crate::lru::AccessRule::mark
    #[inline]
    pub fn hits(&self) -> Hits {
        Hits(self.hits.load(Relaxed))
    }

    /// Stores the hits. A concurrent hit may be lost.
    #[inline]
    pub fn set_hits(&self, hits: Hits) {
        self.hits.store(hits.0, Relaxed);
    }
}

/// All descriptors, indexed by frame. 64 bytes a frame, 1.6 % of the memory.
pub struct Folios {
    slots: Box<[Folio]>,
    prefetch: Prefetch,
    /// Never 0. Boxed, so that descriptor writes do not force a reload of this struct.
    tick: Box<AtomicU16>,
}

/// Prefetches a descriptor for writing. A hint.
pub type Prefetch = fn(&Folio);

impl Folios {
    /// Creates descriptors for `nr_frames` free frames.
    pub fn new(nr_frames: u32) -> Folios {
        Folios::with_prefetch(nr_frames, |_| ())
    }

    /// Same as [`Folios::new`], with a prefetch function.
    pub fn with_prefetch(nr_frames: u32, prefetch: Prefetch) -> Folios {
        let slots = (0..nr_frames).map(|_| Folio::unused(true)).collect();
        Folios { slots, prefetch, tick: first_tick() }
    }

    /// Same as [`Folios::new`], faster. Concurrent changes may be lost.
    pub fn for_one_thread(nr_frames: u32) -> Folios {
        let slots = (0..nr_frames).map(|_| Folio::unused(false)).collect();
        Folios { slots, prefetch: |_| (), tick: first_tick() }
    }

    /// Returns the current tick, never 0.
    #[inline]
    pub fn tick(&self) -> u16 {
        self.tick.load(Relaxed)
    }

    /// Starts a new tick: the next access of each folio is logged again, for all lruvecs over the
    /// folios.
    pub fn end_tick(&self) {
        let after = |tick: u16| Some(tick.wrapping_add(1).max(1));
        let _ = self.tick.fetch_update(Relaxed, Relaxed, after);
    }

    /// Prefetches a frame's descriptor for writing.
    #[inline]
    pub fn prefetch(&self, frame: FrameId) {
        (self.prefetch)(&self[frame]);
    }

    /// Returns the descriptors, by frame.
    #[inline]
    pub fn as_slice(&self) -> &[Folio] {
        &self.slots
    }

    /// Returns a frame's descriptor, or `None` past the last.
    #[inline]
    pub fn get(&self, frame: FrameId) -> Option<&Folio> {
        self.slots.get(frame.0 as usize)
    }

    /// Returns the number of frames.
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
