//! Pinned pages that share their table, so that their bytes have no lifetime.
//!
//! ```text
//!   pages    n   n+1  n+2        frames   7    8    9     adjacent: one slice
//! ```
//!
//! Only pages in frames of the arena: the bytes of other pages are in a mapping of their own.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, Range};
use std::sync::Arc;

use pagetide_core::ids::PageIndex;

use super::{Pin, Touch};
use crate::memory::frames::FRAME_BYTES;
use crate::page::table::{PageRef, PageTable};
use crate::page::wait;

/// The bytes of consecutive pages in adjacent frames, pinned until this value is dropped.
///
/// # Concurrency
/// May be shared between threads, and dropped on any. The drop is one atomic subtraction for each
/// page, and a wake-up if a thread waits for the page.
#[must_use = "a pin that is dropped holds nothing"]
pub struct PinnedRun {
    table: Arc<PageTable>,
    first: PageIndex,
    nr_pages: usize,
    start: *const u8,
    /// The bytes to show, within the pages.
    shown: Range<usize>,
}

// SAFETY: S4 (pins exclude LOCK): any thread may read pinned bytes, and drop a pin.
unsafe impl Send for PinnedRun {}
// SAFETY: S4 (pins exclude LOCK): `&PinnedRun` only reads.
unsafe impl Sync for PinnedRun {}

impl PinnedRun {
    /// Pins the page at `index` without a trace, and shows all of it. Returns `None` if
    /// [`PageRef::try_pin`] would fail, or if the page is not in a frame of the arena.
    pub fn try_new(table: &Arc<PageTable>, index: PageIndex) -> Option<PinnedRun> {
        let pin = table.page(index)?.try_pin(Touch::Quiet).ok()?;
        let start = start_of(&pin)?;
        // The new value takes over the pin.
        let _ = ManuallyDrop::new(pin);
        let table = Arc::clone(table);
        Some(PinnedRun { table, first: index, nr_pages: 1, start, shown: 0..FRAME_BYTES })
    }

    /// Pins the next page too, and shows all pages. Returns false if the next page is not in the
    /// next frame, or for the reasons of [`PinnedRun::try_new`].
    pub fn try_extend(&mut self) -> bool {
        let Some(page) = self.table.page(PageIndex(self.first.0 + self.nr_pages as u64)) else {
            return false;
        };
        let Ok(pin) = page.try_pin(Touch::Quiet) else { return false };
        let end = self.start.wrapping_add(self.nr_pages * FRAME_BYTES);
        if start_of(&pin) != Some(end) {
            return false;
        }
        // This value takes over the pin.
        let _ = ManuallyDrop::new(pin);
        self.nr_pages += 1;
        self.shown = 0..self.nr_pages * FRAME_BYTES;
        true
    }

    /// Shows only `range` of the bytes of all pages. Panics if the range leaves the pages.
    pub fn show(&mut self, range: Range<usize>) {
        let len = self.nr_pages * FRAME_BYTES;
        assert!(range.start <= range.end && range.end <= len, "S4: {range:?} of {len} bytes");
        self.shown = range;
    }
}

/// Returns the address of a page in a frame of the arena.
fn start_of(pin: &Pin<PageRef<'_>>) -> Option<*const u8> {
    let page = pin.page();
    let is_elsewhere = page.region().is_some() || page.is_in_file();
    (!is_elsewhere).then(|| page.arena().memory().frame_ptr(pin.frame().0).cast_const())
}

impl Deref for PinnedRun {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let start = self.start.wrapping_add(self.shown.start);
        // SAFETY: S4 (pins exclude LOCK): no one writes the frames while this value lives. S1: the
        // frames are adjacent in one mapping, and `show` has checked the range. S6: the table keeps
        // the frames' memory alive.
        unsafe { std::slice::from_raw_parts(start, self.shown.len()) }
    }
}

impl Drop for PinnedRun {
    fn drop(&mut self) {
        for nth in 0..self.nr_pages as u64 {
            let page = self.table.page(PageIndex(self.first.0 + nth));
            let page = page.expect("S6: a leaf once made lives as long as its table");
            if page.word().unpin() {
                wait::wake(page.word());
            }
        }
    }
}

impl fmt::Debug for PinnedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedRun({} from {}, {:?})", self.nr_pages, self.first, self.shown)
    }
}
