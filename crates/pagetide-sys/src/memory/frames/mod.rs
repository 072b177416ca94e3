//! Frame memory: one private mapping, accessed only by raw copies.
//!
//! **Problem.** Threads and the kernel write the frames, so no reference may exist outside a guard.
//!
//! **Idea.** Only this file turns (frame, offset, length) into an address, and always checks
//! bounds.
//!
//! ```text
//!   reserved:  |....|=========================|....|     over-reserved by 2 MiB, ends unmapped
//!                   ^ 2 MiB aligned            ^ nr_frames * PAGE_BYTES later
//! ```
//!
//! **Invariants.** S1: `base..base + nr_frames * FRAME_BYTES` is mapped readable and writable from
//! construction to drop. No other Rust object has a byte of it. Methods panic if a frame is outside
//! the arena.
//!
//! **Ignored.** Frames larger than a base page.
//!
//! Under loom, `model` replaces the mapping.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use crate::memory::target::CopyTarget;

use mapping::Mapping;

mod ahead;
mod given_back;
#[cfg_attr(loom, path = "model.rs")]
mod mapping;

/// Bytes per frame. Two cells are enough for loom.
pub(crate) const FRAME_BYTES: usize =
    if cfg!(loom) { 16 } else { pagetide_core::units::PAGE_BYTES };

pub(crate) struct FrameMemory {
    nr_frames: u32,
    mapping: Mapping,
}

impl FrameMemory {
    /// Reserves memory for `nr_frames` zero frames. `huge_pages` is advice.
    ///
    /// # Errors
    /// Fails with the error of `mmap`, usually `ENOMEM`.
    pub(crate) fn reserve(nr_frames: u32, huge_pages: bool) -> io::Result<FrameMemory> {
        let len = nr_frames as usize * FRAME_BYTES;
        Ok(FrameMemory { nr_frames, mapping: Mapping::reserve(len, huge_pages)? })
    }

    /// As [`FrameMemory::reserve`], in a file that other processes can map.
    pub(crate) fn reserve_shared(nr_frames: u32, huge_pages: bool) -> io::Result<FrameMemory> {
        let len = nr_frames as usize * FRAME_BYTES;
        Ok(FrameMemory { nr_frames, mapping: Mapping::reserve_shared(len, huge_pages)? })
    }

    /// Reserves addresses for `nr_frames` frames of small pages, which may be given away. Only
    /// touched pages take memory.
    ///
    /// # Errors
    /// As for [`FrameMemory::reserve`].
    pub(crate) fn reserve_thin(nr_frames: u32) -> io::Result<FrameMemory> {
        let len = nr_frames as usize * FRAME_BYTES;
        Ok(FrameMemory { nr_frames, mapping: Mapping::reserve_thin(len)? })
    }

    pub(crate) fn cells(&self) -> &[std::sync::atomic::AtomicU64] {
        self.mapping.cells()
    }

