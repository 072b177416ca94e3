//! Moves frames' memory into the user mappings of regions, and back.
//!
//! **Problem.** A page must be at the user's address, but in memory only once.
//!
//! **Idea.** `UFFDIO_MOVE` moves the page from the frame to the user's mapping without a copy, and
//! back. The frame is a hole meanwhile.
//!
//! ```text
//!   frame       | p | . | p | . |        p a page   . a hole
//!                     |       ^
//!              put in |       | taken out
//!                     v       |
//!   user's      | . | p | . | . | . | . |
//! ```
//!
//! A page without memory is copied to the user's mapping directly, and a clean page is dropped
//! without a move (`leaving`). Read-only pages are copied in write-protected, because protecting
//! after a move costs one more TLB flush per CPU. For the same reason, many pages are taken out by
//! one call, and copied back. Writable pages are copied if the kernel cannot move (before 6.8), or
//! refuses now (a forked child or a device uses the page).
//!
//! **Data and invariants.** S24, S25: callers hold the page's LOCK, and the frame is the page's.
//! Frames have private memory in small pages, because the kernel would fill the holes of huge
//! pages.
//!
//! Source: ioctl_userfaultfd(2), UFFDIO_MOVE(2const), and measurements.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use pagetide_core::ids::FrameId;

use crate::fault::uffd::{Put, Uffd, UffdError, UffdFeatures};
use crate::memory::arena::FrameArena;
use crate::memory::frames::{FRAME_BYTES, FrameMemory};

use super::leaving::Leaving;

/// Lends an arena's memory to regions. One per arena.
pub struct FrameLender {
    arena: Arc<FrameArena>,
    /// Moves pages back, if the kernel can move.
    way_back: Option<Uffd>,
    leaving: Leaving,
}

#[derive(Clone, Copy)]
pub(super) struct UserPlace<'a> {
    pub(super) uffd: &'a Uffd,
    pub(super) memory: &'a FrameMemory,
    pub(super) page: u32,
}

impl UserPlace<'_> {
    fn pages(&self) -> Range<u32> {
        self.page..self.page + 1
    }

    pub(super) fn range(&self) -> Range<usize> {
        self.memory.addresses(self.page..self.page + 1)
    }

    /// # Safety
    /// S25: the caller has the page locked, and its bytes there are not needed.
    unsafe fn empty(&self) -> std::io::Result<()> {
        // SAFETY: S25, by the caller's word.
        unsafe { self.memory.empty(self.page..self.page + 1) }
    }
}

impl FrameLender {
    /// Makes a lender of the frames of `arena`, which use small pages from now on.
    ///
    /// # Errors
    /// Fails with [`UffdError`] if userfaultfd is refused, or the arena is shared or has a lender.
    pub fn new(arena: &Arc<FrameArena>) -> Result<FrameLender, UffdError> {
        let uffd = Uffd::open_for_signals().or_else(|_| Uffd::open())?;
        arena.memory().stay_small();
        let moves = uffd.features().has(UffdFeatures::MOVE);
        if moves {
            let all = arena.memory().addresses(0..arena.nr_frames());
            // SAFETY: S1 (the arena's memory is private. Registering a file would fail).
            unsafe { uffd.register_target(all) }?;
        }
        let way_back = moves.then_some(uffd);
        Ok(FrameLender::of(arena, way_back))
    }

    /// As [`FrameLender::new`], without moves, like an older kernel.
    #[cfg(test)]
    pub(crate) fn copying(arena: &Arc<FrameArena>) -> FrameLender {
        arena.memory().stay_small();
        FrameLender::of(arena, None)
    }

    fn of(arena: &Arc<FrameArena>, way_back: Option<Uffd>) -> FrameLender {
        arena.expect_bare_frames();
        FrameLender { arena: Arc::clone(arena), way_back, leaving: Leaving::new() }
    }

    /// Returns the arena.
    pub fn arena(&self) -> &Arc<FrameArena> {
        &self.arena
    }

    /// Returns true if pages move instead of being copied.
    pub fn moves(&self) -> bool {
        self.way_back.is_some()
    }

    /// Puts the page in `frame` into the user's mapping, writable if `write` is set.
    ///
    /// # Safety
    /// S25: the caller has the page in `frame` locked, and holds no slice of the page.
    pub(super) unsafe fn put_in(
        &self,
        place: UserPlace<'_>,
        frame: u32,
        write: bool,
    ) -> Result<(), UffdError> {
        // SAFETY: S25, by the caller's word.
        if write && unsafe { self.move_in(place, frame) }? {
            return Ok(());
        }
        // SAFETY: S25, by the caller's word.
        unsafe { self.copy_in(place, frame, write) }
    }

