//! A page lock's control of the mapping of a region's user.
//!
//! If the user has a page mapped, the bytes are in the mapping. The lock's holder decides which
//! pages are mapped.
//!
//! Invariant S25: every change of the user's access needs the lock, as `&mut` if the user may write
//! afterwards, so that no slice of the lock lives.

use super::{Lock, PageHandle};
use crate::fault::region::{BLOCK_PAGES, RegionMemory, UserAccess};
use crate::fault::uffd::UffdError;
use crate::memory::frames::FRAME_BYTES;
use crate::page::table::PageRef;

/// Maximum number of pages for one call.
const TOGETHER: usize = 64;

/// Panics if a region's user or another process may write the page.
pub(super) fn assert_not_writable(page: PageRef<'_>) {
    assert!(!page.is_written_in_file(), "S33: other processes may write {page:?}");
    if let Some((region, place)) = page.region() {
        let access = region.access(place.into());
        assert!(access != UserAccess::Write, "S25: the region's user may write {page:?}");
    }
}

impl<H: PageHandle> Lock<H> {
    /// Returns the user's accesses that do not fault.
    pub fn user_access(&self) -> UserAccess {
        self.page().region().map_or(UserAccess::None, |(region, place)| region.access(place.into()))
    }

    /// Lets the region's user read the page, or also write. Wakes threads in a fault on the page.
    /// Returns the new access.
    ///
    /// Panics if the page is not resident, or belongs to no region.
    ///
    /// # Errors
    /// Fails with [`UffdError::Call`]. The page is then not mapped, and threads in a fault keep
    /// waiting.
    pub fn map_user(&mut self, write: bool) -> Result<UserAccess, UffdError> {
        let frame = self.frame().expect("S25: only a resident page is mapped");
        let (region, place) = self.page().region().expect("S25: only regions have users");
        // SAFETY: S25 (this is the lock, and `&mut self` excludes its slices).
        unsafe { region.map(place, frame.0, write) }
    }