    pub(crate) fn addresses(&self, frames: Range<u32>) -> Range<usize> {
        let (base, bytes) = (self.mapping.base().addr(), self.bytes_of(&frames));
        base + bytes.start..base + bytes.end
    }

    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.mapping.file()
    }

    pub(crate) fn nr_frames(&self) -> u32 {
        self.nr_frames
    }

    /// Fills `target` with bytes of `frame` from `offset`. The bytes may be torn.
    #[inline]
    pub(crate) fn read(&self, frame: u32, offset: usize, target: &mut (impl CopyTarget + ?Sized)) {
        let (start, len) = target.place();
        let at = self.locate(frame, offset, len);
        // SAFETY: S57: the target's memory, exclusively borrowed, so outside the frames.
        unsafe { self.mapping.copy_out(at, start, len) };
        target.note_filled();
    }

    /// Prefetches the cache line at `offset` of `frame`, if the frame exists.
    #[inline]
    pub(crate) fn fetch(&self, frame: u32, offset: usize) {
        if frame < self.nr_frames && offset < FRAME_BYTES {
            self.mapping.fetch(frame as usize * FRAME_BYTES + offset);
        }
    }

    /// # Safety
    /// The caller owns the frame exclusively (S4): no other thread writes it, and no `&[u8]` of it
    /// lives.
    pub(crate) unsafe fn write(&self, frame: u32, offset: usize, source: &[u8]) {
        self.mapping.copy_in(self.locate(frame, offset, source.len()), source);
    }

    /// # Safety
    /// As for [`write`](Self::write), of the target. The copy is torn if the source is written
    /// meanwhile.
    pub(crate) unsafe fn copy_frame(&self, source: u32, target: u32) {
        assert!(source != target, "S3: a frame that is claimed holds no page");
        let from = self.locate(source, 0, FRAME_BYTES);
        let to = self.locate(target, 0, FRAME_BYTES);
        self.mapping.copy_within(from, to, FRAME_BYTES);
    }

    /// # Safety
    /// As for [`write`](Self::write).
    pub(crate) unsafe fn fill_zero(&self, frame: u32, range: Range<usize>) {
        let len = range.end.checked_sub(range.start).expect("S1: a range ends after its start");
        self.mapping.zero(self.locate(frame, range.start, len), len);
    }

    /// # Safety
    /// The frame is not written while the slice lives (S4): it is pinned, or locked by the caller.
    pub(crate) unsafe fn bytes(&self, frame: u32) -> &[u8] {
        let base = self.frame_ptr(frame).cast_const();
        // SAFETY: S1 (checked ranges are mapped). The caller keeps writers away (S4).
        unsafe { std::slice::from_raw_parts(base, FRAME_BYTES) }
    }

    #[inline]
    pub(crate) fn frame_ptr(&self, frame: u32) -> *mut u8 {
        self.mapping.base().wrapping_add(self.locate(frame, 0, FRAME_BYTES))
    }

    /// S1's only check.
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

    /// Later touches allocate only on `node`.
    pub(crate) fn bind(&self, frames: Range<u32>, node: u32) -> io::Result<()> {
        let bytes = self.bytes_of(&frames);
        self.mapping.bind(bytes.start, bytes.len(), node)
    }

    pub(crate) fn keep_from_children(&self) -> io::Result<()> {
        self.mapping.keep_from_children()
    }

    pub(crate) fn touch(&self) -> io::Result<()> {
        self.mapping.touch()
    }

    /// Returns the number of 2 MiB blocks that become huge pages only on request.
    pub(crate) fn nr_to_collapse(&self) -> u32 {
        self.mapping.nr_to_collapse() as u32
    }

    /// Makes a fully present block a huge page. Returns false if a page is absent.
    pub(crate) fn collapse(&self, block: u32) -> bool {
        self.mapping.collapse(block as usize)
    }

    /// Makes a fully present block of a small-page mapping a huge page.
    pub(crate) fn collapse_one(&self, block: u32) {
        self.mapping.collapse_one(block as usize);
    }

    pub(crate) fn is_full(&self, block: u32) -> bool {
        self.mapping.is_full(block as usize)
    }

    pub(crate) fn split(&self, frame: u32) {
        self.mapping.split(self.locate(frame, 0, FRAME_BYTES));
    }

    /// Makes huge pages of the blocks of `frames`, once per block.
    pub(crate) fn make_huge(&self, frames: Range<u32>) {
        self.mapping.make_huge(self.bytes_of(&frames));
    }

    pub(crate) fn count_resident_bytes(&self) -> u64 {
        self.mapping.count_resident_bytes()
    }

    /// Gives `frames` memory only by their own use.
    pub(crate) fn withhold(&self, frames: Range<u32>) {
        self.mapping.withhold(self.bytes_of(&frames));
    }

    /// Reverts withholding or discarding `frames`.
    pub(crate) fn take_again(&self, frames: Range<u32>) {
        self.mapping.take_again(self.bytes_of(&frames));
    }

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

    /// Frees the memory of `frames`, which then read as zero, and [withholds](Self::withhold) them.
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
