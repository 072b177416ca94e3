//! What a lock can do for, and against, the user of a region.
//!
//! A table's pages may be a region's: their bytes are then behind its back door, and its user may
//! have them mapped. The holder of a page's lock decides what is mapped.
//!
//! Invariant S25: everything here that changes what the user may do has the lock, as `&mut` where
//! it lets the user write, so that no slice of the lock's own lives.

use pagetide_core::ids::FrameId;

use super::{Lock, PageHandle};
use crate::fault::region::UserAccess;
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

/// A region's page is about to have `frame` for its allowance: the frame's own memory goes, and
/// the page's is to be of the frame's node.
pub(super) fn prepare(page: PageRef<'_>, frame: FrameId) {
    let Some((region, place)) = page.region() else { return };
    let arena = page.arena();
    // SAFETY: S3 (one claim a frame): the caller has just taken over the claim on it, and the
    // page's bytes are elsewhere (S24).
    let _ = unsafe { arena.memory().discard(frame.0..frame.0 + 1) };
    if let Some(node) = arena.node_of(frame) {
        region.place(place, node);
    }
}

impl<H: PageHandle> Lock<H> {
    /// What the region's user may do to the page without a fault.
    pub fn user_access(&self) -> UserAccess {
        self.page().region().map_or(UserAccess::None, |(region, place)| region.access(place.into()))
    }

    /// Lets the region's user read the page, or write it, too, and wakes threads in its fault.
    /// Returns what was allowed: writing also where the kernel cannot map for reading alone.
    ///
    /// Panics if the page is not resident, or no region's.
    ///
    /// # Errors
    /// [`UffdError::Call`]: the page is not mapped, and threads in its fault wait still.
    pub fn map_user(&mut self, write: bool) -> Result<UserAccess, UffdError> {
        assert!(self.frame().is_some(), "S25: only a resident page is mapped");
        let (region, place) = self.page().region().expect("S25: only regions have users");
        // SAFETY: S25 (this is the lock, and `&mut self` excludes its slices).
        unsafe { region.map(place, write) }
    }

    /// Has the region's user meet a fault at the next access.
    pub fn unmap_user(&self) {
        if let Some((region, place)) = self.page().region()
            && region.access(place.into()) != UserAccess::None
        {
            // SAFETY: S25 (this is the lock).
            unsafe { region.unmap(place..place + 1) };
        }
    }

    /// Has the region's user meet a fault at the next store.
    pub fn protect_from_user(&self) {
        if let Some((region, place)) = self.page().region()
            && region.access(place.into()) == UserAccess::Write
        {
            // SAFETY: S25 (this is the lock).
            unsafe { region.protect(place..place + 1) };
        }
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
