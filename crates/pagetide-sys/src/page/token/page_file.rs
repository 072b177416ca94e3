//! Moves of a locked page's bytes between its frame and the memory file that other processes map.
//!
//! Invariant S33: every function has the page's lock, as `&mut` if bytes move, so that no slice of
//! the lock lives.

use super::{Lock, PageHandle};
use crate::fault::page_file::PageFile;
use crate::fault::region::UserAccess;
use crate::fault::uffd::{StoreFault, UffdError};
use crate::memory::frames::FRAME_BYTES;
use std::ops::Range;

/// Maximum number of pages in one batch.
const TOGETHER: usize = 256;

impl<H: PageHandle> Lock<H> {
    /// Returns true if the page's bytes are in the memory file.
    pub fn is_in_file(&self) -> bool {
        self.page().is_in_file()
    }

    /// Lets queued reads fill the page directly in the mapping of other processes or of a region's
    /// user, if possible. The frame then has no memory.
    pub fn fill_where_mapped(&mut self) {
        self.goes_where_mapped = true;
    }

    /// Returns true if a fill goes to the mapping now.
    pub(crate) fn goes_where_mapped(&self) -> bool {
        let has_place = |file: &PageFile| file.is_open() && self.page().index().0 < file.nr_pages();
        let is_regions = || self.page().region().is_some() && !self.is_where_mapped();
        self.goes_where_mapped && (self.page().page_file().is_some_and(has_place) || is_regions())
    }

    /// Returns true if the page's bytes are in a mapping, not in the frame.
    pub fn is_where_mapped(&self) -> bool {
        self.is_in_file() || self.user_access() != UserAccess::None
    }

    /// Fills consecutive resident pages with `bytes` in their mapping, read-only. The caller must
    /// write pages that are then not [in place](Lock::is_where_mapped).
    ///
    /// Panics if a page is not resident, is in place, or is out of order, or if the length of
    /// `bytes` differs.
    pub(crate) fn put_where_mapped(pages: &mut [Lock<H>], bytes: &[u8]) {
        match pages.first() {
            Some(first) if first.page().region().is_some() => {
                Lock::fill_users(pages.iter_mut(), bytes, false);
            }
            // The caller writes missing pages.
            _ => drop(Lock::put_bytes_in_file(pages, bytes)),
        }
    }

    /// Moves resident pages into their table's memory file, and frees the frames' memory. Skips
    /// pages in the file.
    ///
    /// Panics if a page is not resident, or if the table has no memory file with a place for the
    /// page.
    ///
    /// # Errors
    /// Fails with [`UffdError::Call`] if memory is short. The remaining pages stay in their frames.
    ///
    /// # Cost
    /// A copy of each page, and two system calls for each run of consecutive pages in consecutive
    /// frames.
    pub fn put_in_file(pages: &mut [Lock<H>]) -> Result<(), UffdError> {
        let follows = |one: &Lock<H>, next: &Lock<H>| {
            let frames = [one, next].map(|lock| lock.resident_frame().0);
            !one.is_in_file()
                && !next.is_in_file()
                && one.page().index().0 + 1 == next.page().index().0
                && frames[0] + 1 == frames[1]
        };
        for pages in pages.chunks_mut(TOGETHER) {
            let (mut frames, mut nr_frames) = ([0; TOGETHER], 0);
            let runs = pages.chunk_by_mut(follows).filter(|run| !run[0].is_in_file());
            let mut runs = runs.map(|run| {
                let put = Lock::put_frames(run);
                for page in run.iter().filter(|page| page.is_in_file()) {
                    frames[nr_frames] = page.resident_frame().0;
                    nr_frames += 1;
                }
                put
            });
            let put = runs.try_for_each(|put| put);
            if let Some(first) = pages.first() {
                // SAFETY: S4: the frames belong to locked pages, and the bytes are elsewhere.
                unsafe { first.arena().give_back_memory(&mut frames[..nr_frames]) };
            }
            put?;
        }
        Ok(())
    }

    /// Puts consecutive pages in consecutive frames into the memory file.
    fn put_frames(run: &mut [Lock<H>]) -> Result<(), UffdError> {
        let first = run[0].resident_frame();
        let source = run[0].arena().memory().frame_ptr(first.0).expose_provenance();
        // SAFETY: S33 (these are the locks, and `&mut` excludes their slices): the pages' bytes are
        // in their frames, which follow each other.
        unsafe { Lock::put_from(run, source) }
    }

