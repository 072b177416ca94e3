//! The frame table: one word per frame, with the state and list links.
//!
//! **Problem.** The zone and all per-CPU lists link the same frames under different locks.
//!
//! **Idea.** A frame is on at most one list, so one word is enough. The owner of the frame owns the
//! word:
//!
//! ```text
//!        zone (its lock)               per-CPU list (its lock)            caller
//!     Free(order) on a list --refill--> InPcp(order) on a list --alloc--> Allocated(order)
//!           ^   ^                            |       ^                        |    |
//!           |   +-----------drain------------+       +----------free----------+    |
//!           +------------------------free, bypassing the lists---------------------+
//!                                             split, join: another order
//!
//!  word:  | kind 2 | order 4 | previous 29 | next 29 |      (allocated: no links)
//! ```
//!
//! **Data and invariants.**
//! - *ownership*: only a block's owner writes the word of the first frame: the holder of the zone's
//!   lock (free, offline), of the per-CPU list's lock, or of the block. Ownership passes under the
//!   giver's lock, or with the frame, so relaxed loads and stores suffice. The words are atomics
//!   because threads write different words of one array, and because the zone *reads* words of
//!   other owners.
//! - A stale read may confuse `Allocated` and `InPcp`, never `Free` or the order, which change only
//!   under the zone's lock.
//! - Later frames of a block are `Interior`.
//! - The below-HIGH flag is written under the zone's lock and read without. A stale read costs a
//!   batch.
//!
//! **Cost.** 8 bytes a frame, 0.2 % of the memory. Eight words share a cache line. Two CPUs that
//! take and return frames of one line need 36 to 45 ns a frame instead of 11 to 13. `pcp/hot.rs`
//! avoids the writes for runs of up to eight frames. Runs of twelve neighbouring frames take 14 to
//! 50 ns.
//!
//! **Ignored.** Contents of the frames.
//!
//! **Source.** Original. Linux threads the same lists through `struct page`.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::pressure::Pressure;
use crate::ids::{FrameId, Order};

/// Maximum frames per table: 1 TiB.
pub const FRAMES_MAX: u32 = 1 << 28;

const LINK_BITS: u32 = 29;
const LINK_MASK: u64 = (1 << LINK_BITS) - 1;
const TAG_SHIFT: u32 = 2 * LINK_BITS;
const NONE: u32 = LINK_MASK as u32;
/// Invalid order, for frames inside a block.
const INTERIOR_TAG: u64 = 15;

const _: () = assert!(FRAMES_MAX <= NONE);
const _: () = assert!(TAG_SHIFT + 6 == u64::BITS);
const _: () = assert!((Order::MAX.0 as u64) < INTERIOR_TAG);

/// State of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameState {
    /// Inside a block, after the first frame.
    Interior,
    /// First frame of a free block.
    Free(Order),
    /// First frame of an allocated block.
    Allocated(Order),
    /// First frame of a block on a per-CPU list. Not counted as free.
    InPcp(Order),
    /// First frame of a block removed by a shrink.
    Offline(Order),
}

