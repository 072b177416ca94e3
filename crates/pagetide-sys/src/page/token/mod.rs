//! Tokens that permit access to a frame.
//!
//! **Problem.** A bare page word lets any code do anything. Access rights should be types that
//! survive panics and move between threads.
//!
//! **Idea.** Four tokens. Each is the only way to its rights, and its drop returns them:
//!
//! ```text
//!   ReadTicket   nothing held       copy, then check              any number, never waits
//!   Pin          pins + 1           &[u8]                         up to 2047, excludes Lock
//!   PinnedBytes  the pin of one     &[u8], found once             as Pin
//!   Lock         LOCK               read, write, fill, install,   one, excludes Pin and tickets
//!                                   relocate, evict
//! ```
//!
//! No token gives `&mut [u8]`, because readers may copy from the frame at any time. Writers use
//! [`Lock::write`].
//!
//! **Invariants.** S4 (see `word`): a [`Lock`] excludes all other tokens except tickets, which
//! detect the change. S6: a [`PageHandle`] always names the same word, and the word's table keeps
//! the arena alive. The trait is sealed, because a handle that changes its page breaks S4.
//!
//! **Ignored.** Lock order. To take two locks, define an order or use `try_lock`.

pub use self::pinned_bytes::PinnedBytes;
pub use self::pinned_run::PinnedRun;

use std::fmt;
use std::ops::Range;

use pagetide_core::ids::FrameId;

use crate::memory::arena::{ClaimedFrame, FrameArena};
use crate::memory::frames::FrameMemory;
use crate::memory::target::CopyTarget;
use crate::page::table::{PageRef, WordRef};
use crate::page::wait;
use crate::page::word::{ClaimOutcome, LockRefused, PAYLOAD_BITS, PinRefused, Snapshot, Touch};

/// A token's reference to its page. [`PageRef`] borrows the table, [`WordRef`] shares ownership.
///
/// Sealed, because tokens are sound only if a handle always names the same word.
pub trait PageHandle: sealed::Sealed {
    /// Returns the page, the same at each call.
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

/// A shared hold on a resident page, which stays in its frame, unwritten.
///
/// # Concurrency
/// Up to [`PINS_MAX`](crate::PINS_MAX) at once. May move to another thread. The drop costs one
/// atomic subtraction, and a wake-up if a thread waits.
#[must_use = "a pin that is dropped holds nothing"]
pub struct Pin<H: PageHandle> {
    handle: H,
    /// The word just before the pin.
    seen: Snapshot,
}

impl<H: PageHandle> Pin<H> {
    /// Pins the page of `handle`. Never waits.
    ///
    /// # Errors
    /// Fails with [`PinRefused`] and changes nothing.
    #[inline]
    pub fn try_new(handle: H, touch: Touch) -> Result<Pin<H>, PinRefused> {
        let page = handle.page();
        let seen = page.word().try_pin(touch)?;
        if touch == Touch::Young && !seen.is_young() {
            page.note_touched();
        }
        Ok(Pin { handle, seen })
    }

    /// Returns the frame that holds the page until the pin is dropped.
    #[inline]
    pub fn frame(&self) -> FrameId {
        self.seen.resident_frame()
    }

    /// Returns true if the page had HINT when pinned.
    #[inline]
    pub fn has_hint(&self) -> bool {
        self.seen.is_hint()
    }

    /// Enables [the short pin](crate::PageTable::try_pin_plain) for a page in its frame. The caller
    /// must know no other reason for ASK.
    pub fn make_plain(&self) {
        let page = self.page();
        if page.region().is_none() && !page.is_in_file() {
            page.word().take_ask();
        }
    }

    /// Returns the pinned page.
    pub fn page(&self) -> PageRef<'_> {
        self.handle.page()
    }

    /// Copies bytes from `offset`. Panics if the range leaves the page.
    pub fn read(&self, offset: usize, target: &mut (impl CopyTarget + ?Sized)) {
        let (memory, place) = self.handle.page().place(self.frame());
        memory.read(place, offset, target);
    }