    /// # Safety
    /// As of [`FrameLender::put_in`].
    unsafe fn move_in(&self, place: UserPlace<'_>, frame: u32) -> Result<bool, UffdError> {
        let Some(way_back) = &self.way_back else { return Ok(false) };
        let source = self.arena.memory().addresses(frame..frame + 1);
        // SAFETY: S25: the page is the caller's, and any bytes at the user's place are not needed.
        let empty = || unsafe { place.empty() };
        // SAFETY: S24, S25: the page is the caller's, at both places.
        let moved = unsafe { shift((place.uffd, place.range()), (way_back, source), empty) };
        // The kernel refuses if only one of the two is locked into memory (mlock).
        let is_moved = matches!(moved, Ok(Put::Done));
        if is_moved {
            self.arena.note_memory_gone(frame);
        }
        Ok(is_moved)
    }

    /// # Safety
    /// As of [`FrameLender::put_in`].
    unsafe fn copy_in(
        &self,
        place: UserPlace<'_>,
        frame: u32,
        write: bool,
    ) -> Result<(), UffdError> {
        let source = self.arena.memory().addresses(frame..frame + 1).start;
        // SAFETY: S24, S25: the place is the caller's, and the frame is only read.
        let nr_done = unsafe { copy_all(place.uffd, place.memory, place.pages(), source, write) }?;
        if nr_done == 0 {
            return Err(refused(&place));
        }
        // SAFETY: S25: the page is the caller's, and is at the user's place now.
        unsafe { self.empty_frames(std::iter::once(frame)) };
        Ok(())
    }

    /// Puts consecutive pages with the bytes at `source` into the user's mapping. Returns the
    /// number of pages accepted.
    ///
    /// # Safety
    /// As of [`FrameLender::put_in`], for all pages. `source` has bytes for all of them.
    pub(super) unsafe fn fill(
        &self,
        (uffd, memory): (&Uffd, &FrameMemory),
        pages: Range<u32>,
        source: usize,
        write: bool,
    ) -> u32 {
        // SAFETY: S24, S25, by the caller's word.
        unsafe { copy_all(uffd, memory, pages, source, write) }.unwrap_or(0)
    }

    /// Frees frames without their pages' bytes. If the kernel refuses, the memory is counted twice
    /// until the frame is reused.
    ///
    /// # Safety
    /// S4: the caller owns the frames exclusively.
    pub(crate) unsafe fn empty_frames(&self, frames: impl Iterator<Item = u32> + Clone) {
        // SAFETY: S4, by the caller's word.
        if unsafe { self.leaving.empty_all(self.with_memory(frames.clone())) } {
            frames.for_each(|frame| self.arena.note_memory_gone(frame));
        }
    }

    /// Drops pages and the memory of `frames`. Returns true if all memory was freed.
    ///
    /// # Safety
    /// S25: the caller has the pages locked, and the pages in the frames. Their bytes are not
    /// needed.
    pub(super) unsafe fn empty_places(
        &self,
        memory: &FrameMemory,
        pages: &[u32],
        frames: &[u32],
    ) -> bool {
        let places = pages.iter().map(|page| memory.addresses(*page..*page + 1));
        // SAFETY: S4, S25, by the caller's word.
        let are_gone = unsafe {
            self.leaving.empty_all(places.chain(self.with_memory(frames.iter().copied())))
        };
        if are_gone {
            frames.iter().for_each(|frame| self.arena.note_memory_gone(*frame));
        }
        are_gone
    }

    fn with_memory(&self, frames: impl Iterator<Item = u32>) -> impl Iterator<Item = Range<usize>> {
        let frames = frames.filter(|frame| !self.arena.is_bare(*frame));
        frames.map(|frame| self.arena.memory().addresses(frame..frame + 1))
    }

    /// Moves pages into `frames`. Returns the number of pages taken, up to the first absent one.
    /// Panics if the kernel refuses.
    ///
    /// # Safety
    /// S25: the caller has the pages locked, and the frames are theirs, in the same order.
    pub(super) unsafe fn take_out_some(
        &self,
        memory: &FrameMemory,
        pages: &[u32],
        frames: &[u32],
    ) -> usize {
        frames.iter().for_each(|frame| self.arena.note_memory_used(FrameId(*frame)));
        let sources = pages.iter().map(|page| memory.addresses(*page..*page + 1));
        let targets = frames.iter().map(|frame| self.arena.memory().addresses(*frame..*frame + 1));
        // SAFETY: S25: the pages and the frames are the caller's.
        unsafe { self.leaving.take_all(sources, targets) }
    }

