//! The reading side: frames and numbers of another process, mapped read-only.

use crate::memory::copy::copy_out_to;
use crate::memory::frames::FRAME_BYTES;
use crate::memory::mapped::Mapped;
use crate::memory::numbers::{BUCKET, FILE_WORDS, Layout, REVOKED, is_in_range, key_of, known_to};
use pagetide_core::ids::PageIndex;
use rustix::mm::ProtFlags;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Another process's frames, mapped read-only.
///
/// # Concurrency
/// Shared freely. Never blocks.
pub struct FrameView {
    frames: Mapped,
    numbers: Mapped,
    layout: Layout,
    /// The viewer's number, 0 for none.
    viewer: u32,
}

impl FrameView {
    /// Maps the two files of [`FrameArena::shared_files`](crate::FrameArena::shared_files), of an
    /// arena of `nr_frames` frames.
    ///
    /// # Errors
    /// Fails if a mapping fails, or a file is too short.
    pub fn open(
        frames: BorrowedFd<'_>,
        numbers: BorrowedFd<'_>,
        nr_frames: u32,
    ) -> io::Result<FrameView> {
        let layout = Layout::new(nr_frames);
        let lens = (nr_frames as usize * FRAME_BYTES, layout.bytes());
        let is_long = |file: BorrowedFd<'_>, len: usize| -> io::Result<bool> {
            Ok(rustix::fs::fstat(file)?.st_size as u64 >= len as u64)
        };
        if nr_frames == 0 || !is_long(frames, lens.0)? || !is_long(numbers, lens.1)? {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let map = |file: BorrowedFd<'_>, len: usize| {
            Mapped::new(file, len, ProtFlags::READ)?.keep_from_children()
        };
        let (frames, numbers) = (map(frames, lens.0)?, map(numbers, lens.1)?);
        Ok(FrameView { frames, numbers, layout, viewer: 0 })
    }

    /// Also finds the pages shown only to this viewer, see [`SharedFile::show_only_to`].
    ///
    /// [`SharedFile::show_only_to`]: super::SharedFile::show_only_to
    pub fn of_viewer(self, viewer: u32) -> FrameView {
        FrameView { viewer, ..self }
    }

    /// Makes all frames inaccessible to this process, which is about to lose the right to read
    /// them. No page is found any more.
    ///
    /// # Errors
    /// Fails if the system refuses the mapping.
    pub fn blank(&self) -> io::Result<()> {
        self.numbers.blank()?;
        self.frames.blank()
    }

    /// Returns the length in bytes and the count of writes of the file with the tag, see
    /// [`shared`](super). `None` if the file or some of the pages are hidden.
    #[inline]
    pub fn file(&self, tag: u32, pages: &Range<u64>) -> Option<(u64, u64)> {
        let start = self.layout.file(tag);
        let words = &self.numbers.words()[start..start + FILE_WORDS];
        let known = words[0].load(Ordering::Acquire);
        let is_it = known == u64::from(tag) || self.finds_in_part(known, tag, pages, &words[4]);
        // Acquire: later accesses follow these loads.
        let numbers = (words[1].load(Ordering::Acquire), words[2].load(Ordering::Acquire));
        (is_it && tag != 0).then_some(numbers)
    }

    /// For a range that only one viewer finds.
    #[cold]
    fn finds_in_part(&self, known: u64, tag: u32, pages: &Range<u64>, range: &AtomicU64) -> bool {
        let is_shown = known as u32 == tag && known & REVOKED == 0;
        // Acquire, as for the first word: the range is as new.
        let is_in_range = || is_in_range(range.load(Ordering::Acquire), pages);
        is_shown && (known == known_to(tag, self.viewer) || !is_in_range())
    }

    /// Returns the page with an immediate report of use, `u64::MAX` for none. A hint.
    #[inline]
    pub fn marker(&self, tag: u32) -> u64 {
        self.numbers.words()[self.layout.file(tag) + 3].load(Ordering::Relaxed)
    }

    /// Copies bytes of page `index` of the file with the tag, from `offset`, to `target`. Returns
    /// true if the copy is valid. Otherwise `target` has any bytes: the page is not resident, is
    /// changing, or has no hint.
    ///
    /// # Safety
    /// `target` is valid for writes of `len` bytes, outside this view.
    #[inline]
    pub unsafe fn read(
        &self,
        tag: u32,
        index: u64,
        offset: usize,
        target: *mut u8,
        len: usize,
    ) -> bool {
        let key = key_of(tag, PageIndex(index));
        if key == 0 || offset > FRAME_BYTES || len > FRAME_BYTES - offset {
            return false;
        }
        let words = self.numbers.words();
        let (start, upper) = self.layout.bucket_of(key);
        for hint in &words[start..start + BUCKET] {
            let hint = hint.load(Ordering::Relaxed);
            let frame = hint as u32 as usize;
            if hint & !u64::from(u32::MAX) != upper || frame >= self.layout.nr_frames {
                continue;
            }
            let [number, name] = &words[2 * frame..2 * frame + 2] else { continue };
            let before = number.load(Ordering::Acquire);
            if name.load(Ordering::Relaxed) != key {
                continue;
            }
            // SAFETY: S23 (frame and range were checked). The caller vouches for the target.
            return before & 1 == 0 && unsafe { self.copy(frame, offset, target, len) } && {
                fence(Ordering::Acquire);
                is_still(number, before)
            };
        }
        false
    }

    /// As [`FrameView::read`], into a slice.
    pub fn read_into(&self, tag: u32, index: u64, offset: usize, target: &mut [u8]) -> bool {
        // SAFETY: S23: the slice is the caller's, of that length.
        unsafe { self.read(tag, index, offset, target.as_mut_ptr(), target.len()) }
    }

    /// Copies from a frame, and returns true.
    ///
    /// # Safety
    /// `target` is valid for writes of `len` bytes. Frame and range are inside the frames.
    #[inline]
    unsafe fn copy(&self, frame: usize, offset: usize, target: *mut u8, len: usize) -> bool {
        let at = frame * FRAME_BYTES + offset;
        // SAFETY: S23 (checked ranges are mapped). The caller vouches for the target.
        unsafe { copy_out_to(self.frames.words(), at, target, len) };
        true
    }
}

#[inline]
fn is_still(number: &AtomicU64, before: u64) -> bool {
    number.load(Ordering::Relaxed) == before
}
