//! What a lock can do for, and against, the user of a region.
//!
//! A table's pages may be a region's: its user may then have them mapped, which is where their
//! bytes are. The holder of a page's lock decides what is mapped.
//!
//! Invariant S25: everything here that changes what the user may do has the lock, as `&mut` where
//! it lets the user write, so that no slice of the lock's own lives.

use super::{Lock, PageHandle};
use crate::fault::region::{BLOCK_PAGES, UserAccess};
use crate::fault::uffd::UffdError;
use crate::page::table::PageRef;

/// Panics where a region's user may write the page.
pub(super) fn assert_not_writable(page: PageRef<'_>) {
    if let Some((region, place)) = page.region() {
        let access = region.access(place.into());
        assert!(access != UserAccess::Write, "S25: the region's user may write {page:?}");
    }
}

/// Has the region's user meet a fault next, unless the page is locked; it is then young
/// again, as the lock's holder may be using it.
pub(super) fn unmap_idle(page: PageRef<'_>) {
    if !page.is_mapped() {
        return;
    }
    match page.try_lock() {
        Ok(lock) => lock.unmap_user(),
        Err(_) => {
            if page.word().set_young() {
                page.note_touched();
            }
        }
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
        let end = unsafe { region.map_run(start..start + nr, frame) };
        (end - start) as usize
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