    /// Moves a page into `frame`. Panics if the kernel refuses.
    ///
    /// # Safety
    /// S25: the caller has the page locked, and the frame is the page's.
    pub(super) unsafe fn take_out(&self, place: UserPlace<'_>, frame: u32) {
        self.arena.note_memory_used(FrameId(frame));
        // SAFETY: S25, by the caller's word.
        if !unsafe { self.move_out(place, frame) } {
            // SAFETY: S25, by the caller's word.
            unsafe { self.copy_out(place, frame) };
        }
    }

    /// # Safety
    /// As of [`FrameLender::take_out`].
    unsafe fn move_out(&self, place: UserPlace<'_>, frame: u32) -> bool {
        let Some(way_back) = &self.way_back else { return false };
        let memory = self.arena.memory();
        let target = memory.addresses(frame..frame + 1);
        // A late reader may have filled the hole with zeros.
        // SAFETY: S25: the frame is the caller's, and does not hold the page's bytes.
        let empty = || unsafe { memory.empty(frame..frame + 1) };
        // SAFETY: S24, S25: the page is the caller's, at both places.
        match unsafe { shift((way_back, target), (place.uffd, place.range()), empty) } {
            Ok(Put::Done) => true,
            Ok(Put::Nothing) => {
                // The user dropped the page (madvise), so it reads as zeros.
                // SAFETY: S25: the frame is the caller's.
                unsafe { memory.fill_zero(frame, 0..FRAME_BYTES) };
                true
            }
            _ => false,
        }
    }

    /// # Safety
    /// As of [`FrameLender::take_out`].
    unsafe fn copy_out(&self, place: UserPlace<'_>, frame: u32) {
        let mut bytes = [0; FRAME_BYTES];
        let protected = place.uffd.protect(place.range(), true);
        protected.expect("S25: what cannot be protected cannot be taken out");
        place.memory.read(place.page, 0, &mut bytes);
        // SAFETY: S25: the page is the caller's, and its bytes are kept here.
        let emptied = unsafe { place.empty() };
        emptied.expect("S25: what cannot be unmapped cannot be called unmapped");
        // SAFETY: S25: the frame is the caller's.
        unsafe { self.arena.memory().write(frame, 0, &bytes) };
    }
}

/// Copies pages into the user's mapping, after removing a poison marker. Returns the number of
/// pages accepted.
///
/// # Safety
/// S25: the caller has the pages locked, and they are not mapped. `source` has bytes for all of
/// them.
unsafe fn copy_all(
    uffd: &Uffd,
    memory: &FrameMemory,
    pages: Range<u32>,
    source: usize,
    write: bool,
) -> Result<u32, UffdError> {
    let target = memory.addresses(pages.clone());
    // SAFETY: S24, S25, by the caller's word.
    let copy = || unsafe { uffd.copy_some(&target, source, write) };
    let mut nr_bytes = copy()?;
    // SAFETY: S25: the page is the caller's, and its bytes are not there.
    if nr_bytes == 0 && unsafe { memory.empty(pages.start..pages.start + 1) }.is_ok() {
        nr_bytes = copy()?;
    }
    Ok((nr_bytes / FRAME_BYTES) as u32)
}

fn refused(place: &UserPlace<'_>) -> UffdError {
    let range = place.range();
    let (start, len) = (range.start as u64, range.len() as u64);
    UffdError::Call {
        call: "UFFDIO_COPY",
        start,
        len,
        source: std::io::ErrorKind::ResourceBusy.into(),
    }
}

/// Moves the page at `source` to `target`. Each is paired with the descriptor that moves pages to
/// it. `empty` clears an occupied `target`.
///
/// Linux 6.18 may move a page out of a huge page, retry, and report it as occupying. A page that
/// can be moved back was therefore moved by this call.
///
/// # Safety
/// S25: the caller has the page locked, and both places are the page's.
unsafe fn shift(
    (uffd, target): (&Uffd, Range<usize>),
    (way_back, source): (&Uffd, Range<usize>),
    empty: impl Fn() -> std::io::Result<()>,
) -> Result<Put, UffdError> {
    loop {
        // SAFETY: S24, S25, by the caller's word.
        match unsafe { uffd.move_to(target.clone(), source.start) }? {
            Put::Occupied => {}
            other => return Ok(other),
        }
        // SAFETY: S24, S25, by the caller's word.
        match unsafe { way_back.move_to(source.clone(), target.start) } {
            Ok(Put::Done) => {}
            Ok(Put::Busy) => return Ok(Put::Done),
            _ if empty().is_ok() => {}
            _ => return Ok(Put::Occupied),
        }
    }
}

impl fmt::Debug for FrameLender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameLender({:?})", self.arena)
    }
}
