//! A pinned page whose bytes were found once, so that each use of them costs a load.

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
/// Stays on its thread. Dropping it is one atomic subtraction, and a wake-up if a thread waits for
/// the page.
#[must_use = "a pin that is dropped holds nothing"]
pub struct PinnedBytes<'a> {
    word: &'a PageWord,
    start: *const u8,
    len: usize,
}

impl<'a> PinnedBytes<'a> {
    /// Takes over a pin of the page of `word`, whose bytes begin at `start`, and shows the first
    /// `len` of them.
    ///
    /// # Safety
    /// S4, S6: the caller has pinned the page, and gives up the pin. A whole frame from `start` on
    /// holds the page's bytes while the page is pinned, and no user may write the frame.
    #[inline]
    unsafe fn new(word: &'a PageWord, start: *const u8, len: usize) -> PinnedBytes<'a> {
        PinnedBytes { word, start, len: len.min(FRAME_BYTES) }
    }

    /// Hides all bytes but the first `len`.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// The address of the page's word, which no other page has while the table lives.
    #[inline]
    pub fn word_address(&self) -> usize {
        std::ptr::from_ref(self.word).addr()
    }
}

impl PageTable {
    /// Pins the page at `index` and makes it young, if it is resident and no access of it has to
    /// ask for more than its bytes (see [`Pin::make_plain`]); shows the first `len` bytes. Returns
    /// `None` otherwise, and where [`PageRef::try_pin`] is refused.
    ///
    /// # Cost
    /// The lookup, and one compare-and-swap.
    #[inline]
    pub fn try_pin_plain(&self, index: PageIndex, len: usize) -> Option<PinnedBytes<'_>> {
        let page = self.page(index)?;
        let (word, memory) = (page.word(), page.arena().memory());
        while let Some(seen) = word.peek_plain() {
            // Before the pin, so that the address is known when the pin is had.
            let start = memory.frame_ptr(seen.resident_frame().0);
            if word.try_pin_seen(seen) {
                if !seen.is_young() {
                    page.note_touched();
                }
                // SAFETY: S4 (the word was pinned as it was seen); S50 (the word has no ASK): the
                // page's bytes are in its frame.
                return Some(unsafe { PinnedBytes::new(word, start, len) });
            }
        }
        None
    }
}

impl<'a> Pin<PageRef<'a>> {
    /// Finds the page's bytes, and keeps the pin with them; shows the first `len` of them. Panics
    /// if a region's user or another process may write the page.
    #[inline]
    pub fn into_bytes(self, len: usize) -> PinnedBytes<'a> {
        let page = self.handle.page();
        region::assert_not_writable(page);
        let (memory, place) = self.handle.place(self.frame());
        let start = memory.frame_ptr(place);
        let pin = ManuallyDrop::new(self);
        // SAFETY: S4 (the pin is not dropped), S25, S33 (asserted above): while the page is pinned,
        // its bytes stay where they are, and nothing writes them.
        unsafe { PinnedBytes::new(pin.handle.word(), start, len) }
    }
}

impl Deref for PinnedBytes<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: S4 (LOCK and pins exclude each other): while this value lives, nothing writes the
        // frame. S1: `len` bytes from `start` are in a frame. S6: the word's table keeps the
        // frame's memory alive.
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