    /// Fills consecutive resident pages with `bytes` in the memory file. Leaves the frames
    /// unwritten, and frees their memory.
    ///
    /// Panics if a page is not resident, is in the file, or is out of order, or if the length of
    /// `bytes` differs.
    ///
    /// # Errors
    /// Fails with [`UffdError::Call`] if memory is short. Pages outside the file remain to be
    /// filled.
    ///
    /// # Cost
    /// At most two system calls, and a copy.
    pub fn put_bytes_in_file(pages: &mut [Lock<H>], bytes: &[u8]) -> Result<(), UffdError> {
        assert_eq!(bytes.len(), pages.len() * FRAME_BYTES, "S33: bytes for all pages");
        // SAFETY: S33 (these are the locks): the bytes live through the call.
        let put = unsafe { Lock::put_from(pages, bytes.as_ptr().expose_provenance()) };
        for pages in pages.chunks_mut(TOGETHER) {
            let (mut frames, mut nr_frames) = ([0; TOGETHER], 0);
            for page in pages.iter().filter(|page| page.is_in_file()) {
                frames[nr_frames] = page.resident_frame().0;
                nr_frames += 1;
            }
            if let Some(first) = pages.first() {
                // SAFETY: S4: the frames belong to locked pages, and the bytes are elsewhere.
                unsafe { first.arena().give_back_memory(&mut frames[..nr_frames]) };
            }
        }
        put
    }

    /// # Safety
    /// S33: the bytes of the consecutive pages begin at `source`.
    unsafe fn put_from(pages: &mut [Lock<H>], source: usize) -> Result<(), UffdError> {
        let Some(first) = pages.first() else { return Ok(()) };
        let (index, nr) = (first.page().index().0, pages.len() as u64);
        for (nth, page) in pages.iter_mut().enumerate() {
            let frame = page.resident_frame();
            let follows = page.page().index().0 == index + nth as u64;
            assert!(follows && !page.is_in_file(), "S33: {page:?} is not to be put there");
            page.wrote = true;
            page.ask();
            // Other processes must not read the frame any more.
            page.arena().unname(frame);
        }
        let one = pages[0].page();
        let file = one.page_file().expect("S33: only a table with a memory file has pages there");
        assert!(index + nr <= file.nr_pages(), "S33: page {index} of {}", file.nr_pages());
        let numbers = index as u32..(index + nr) as u32;
        // SAFETY: S33, by this function's contract.
        let put = unsafe { file.put(numbers, source) };
        if put.is_err() {
            for page in pages.iter().filter(|page| !page.is_in_file()) {
                page.arena().name(page.resident_frame(), page.page().tag(), page.page().index());
            }
        }
        put
    }

    /// Lets another process that maps the memory file store to the page.
    ///
    /// Panics if the page is not in the file, or the file is not [prepared for
    /// writers](PageFile::prepare_writers).
    pub fn let_write(&mut self, fault: &StoreFault<'_>) {
        assert!(self.is_in_file(), "S33: {self:?} is where it is mapped");
        self.wrote = true;
        let page = self.page();
        let file = page.page_file().expect("S33: it is in one");
        // SAFETY: S33 (this is the lock, and `&mut self` excludes its slices).
        unsafe { file.let_write(page.index().0 as u32, fault) };
    }

    /// Returns pages to their frames, with the last stores, if other processes may be storing to
    /// them. Skips all other pages.
    ///
    /// # Cost
    /// Three system calls for up to 64 consecutive pages, and two copies of each page.
    pub fn take_written_from_file(pages: &mut [Lock<H>]) {
        let follows = |one: &Lock<H>, next: &Lock<H>| {
            let (one, next) = (one.page(), next.page());
            one.is_written_in_file() == next.is_written_in_file()
                && one.index().0 + 1 == next.index().0
        };
        for run in pages.chunk_by_mut(follows).filter(|run| run[0].page().is_written_in_file()) {
            run.iter_mut().for_each(|lock| lock.wrote = true);
            let first = run[0].page();
            let file = first.page_file().expect("S33: they are in one");
            let start = first.index().0 as u32;
            let to_frame = |page: u32, bytes: &[u8]| {
                let lock = &run[(page - start) as usize];
                let frame = lock.resident_frame();
                lock.arena().note_memory_used(frame);
                // SAFETY: S4: the frame belongs to the locked page, and the bytes are elsewhere.
                unsafe { lock.arena().memory().write(frame.0, 0, bytes) };
                lock.arena().name(frame, lock.page().tag(), lock.page().index());
            };
            // SAFETY: S33 (these are the locks): the bytes go to the frames.
            unsafe { file.take_out(start..start + run.len() as u32, to_frame) };
        }
    }

