//! Frames' memory, lent to regions' users: in the user's mapping in place of the frame, and back.
//!
//! **Problem.** A page that a region's user may touch is to be at the user's address, and is to be
//! counted once.
//!
//! **Idea.** The page itself moves: `UFFDIO_MOVE` takes it out of the frame, which is a hole then,
//! and puts it where the user sees it, without a copy; and back the same way.
//!
//! ```text
//!   frame       | p | . | p | . |        p a page   . a hole
//!                     |       ^
//!              put in |       | taken out
//!                     v       |
//!   user's      | . | p | . | . | . | . |
//! ```
//!
//! A page that nothing has yet is not filled in its frame: its bytes are copied to the user's
//! place, and the frame stays a hole. One that is clean leaves without going back: see `leaving`.
//!
//! A page moves in writable. One that is to be read only is copied in, write-protected, and its
//! frame is emptied: to protect it after a move would have every CPU that runs the user flush its
//! translations once more, which costs more than the copy. For the same reason pages that are
//! looked at together are taken from the user by one call, and copied back.
//!
//! Where the kernel does not move (before 6.8), or not now (a child has the page as well, after
//! fork; a device is at it), pages to be written are copied, too: there are never two.
//!
//! **Data and invariants.** S24, S25: everything here is done by the holder of the page's LOCK,
//! whose frame it is. The memory of frames is private, and of small pages from the first region on:
//! the kernel would fill in the holes of huge ones.
//!
//! Source: ioctl_userfaultfd(2), UFFDIO_MOVE(2const); measured for what these do not say.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use pagetide_core::ids::FrameId;

use crate::fault::uffd::{Put, Uffd, UffdError, UffdFeatures};
use crate::memory::arena::FrameArena;
use crate::memory::frames::{FRAME_BYTES, FrameMemory};

use super::leaving::Leaving;

/// What lends an arena's memory to regions: one an arena.
pub struct FrameLender {
    arena: Arc<FrameArena>,
    /// By which pages move back, where the kernel moves.
    way_back: Option<Uffd>,
    leaving: Leaving,
}

/// A page at the user's place, and how to reach the place.
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

    /// Takes away what is there.
    ///
    /// # Safety
    /// S25: the caller has the page locked, and what is there is not needed.
    unsafe fn empty(&self) -> std::io::Result<()> {
        // SAFETY: S25, by the caller's word.
        unsafe { self.memory.empty(self.page..self.page + 1) }
    }
}

impl FrameLender {
    /// Lends the frames of `arena`, which are of small pages from now on.
    ///
    /// # Errors
    /// [`UffdError`]: userfaultfd is refused; or the arena has a lender already, or is shared.
    pub fn new(arena: &Arc<FrameArena>) -> Result<FrameLender, UffdError> {
        let uffd = Uffd::open_for_signals().or_else(|_| Uffd::open())?;
        arena.memory().stay_small();
        let moves = uffd.features().has(UffdFeatures::MOVE);
        if moves {
            let all = arena.memory().addresses(0..arena.nr_frames());
            // SAFETY: S1 (the arena's memory is private: a file could not be registered so).
            unsafe { uffd.register_target(all) }?;
        }
        let way_back = moves.then_some(uffd);
        Ok(FrameLender::of(arena, way_back))
    }

    /// As [`FrameLender::new`], by copies alone: what an older kernel would do.
    #[cfg(test)]
    pub(crate) fn copying(arena: &Arc<FrameArena>) -> FrameLender {
        arena.memory().stay_small();
        FrameLender::of(arena, None)
    }

    fn of(arena: &Arc<FrameArena>, way_back: Option<Uffd>) -> FrameLender {
        arena.expect_bare_frames();
        FrameLender { arena: Arc::clone(arena), way_back, leaving: Leaving::new() }
    }

    /// The arena whose memory it lends.
    pub fn arena(&self) -> &Arc<FrameArena> {
        &self.arena
    }

