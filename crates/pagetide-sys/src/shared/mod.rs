//! Frames that other processes may look at, where to find pages in them, and how to tell whether a
//! look was good.
//!
//! **Problem.** Another process is to copy a resident page without asking, while we evict, refill
//! and write as ever; and nothing it does may matter to us.
//!
//! **Idea.** It maps the frames, and a file of numbers, both read-only. Each frame has a number,
//! odd while somebody here holds the frame's page locked, and a key that says whose page it is. A
//! hint leads from key to frame; it may be wrong, or missing, because the key is compared.
//!
//! ```text
//!   here     LOCK --> odd --> key, contents, or eviction --> even + 2 --> unlock
//!   there    hint --> number even?  key right?  copy  number the same?  then the copy is the page
//!
//!   numbers  | number, key | .. || 8 hints | .. || tag, length, writes, marker | .. each file
//! ```
//!
//! A frame that is taken from its page stays odd until it is another page's. A key is a file's
//! *tag* and the page's index; tags are never used again. A file that is hidden is found by
//! no view, whatever its pages do, until it is shown again.
//!
//! Hints stand in buckets of one line, and are overwritten where a bucket is full: who finds none
//! has to ask, and is then answered with the hint made anew ([`PageRef::publish`]). 64 pages that
//! follow each other have buckets that follow each other, from one by chance on.
//!
//! *Writes* tells whether the file on disk is what it was when its tag was made: even, nobody has
//! changed it through us since; odd, somebody has. So a process may read the file by itself, and
//! offer what it has read, as long as the number has not changed meanwhile.
//!
//! The *marker* is the page whose use starts the next window of readahead: who reads it says so at
//! once, and not with what it read before and after.
//!
//! **Invariants.** S1 and S2 as for our own copies; S23: the mappings of a view are read-only, and
//! live as long as the view (S28).
//!
//! **Ignored.** What the other process does with what it sees: it is told about files it has open,
//! and can see all the others' frames as well. It must be trusted as a reader.
//!
//! Source: Linux memfd_create(2), fcntl(2) `F_SEAL_SHRINK`; the number is a sequence lock's.
//!
//! [`PageRef::publish`]: crate::PageRef::publish

mod positions;
mod view;

pub use positions::{NR_PLACES, Positions};
pub use view::FrameView;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use pagetide_core::ids::PageIndex;
use rustix::mm::ProtFlags;

use crate::arena::FrameArena;
use crate::cpu::fetch_to_write;
use crate::mapped::{Mapped, memory_file};
use crate::memory::FRAME_BYTES;

/// Hints in a bucket: a line of them.
const BUCKET: usize = 8;
/// Pages that follow each other and whose buckets do: who goes through a file goes through lines
/// in order, which processors fetch ahead.
const GROUP: u64 = 64;
/// Files that can have a tag at one time.
const NR_FILES: usize = 1 << 14;
/// Words of a file's entry: a line.
const FILE_WORDS: usize = 8;
/// In a file's first word: the tag is taken, and not to be found.
const REVOKED: u64 = 1 << 32;

/// Where things are in the file of numbers, in words.
#[derive(Clone, Copy, Debug)]
struct Layout {
    nr_frames: usize,
    hints: usize,
    nr_buckets: usize,
    files: usize,
}

impl Layout {
    fn new(nr_frames: u32) -> Layout {
        let nr_frames = nr_frames as usize;
        let hints = (2 * nr_frames).next_multiple_of(BUCKET);
        // Four hints a frame, at least: with two, one bucket in fifty has more than it can hold.
        let nr_buckets = nr_frames.div_ceil(BUCKET / 4).next_power_of_two();
        Layout { nr_frames, hints, nr_buckets, files: hints + nr_buckets * BUCKET }
    }

    fn bytes(&self) -> usize {
        ((self.files + NR_FILES * FILE_WORDS) * 8).next_multiple_of(FRAME_BYTES)
    }

    /// The first hint of the key's bucket, and what its hint has in its upper half.
    #[inline]
    fn bucket_of(&self, key: u64) -> (usize, u64) {
        let first = (spread(key / GROUP) >> 32) as usize;
        let bucket = (first + (key % GROUP) as usize) & (self.nr_buckets - 1);
        (self.hints + bucket * BUCKET, spread(key) << 32)
    }

    fn file(&self, tag: u32) -> usize {
        self.files + tag as usize % NR_FILES * FILE_WORDS
    }
}