    /// Moves a page in the memory file back into its frame, out of all mappings.
    pub fn take_from_file(&mut self) {
        Lock::take_all_from_file(std::slice::from_mut(self));
    }

    /// Moves pages in the memory file back into their frames, out of all mappings. Skips all other
    /// pages.
    ///
    /// # Cost
    /// A copy of each page, and a system call for each run of consecutive pages. More for pages
    /// that other processes may be storing to.
    pub fn take_all_from_file(pages: &mut [Lock<H>]) {
        Lock::take_written_from_file(pages);
        let follows = |one: &Lock<H>, next: &Lock<H>| {
            one.is_in_file() == next.is_in_file()
                && one.page().index().0 + 1 == next.page().index().0
        };
        for run in pages.chunk_by_mut(follows) {
            let first = run[0].page();
            let Some(file) = first.page_file().filter(|_| run[0].is_in_file()) else { continue };
            let start = first.index().0 as u32;
            for (number, lock) in (start..).zip(run.iter()) {
                let frame = lock.resident_frame();
                lock.arena().note_memory_used(frame);
                // SAFETY: S33: the page is in the file until punched, and the lock keeps writers
                // away.
                let bytes = unsafe { file.memory().bytes(number) };
                // SAFETY: S4: the frame belongs to the locked page, and the bytes are elsewhere.
                unsafe { lock.arena().memory().write(frame.0, 0, bytes) };
            }
            // SAFETY: S33 (these are the locks): the bytes are in the frames.
            unsafe { file.punch(start..start + run.len() as u32) };
            for lock in run {
                let (frame, page) = (lock.resident_frame(), lock.page());
                lock.arena().name(frame, page.tag(), page.index());
                lock.wrote = true;
            }
        }
    }

    /// Punches the page out of the memory file, before an eviction.
    pub(super) fn leave_file(&self) {
        let page = self.page();
        if let Some(file) = page.page_file().filter(|_| self.is_in_file()) {
            let number = page.index().0 as u32;
            // SAFETY: S33 (this is the lock): the page is about to be absent.
            unsafe { file.punch(number..number + 1) };
        }
    }

    /// Punches pages out of memory files, at most the first 256 in files. Their bytes are lost:
    /// [evict](Lock::evict) each page next.
    ///
    /// # Cost
    /// A system call for each run of pages.
    pub fn leave_files<'l>(locks: impl Iterator<Item = &'l Lock<H>>)
    where
        H: 'l,
    {
        let mut leaving = [const { None }; TOGETHER];
        let mut nr = 0;
        for lock in locks.filter(|lock| lock.is_in_file()).take(TOGETHER) {
            let page = lock.page();
            leaving[nr] = page.page_file().map(|file| (file, page.index().0 as u32));
            nr += 1;
        }
        let leaving = &mut leaving[..nr];
        leaving.sort_unstable_by_key(|one| one.map(|(file, page)| (file.number(), page)));
        let mut run: Option<(&PageFile, Range<u32>)> = None;
        for (file, page) in leaving.iter().flatten().copied() {
            match &mut run {
                Some((of, pages)) if std::ptr::eq(*of, file) && pages.end == page => pages.end += 1,
                _ => {
                    let before = run.replace((file, page..page + 1));
                    // SAFETY: S33 (these are the locks): the pages are about to be absent.
                    before.into_iter().for_each(|(of, pages)| unsafe { of.punch(pages) });
                }
            }
        }
        // SAFETY: S33, as above.
        run.into_iter().for_each(|(of, pages)| unsafe { of.punch(pages) });
    }
}