    /// Returns the page's bytes, one whole frame.
    ///
    /// Panics if a region's user or another process may write the page.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let page = self.handle.page();
        region::assert_not_writable(page);
        let (memory, place) = page.place(self.frame());
        // SAFETY: S4 (pins exclude LOCK): no one writes the frame, not even a region's user (S25).
        // S6: the handle keeps table and arena alive as long as the slice.
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

/// The result of [`Lock::try_claim`].
#[derive(Debug)]
pub enum Claim<H: PageHandle> {
    /// The page's lock, for eviction.
    Locked(Lock<H>),
    /// YOUNG was set, and is now cleared. Holds the lock of a page that a region's user has mapped:
    /// [unmap](Lock::unmap_users) the page, or the next access goes unnoticed. If such a page is
    /// already locked, YOUNG stays set.
    Young(Option<Lock<H>>),
    /// The page is locked or pinned.
    Busy,
    /// The page is not resident.
    Gone,
}

/// The exclusive hold on a page, to fill, write or evict.
///
/// # Concurrency
/// One at a time. May move to another thread. The drop unlocks the page, even in a panic, and wakes
/// waiting threads. A forgotten lock is sound, but leaves the page locked for ever.
#[must_use = "a lock that is dropped holds nothing"]
pub struct Lock<H: PageHandle> {
    /// `None` only after the lock was converted.
    handle: Option<H>,
    wrote: bool,
    /// True if fills go to the page's mapping.
    goes_where_mapped: bool,
}

impl<H: PageHandle> Lock<H> {
    /// Locks a page in any state, if neither locked nor pinned. Never waits.
    ///
    /// # Errors
    /// Fails with [`LockRefused`] and changes nothing.
    pub fn try_new(handle: H) -> Result<Lock<H>, LockRefused> {
        handle.page().word().try_lock()?;
        Ok(Lock::begin(handle))
    }

    /// Locks a page. Waits until the page is neither locked nor pinned.
    ///
    /// Deadlocks if the thread itself holds a pin or the lock. Overlapping pins can starve a
    /// locker.
    pub fn new(handle: H) -> Lock<H> {
        while handle.page().word().try_lock().is_err() {
            wait::wait_while(handle.page().word(), |seen| !seen.is_free());
        }
        Lock::begin(handle)
    }

    /// Hides the frame from other processes.
    #[inline]
    fn begin(handle: H) -> Lock<H> {
        let lock = Lock { handle: Some(handle), wrote: false, goes_where_mapped: false };
        if lock.arena().is_shared() {
            lock.arena().begin_change(lock.frame());
        }
        lock
    }

    #[inline]
    fn end(&self) {
        if self.arena().is_shared() {
            self.arena().end_change(self.frame());
        }
    }

    /// Locks a victim that is resident, free and not young. Clears YOUNG of a young page instead.
    pub fn try_claim(handle: H) -> Claim<H> {
        match handle.page().word().try_claim() {
            ClaimOutcome::Locked => Claim::Locked(Lock::begin(handle)),
            ClaimOutcome::Young => Claim::Young(Lock::lock_mapped(handle)),
            ClaimOutcome::Busy => Claim::Busy,
            ClaimOutcome::Gone => Claim::Gone,
        }
    }

    /// Locks a page that was young and that a region's user has mapped. Restores YOUNG if the page
    /// is already locked, as the holder may be using the page.
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

    /// Returns the locked page.
    pub fn page(&self) -> PageRef<'_> {
        self.handle.as_ref().expect("S6: a live lock has its handle").page()
    }

    /// Returns the frame that holds the page, if resident.
    pub fn frame(&self) -> Option<FrameId> {
        self.load().frame()
    }

    /// Returns the shadow entry, if the page is not resident.
    pub fn shadow(&self) -> Option<u64> {
        self.load().shadow()
    }

    /// Makes the page resident in the claimed frame, still locked, to be filled.
    ///
    /// Panics if the page is resident, or the frame belongs to another arena.
    pub fn install(&mut self, claimed: ClaimedFrame) {
        assert!(self.frame().is_none(), "S3: {:?} has a frame already", self.page());
        let (frame, version) = claimed.into_parts(self.arena());
        self.arena().begin_change(Some(frame));
        self.arena().name(frame, self.page().tag(), self.page().index());
        self.page().word().install(frame, version);
        self.page().note_frame(frame);
    }

    /// Takes the page out of its frame and stores `shadow`, if any. The page stays locked.
    ///
    /// Panics if the page is not resident, or `shadow` exceeds [`PAYLOAD_BITS`] bits.
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

