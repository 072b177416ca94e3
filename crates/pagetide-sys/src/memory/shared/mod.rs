//! Frames that other processes may look at, where to find pages in them, and how to tell whether a
//! look was good.
//!
//! **Problem.** Another process is to copy a resident page without asking, while we evict, refill
//! and write as ever; and nothing it does may matter to us.
//!
//! **Idea.** It maps the frames, and a file of numbers, both read-only. Each frame has a number,
//! odd while a thread here holds the frame's page locked, and a key that says whose page it is. A
//! hint leads from key to frame; it may be wrong, or missing, because the key is compared.
//!
//! ```text
//!   here     LOCK --> odd --> key, contents, or eviction --> even + 2 --> unlock
//!   there    hint --> number even?  key right?  copy  number the same?  then the copy is the page
//!
//!   numbers  | number, key | .. || 8 hints | .. || tag, length, writes, marker, range | .. files
//! ```
//!
//! A frame that is taken from its page stays odd until it is another page's. A key is a file's
//! *tag* and the page's index; tags are never used again. A file that is hidden is found by
//! no view, whatever its pages do, until it is shown again.
//!
//! Hints stand in buckets of one line, and are overwritten where a bucket is full: a reader that
//! finds none has to ask, and is answered with the hint made anew ([`PageRef::publish`]). 64 pages
//! that follow each other have buckets that follow each other, from one by chance on.
//!
//! *Writes* tells whether the file on disk is what it was when its tag was made: even, it was
//! not changed through us since; odd, it was. So a process may read the file by itself, and
//! offer what it has read, as long as the number has not changed meanwhile.
//!
//! A *range* of a file can be shown to one *viewer* alone: to the process that is changing it.
//! Others ask then, and are told what is so once the change is made, or will never be.
//!
//! The *marker* is the page whose use starts the next window of readahead: its reader says so at
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

/// The viewer that no view is of.
pub const NO_VIEWER: u32 = (1 << 31) - 1;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::arena::FrameArena;
use crate::memory::numbers::{REVOKED, range_word, with_viewer};

/// What other processes may know of one file: its tag, its length, whether it was written.
///
/// # Concurrency
/// Shared freely. No view finds it any more once it is dropped.
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

    /// The page whose reader is to say so at once; `u64::MAX` for none.
    #[inline]
    pub fn marker(&self) -> &AtomicU64 {
        &self.words()[3]
    }

    /// No view finds the file from here on, until [`SharedFile::show`].
    pub fn hide(&self) {
        self.words()[0].fetch_or(REVOKED, Ordering::SeqCst);
    }

    /// Views find the file again.
    pub fn show(&self) {
        self.words()[0].fetch_and(!REVOKED, Ordering::SeqCst);
    }

    /// Only views of this viewer find these pages from here on; 0 is for all. Where there is no
    /// end, neither do others know the file's length.
    ///
    /// # Concurrency
    /// One thread at a time.
    pub fn show_only_to(&self, viewer: u32, pages: &Range<u64>) {
        let words = self.words();
        words[4].store(range_word(pages), Ordering::Release);
        let next = |word| Some(with_viewer(word, viewer));
        let _ = words[0].fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
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
