//! The numbers, keys and hints that lead other processes to pages: the writing side.
//!
//! The protocol is described in `shared`.
//!
//! ```text
//!   numbers  | number, key | .. || 8 hints | .. || tag, length, writes, marker, range | .. files
//!
//!   tag      63 .. 33   32     31 .. 0
//!            viewer   revoked   tag
//! ```
//!
//! **Invariants.** S23: a frame's number and key are written under its page's LOCK, or under the
//! claim of the frame. All accesses are atomic.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use pagetide_core::ids::PageIndex;
use rustix::mm::ProtFlags;

use crate::machine::prefetch::fetch_to_write;
use crate::memory::frames::FRAME_BYTES;
use crate::memory::mapped::{Mapped, memory_file};

/// Hints per bucket: one cache line.
pub(super) const BUCKET: usize = 8;
/// Consecutive pages with consecutive buckets, for hardware prefetch.
const GROUP: u64 = 64;
/// The maximum number of files with a tag.
const NR_FILES: usize = 1 << 14;
/// Words per file entry: one cache line.
pub(super) const FILE_WORDS: usize = 8;
/// A bit of a file's first word: the tag is taken, and hidden.
pub(super) const REVOKED: u64 = 1 << 32;
/// The bits above hold the exclusive viewer.
const VIEWER_SHIFT: u32 = 33;

/// 0 is for all viewers.
#[inline]
pub(super) fn known_to(tag: u32, viewer: u32) -> u64 {
    u64::from(tag) | u64::from(viewer) << VIEWER_SHIFT
}

pub(super) fn with_viewer(word: u64, viewer: u32) -> u64 {
    word & ((1 << VIEWER_SHIFT) - 1) | known_to(0, viewer)
}

/// First and end. An end that does not fit means no end.
pub(super) fn range_word(pages: &Range<u64>) -> u64 {
    let [start, end] = [pages.start, pages.end].map(|page| page.min(u64::from(u32::MAX)));
    start | end << 32
}

pub(super) fn is_in_range(word: u64, pages: &Range<u64>) -> bool {
    let (start, end) = (word & u64::from(u32::MAX), word >> 32);
    let end = if end == u64::from(u32::MAX) { u64::MAX } else { end };
    pages.start < end && start < pages.end
}

/// Positions in the file of numbers, in words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) nr_frames: usize,
    hints: usize,
    pub(super) nr_buckets: usize,
    files: usize,
}

impl Layout {
    pub(super) fn new(nr_frames: u32) -> Layout {
        let nr_frames = nr_frames as usize;
        let hints = (2 * nr_frames).next_multiple_of(BUCKET);
        // At least four hints per frame: with two, one bucket in fifty overflows.
        let nr_buckets = nr_frames.div_ceil(BUCKET / 4).next_power_of_two();
        Layout { nr_frames, hints, nr_buckets, files: hints + nr_buckets * BUCKET }
    }

    pub(super) fn bytes(&self) -> usize {
        ((self.files + NR_FILES * FILE_WORDS) * 8).next_multiple_of(FRAME_BYTES)
    }

    /// Also returns the upper half of the key's hint.
    #[inline]
    pub(super) fn bucket_of(&self, key: u64) -> (usize, u64) {
        let first = (spread(key / GROUP) >> 32) as usize;
        let bucket = (first + (key % GROUP) as usize) & (self.nr_buckets - 1);
        (self.hints + bucket * BUCKET, spread(key) << 32)
    }

    pub(super) fn file(&self, tag: u32) -> usize {
        self.files + tag as usize % NR_FILES * FILE_WORDS
    }
}

