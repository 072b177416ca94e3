//! What a lock does to a page that other processes map: its bytes go to the memory file, and back.
//!
//! Invariant S33: everything here has the page's lock; as `&mut` where bytes change their place, so
//! that no slice of the lock's own lives.

use super::{Lock, PageHandle};
use crate::fault::uffd::UffdError;

impl<H: PageHandle> Lock<H> {
    /// Whether the page's bytes are where other processes map them.
    pub fn is_in_file(&self) -> bool {
        self.page().is_in_file()
    }

    /// Puts the resident page where other processes map it, in its table's memory file, and gives
    /// its frame's own memory back to the system. Does nothing the second time.
    ///
    /// Panics if the page is not resident, or its table has no memory file with a place for it.
    ///
    /// # Errors
    /// [`UffdError::Call`]: memory is short; the page is where it was.
    ///
    /// # Cost
    /// Two system calls, and a copy of the page.
    pub fn put_in_file(&mut self) -> Result<(), UffdError> {
        if self.is_in_file() {
            return Ok(());
        }
        let frame = self.resident_frame();
        self.wrote = true;
        let page = self.page();
        let file = page.page_file().expect("S33: only a table with a memory file has pages there");
        let number = page.index().0;
        assert!(number < file.nr_pages(), "S33: page {number} of {}", file.nr_pages());
        let memory = self.arena().memory();
        let source = memory.frame_ptr(frame.0).expose_provenance();
        // Views look into frames.
        self.arena().unname(frame);
        // SAFETY: S33 (this is the lock, and `&mut self` excludes its slices): the page's bytes are
        // in its frame.
        let put = unsafe { file.put(number as u32, source) };
        if put.is_err() {
            self.arena().name(frame, page.tag(), page.index());
            return put;
        }
        // SAFETY: S4: the frame is the locked page's, and its bytes are elsewhere. What cannot be
        // given back is counted twice until the frame is used again.
        let _ = unsafe { memory.discard(frame.0..frame.0 + 1) };
        Ok(())
    }

    /// Takes the page back into its frame, if its bytes are in the memory file: no process has it
    /// mapped then.
    pub fn take_from_file(&mut self) {
        let page = self.page();
        let Some(file) = page.page_file().filter(|_| self.is_in_file()) else { return };
        let frame = self.resident_frame();
        let number = page.index().0 as u32;
        // SAFETY: S33: it is here until it is punched, and the lock keeps writers away.
        let bytes = unsafe { file.memory().bytes(number) };
        // SAFETY: S4: the frame is the locked page's, and its bytes are elsewhere.
        unsafe { self.arena().memory().write(frame.0, 0, bytes) };
        // SAFETY: S33 (this is the lock): the bytes are in the frame.
        unsafe { file.punch(number) };
        self.arena().name(frame, page.tag(), page.index());
        self.wrote = true;
    }

    /// The page is about to leave its frame: what is in the memory file goes.
    pub(super) fn leave_file(&self) {
        let page = self.page();
        if let Some(file) = page.page_file().filter(|_| self.is_in_file()) {
            // SAFETY: S33 (this is the lock): the page is about to be absent.
            unsafe { file.punch(page.index().0 as u32) };
        }
    }
}