    /// Whether pages move, or are copied.
    pub fn moves(&self) -> bool {
        self.way_back.is_some()
    }

    /// Puts the page that is in `frame` where the user sees it, to be written as well where `write`
    /// is set.
    ///
    /// # Safety
    /// S25: the caller has the page locked, which is in `frame`, and no slice of it.
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

    /// Whether it could be moved.
    ///
    /// # Safety
    /// As of [`FrameLender::put_in`].
    unsafe fn move_in(&self, place: UserPlace<'_>, frame: u32) -> Result<bool, UffdError> {
        let Some(way_back) = &self.way_back else { return Ok(false) };
        let source = self.arena.memory().addresses(frame..frame + 1);
        // SAFETY: S25: the page is the caller's; what is no page is not needed there.
        let empty = || unsafe { place.empty() };
        // SAFETY: S24, S25: the page is the caller's, here and there.
        let moved = unsafe { shift((place.uffd, place.range()), (way_back, source), empty) };
        // Not where one of both is locked into memory (mlock): the kernel refuses that.
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

    /// Puts pages that follow each other where the user sees them, with the bytes from `source` on,
    /// as far as the kernel lets; returns how many. Their frames are left as they are.
    ///
    /// # Safety
    /// As of [`FrameLender::put_in`], of all of them; as many bytes can be read at `source`.
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

    /// Gives the memory of frames back, whose pages' bytes are elsewhere. Where the kernel refuses,
    /// it is counted twice until the frame is used again.
    ///
    /// # Safety
    /// S4: the caller owns the frames exclusively.
    pub(crate) unsafe fn empty_frames(&self, frames: impl Iterator<Item = u32> + Clone) {
        // SAFETY: S4, by the caller's word.
        if unsafe { self.leaving.empty_all(self.with_memory(frames.clone())) } {
            frames.for_each(|frame| self.arena.note_memory_gone(frame));
        }
    }

    /// Takes pages out of the user's `memory`, and gives back that of frames; returns whether all
    /// of it is gone.
    ///
    /// # Safety
    /// S25: the caller has the pages locked, and those in the frames; their bytes are not needed.
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

    /// Takes pages out of the user's `memory`, into `frames`, many at once; returns how many, up to
    /// the first that is not there. Panics if the kernel refuses.
    ///
    /// # Safety
    /// S25: the caller has the pages locked, whose frames they are, in the same order.
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

    /// Takes the page out of the user's mapping, into `frame`. Panics if the kernel refuses.
    ///
    /// # Safety
    /// S25: the caller has the page locked, whose frame it is.
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
        // A reader that was late has looked at the hole, and zeros are there.
        // SAFETY: S25: the frame is the caller's, and the page's bytes are not in it.
        let empty = || unsafe { memory.empty(frame..frame + 1) };
        // SAFETY: S24, S25: the page is the caller's, here and there.
        match unsafe { shift((way_back, target), (place.uffd, place.range()), empty) } {
            Ok(Put::Done) => true,
            Ok(Put::Nothing) => {
                // The user has dropped it (madvise): it reads as zeros.
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

/// Copies pages to where the user sees them, as far as the kernel lets; returns how many. Where
/// something stands in the way of the first, a mark that there is to be no page, it is taken away.
///
/// # Safety
/// S25: the caller has the pages locked, which are not there; as many bytes can be read at
/// `source`.
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
    // SAFETY: S25: the page is the caller's, and its bytes are elsewhere.
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

/// Moves the page at `source` to `target`; each comes with the descriptor that pages are moved
/// there by. Where something else stands there, `empty` takes it away first.
///
/// Linux 6.18 may move a page out of a huge one, go round once more, and find what it has just
/// moved: so a page that can be moved back is no such thing.
///
/// # Safety
/// S25: the caller has the page locked, whose places these are.
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
            // It has been moved, and stays.
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
