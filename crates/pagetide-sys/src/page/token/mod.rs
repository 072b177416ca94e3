//! The tokens: what it takes to touch a frame.
//!
//! **Problem.** A word full of bits lets any code do anything. What may read, write or take a frame
//! should be a matter of types, and outlive panics and threads.
//!
//! **Idea.** Four tokens, each the only way to its rights, each given back by its drop:
//!
//! ```text
//!   ReadTicket   nothing held       copy, then check              any number, never waits
//!   Pin          pins + 1           &[u8]                         up to 2047, excludes Lock
//!   PinnedBytes  the pin of one     &[u8], found once             as Pin
//!   Lock         LOCK               read, write, fill, install,   one, excludes Pin and tickets
//!                                   relocate, evict
//! ```
//!
//! There is no `&mut [u8]` to a frame: readers may be copying it at any time. A writer copies in,
//! with [`Lock::write`].
//!
//! **Invariants.** S4 (see `word`): a [`Lock`] excludes every other token but tickets, which
//! notice. S6: a token's [`PageHandle`] names the same word for all its life, and that word's
//! table keeps the arena alive. The trait is sealed, because a handle that changed its mind would
//! break S4.
//!
//! **Ignored.** Order among pages: code that takes two locks must have an order, or use `try_lock`.

pub use self::pinned_bytes::PinnedBytes;

use std::fmt;
use std::ops::Range;

use pagetide_core::ids::FrameId;

use crate::memory::arena::{ClaimedFrame, FrameArena};
use crate::memory::frames::FrameMemory;
use crate::page::table::{PageRef, WordRef};
use crate::page::wait;
use crate::page::word::{ClaimOutcome, LockRefused, PAYLOAD_BITS, PinRefused, Snapshot, Touch};

/// What a token holds on to its page by: [`PageRef`] borrows the table, [`WordRef`] shares it.
///
/// Sealed: a token's safety rests on its handle naming one word for ever.
pub trait PageHandle: sealed::Sealed {
    /// The page; the same at each call.
    fn page(&self) -> PageRef<'_>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::page::table::PageRef<'_> {}
    impl Sealed for crate::page::table::WordRef {}
}

impl PageHandle for PageRef<'_> {
    #[inline]
    fn page(&self) -> PageRef<'_> {
        *self
    }
}

impl PageHandle for WordRef {
    #[inline]
    fn page(&self) -> PageRef<'_> {
        WordRef::page(self)
    }
}

/// A shared hold on a resident page: while it lives the page stays in its frame, unwritten.
///
/// # Concurrency
/// Up to [`PINS_MAX`](crate::PINS_MAX) at once; may move to another thread. Dropping it is one
/// atomic subtraction, and a wake-up if a thread waits for the page.
#[must_use = "a pin that is dropped holds nothing"]
pub struct Pin<H: PageHandle> {
    handle: H,
    /// The word as the pin found it.
    seen: Snapshot,
}

impl<H: PageHandle> Pin<H> {
    /// Pins the page of `handle`.
    ///
    /// # Errors
    /// [`PinRefused`]; nothing was changed. Never waits.
    #[inline]
    pub fn try_new(handle: H, touch: Touch) -> Result<Pin<H>, PinRefused> {
        let page = handle.page();
        let seen = page.word().try_pin(touch)?;
        if touch == Touch::Young && !seen.is_young() {
            page.note_touched();
        }
        Ok(Pin { handle, seen })
    }

    /// The frame that holds the page, until the pin is dropped.
    #[inline]
    pub fn frame(&self) -> FrameId {
        self.seen.resident_frame()
    }

    /// Whether the page was marked with HINT when it was pinned.
    #[inline]
    pub fn has_hint(&self) -> bool {
        self.seen.is_hint()
    }

    /// Lets later accesses pin the page [the short way](crate::PageTable::try_pin_plain), if its
    /// bytes are in its frame. The caller has found nothing else that an access is to ask for.
    pub fn make_plain(&self) {
        let page = self.page();
        if page.region().is_none() && !page.is_in_file() {
            page.word().take_ask();
        }
    }

