//! What a lock can do for, and against, the user of a region.
//!
//! A table's pages may be a region's: its user may then have them mapped, which is where their
//! bytes are. The holder of a page's lock decides what is mapped.
//!
//! Invariant S25: everything here that changes what the user may do has the lock, as `&mut` where
//! it lets the user write, so that no slice of the lock's own lives.

use super::{Lock, PageHandle};
use crate::fault::region::{BLOCK_PAGES, RegionMemory, UserAccess};
use crate::fault::uffd::UffdError;
use crate::memory::frames::FRAME_BYTES;
use crate::page::table::PageRef;

/// Pages that leave users with one call.
const TOGETHER: usize = 64;

/// Panics where a region's user may write the page, or another process that has it mapped.
pub(super) fn assert_not_writable(page: PageRef<'_>) {
    assert!(!page.is_written_in_file(), "S33: other processes may write {page:?}");
    if let Some((region, place)) = page.region() {
        let access = region.access(place.into());
        assert!(access != UserAccess::Write, "S25: the region's user may write {page:?}");
    }
}

impl<H: PageHandle> Lock<H> {
    /// What the region's user may do to the page without a fault.
    pub fn user_access(&self) -> UserAccess {
        self.page().region().map_or(UserAccess::None, |(region, place)| region.access(place.into()))
    }

    /// Lets the region's user read the page, or write it, too, and wakes threads in its fault.
    /// Returns what it may do now.
    ///
    /// Panics if the page is not resident, or no region's.
    ///
    /// # Errors
    /// [`UffdError::Call`]: the page is not mapped, and threads in its fault wait still.
    pub fn map_user(&mut self, write: bool) -> Result<UserAccess, UffdError> {
        let frame = self.frame().expect("S25: only a resident page is mapped");
        let (region, place) = self.page().region().expect("S25: only regions have users");
        // SAFETY: S25 (this is the lock, and `&mut self` excludes its slices).
        unsafe { region.map(place, frame.0, write) }
    }

    /// Lets the region's user read pages that follow each other, or write them, too, which have
    /// `bytes` from now on and are not mapped; returns how many, from the first on. Their frames
    /// are not written, and their memory is given back. The others are as they were.
    ///
    /// Panics if a page is not resident, is mapped, does not follow the one before it, or is no
    /// region's, and where there are bytes for more pages.
    ///
    /// # Cost
    /// A copy, and two system calls at the most where frames have memory.
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