    /// Moves the page to the claimed frame. Returns the claim on the old frame. The page stays
    /// locked, keeps YOUNG and loses HINT. Readers with a ticket read again.
    ///
    /// Panics if the page is not resident, or the frame belongs to another arena.
    ///
    /// # Cost
    /// A copy of one frame. A region's page first leaves its user's mapping.
    pub fn relocate(&mut self, target: ClaimedFrame) -> ClaimedFrame {
        let source = self.resident_frame();
        self.take_from_file();
        let (frame, version) = target.into_parts(self.arena());
        self.arena().begin_change(Some(frame));
        self.arena().note_memory_used(frame);
        self.page().word().before_copy_in();
        self.unmap_user();
        // SAFETY: S3 (one claim a frame): no one else writes or borrows the claimed target (S4).
        // LOCK keeps writers from the source (S4), including a region's user, whose mapping lost
        // the page (S25).
        unsafe { self.arena().memory().copy_frame(source.0, frame.0) };
        self.arena().unname(source);
        self.arena().name(frame, self.page().tag(), self.page().index());
        let before = self.page().word().relocate(frame, version);
        self.wrote = false;
        ClaimedFrame::from_parts(source, before.version(), self.arena())
    }

    /// Replaces the shadow entry.
    ///
    /// Panics if the page is resident, or `shadow` exceeds [`PAYLOAD_BITS`] bits.
    pub fn set_shadow(&mut self, shadow: Option<u64>) {
        assert!(self.frame().is_none(), "S3: {:?} has a frame", self.page());
        assert!(shadow.unwrap_or(0) >> PAYLOAD_BITS == 0, "a shadow entry has 60 bits");
        self.page().word().evict(shadow);
    }

    /// Copies `source` to `offset` of the frame.
    ///
    /// Panics if the page is not resident or the range leaves the frame.
    pub fn write(&mut self, offset: usize, source: &[u8]) {
        let (memory, place) = self.place_to_write();
        // SAFETY: S4 (LOCK excludes pins and other locks). `&mut self` excludes this lock's slices.
        unsafe { memory.write(place, offset, source) };
    }

    /// Zeroes `range` of the frame. Panics as [`write`](Self::write) does.
    pub fn fill_zero(&mut self, range: Range<usize>) {
        let (memory, place) = self.place_to_write();
        // SAFETY: S4 (LOCK excludes pins and other locks). `&mut self` excludes this lock's slices.
        unsafe { memory.fill_zero(place, range) };
    }

    /// Copies bytes from `offset`. Panics as [`write`](Self::write) does.
    pub fn read(&self, offset: usize, target: &mut (impl CopyTarget + ?Sized)) {
        let (memory, place) = self.place();
        memory.read(place, offset, target);
    }

    /// Returns the page's bytes, for writeback.
    ///
    /// Panics if the page is not resident, or a region's user or another process may write the
    /// page.
    pub fn bytes(&self) -> &[u8] {
        region::assert_not_writable(self.page());
        let (memory, place) = self.place();
        // SAFETY: S4 (LOCK excludes other writers), S25 (even a region's user). The borrow of
        // `self` excludes own writes. S6: the handle keeps table and arena alive as long as the
        // slice.
        unsafe { memory.bytes(place) }
    }

    /// Returns one frame of memory for the kernel to fill. Counts as a write.
    pub(crate) fn fill_target(&mut self) -> *mut u8 {
        let (memory, place) = self.place_to_write();
        memory.frame_ptr(place)
    }

    fn place_to_write(&mut self) -> (&FrameMemory, u32) {
        self.wrote = true;
        self.take_from_readers();
        if !self.is_in_file() {
            self.arena().note_memory_used(self.resident_frame());
        }
        self.place()
    }

    /// Makes a resident page young, as an access does.
    pub fn set_young(&self) {
        if self.page().word().set_young() {
            self.page().note_touched();
        }
    }

    /// Sets ASK, which disables [the short pin](crate::PageTable::try_pin_plain). Needs a resident
    /// page.
    pub fn ask(&self) {
        self.page().word().set_ask();
    }

    /// Clears YOUNG. Returns true if YOUNG was set. The next access of a region's user faults.
    pub fn test_and_clear_young(&self) -> bool {
        self.unmap_user();
        self.page().word().take_young().is_some()
    }

    /// Converts the lock into a pin atomically.
    ///
    /// # Errors
    /// Returns the lock if the page is not resident.
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
mod pinned_run;
mod region;
mod taking;

#[cfg(test)]
mod tests;