impl FrameState {
    pub(super) fn order_of_head(self, frame: FrameId) -> Order {
        match self {
            FrameState::Free(order)
            | FrameState::Allocated(order)
            | FrameState::InPcp(order)
            | FrameState::Offline(order) => order,
            FrameState::Interior => panic!("a block should start at {frame}, which is inside one"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Free = 0,
    Allocated = 1,
    InPcp = 2,
    Offline = 3,
}

/// One word per frame, shared by a zone and its per-CPU lists.
///
/// # Concurrency
/// Shared by reference. See the module for write ownership.
#[derive(Debug)]
pub struct FrameTable {
    words: Box<[AtomicU64]>,
    /// Pressure reported by the zone to the lists.
    pub(super) pressure: Pressure,
}

impl FrameTable {
    /// Creates a table of interior frames. A zone sets the states.
    pub(super) fn new(nr_frames: u32) -> FrameTable {
        assert!(
            (1..=FRAMES_MAX).contains(&nr_frames),
            "a zone holds 1 to {FRAMES_MAX} frames, not {nr_frames}"
        );
        FrameTable {
            words: (0..nr_frames).map(|_| AtomicU64::new(INTERIOR_TAG << TAG_SHIFT)).collect(),
            pressure: Pressure::default(),
        }
    }

    /// Returns the number of frames.
    #[inline]
    pub fn nr_frames(&self) -> u32 {
        self.words.len() as u32
    }

    /// Calls `prefetch` with the word of `frame`, which is about to be freed. A hint.
    #[inline]
    pub fn prefetch(&self, frame: FrameId, prefetch: fn(&AtomicU64)) {
        prefetch(&self.words[frame.0 as usize]);
    }

    /// Returns the state of `frame`.
    ///
    /// # Concurrency
    /// Exact for the owner, possibly stale for other threads.
    #[inline]
    pub fn state(&self, frame: FrameId) -> FrameState {
        let tag = self.word(frame) >> TAG_SHIFT;
        if tag == INTERIOR_TAG {
            return FrameState::Interior;
        }
        let order = Order((tag & 15) as u8);
        match tag >> 4 {
            0 => FrameState::Free(order),
            1 => FrameState::Allocated(order),
            2 => FrameState::InPcp(order),
            _ => FrameState::Offline(order),
        }
    }

    /// Returns true if free frames were last seen at or below HIGH.
    #[inline]
    pub fn is_below_high(&self) -> bool {
        self.pressure.now().is_below_high()
    }

    /// Asserts that the block at `frame` may be freed at `order`.
    ///
    /// # Panics
    /// On a frame outside the table or inside a block, a double free, or a wrong order.
    #[inline]
    pub(super) fn assert_allocated(&self, frame: FrameId, order: Order) {
        if !self.is_allocated(frame, order) {
            self.refuse_free(frame, order);
        }
    }

    /// Returns true if `frame` is the first of an allocated block of this order.
    #[inline]
    pub(super) fn is_allocated(&self, frame: FrameId, order: Order) -> bool {
        let word = self.words.get(frame.0 as usize);
        word.is_some_and(|word| word.load(Relaxed) >> TAG_SHIFT == allocated_tag(order))
    }

    #[cold]
    fn refuse_free(&self, frame: FrameId, order: Order) -> ! {
        let nr_frames = self.nr_frames();
        assert!(
            frame.0 < nr_frames,
            "foreign free: {frame} is outside this zone's {nr_frames} frames"
        );
        match self.state(frame) {
            FrameState::Allocated(allocated) => {
                panic!("{frame} was allocated at order {allocated} but is freed at order {order}")
            }
            FrameState::Interior => {
                panic!("{frame} freed, but it is no block's first frame: a double or partial free")
            }
            FrameState::Free(_) => panic!("double free: {frame} is free in the zone already"),
            FrameState::InPcp(_) => panic!("double free: {frame} is on a per-CPU list already"),
            FrameState::Offline(_) => panic!("foreign free: {frame} is offline"),
        }
    }

    pub(super) fn set_interior(&self, frame: FrameId) {
        self.set_word(frame, INTERIOR_TAG << TAG_SHIFT);
    }

    #[inline]
    pub(super) fn set_allocated(&self, frame: FrameId, order: Order) {
        self.set_word(frame, allocated_tag(order) << TAG_SHIFT);
    }

    #[inline]
    fn set_listed(&self, frame: FrameId, kind: Kind, order: Order, previous: u32, next: u32) {
        debug_assert!(kind != Kind::Allocated, "allocated blocks are on no list");
        let tag = (kind as u64) << 4 | u64::from(order.0);
        let links = u64::from(previous) << LINK_BITS | u64::from(next);
        self.set_word(frame, tag << TAG_SHIFT | links);
    }

    fn next(&self, frame: u32) -> u32 {
        (self.word(FrameId(frame)) & LINK_MASK) as u32
    }

    fn previous(&self, frame: u32) -> u32 {
        (self.word(FrameId(frame)) >> LINK_BITS & LINK_MASK) as u32
    }

    fn set_next(&self, frame: u32, next: u32) {
        let word = self.word(FrameId(frame)) & !LINK_MASK;
        self.set_word(FrameId(frame), word | u64::from(next));
    }

    fn set_previous(&self, frame: u32, previous: u32) {
        let word = self.word(FrameId(frame)) & !(LINK_MASK << LINK_BITS);
        self.set_word(FrameId(frame), word | u64::from(previous) << LINK_BITS);
    }

    #[inline]
    fn word(&self, frame: FrameId) -> u64 {
        self.words[frame.0 as usize].load(Relaxed)
    }

    #[inline]
    fn set_word(&self, frame: FrameId, word: u64) {
        self.words[frame.0 as usize].store(word, Relaxed);
    }
}

const fn allocated_tag(order: Order) -> u64 {
    (Kind::Allocated as u64) << 4 | order.0 as u64
}

/// A doubly linked list in the table's words. The head is the most recent.
///
/// The head's previous link is undefined, so that a pop touches no other word.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameList {
    head: u32,
    tail: u32,
}

impl FrameList {
    pub(super) const EMPTY: FrameList = FrameList { head: NONE, tail: NONE };

    pub(super) const fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(super) fn head(&self) -> Option<FrameId> {
        (self.head != NONE).then_some(FrameId(self.head))
    }

    pub(super) fn tail(&self) -> Option<FrameId> {
        (self.tail != NONE).then_some(FrameId(self.tail))
    }

    /// Removes the head. The caller then writes its state.
    #[inline]
    pub(super) fn pop_head(&mut self, table: &FrameTable) -> Option<FrameId> {
        let head = self.head()?;
        self.head = table.next(head.0);
        if self.head == NONE {
            self.tail = NONE;
        }
        Some(head)
    }

    #[inline]
    pub(super) fn push_head(
        &mut self,
        table: &FrameTable,
        frame: FrameId,
        kind: Kind,
        order: Order,
    ) {
        table.set_listed(frame, kind, order, NONE, self.head);
        match self.head {
            NONE => self.tail = frame.0,
            head => table.set_previous(head, frame.0),
        }
        self.head = frame.0;
    }

    pub(super) fn push_tail(
        &mut self,
        table: &FrameTable,
        frame: FrameId,
        kind: Kind,
        order: Order,
    ) {
        table.set_listed(frame, kind, order, self.tail, NONE);
        match self.tail {
            NONE => self.head = frame.0,
            tail => table.set_next(tail, frame.0),
        }
        self.tail = frame.0;
    }

    /// Removes `frame`. The caller then writes its state.
    pub(super) fn remove(&mut self, table: &FrameTable, frame: FrameId) {
        if self.head == frame.0 {
            self.pop_head(table);
            return;
        }
        let (previous, next) = (table.previous(frame.0), table.next(frame.0));
        table.set_next(previous, next);
        match next {
            NONE => self.tail = previous,
            _ => table.set_previous(next, previous),
        }
    }

    pub(super) fn validate(&self, table: &FrameTable, mut visit: impl FnMut(FrameId)) {
        let mut previous = NONE;
        let mut frame = self.head;
        let mut nr_seen = 0;
        while frame != NONE {
            assert!(nr_seen < table.nr_frames(), "a list loops through {}", FrameId(frame));
            if frame != self.head {
                assert_eq!(table.previous(frame), previous, "back link of {}", FrameId(frame));
            }
            visit(FrameId(frame));
            nr_seen += 1;
            previous = frame;
            frame = table.next(frame);
        }
        assert_eq!(self.tail, previous, "a list's tail is the last frame linked");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn frames_of(list: &FrameList, table: &FrameTable) -> Vec<u32> {
        let mut frames = Vec::new();
        list.validate(table, |frame| frames.push(frame.0));
        frames
    }

    #[test]
    fn words_keep_state_and_links_apart() {
        let table = FrameTable::new(8);
        for order in (0..=Order::MAX.0).map(Order) {
            for (kind, state) in [
                (Kind::Free, FrameState::Free(order)),
                (Kind::InPcp, FrameState::InPcp(order)),
                (Kind::Offline, FrameState::Offline(order)),
            ] {
                table.set_listed(FrameId(3), kind, order, FRAMES_MAX - 1, NONE);
                assert_eq!(table.state(FrameId(3)), state);
                assert_eq!((table.previous(3), table.next(3)), (FRAMES_MAX - 1, NONE));
                table.set_previous(3, 5);
                table.set_next(3, FRAMES_MAX - 1);
                assert_eq!(table.state(FrameId(3)), state);
                assert_eq!((table.previous(3), table.next(3)), (5, FRAMES_MAX - 1));
            }
            table.set_allocated(FrameId(3), order);
            assert_eq!(table.state(FrameId(3)), FrameState::Allocated(order));
        }
        table.set_interior(FrameId(3));
        assert_eq!(table.state(FrameId(3)), FrameState::Interior);
    }

    #[test]
    fn lists_take_from_both_ends_and_the_middle() {
        let table = FrameTable::new(8);
        let mut list = FrameList::EMPTY;
        for frame in [2, 1, 0] {
            list.push_head(&table, FrameId(frame), Kind::Free, Order(0));
        }
        list.push_tail(&table, FrameId(3), Kind::Free, Order(0));
        assert_eq!(frames_of(&list, &table), [0, 1, 2, 3]);
        list.remove(&table, FrameId(1));
        assert_eq!(frames_of(&list, &table), [0, 2, 3]);
        list.remove(&table, FrameId(0));
        list.remove(&table, FrameId(3));
        assert_eq!((list.head(), list.tail()), (Some(FrameId(2)), Some(FrameId(2))));
        list.remove(&table, FrameId(2));
        assert!(list.is_empty() && list.tail().is_none());
        list.push_tail(&table, FrameId(7), Kind::InPcp, Order(0));
        assert_eq!(frames_of(&list, &table), [7]);
    }
}