    /// As [`Lock::fill_users`], of the next `nr` pages, which are [`TOGETHER`] at the most.
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
        // Each of them is borrowed as long as the first.
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
        // Neighbours are given back as one.
        frames[..nr_done].sort_unstable();
        // SAFETY: S4, S25 (these are the locks, as above): the pages' bytes are the user's.
        unsafe { region.lender().empty_frames(frames[..nr_done].iter().copied()) };
        nr_done
    }

    /// Lets the region's user read pages that follow each other, as far as their frames do, and are
    /// not mapped; returns how many it may read then, from the first on.
    ///
    /// # Cost
    /// A copy of each, and two system calls. The pages are in memory twice while this lasts.
    pub fn map_run_to_read(pages: &mut [Option<Lock<H>>]) -> usize {
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
        unsafe { region.map_run(start..start + nr, frame) as usize }
    }

    /// As [`Lock::map_user`], of a page that is not mapped; but its frame keeps its memory until
    /// [`Lock::empty_behind_users`]. Returns whether it is mapped then.
    ///
    /// Panics if the page is not resident, is mapped, or is no region's.
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

    /// Gives back the memory of frames whose pages their regions' users have.
    ///
    /// # Cost
    /// A system call for all of them, where the kernel lets that be.
    pub fn empty_behind_users<'l>(pages: impl Iterator<Item = &'l Lock<H>> + Clone)
    where
        H: 'l,
    {
        let mapped = pages.filter(|page| page.user_access() != UserAccess::None);
        let Some((region, _)) = mapped.clone().find_map(|page| page.page().region()) else {
            return;
        };
        let frames = mapped.filter_map(|page| page.frame().map(|frame| frame.0));
        // SAFETY: S4, S25 (these are the locks): the pages' bytes are at the users' places.
        unsafe { region.lender().empty_frames(frames) };
    }

    /// Takes pages that are to be evicted from their regions' users, where those may only read
    /// them, and gives back the memory of the others' frames: nothing has their bytes then. Those
    /// of one region are best next to each other.
    ///
    /// # Cost
    /// A system call for all of them, where the kernel lets that be.
    pub fn drop_from_users<'l>(pages: impl Iterator<Item = &'l Lock<H>>)
    where
        H: 'l,
    {
        let mut leaving = Together::new(|region: &RegionMemory, places: &[u32], frames: &[u32]| {
            // SAFETY: S25 (the locks of these are the caller's).
            unsafe { region.drop_pages(places, frames) };
        });
        for page in pages {
            let Some((region, place)) = page.page().region() else { continue };
            // A page that is mapped may be in its frame as well.
            match (page.user_access(), page.frame().map(|frame| frame.0)) {
                (UserAccess::Read, frame) => leaving.add(region, Some(place), frame),
                (UserAccess::None, Some(frame)) => leaving.add(region, None, Some(frame)),
                _ => {}
            }
        }
        leaving.end();
    }

    /// Has the regions' users meet a fault at the next access of each page. Those of one region are
    /// best next to each other.
    ///
    /// # Cost
    /// A copy of each page, and three system calls for all of them, where the kernel lets that be.
    pub fn unmap_users<'l>(pages: impl Iterator<Item = &'l Lock<H>>)
    where
        H: 'l,
    {
        let mut leaving = Together::new(|region: &RegionMemory, places: &[u32], frames: &[u32]| {
            // SAFETY: S25 (the locks of these are the caller's).
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

    /// Asks for a huge page in place of [a block](BLOCK_PAGES) of one region's, where that may be:
    /// `pages` are all of it, in order. Returns those that the user has written meanwhile, as
    /// places in `pages`: they are dirty, whatever was known of them.
    ///
    /// Panics if they are not a block of a region.
    ///
    /// # Cost
    /// About 1 ms; a copy of the block is held meanwhile, and the memory of one more.
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

    /// The page is about to be written by the lock's holder: where its user is not to write, it
    /// leaves the mapping, in which nothing else could either.
    pub(super) fn take_from_readers(&mut self) {
        if self.user_access() == UserAccess::Read {
            self.unmap_user();
        }
    }

    /// Has the region's user meet a fault at the next access.
    pub fn unmap_user(&self) {
        let Some((region, place)) = self.page().region() else { return };
        if let Some(frame) = self.frame() {
            // SAFETY: S25 (this is the lock).
            unsafe { region.unmap(place, frame.0) };
        }
    }

    /// Has the region's user meet a fault at the next store.
    pub fn protect_from_user(&self) {
        Lock::protect_all_from_user(std::slice::from_ref(self));
    }

    /// As [`Lock::protect_from_user`], of pages of one table, in order.
    ///
    /// # Cost
    /// A system call for all of them, which looks at each page from the first to the last.
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

    /// Has the region's user, waiting for the page or not, end with a signal: the page cannot be
    /// had.
    pub fn poison_user(&self) {
        if let Some((region, place)) = self.page().region() {
            region.poison(place);
        }
    }

    /// Marks a resident page with HINT; returns whether it was not marked before. A region's user
    /// meets a fault next.
    pub fn set_hint(&self) -> bool {
        self.unmap_user();
        self.page().word().set_hint()
    }
}

/// Pages of one region, and frames, for which one call is made.
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

    /// Makes the call for what was added since the last.
    fn end(&mut self) {
        if let Some(of) = self.of.take() {
            (self.call)(of, &self.places[..self.nr_places], &self.frames[..self.nr_frames]);
        }
        (self.nr_places, self.nr_frames) = (0, 0);
    }
}