/// Hashes a key: each output bit depends on each input bit.
#[inline]
fn spread(key: u64) -> u64 {
    let spread = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread ^ (spread >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// 0 for none.
#[inline]
pub(super) fn key_of(tag: u32, index: PageIndex) -> u64 {
    match u32::try_from(index.0) {
        Ok(index) if tag != 0 => u64::from(tag) << 32 | u64::from(index),
        _ => 0,
    }
}

pub(crate) struct Numbers {
    mapped: Mapped,
    file: OwnedFd,
    layout: Layout,
    next_tag: AtomicU32,
}

impl Numbers {
    pub(crate) fn new(nr_frames: u32) -> io::Result<Numbers> {
        let layout = Layout::new(nr_frames);
        let file = memory_file("pagetide-numbers", layout.bytes())?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let mapped = Mapped::new(file.as_fd(), layout.bytes(), access)?;
        Ok(Numbers { mapped, file, layout, next_tag: AtomicU32::new(1) })
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    #[inline]
    fn number(&self, frame: u32) -> &AtomicU64 {
        &self.mapped.words()[2 * frame as usize]
    }

    #[inline]
    fn key(&self, frame: u32) -> &AtomicU64 {
        &self.mapped.words()[2 * frame as usize + 1]
    }

    /// Makes the number odd: the page is locked, or about to be filled. Idempotent.
    #[inline]
    pub(crate) fn begin(&self, frame: u32) {
        let number = self.number(frame);
        let now = number.load(Ordering::Relaxed);
        if now & 1 == 0 {
            number.store(now + 1, Ordering::Relaxed);
        }
        // Before any change of the contents: a reader that sees a new byte then sees the odd
        // number.
        fence(Ordering::SeqCst);
    }

    /// Makes the number even: the page is about to be unlocked.
    #[inline]
    pub(crate) fn end(&self, frame: u32) {
        let number = self.number(frame);
        let now = number.load(Ordering::Relaxed);
        if now & 1 == 1 {
            number.store(now + 1, Ordering::Release);
        }
    }

    /// Requires an odd number.
    pub(crate) fn name(&self, frame: u32, tag: u32, index: PageIndex) {
        let key = key_of(tag, index);
        self.key(frame).store(key, Ordering::Relaxed);
        self.hint(frame, key);
    }

    /// The number is odd, and stays odd.
    pub(crate) fn unname(&self, frame: u32) {
        let key = self.key(frame).swap(0, Ordering::Relaxed);
        if key == 0 {
            return;
        }
        // Clears the hint, so that the next writer finds room without following other hints.
        let (start, upper) = self.layout.bucket_of(key);
        let (hint, relaxed) = (upper | u64::from(frame), Ordering::Relaxed);
        let bucket = &self.mapped.words()[start..start + BUCKET];
        if let Some(place) = bucket.iter().find(|place| place.load(relaxed) == hint) {
            // Another thread may have replaced the hint.
            let _ = place.compare_exchange(hint, 0, relaxed, relaxed);
        }
    }

    #[inline]
    pub(crate) fn fetch_hints(&self, tag: u32, index: PageIndex) {
        let (start, _) = self.layout.bucket_of(key_of(tag, index));
        fetch_to_write(&self.mapped.words()[start]);
    }

    /// Publishes the hint of a page's frame again, if it was overwritten.
    pub(crate) fn hint_again(&self, frame: u32, tag: u32, index: PageIndex) {
        self.hint(frame, key_of(tag, index));
    }

    /// Over an equal hint, in an empty slot, over a stale hint, or over any other.
    fn hint(&self, frame: u32, key: u64) {
        if key == 0 {
            return;
        }
        let (start, upper) = self.layout.bucket_of(key);
        let bucket = &self.mapped.words()[start..start + BUCKET];
        let hint = upper | u64::from(frame);
        let known = |place: usize| bucket[place].load(Ordering::Relaxed);
        if (0..BUCKET).any(|place| known(place) == hint) {
            return;
        }
        let first = frame as usize % BUCKET;
        let places = || (0..BUCKET).map(|step| (first + step) % BUCKET);
        // Following a hint costs a cache line of keys.
        let empty = places().find(|&place| known(place) == 0);
        let nowhere = || places().find(|&place| self.leads_nowhere(known(place), start));
        let place = empty.or_else(nowhere).unwrap_or(first);
        bucket[place].store(hint, Ordering::Relaxed);
    }

    fn leads_nowhere(&self, hint: u64, start: usize) -> bool {
        let frame = hint as u32;
        let key = self.key(frame).load(Ordering::Relaxed);
        key == 0 || self.layout.bucket_of(key) != (start, hint & !u64::from(u32::MAX))
    }

    #[cfg(test)]
    pub(super) fn count_hints(&self) -> usize {
        let hints = &self.mapped.words()[self.layout.hints..self.layout.files];
        hints.iter().filter(|hint| hint.load(Ordering::Relaxed) != 0).count()
    }

    pub(super) fn file_words(&self, tag: u32) -> &[AtomicU64] {
        let start = self.layout.file(tag);
        &self.mapped.words()[start..start + FILE_WORDS]
    }

    /// Allocates an unused tag for a file of `len` bytes. Returns 0 if there are too many files.
    pub(super) fn take_tag(&self, len: u64) -> u32 {
        for _ in 0..64 {
            let tag = self.next_tag.fetch_add(1, Ordering::Relaxed);
            // Tags are never reused, so allocation stops before the counter wraps.
            if tag == 0 || tag > u32::MAX / 2 {
                self.next_tag.store(u32::MAX / 2, Ordering::Relaxed);
                return 0;
            }
            let words = self.file_words(tag);
            let taken = u64::from(tag) | REVOKED;
            let free = words[0].compare_exchange(0, taken, Ordering::Acquire, Ordering::Relaxed);
            if free.is_ok() {
                words[1].store(len, Ordering::Relaxed);
                words[2].store(0, Ordering::Relaxed);
                words[3].store(u64::MAX, Ordering::Relaxed);
                words[0].store(tag.into(), Ordering::Release);
                return tag;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_of_a_file_goes_through_lines_in_order() {
        let layout = Layout::new(4096);
        let place = |index: u64| layout.bucket_of(key_of(7, PageIndex(index))).0 - layout.hints;
        let next = |place: usize| (place + BUCKET) % (layout.nr_buckets * BUCKET);
        let nr_in_order = (1..6400).filter(|index| place(*index) == next(place(index - 1))).count();
        assert_eq!(nr_in_order as u64, 6400 - 6400 / GROUP, "all but the first of each group");
        let hints: std::collections::BTreeSet<u64> =
            (0..GROUP).map(|index| layout.bucket_of(key_of(7, PageIndex(index))).1).collect();
        assert_eq!(hints.len() as u64, GROUP, "a hint still tells its page from its neighbours");
    }
}
