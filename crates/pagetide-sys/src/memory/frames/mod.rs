//! Frame memory: one private mapping, reached by raw copies only.
//!
//! **Problem.** The frames are written by several threads and by the kernel, so no reference to
//! them may exist outside a guard; yet the rest of the crate wants to speak of frames and offsets.
//!
//! **Idea.** This file owns the mapping and is the only one that turns (frame, offset, length) into
//! an address. It checks bounds each time, always.
//!
//! ```text
//!   reserved:  |....|=========================|....|     over-reserved by 2 MiB, ends given back
//!                   ^ 2 MiB aligned            ^ nr_frames * PAGE_BYTES later
//! ```
//!
//! **Invariants.** S1: `base..base + nr_frames * FRAME_BYTES` is mapped readable and writable from
//! construction to drop; no byte of it belongs to any other Rust object.
//!
//! **Ignored.** Frames larger than a base page.
//!
//! Under loom the mapping is a model of one (`model`); the checks are the same.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use mapping::Mapping;

mod ahead;
mod given_back;
#[cfg_attr(loom, path = "model.rs")]
mod mapping;

/// Bytes in one frame. Two cells are enough for loom, which explores every order of every access.
pub(crate) const FRAME_BYTES: usize =
    if cfg!(loom) { 16 } else { pagetide_core::units::PAGE_BYTES };

pub(crate) struct FrameMemory {
    nr_frames: u32,
    mapping: Mapping,
}

impl FrameMemory {
    /// Reserves memory for `nr_frames` frames, all zero; `huge_pages` is advice.
    ///
    /// # Errors
    /// What `mmap` says: usually `ENOMEM`.
    pub(crate) fn reserve(nr_frames: u32, huge_pages: bool) -> io::Result<FrameMemory> {
        let len = nr_frames as usize * FRAME_BYTES;
        Ok(FrameMemory { nr_frames, mapping: Mapping::reserve(len, huge_pages)? })
    }

    /// As [`FrameMemory::reserve`], in a file that other processes can map.
    pub(crate) fn reserve_shared(nr_frames: u32, huge_pages: bool) -> io::Result<FrameMemory> {
        let len = nr_frames as usize * FRAME_BYTES;
        Ok(FrameMemory { nr_frames, mapping: Mapping::reserve_shared(len, huge_pages)? })
    }

    /// Addresses for `nr_frames` frames that may be given away, of small pages, and no memory but
    /// what is touched, however many there are.
    ///
    /// # Errors
    /// As for [`FrameMemory::reserve`].
    pub(crate) fn reserve_thin(nr_frames: u32) -> io::Result<FrameMemory> {
        let len = nr_frames as usize * FRAME_BYTES;
        Ok(FrameMemory { nr_frames, mapping: Mapping::reserve_thin(len)? })
    }

    /// All of it, for accesses that may race.
    pub(crate) fn cells(&self) -> &[std::sync::atomic::AtomicU64] {
        self.mapping.cells()
    }

    /// The addresses of `frames`; panics when they are not in the arena.
    pub(crate) fn addresses(&self, frames: Range<u32>) -> Range<usize> {
        let (base, bytes) = (self.mapping.base().addr(), self.bytes_of(&frames));
        base + bytes.start..base + bytes.end
    }