    /// The page pinned.
    pub fn page(&self) -> PageRef<'_> {
        self.handle.page()
    }

    /// Copies bytes of the page from `offset`; panics when the range leaves it.
    pub fn read(&self, offset: usize, target: &mut [u8]) {
        let (memory, place) = self.handle.page().place(self.frame());
        memory.read(place, offset, target);
    }

    /// The page's bytes: a whole frame of them. Panics if a region's user or another process may
    /// write it.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let page = self.handle.page();
        region::assert_not_writable(page);
        let (memory, place) = page.place(self.frame());
        // SAFETY: S4 (LOCK and pins exclude each other): while this pin lives the frame is not
        // written, nor may a region's user write it (S25); S6: the handle keeps table and arena
        // alive as long as the slice.
        unsafe { memory.bytes(place) }
    }
}

impl<H: PageHandle> Drop for Pin<H> {
    #[inline]
    fn drop(&mut self) {
        let page = self.handle.page();
        if page.word().unpin() {
            wait::wake(page.word());
        }
    }
}

impl<H: PageHandle> fmt::Debug for Pin<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({:?})", self.page())
    }
}

/// What [`Lock::try_claim`] came to.
#[derive(Debug)]
pub enum Claim<H: PageHandle> {
    /// The page is the caller's, to evict or to leave.
    Locked(Lock<H>),
    /// It was accessed since the last look; it is no longer young. Where a region's user has it
    /// mapped, its lock: it is to be [taken out](Lock::unmap_users), alone or with others, or the
    /// next access is not noticed. A page that is locked already stays young.
    Young(Option<Lock<H>>),
    /// Locked or pinned.
    Busy,
    /// Not resident.
    Gone,
}

/// The exclusive hold on a page: to fill, write, or evict it.
///
/// # Concurrency
/// One at a time; may move to another thread. Dropping it unlocks, also while panicking, and wakes
/// the threads that wait. A lock that is forgotten leaves its page locked for ever, and nothing
/// unsound.
#[must_use = "a lock that is dropped holds nothing"]
pub struct Lock<H: PageHandle> {
    /// `None` only once the lock was turned into something else.
    handle: Option<H>,
    wrote: bool,
    /// What the page is filled with goes to where it is mapped.
    goes_where_mapped: bool,
}

impl<H: PageHandle> Lock<H> {
    /// Locks the page of `handle`, in whatever state, if it is neither locked nor pinned.
    ///
    /// # Errors
    /// [`LockRefused`]; nothing was changed. Never waits.
    pub fn try_new(handle: H) -> Result<Lock<H>, LockRefused> {
        handle.page().word().try_lock()?;
        Ok(Lock::begin(handle))
    }

    /// Locks the page of `handle`; waits until it is neither locked nor pinned.
    ///
    /// A thread that has the page pinned or locked itself waits for ever. Pins go first: a page
    /// that is pinned again and again before it is let go keeps lockers out.
    pub fn new(handle: H) -> Lock<H> {
        while handle.page().word().try_lock().is_err() {
            wait::wait_while(handle.page().word(), |seen| !seen.is_free());
        }
        Lock::begin(handle)
    }

    /// The lock is had: other processes may not look until it is given back.
    #[inline]
    fn begin(handle: H) -> Lock<H> {
        let lock = Lock { handle: Some(handle), wrote: false, goes_where_mapped: false };
        if lock.arena().is_shared() {
            lock.arena().begin_change(lock.frame());
        }
        lock
    }

    /// The lock is about to be given back.
    #[inline]
    fn end(&self) {
        if self.arena().is_shared() {
            self.arena().end_change(self.frame());
        }
    }

    /// Locks the page of `handle` if it is resident, free and not young; if it is young, takes that
    /// away instead. What reclaim asks of each victim.
    pub fn try_claim(handle: H) -> Claim<H> {
        match handle.page().word().try_claim() {
            ClaimOutcome::Locked => Claim::Locked(Lock::begin(handle)),
            ClaimOutcome::Young => Claim::Young(Lock::lock_mapped(handle)),
            ClaimOutcome::Busy => Claim::Busy,
            ClaimOutcome::Gone => Claim::Gone,
        }
    }

