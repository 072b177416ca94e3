//! A pinned page with known bytes, so that each use costs one load.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;

use pagetide_core::ids::PageIndex;

use super::{PageHandle, Pin, region};
use crate::memory::frames::FRAME_BYTES;
use crate::page::table::{PageRef, PageTable};
use crate::page::wait;
use crate::page::word::PageWord;

/// The bytes of a page that is pinned until this value is dropped.
///
/// # Concurrency
/// Stays on its thread. The drop is one atomic subtraction, and a wake-up if a thread waits for the
/// page.
#[must_use = "a pin that is dropped holds nothing"]
pub struct PinnedBytes<'a> {
    word: &'a PageWord,
    start: *const u8,
    len: usize,
}

impl<'a> PinnedBytes<'a> {
    /// Takes over a pin of the page of `word`, and shows the first `len` bytes from `start`.
    ///
    /// # Safety
    /// S4, S6: the caller passes on a pin of the page. While the page is pinned, a whole frame from
    /// `start` holds its bytes, and no user may write the frame.
    #[inline]
    unsafe fn new(word: &'a PageWord, start: *const u8, len: usize) -> PinnedBytes<'a> {
        PinnedBytes { word, start, len: len.min(FRAME_BYTES) }
    }

    /// Hides all bytes but the first `len`.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Returns the address of the page's word, unique while the table lives.
    #[inline]
    pub fn word_address(&self) -> usize {
        std::ptr::from_ref(self.word).addr()
    }
}

impl PageTable {
    /// Pins the page at `index`, makes it young, and shows the first `len` bytes. Returns `None` if
    /// the page is not resident, not [plain](Pin::make_plain), or if [`PageRef::try_pin`] would
    /// fail.
    ///
    /// # Cost
    /// The lookup, and one compare-and-swap.
    #[inline]
    pub fn try_pin_plain(&self, index: PageIndex, len: usize) -> Option<PinnedBytes<'_>> {
        let page = self.page(index)?;
        let (word, memory) = (page.word(), page.arena().memory());
        while let Some(seen) = word.peek_plain() {
            // Before the pin, so that the address is ready after the pin.
            let start = memory.frame_ptr(seen.resident_frame().0);
            if word.try_pin_seen(seen) {
                if !seen.is_young() {
                    page.note_touched();
                }
                // SAFETY: S4 (the pinned word equals `seen`). S50 (the word has no ASK): the page's
                // bytes are in its frame.
                return Some(unsafe { PinnedBytes::new(word, start, len) });
            }
        }
        None
    }
}

impl<'a> Pin<PageRef<'a>> {
    /// Converts the pin into the first `len` bytes of the page.
    ///
    /// Panics if a region's user or another process may write the page.
    #[inline]
    pub fn into_bytes(self, len: usize) -> PinnedBytes<'a> {
        let page = self.handle.page();
        region::assert_not_writable(page);
        let (memory, place) = self.handle.place(self.frame());
        let start = memory.frame_ptr(place);
        let pin = ManuallyDrop::new(self);
        // SAFETY: S4 (the pin is not dropped), S25, S33 (asserted above): while the page is pinned,
        // its bytes stay in place, and no one writes them.
        unsafe { PinnedBytes::new(pin.handle.word(), start, len) }
    }
}

impl Deref for PinnedBytes<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: S4 (pins exclude LOCK): no one writes the frame while this value lives. S1: `len`
        // bytes from `start` are in a frame. S6: the word's table keeps the frame's memory alive.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl Drop for PinnedBytes<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.word.unpin() {
            wait::wake(self.word);
        }
    }
}

impl fmt::Debug for PinnedBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBytes({:?}, {} bytes)", self.word.load(), self.len)
    }
}