    /// The file that other processes can map, if there is one.
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.mapping.file()
    }

    pub(crate) fn nr_frames(&self) -> u32 {
        self.nr_frames
    }

    /// Copies `target.len()` bytes of `frame` from `offset`; they may be torn.
    ///
    /// Panics when the range leaves the frame or the arena.
    #[inline]
    pub(crate) fn read(&self, frame: u32, offset: usize, target: &mut [u8]) {
        self.mapping.copy_out(self.locate(frame, offset, target.len()), target);
    }

    /// Starts bringing the line at `offset` of `frame` into the processor's cache, if there is such
    /// a frame.
    #[inline]
    pub(crate) fn fetch(&self, frame: u32, offset: usize) {
        if frame < self.nr_frames && offset < FRAME_BYTES {
            self.mapping.fetch(frame as usize * FRAME_BYTES + offset);
        }
    }

    /// Copies `source` to `offset` of `frame`; panics when out of bounds.
    ///
    /// # Safety
    /// The caller owns the frame exclusively (S4): no other thread writes it, no `&[u8]` of it
    /// lives.
    pub(crate) unsafe fn write(&self, frame: u32, offset: usize, source: &[u8]) {
        self.mapping.copy_in(self.locate(frame, offset, source.len()), source);
    }

    /// Copies the whole of frame `source` to frame `target`; panics when out of bounds.
    ///
    /// # Safety
    /// As for [`write`](Self::write), of the target. The source is not written meanwhile, or the
    /// copy is torn.
    pub(crate) unsafe fn copy_frame(&self, source: u32, target: u32) {
        assert!(source != target, "S3: a frame that is claimed holds no page");
        let from = self.locate(source, 0, FRAME_BYTES);
        let to = self.locate(target, 0, FRAME_BYTES);
        self.mapping.copy_within(from, to, FRAME_BYTES);
    }

    /// Zeroes `range` of `frame`; panics when out of bounds.
    ///
    /// # Safety
    /// As for [`write`](Self::write).
    pub(crate) unsafe fn fill_zero(&self, frame: u32, range: Range<usize>) {
        let len = range.end.checked_sub(range.start).expect("S1: a range ends after its start");
        self.mapping.zero(self.locate(frame, range.start, len), len);
    }

    /// The bytes of `frame`, as a slice; panics when the frame is not in the arena.
    ///
    /// # Safety
    /// The frame is not written while the slice lives (S4): it is pinned, or locked by the caller.
    pub(crate) unsafe fn bytes(&self, frame: u32) -> &[u8] {
        let base = self.frame_ptr(frame).cast_const();
        // SAFETY: S1 (checked ranges are mapped); the caller keeps writers away (S4).
        unsafe { std::slice::from_raw_parts(base, FRAME_BYTES) }
    }

    /// The first byte of `frame`: for the kernel, and for slices. Panics when not in the arena.
    #[inline]
    pub(crate) fn frame_ptr(&self, frame: u32) -> *mut u8 {
        self.mapping.base().wrapping_add(self.locate(frame, 0, FRAME_BYTES))
    }

    /// The one place where a frame and an offset become a position: S1's check.
    #[inline]
    fn locate(&self, frame: u32, offset: usize, len: usize) -> usize {
        // Two functions refuse: an `assert` with numbers would store them first, in each call.
        if frame >= self.nr_frames {
            refuse_frame(frame, self.nr_frames);
        }
        if offset > FRAME_BYTES || len > FRAME_BYTES - offset {
            refuse_range(offset, len);
        }
        frame as usize * FRAME_BYTES + offset
    }

    /// Has the memory of `frames` come from `node`; panics when they are not in the arena.
    pub(crate) fn bind(&self, frames: Range<u32>, node: u32) -> io::Result<()> {
        let bytes = self.bytes_of(&frames);
        self.mapping.bind(bytes.start, bytes.len(), node)
    }

    /// Processes that are forked do not have the mapping.
    pub(crate) fn keep_from_children(&self) -> io::Result<()> {
        self.mapping.keep_from_children()
    }

    pub(crate) fn touch(&self) -> io::Result<()> {
        self.mapping.touch()
    }

    /// Blocks of 2 MiB that become huge pages only where that is asked for.
    pub(crate) fn nr_to_collapse(&self) -> u32 {
        self.mapping.nr_to_collapse() as u32
    }

    /// Makes a huge page of a block that is all in memory; false if it is not.
    pub(crate) fn collapse(&self, block: u32) -> bool {
        self.mapping.collapse(block as usize)
    }

    /// Makes a huge page of a block, all in memory, where all else is of small pages.
    pub(crate) fn collapse_one(&self, block: u32) {
        self.mapping.collapse_one(block as usize);
    }

    /// Whether a block of 2 MiB is all in memory.
    pub(crate) fn is_full(&self, block: u32) -> bool {
        self.mapping.is_full(block as usize)
    }

    /// Makes small pages of the huge one that a frame lies in, if it does.
    pub(crate) fn split(&self, frame: u32) {
        self.mapping.split(self.locate(frame, 0, FRAME_BYTES));
    }

    /// Makes huge pages of what `frames` lie in, once for each; panics when they are not in the
    /// arena.
    pub(crate) fn make_huge(&self, frames: Range<u32>) {
        self.mapping.make_huge(self.bytes_of(&frames));
    }

    pub(crate) fn count_resident_bytes(&self) -> u64 {
        self.mapping.count_resident_bytes()
    }

    /// Has `frames` get no memory but by their own use; panics when they are not in the arena.
    pub(crate) fn withhold(&self, frames: Range<u32>) {
        self.mapping.withhold(self.bytes_of(&frames));
    }

    /// As before `frames` were withheld, or discarded; panics when they are not in the arena.
    pub(crate) fn take_again(&self, frames: Range<u32>) {
        self.mapping.take_again(self.bytes_of(&frames));
    }

    /// None of it is made of huge pages from now on.
    pub(crate) fn stay_small(&self) {
        self.mapping.stay_small();
    }

    /// Drops the contents of `frames`, to make room for a page that is moved there.
    ///
    /// # Safety
    /// As for [`discard`](Self::discard).
    pub(crate) unsafe fn empty(&self, frames: Range<u32>) -> io::Result<()> {
        let bytes = self.bytes_of(&frames);
        // SAFETY: S1 (checked above), S4 (the caller owns the frames).
        unsafe { self.mapping.empty(bytes.start, bytes.len()) }
    }

    fn bytes_of(&self, frames: &Range<u32>) -> Range<usize> {
        assert!(frames.start <= frames.end && frames.end <= self.nr_frames, "S1: {frames:?}");
        frames.start as usize * FRAME_BYTES..frames.end as usize * FRAME_BYTES
    }

    /// Gives the memory of `frames` back to the system, and [withholds](Self::withhold) them: they
    /// read as zero afterwards.
    ///
    /// # Safety
    /// The caller owns every one of the frames exclusively (S4).
    pub(crate) unsafe fn discard(&self, frames: Range<u32>) -> io::Result<()> {
        let bytes = self.bytes_of(&frames);
        // SAFETY: S1 (checked above), S4 (the caller owns the frames).
        unsafe { self.mapping.discard(bytes.start, bytes.len()) }
    }
}

#[cold]
fn refuse_frame(frame: u32, nr_frames: u32) -> ! {
    panic!("S1: frame {frame} of {nr_frames}");
}

#[cold]
fn refuse_range(offset: usize, len: usize) -> ! {
    panic!("S1: {len} bytes at {offset} leave the frame");
}
