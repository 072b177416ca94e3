//! The frame table: one word a frame, which says what the frame is and links it into its list.
//!
//! **Problem.** The zone and every per-CPU list thread lists through the same frames, under
//! different locks, and none of them may cost a heap array of its own.
//!
//! **Idea.** A frame is on at most one list at any moment, so one word a frame is enough for all of
//! them. The owner of the frame owns the word:
//!
//! ```text
//!        zone (its lock)               per-CPU list (its lock)            caller
//!     Free(order) on a list --refill--> InPcp(order) on a list --alloc--> Allocated(order)
//!           ^   ^                            |       ^                        |    |
//!           |   +-----------drain------------+       +----------free----------+    |
//!           +------------------------free, past the per-CPU lists------------------+
//!                                             split, join: Allocated at another order
//!
//!  word:  | kind 2 | order 4 | previous 29 | next 29 |      (allocated: no links)
//! ```
//!
//! **Data and invariants.**
//! - *ownership*: the word of a block's first frame is written only by the block's owner: the
//!   holder of the zone's lock (free, offline), of the per-CPU list's lock (in it), or of the block
//!   itself. Handing a block on happens under the giver's lock, or by whatever the program uses to
//!   pass the frame along, so plain loads and stores with relaxed ordering are enough: the words
//!   are atomics only because different threads write different words of one array, and because the
//!   zone may *read* a word it does not own (is my buddy free? how long is this block?).
//! - A word it does not own can tell the zone wrong only between `Allocated` and `InPcp`, never
//!   about `Free`, nor about the order: both change only under the zone's lock.
//! - Frames after the first of a block are `Interior`.
//! - Whether free frames are under HIGH is written under the zone's lock and may be read without:
//!   a stale reading keeps a batch too many or too few.
//!
//! Cost: 8 bytes a frame, 0.2 % of the memory managed. Eight words share a
//! cache line, so CPUs that hold neighbouring frames disturb each other when they write the words.
//! Measured, on two CPUs that each took and returned frames of one line without end: 36 to 45 ns a
//! frame, where 11 to 13 are usual. Hence `pcp/hot.rs`, with which a CPU writes no word while it
//! goes up and down by eight frames at most. Deeper runs do write: twelve frames each, first come
//! and so neighbours, still take 14 ns in good moments and up to 50 in bad ones. Where a run is
//! some thousand frames, the few lines that two CPUs share do not show.
//!
//! **Deliberately ignored.** Contents: nothing here touches a frame's bytes.
//!
//! Source: our own. Linux threads the same lists through `struct page`.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::pressure::Pressure;
use crate::ids::{FrameId, Order};

/// The most frames one table describes: 1 TiB of them.
pub const FRAMES_MAX: u32 = 1 << 28;

const LINK_BITS: u32 = 29;
const LINK_MASK: u64 = (1 << LINK_BITS) - 1;
const TAG_SHIFT: u32 = 2 * LINK_BITS;
/// "No frame" in a link.
const NONE: u32 = LINK_MASK as u32;
/// An order no block has: the frame is inside a block.
const INTERIOR_TAG: u64 = 15;

const _: () = assert!(FRAMES_MAX <= NONE);
const _: () = assert!(TAG_SHIFT + 6 == u64::BITS);
const _: () = assert!((Order::MAX.0 as u64) < INTERIOR_TAG);

/// What a frame is, as its word says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameState {
    /// Inside a block, after its first frame.
    Interior,
    /// The first frame of a free block: the zone's.
    Free(Order),
    /// The first frame of an allocated block.
    Allocated(Order),
    /// The first frame of a block on a per-CPU list. Not free: the zone does not count it.
    InPcp(Order),
    /// The first frame of a block taken out of service by a shrink.
    Offline(Order),
}

impl FrameState {
    /// The order of the block that starts at `frame`, whose state this is.
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

/// What kind of list a block is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Free = 0,
    Allocated = 1,
    InPcp = 2,
    Offline = 3,
}

/// One word a frame, shared by a zone and its per-CPU lists.
///
/// # Concurrency
/// Shared by reference (an `Arc`, usually); the module's essay says which owner may write which
/// word.
#[derive(Debug)]
pub struct FrameTable {
    words: Box<[AtomicU64]>,
    /// What the zone tells the lists.
    pub(super) pressure: Pressure,
}

impl FrameTable {
    /// A table for `nr_frames` frames, all interior until a zone is laid over them.
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

    /// Frames described.
    #[inline]
    pub fn nr_frames(&self) -> u32 {
        self.words.len() as u32
    }

    /// What `frame` is.
    ///
    /// # Concurrency
    /// Exact for the frame's owner; others learn what it recently was.
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

    /// Whether the zone's free frames were at or under its HIGH watermark at the last
    /// look: an allocation that found them so, or a free that did not.
    #[inline]
    pub fn is_below_high(&self) -> bool {
        self.pressure.now().is_below_high()
    }

    /// Asserts that the block at `frame` may be freed at `order`, with a message that says why not.
    ///
    /// # Panics
    /// On a frame outside the table, a double free, a frame inside a block, or a wrong order.
    #[inline]
    pub(super) fn assert_allocated(&self, frame: FrameId, order: Order) {
        if !self.is_allocated(frame, order) {
            self.refuse_free(frame, order);
        }
    }

    /// Whether `frame` is ours, and the first of a block of this order that was handed out.
    #[inline]
    pub(super) fn is_allocated(&self, frame: FrameId, order: Order) -> bool {
        let word = self.words.get(frame.0 as usize);
        word.is_some_and(|word| word.load(Relaxed) >> TAG_SHIFT == allocated_tag(order))
    }

    /// Panics with what is wrong about freeing the block at `frame`.
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

/// What the word of a handed-out block begins with.
const fn allocated_tag(order: Order) -> u64 {
    (Kind::Allocated as u64) << 4 | order.0 as u64
}

/// A doubly linked list threaded through the table's words; head is the most recent, or hottest.
///
/// The head's link to the previous frame says nothing, so that taking a head off touches no word
/// but its own: the next one may be in a line that another CPU is writing.
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

    /// Takes the head off. Its word is stale until the caller writes the next state.
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

    /// Takes `frame` off this list. Its word is stale until the caller writes the next state.
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

    /// Walks from head to tail, checking that the links agree in both directions.
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