    /// Fills consecutive unmapped pages with `bytes` in the user's mapping, to read or also write.
    /// Returns the number of pages done, from the first. Leaves frames unwritten, and frees their
    /// memory. Leaves all other pages unchanged.
    ///
    /// Panics if a page is not resident, is mapped, is out of order, or belongs to no region, or if
    /// `bytes` has more pages.
    ///
    /// # Cost
    /// A copy, and at most two system calls if frames have memory.
    pub fn fill_users<'l>(
        mut pages: impl Iterator<Item = &'l mut Lock<H>>,
        bytes: &[u8],
        write: bool,
    ) -> usize
    where
        H: 'l,
    {
        let mut nr_done = 0;
        for bytes in bytes.chunks(TOGETHER * FRAME_BYTES) {
            let nr = bytes.len() / FRAME_BYTES;
            assert_eq!(nr * FRAME_BYTES, bytes.len(), "S25: bytes of whole pages");
            let nr_filled = Lock::fill_some(&mut pages, nr, bytes, write);
            nr_done += nr_filled;
            if nr_filled < nr {
                break;
            }
        }
        nr_done
    }

    /// Does [`Lock::fill_users`] for the next `nr` pages, at most [`TOGETHER`].
    fn fill_some<'l>(
        pages: &mut impl Iterator<Item = &'l mut Lock<H>>,
        nr: usize,
        bytes: &[u8],
        write: bool,
    ) -> usize
    where
        H: 'l,
    {
        let mut frames = [0; TOGETHER];
        let mut first: Option<(&RegionMemory, u32)> = None;
        // All borrows are as long as the first.
        for (nth, frame) in (0..).zip(&mut frames[..nr]) {
            let page: &'l mut Lock<H> = pages.next().expect("S25: a page for all bytes");
            page.wrote = true;
            *frame = page.resident_frame().0;
            let page: &'l Lock<H> = page;
            let (region, place) = page.page().region().expect("S25: only regions have users");
            let (of, start) = *first.get_or_insert((region, place));
            let follows = std::ptr::eq(region, of) && place == start + nth;
            assert!(follows, "S25: {page:?} is not the next page");
        }
        let Some((region, start)) = first else { return 0 };
        let (places, source) = (start..start + nr as u32, bytes.as_ptr().expose_provenance());
        // SAFETY: S25 (these are the locks, and `&mut` excludes their slices): the bytes live
        // through the call.
        let nr_done = unsafe { region.fill(places, source, write) } as usize;
        // Adjacent frames need one call.
        frames[..nr_done].sort_unstable();
        // SAFETY: S4, S25 (these are the locks, as above): the pages' bytes are in the user's
        // mapping.
        unsafe { region.lender().empty_frames(frames[..nr_done].iter().copied()) };
        nr_done
    }

    /// Lets the region's user read consecutive unmapped pages in consecutive frames, or also write.
    /// Returns the number of pages mapped, from the first.
    ///
    /// # Cost
    /// A copy of each page, and two system calls. The pages use twice their memory meanwhile.
    pub fn map_run(pages: &mut [Option<Lock<H>>], write: bool) -> usize {
        let place_of = |one: &Option<Lock<H>>| {
            let one = one.as_ref()?;
            let (region, place) = one.page().region()?;
            let is_absent = region.access(place.into()) == UserAccess::None;
            is_absent.then_some((std::ptr::from_ref(region), place, one.frame()?.0))
        };
        let Some(first @ (_, start, frame)) = pages.first().and_then(place_of) else { return 0 };
        let follows = |(nth, one): &(usize, &Option<Lock<H>>)| {
            let nth = *nth as u32;
            place_of(one) == Some((first.0, start + nth, frame + nth))
        };
        let nr = pages.iter().enumerate().take_while(follows).count() as u32;
        let Some((region, _)) = pages[0].as_ref().and_then(|one| one.page().region()) else {
            return 0;
        };
        // SAFETY: S25 (these are the locks, and `&mut` excludes their slices).
        unsafe { region.map_run(start..start + nr, frame, write) as usize }
    }

    /// Lets the region's user write consecutive pages that the user may read. Returns the number of
    /// pages, from the first. The caller has marked them dirty.
    ///
    /// # Cost
    /// One system call.
    pub fn unprotect_run(pages: &mut [Option<Lock<H>>]) -> usize {
        let place_of = |one: &Option<Lock<H>>| {
            let (region, place) = one.as_ref()?.page().region()?;
            let is_protected = region.access(place.into()) == UserAccess::Read;
            is_protected.then_some((std::ptr::from_ref(region), place))
        };
        let Some((of, start)) = pages.first().and_then(place_of) else { return 0 };
        let follows = |(nth, one): &(usize, &Option<Lock<H>>)| {
            place_of(one) == Some((of, start + *nth as u32))
        };
        let nr = pages.iter().enumerate().take_while(follows).count() as u32;
        let Some((region, _)) = pages[0].as_ref().and_then(|one| one.page().region()) else {
            return 0;
        };
        // SAFETY: S25 (these are the locks, and `&mut` excludes their slices).
        unsafe { region.unprotect(start..start + nr) };
        nr as usize
    }

    /// Does [`Lock::map_user`] for an unmapped page, but keeps the frame's memory until
    /// [`Lock::empty_behind_users`]. Returns true on success.
    ///
    /// Panics if the page is not resident, is mapped, or belongs to no region.
    ///
    /// # Cost
    /// A copy, and a system call.
    pub fn map_user_beside(&mut self, write: bool) -> bool {
        let frame = self.frame().expect("S25: only a resident page is mapped");
        let (region, place) = self.page().region().expect("S25: only regions have users");
        let source = region.lender().arena().address(frame).expose_provenance();
        // SAFETY: S25 (this is the lock, and `&mut self` excludes its slices): the frame is only
        // read.
        unsafe { region.fill(place..place + 1, source, write) == 1 }
    }

    /// Frees the frame memory of mapped pages.
    ///
    /// # Cost
    /// One system call for all pages, if the kernel supports this.
    pub fn empty_behind_users<'l>(pages: impl Iterator<Item = &'l Lock<H>> + Clone)
    where
        H: 'l,
    {
        let mapped = pages.filter(|page| page.user_access() != UserAccess::None);
        let Some((region, _)) = mapped.clone().find_map(|page| page.page().region()) else {
            return;
        };
        let frames = mapped.filter_map(|page| page.frame().map(|frame| frame.0));
        // SAFETY: S4, S25 (these are the locks): the pages' bytes are in the users' mappings.
        unsafe { region.lender().empty_frames(frames) };
    }

    /// Discards pages before eviction: unmaps pages that users may only read, and frees the frame
    /// memory of unmapped pages. Pages of one region should be adjacent.
    ///
    /// # Cost
    /// One system call for all pages, if the kernel supports this.
    pub fn drop_from_users<'l>(pages: impl Iterator<Item = &'l Lock<H>>)
    where
        H: 'l,
    {
        let mut leaving = Together::new(|region: &RegionMemory, places: &[u32], frames: &[u32]| {
            // SAFETY: S25 (the caller has the locks).
            unsafe { region.drop_pages(places, frames) };
        });
        for page in pages {
            let Some((region, place)) = page.page().region() else { continue };
            // A mapped page may be in its frame as well.
            match (page.user_access(), page.frame().map(|frame| frame.0)) {
                (UserAccess::Read, frame) => leaving.add(region, Some(place), frame),
                (UserAccess::None, Some(frame)) => leaving.add(region, None, Some(frame)),
                _ => {}
            }
        }
        leaving.end();
    }

    /// Unmaps pages, so that a user's next access faults. Pages of one region should be adjacent.
    ///
    /// # Cost
    /// A copy of each page, and three system calls for all pages, if the kernel supports this.
    pub fn unmap_users<'l>(pages: impl Iterator<Item = &'l Lock<H>>)
    where
        H: 'l,
    {
        let mut leaving = Together::new(|region: &RegionMemory, places: &[u32], frames: &[u32]| {
            // SAFETY: S25 (the caller has the locks).
            unsafe { region.unmap_all(places, frames) };
        });
        for page in pages {
            if let Some((region, place)) = page.page().region()
                && page.user_access() != UserAccess::None
            {
                leaving.add(region, Some(place), page.frame().map(|frame| frame.0));
            }
        }
        leaving.end();
    }

    /// Requests a huge page for [a block](BLOCK_PAGES) of a region, if possible. `pages` is the
    /// whole block, in order. Returns the indexes of pages that the user wrote meanwhile, and that
    /// are therefore dirty.
    ///
    /// Panics if `pages` is not a block of a region.
    ///
    /// # Cost
    /// About 1 ms, a copy of the block, and the memory of another block.
    pub fn make_huge(pages: &mut [Lock<H>]) -> Vec<usize> {
        let first = pages.first().and_then(|one| one.page().region());
        let (region, start) = first.expect("S25: only regions have users");
        let is_nth = |(nth, one): (usize, &Lock<H>)| {
            let (of, place) = one.page().region()?;
            Some(std::ptr::eq(of, region) && place == start + nth as u32)
        };
        let are_in_order = pages.iter().enumerate().all(|one| is_nth(one) == Some(true));
        let is_block = pages.len() == BLOCK_PAGES && start.is_multiple_of(BLOCK_PAGES as u32);
        assert!(are_in_order && is_block, "S25: all of a block's pages are locked");
        // SAFETY: S25 (these are the locks, and `&mut` excludes their slices).
        let written = unsafe { region.make_huge(start / BLOCK_PAGES as u32) };
        written.into_iter().map(|page| (page - start) as usize).collect()
    }

    /// Unmaps a page that the user may only read, before the holder writes.
    pub(super) fn take_from_readers(&mut self) {
        if self.user_access() == UserAccess::Read {
            self.unmap_user();
        }
    }

    /// Unmaps the page, so that the user's next access faults.
    pub fn unmap_user(&self) {
        let Some((region, place)) = self.page().region() else { return };
        if let Some(frame) = self.frame() {
            // SAFETY: S25 (this is the lock).
            unsafe { region.unmap(place, frame.0) };
        }
    }

    /// Write-protects the page, so that the user's next store faults.
    pub fn protect_from_user(&self) {
        Lock::protect_all_from_user(std::slice::from_ref(self));
    }

    /// Does [`Lock::protect_from_user`] for pages of one table, in order.
    ///
    /// # Cost
    /// One system call, which checks each page from the first to the last.
    pub fn protect_all_from_user(pages: &[Lock<H>]) {
        let Some((region, _)) = pages.first().and_then(|first| first.page().region()) else {
            return;
        };
        let places = pages.iter().filter_map(|one| {
            let (of, place) = one.page().region()?;
            std::ptr::eq(of, region).then_some(place)
        });
        // SAFETY: S25 (these are the locks).
        unsafe { region.protect(places) };
    }

    /// Ends all accesses of an unavailable page by the region's user with a signal, even waiting
    /// ones.
    pub fn poison_user(&self) {
        if let Some((region, place)) = self.page().region() {
            region.poison(place);
        }
    }

    /// Marks a resident page with HINT. Returns true if HINT was not set. The user's next access
    /// faults.
    pub fn set_hint(&self) -> bool {
        self.unmap_user();
        self.page().word().set_hint()
    }
}

