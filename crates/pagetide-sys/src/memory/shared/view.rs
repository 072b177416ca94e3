//! The other side: frames and numbers of another process, mapped to be looked at.

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

/// Another process's frames, mapped to be looked at.
///
/// # Concurrency
/// Shared freely. Never waits.
pub struct FrameView {
    frames: Mapped,
    numbers: Mapped,
    layout: Layout,
    /// The viewer's number; 0 for none.
    viewer: u32,
}

impl FrameView {
    /// Maps the two files that [`FrameArena::shared_files`](crate::FrameArena::shared_files) names,
    /// of an arena of `nr_frames` frames.
    ///
    /// # Errors
    /// What the system says: of mappings, or of files that are not so long.
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

    /// Finds pages that are shown to this viewer alone, too: see [`SharedFile::show_only_to`].
    ///
    /// [`SharedFile::show_only_to`]: super::SharedFile::show_only_to
    pub fn of_viewer(self, viewer: u32) -> FrameView {
        FrameView { viewer, ..self }
    }

    /// Looks at nothing from here on: no page is found any more, and no frame can be reached by
    /// this process, which is about to lose the right to.
    ///
    /// # Errors
    /// What the system says of mappings.
    pub fn blank(&self) -> io::Result<()> {
        self.numbers.blank()?;
        self.frames.blank()
    }

    /// The length in bytes of the file that has the tag, and its count of writes: see
    /// [`shared`](super). `None` if it may not be looked at, or some of the pages may not.
    #[inline]
    pub fn file(&self, tag: u32, pages: &Range<u64>) -> Option<(u64, u64)> {
        let start = self.layout.file(tag);
        let words = &self.numbers.words()[start..start + FILE_WORDS];
        let known = words[0].load(Ordering::Acquire);
        let is_it = known == u64::from(tag) || self.finds_in_part(known, tag, pages, &words[4]);
        // Acquire: what follows, follows these.
        let numbers = (words[1].load(Ordering::Acquire), words[2].load(Ordering::Acquire));
        (is_it && tag != 0).then_some(numbers)
    }

    /// Whether the pages of a file are found, of which some are shown to one viewer alone.
    #[cold]
    fn finds_in_part(&self, known: u64, tag: u32, pages: &Range<u64>, range: &AtomicU64) -> bool {
        let is_shown = known as u32 == tag && known & REVOKED == 0;
        // Acquire, as the first word was: what is being changed since before is in it.
        let is_in_range = || is_in_range(range.load(Ordering::Acquire), pages);
        is_shown && (known == known_to(tag, self.viewer) || !is_in_range())
    }

    /// The page of the file that its reader is to tell of at once. A hint, and `u64::MAX` for none.
    #[inline]
    pub fn marker(&self, tag: u32) -> u64 {
        self.numbers.words()[self.layout.file(tag) + 3].load(Ordering::Relaxed)
    }

    /// Copies bytes of page `index` of the file that has the tag, from `offset` on, to `target`;
    /// returns whether they are the page's. If not, `target` holds anything: the page is not
    /// resident, is just being changed, or is not found.
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
            // SAFETY: S23 (frame and range were checked); the caller answers for the target.
            return before & 1 == 0 && unsafe { self.copy(frame, offset, target, len) } && {
                fence(Ordering::Acquire);
                is_still(number, before)
            };
        }
        false
    }

    /// As [`FrameView::read`], into a slice.
    pub fn read_into(&self, tag: u32, index: u64, offset: usize, target: &mut [u8]) -> bool {
        // SAFETY: S23: the slice is the caller's, and so long.
        unsafe { self.read(tag, index, offset, target.as_mut_ptr(), target.len()) }
    }

    /// Copies from a frame; always true.
    ///
    /// # Safety
    /// `target` is valid for writes of `len` bytes; frame and range are inside the frames.
    #[inline]
    unsafe fn copy(&self, frame: usize, offset: usize, target: *mut u8, len: usize) -> bool {
        let at = frame * FRAME_BYTES + offset;
        // SAFETY: S23 (checked ranges are mapped); the caller answers for the target.
        unsafe { copy_out_to(self.frames.words(), at, target, len) };
        true
    }
}

#[inline]
fn is_still(number: &AtomicU64, before: u64) -> bool {
    number.load(Ordering::Relaxed) == before
}