    /// Locks a page that was young, if it is in a region user's mapping; it is young again if it
    /// is locked, as the lock's holder may be using it.
    fn lock_mapped(handle: H) -> Option<Lock<H>> {
        if !handle.page().is_mapped() {
            return None;
        }
        if handle.page().word().try_lock().is_ok() {
            return Some(Lock::begin(handle));
        }
        if handle.page().word().set_young() {
            handle.page().note_touched();
        }
        None
    }

    /// The page locked.
    pub fn page(&self) -> PageRef<'_> {
        self.handle.as_ref().expect("S6: a live lock has its handle").page()
    }

    /// The frame that holds the page, if it is resident.
    pub fn frame(&self) -> Option<FrameId> {
        self.load().frame()
    }

    /// What eviction left here, if the page is not resident.
    pub fn shadow(&self) -> Option<u64> {
        self.load().shadow()
    }

    /// Makes the page resident in the claimed frame; it stays locked, to be filled.
    ///
    /// Panics if it is resident already, or if the frame was claimed from another arena than the
    /// table's.
    pub fn install(&mut self, claimed: ClaimedFrame) {
        assert!(self.frame().is_none(), "S3: {:?} has a frame already", self.page());
        let (frame, version) = claimed.into_parts(self.arena());
        self.arena().begin_change(Some(frame));
        self.arena().name(frame, self.page().tag(), self.page().index());
        self.page().word().install(frame, version);
        self.page().note_frame(frame);
    }

    /// Takes the page out of its frame; leaves `shadow` in its place, or nothing. It stays locked.
    ///
    /// Panics if the page is not resident, or the shadow entry has more than
    /// [`PAYLOAD_BITS`] bits.
    pub fn evict(&mut self, shadow: Option<u64>) -> ClaimedFrame {
        let frame = self.resident_frame();
        assert!(shadow.unwrap_or(0) >> PAYLOAD_BITS == 0, "a shadow entry has 60 bits");
        self.arena().unname(frame);
        self.unmap_user();
        self.leave_file();
        let before = self.page().word().evict(shadow);
        self.wrote = false;
        ClaimedFrame::from_parts(frame, before.version(), self.arena())
    }

    /// Moves the page to the claimed frame, contents and all, and returns the claim on the frame it
    /// was in. The page stays locked, stays young if it was, and loses its hint. Readers that hold
    /// a ticket read again.
    ///
    /// Panics if the page is not resident, or if the frame was claimed from another arena than the
    /// table's.
    ///
    /// # Cost
    /// A copy of one frame. A region's page leaves its user's mapping first.
    pub fn relocate(&mut self, target: ClaimedFrame) -> ClaimedFrame {
        let source = self.resident_frame();
        self.take_from_file();
        let (frame, version) = target.into_parts(self.arena());
        self.arena().begin_change(Some(frame));
        self.arena().note_memory_used(frame);
        self.page().word().before_copy_in();
        self.unmap_user();
        // SAFETY: S3 (one claim a frame): the target was the caller's claim and is no page's, so it
        // is neither written nor lent elsewhere (S4); LOCK keeps writers from the source (S4), a
        // region's user among them, which has it no longer (S25).
        unsafe { self.arena().memory().copy_frame(source.0, frame.0) };
        self.arena().unname(source);
        self.arena().name(frame, self.page().tag(), self.page().index());
        let before = self.page().word().relocate(frame, version);
        self.wrote = false;
        ClaimedFrame::from_parts(source, before.version(), self.arena())
    }

    /// Replaces the shadow entry of a page that is not resident; panics if it is.
    pub fn set_shadow(&mut self, shadow: Option<u64>) {
        assert!(self.frame().is_none(), "S3: {:?} has a frame", self.page());
        assert!(shadow.unwrap_or(0) >> PAYLOAD_BITS == 0, "a shadow entry has 60 bits");
        self.page().word().evict(shadow);
    }

    /// Copies `source` to `offset` of the page's frame.
    ///
    /// Panics if the page is not resident or the range leaves the frame.
    pub fn write(&mut self, offset: usize, source: &[u8]) {
        let (memory, place) = self.place_to_write();
        // SAFETY: S4 (LOCK excludes pins and other locks), and `&mut self` excludes this lock's
        // slices.
        unsafe { memory.write(place, offset, source) };
    }

    /// Zeroes `range` of the page's frame; panics as [`write`](Self::write) does.
    pub fn fill_zero(&mut self, range: Range<usize>) {
        let (memory, place) = self.place_to_write();
        // SAFETY: S4 (LOCK excludes pins and other locks), and `&mut self` excludes this lock's
        // slices.
        unsafe { memory.fill_zero(place, range) };
    }

    /// Copies bytes of the page's frame from `offset`; panics as [`write`](Self::write) does.
    pub fn read(&self, offset: usize, target: &mut [u8]) {
        let (memory, place) = self.place();
        memory.read(place, offset, target);
    }

    /// The page's bytes, for writing them back; panics if it is not resident, or if a region's user
    /// or another process may write it.
    pub fn bytes(&self) -> &[u8] {
        region::assert_not_writable(self.page());
        let (memory, place) = self.place();
        // SAFETY: S4 (LOCK excludes other writers), S25 (a region's user among them), and the
        // borrow of `self` excludes this lock's own writes; S6: the handle keeps table and arena
        // alive as long as the slice.
        unsafe { memory.bytes(place) }
    }

    /// The frame's memory for the kernel to fill, one frame long. Counts as written from here on.
    pub(crate) fn fill_target(&mut self) -> *mut u8 {
        let (memory, place) = self.place_to_write();
        memory.frame_ptr(place)
    }

    /// As [`Lock::place`], of bytes that are about to change.
    fn place_to_write(&mut self) -> (&FrameMemory, u32) {
        self.wrote = true;
        self.take_from_readers();
        if !self.is_in_file() {
            self.arena().note_memory_used(self.resident_frame());
        }
        self.place()
    }

    /// Makes the page young, as the access it was filled for would have; needs a resident page.
    pub fn set_young(&self) {
        if self.page().word().set_young() {
            self.page().note_touched();
        }
    }

    /// Has each access of the page, which is resident, ask for more than its bytes: from now on it
    /// is not [pinned the short way](crate::PageTable::try_pin_plain).
    pub fn ask(&self) {
        self.page().word().set_ask();
    }

    /// Takes YOUNG away; returns whether the page was young. A region's user meets a fault next.
    pub fn test_and_clear_young(&self) -> bool {
        self.unmap_user();
        self.page().word().take_young().is_some()
    }

    /// Turns the lock into a pin, with no other token in between.
    ///
    /// # Errors
    /// The lock itself, if the page is not resident.
    pub fn downgrade(mut self, touch: Touch) -> Result<Pin<H>, Lock<H>> {
        let seen = self.load();
        if !seen.is_resident() {
            return Err(self);
        }
        if touch == Touch::Young {
            self.set_young();
        }
        self.end();
        let handle = self.handle.take().expect("S6: a live lock has its handle");
        let page = handle.page();
        if page.word().unlock_to_pin(self.wrote) {
            wait::wake(page.word());
        }
        Ok(Pin { handle, seen })
    }

    fn load(&self) -> Snapshot {
        self.page().load()
    }

    fn arena(&self) -> &FrameArena {
        self.page().arena()
    }

    /// Where the page's bytes are; it must be resident.
    fn place(&self) -> (&FrameMemory, u32) {
        self.page().place(self.resident_frame())
    }

    fn resident_frame(&self) -> FrameId {
        self.frame().expect("S3: only a resident page has a frame to touch")
    }
}

impl<H: PageHandle> Drop for Lock<H> {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            self.end();
            let page = handle.page();
            if page.word().unlock(self.wrote) {
                wait::wake(page.word());
            }
        }
    }
}

impl<H: PageHandle> fmt::Debug for Lock<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lock({:?})", self.page())
    }
}

mod page_file;
mod pinned_bytes;
mod region;
mod taking;

#[cfg(test)]
mod tests;
