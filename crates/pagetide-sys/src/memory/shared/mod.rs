//! Frames that other processes may read, an index of their pages, and a check of each read.
//!
//! **Problem.** Another process must copy a resident page without asking, while this process
//! evicts, fills and writes, and must not affect this process.
//!
//! **Idea.** The reader maps the frames and a file of numbers, both read-only. Each frame has a
//! number, odd while the frame's page is locked, and a key that names the page. A hint leads from
//! the key to the frame. Hints may be wrong or missing, because the key is compared.
//!
//! ```text
//!   here     LOCK --> odd --> key, contents, or eviction --> even + 2 --> unlock
//!   there    hint --> number even?  key right?  copy  number the same?  then the copy is the page
//!
//!   numbers  | number, key | .. || 8 hints | .. || tag, length, writes, marker, range | .. files
//! ```
//!
//! An evicted frame stays odd until it holds another page. A key is a file's *tag*, which is never
//! reused, and the page's index. No view finds a hidden file.
//!
//! Hints are in buckets of one cache line, and are overwritten if a bucket is full. A reader
//! without a hint asks the server, which publishes it again ([`PageRef::publish`]). 64 consecutive
//! pages have consecutive buckets, from a hashed start.
//!
//! *Writes* is even while the file on disk has not been changed by this process since the file got
//! its tag. Another process may then read the file, and insert the bytes if the number is
//! unchanged. A *range* can be shown only to the *viewer* that is changing it: other processes wait
//! for the server's answer. The *marker* starts the next readahead window: its use is reported at
//! once.
//!
//! **Invariants.** S1 and S2 as for the library's own copies. S23: the mappings of a view are
//! read-only, and live as long as the view (S28).
//!
//! **Ignored.** The reader can read all frames, and must be trusted.
//!
//! Source: Linux memfd_create(2), fcntl(2) `F_SEAL_SHRINK`. The number is a sequence lock.
//!
//! [`PageRef::publish`]: crate::PageRef::publish

mod positions;
mod read_marks;
mod view;

pub use positions::{PositionView, Positions};
pub use read_marks::{Mark, ReadMarks};
pub use view::FrameView;

/// The number of no viewer.
pub const NO_VIEWER: u32 = (1 << 31) - 1;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::arena::FrameArena;
use crate::memory::numbers::{REVOKED, range_word, with_viewer};

/// The shared state of one file: tag, length, writes, marker, range.
///
/// # Concurrency
/// Shared freely. Views stop finding the file when this is dropped.
pub struct SharedFile {
    arena: Arc<FrameArena>,
    tag: u32,
}

impl SharedFile {
    /// Allocates a tag for a file of `len` bytes with pages in `arena`. `None` if the arena is not
    /// shared, or has too many files.
    pub fn new(arena: &Arc<FrameArena>, len: u64) -> Option<SharedFile> {
        let tag = arena.numbers()?.take_tag(len);
        (tag != 0).then(|| SharedFile { arena: Arc::clone(arena), tag })
    }

    /// Returns the file's tag: unique for ever, never 0.
    pub fn tag(&self) -> u32 {
        self.tag
    }

    /// Returns the file's length in bytes.
    #[inline]
    pub fn len(&self) -> &AtomicU64 {
        &self.words()[1]
    }

    /// Returns the number of writes, odd if the file has changed since the number was made even.
    #[inline]
    pub fn writes(&self) -> &AtomicU64 {
        &self.words()[2]
    }

    /// Returns the page with an immediate report of use, `u64::MAX` for none.
    #[inline]
    pub fn marker(&self) -> &AtomicU64 {
        &self.words()[3]
    }

    /// Hides the file from all views until [`SharedFile::show`].
    pub fn hide(&self) {
        self.words()[0].fetch_or(REVOKED, Ordering::SeqCst);
    }

    /// Shows the file to views again.
    pub fn show(&self) {
        self.words()[0].fetch_and(!REVOKED, Ordering::SeqCst);
    }

    /// Shows these pages only to this viewer, 0 for all. If the range has no end, the file's length
    /// is hidden from other viewers as well.
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