/// A batch of pages and frames of one region, for one call.
struct Together<'r, F: Fn(&RegionMemory, &[u32], &[u32])> {
    call: F,
    of: Option<&'r RegionMemory>,
    places: [u32; TOGETHER],
    frames: [u32; TOGETHER],
    nr_places: usize,
    nr_frames: usize,
}

impl<'r, F: Fn(&RegionMemory, &[u32], &[u32])> Together<'r, F> {
    fn new(call: F) -> Together<'r, F> {
        let none = [0; TOGETHER];
        Together { call, of: None, places: none, frames: none, nr_places: 0, nr_frames: 0 }
    }

    fn add(&mut self, region: &'r RegionMemory, place: Option<u32>, frame: Option<u32>) {
        let is_full = self.nr_places.max(self.nr_frames) == TOGETHER;
        if is_full || self.of.is_some_and(|of| !std::ptr::eq(of, region)) {
            self.end();
        }
        self.of = Some(region);
        if let Some(place) = place {
            self.places[self.nr_places] = place;
            self.nr_places += 1;
        }
        if let Some(frame) = frame {
            self.frames[self.nr_frames] = frame;
            self.nr_frames += 1;
        }
    }

    /// Makes the call for the batch.
    fn end(&mut self) {
        if let Some(of) = self.of.take() {
            (self.call)(of, &self.places[..self.nr_places], &self.frames[..self.nr_frames]);
        }
        (self.nr_places, self.nr_frames) = (0, 0);
    }
}