/// A number that has something of each bit of `key` in each of its own.
#[inline]
fn spread(key: u64) -> u64 {
    let spread = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread ^ (spread >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// Says whose page it is; 0 for nobody's.
#[inline]
fn key_of(tag: u32, index: PageIndex) -> u64 {
    match u32::try_from(index.0) {
        Ok(index) if tag != 0 => u64::from(tag) << 32 | u64::from(index),
        _ => 0,
    }
}

/// The numbers, keys, hints and files: where they are changed.
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

    /// The frame's page is locked, or about to be filled. Does nothing the second time.
    #[inline]
    pub(crate) fn begin(&self, frame: u32) {
        let number = self.number(frame);
        let now = number.load(Ordering::Relaxed);
        if now & 1 == 0 {
            number.store(now + 1, Ordering::Relaxed);
        }
        // Before any change of the contents: whoever sees a new byte sees the odd number after.
        fence(Ordering::SeqCst);
    }

    /// The frame's page is about to be unlocked.
    #[inline]
    pub(crate) fn end(&self, frame: u32) {
        let number = self.number(frame);
        let now = number.load(Ordering::Relaxed);
        if now & 1 == 1 {
            number.store(now + 1, Ordering::Release);
        }
    }

    /// The frame is to be page `index` of file `tag`; its number is odd.
    pub(crate) fn name(&self, frame: u32, tag: u32, index: PageIndex) {
        let key = key_of(tag, index);
        self.key(frame).store(key, Ordering::Relaxed);
        self.hint(frame, key);
    }

    /// The frame is nobody's page; its number is odd, and stays so.
    pub(crate) fn unname(&self, frame: u32) {
        let key = self.key(frame).swap(0, Ordering::Relaxed);
        if key == 0 {
            return;
        }
        // Room for the next hint: who makes one need not look where the others lead.
        let (start, upper) = self.layout.bucket_of(key);
        let (hint, relaxed) = (upper | u64::from(frame), Ordering::Relaxed);
        let bucket = &self.mapped.words()[start..start + BUCKET];
        if let Some(place) = bucket.iter().find(|place| place.load(relaxed) == hint) {
            // Somebody may just have put another there.
            let _ = place.compare_exchange(hint, 0, relaxed, relaxed);
        }
    }

    /// Starts bringing in the line where a hint to the page will stand.
    #[inline]
    pub(crate) fn fetch_hints(&self, tag: u32, index: PageIndex) {
        let (start, _) = self.layout.bucket_of(key_of(tag, index));
        fetch_to_write(&self.mapped.words()[start]);
    }

    /// Makes the hint to a page's frame anew, if it is gone.
    pub(crate) fn hint_again(&self, frame: u32, tag: u32, index: PageIndex) {
        self.hint(frame, key_of(tag, index));
    }

    /// Puts a hint into the key's bucket: where it is already, or where none is, or one leads
    /// nowhere any more, or in the place of another.
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
        // To find out where one leads takes a line of the keys each.
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

    fn file_words(&self, tag: u32) -> &[AtomicU64] {
        let start = self.layout.file(tag);
        &self.mapped.words()[start..start + FILE_WORDS]
    }

    /// A tag of its own for a file of `len` bytes; 0 where there are too many.
    fn take_tag(&self, len: u64) -> u32 {
        for _ in 0..64 {
            let tag = self.next_tag.fetch_add(1, Ordering::Relaxed);
            // Before numbers come round: what was told of a tag is not taken back.
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

/// What other processes may know of one file: its tag, its length, whether it was written.
///
/// # Concurrency
/// Shared freely. Found by nobody any more once it is dropped.
pub struct SharedFile {
    arena: Arc<FrameArena>,
    tag: u32,
}

impl SharedFile {
    /// A tag for a file of `len` bytes whose pages will live in `arena`; `None` unless the arena is
    /// shared, or if there are too many files.
    pub fn new(arena: &Arc<FrameArena>, len: u64) -> Option<SharedFile> {
        let tag = arena.numbers()?.take_tag(len);
        (tag != 0).then(|| SharedFile { arena: Arc::clone(arena), tag })
    }

    /// Tells the file from all others, for ever. Never 0.
    pub fn tag(&self) -> u32 {
        self.tag
    }

    /// The file's length in bytes.
    #[inline]
    pub fn len(&self) -> &AtomicU64 {
        &self.words()[1]
    }

    /// Odd once the file has been changed since the number was last made even.
    #[inline]
    pub fn writes(&self) -> &AtomicU64 {
        &self.words()[2]
    }

    /// The page that somebody wants to hear of when it is read; `u64::MAX` for none.
    #[inline]
    pub fn marker(&self) -> &AtomicU64 {
        &self.words()[3]
    }

    /// No view finds the file from here on, until [`SharedFile::show`].
    pub fn hide(&self) {
        self.words()[0].store(u64::from(self.tag) | REVOKED, Ordering::SeqCst);
    }

    /// Views find the file again.
    pub fn show(&self) {
        self.words()[0].store(u64::from(self.tag), Ordering::SeqCst);
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        self.arena.numbers().expect("S23: a tag is had from a shared arena").file_words(self.tag)
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        self.words()[0].store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
