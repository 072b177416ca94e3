//! The interface for a server of other processes, used by `pagetide run` only. It may change in any
//! release.
//!
//! ```text
//!   HeldFiles     a file opened under a lease               open_held
//!                 frames that other processes read          shared_files
//!                 memory for other uses of the server       frame_use
//!   SharedPages   hits and misses of other processes        touch_ranges, insert, bring_in
//!                 visibility of a file's pages              hide, show, show_only_to
//!   MappedPages   pages that other processes map            page_file, map_in, map_in_to_write
//! ```
//!
//! Other processes find pages by a file's *tag* in a [view](pagetide_sys::shared::FrameView) of the
//! frames. A process that reads a missing page from disk may pass the bytes to the cache. The
//! cache inserts the page unless the file was written through the cache in the meantime.

use crate::engine::errors::{OpenError, ReadError};
use pagetide_core::units::PAGE_BYTES;
use pagetide_sys::{PageFile, StoreFault};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Server operations on a page cache.
pub trait HeldFiles {
    /// An open file: [`File`](crate::File).
    type File: SharedPages;

    /// Opens the file behind a descriptor for reading, and for writing if `write` is set.
    ///
    /// The caller has exclusive use of the file, for example by a lease, and the only open
    /// description. Cached pages of an earlier open are used only if the file has not changed
    /// since.
    ///
    /// # Errors
    /// As [`PageCache::open`](crate::PageCache::open).
    fn open_held(&self, file: Arc<std::fs::File>, write: bool) -> Result<Self::File, OpenError>;

    /// Waits for the readahead that keeps files without a handle open, and their disk space
    /// allocated.
    fn wait_for_closed_files(&self);

    /// Returns the two memory files for views in other processes, and the number of frames. `None`
    /// unless the cache was built to be shared.
    fn shared_files(&self) -> Option<([BorrowedFd<'_>; 2], u32)>;

    /// Returns the use of the frames. `None` if the server must not resize the cache, because the
    /// cache resizes itself or has tiers.
    fn frame_use(&self) -> Option<FrameUse>;
}

/// The use of a cache's frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameUse {
    /// All frames, in bytes.
    pub nr_bytes: u64,
    /// Frames with pages, in bytes.
    pub nr_resident_bytes: u64,
    /// Number of accesses since the cache was built.
    pub nr_accesses: u64,
}

/// Server operations on an open file.
pub trait SharedPages {
    /// Returns the file's tag in views. `None` if the cache is not shared.
    fn tag(&self) -> Option<u32>;

    /// Returns true if the file system supports a file of `len` bytes.
    fn allows_len(&self, len: u64) -> bool;

    /// Hides the file's pages from all views. Pages read earlier are refused.
    fn hide(&self);

    /// Shows the file's pages to views again.
    fn show(&self);

    /// Shows these pages to the views of `viewer` only, if the file is not hidden. Viewer 0 means
    /// all views. A range without end (`u64::MAX`) hides the length from other viewers too. Call
    /// from one thread at a time.
    fn show_only_to(&self, viewer: u32, pages: &Range<u64>);

    /// Ends the exclusive use, and accepts the file's current state as the cached state. The holder
    /// was the only writer, and all dirty pages were written back.
    fn agree(&self);

    /// Records that the holder has failed to write bytes back. The next sync of each handle reports
    /// the error.
    fn note_failed_write(&self, error: &std::io::Error);

    /// Returns a function that waits for reads ahead that keep `descriptor` open. Call it after the
    /// holder has closed the descriptor.
    fn reads_ahead(&self, descriptor: &Arc<std::fs::File>) -> Box<dyn FnOnce()>;

    /// Drops all pages, even dirty ones, before another process gets the file. The next sync of
    /// each handle reports the loss.
    fn discard(&self);

    /// Reads a range in as [`File::read_at`](crate::File::read_at) does, without copying bytes.
    /// Returns the number of bytes of the range that the file has. Views find the pages if there is
    /// a frame for each. With `continues`, the range belongs to a stream, whose reader has found
    /// the pages before by itself.
    ///
    /// # Errors
    /// As [`File::read_at`](crate::File::read_at).
    fn bring_in(&self, offset: u64, len: u64, continues: bool) -> Result<u64, ReadError>;

    /// Records hits of a view on `nr` pages from `first` on. Skips absent pages.
    fn touch_pages(&self, first: u64, nr: u64);

    /// Calls [`SharedPages::touch_pages`] for each range: the first page and the number of pages.
    fn touch_ranges(&self, ranges: &[(u64, u64)]);

    /// Prefetches the cache lines that [`SharedPages::insert`] needs. Changes only timing.
    fn fetch_absent(&self, index: u64);

    /// Returns the number of pages to read for a miss outside any stream, including the missing
    /// page.
    fn nr_around(&self) -> u64;

    /// Counts the read requests of other processes, which [`SharedPages::insert`] does not count.
    fn count_device_reads(&self, nr: u64);

    /// Returns the [count of writes](pagetide_sys::shared) to the file.
    fn writes(&self) -> u64;

    /// Inserts page `index`, which another process has read from disk while the [count of
    /// writes](pagetide_sys::shared) was `writes`. Refuses the page, without harm, if the bytes are
    /// stale or no frame is free.
    fn insert(&self, index: u64, writes: u64, bytes: &[u8; PAGE_BYTES]) -> Inserted;

    /// Inserts a neighbour of a missing page, as suggested by [`SharedPages::nr_around`]. Counts no
    /// access, and refuses the page if memory is no longer ample.
    fn insert_around(&self, index: u64, writes: u64, bytes: &[u8; PAGE_BYTES]) -> bool;

    /// Inserts a page as [`SharedPages::insert_around`] does, from the kernel's page cache.
    fn insert_copied(&self, index: u64, writes: u64, bytes: &[u8; PAGE_BYTES]) -> bool;
}

/// The result of [`SharedPages::insert`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// The page was absent, and is resident now.
    New,
    /// The page was resident already, so it was read twice.
    AlreadyResident,
    /// The page is not resident.
    Refused,
}

/// Server operations on an open file that other processes map.
pub trait MappedPages {
    /// Returns the memory file that other processes map with the file's offsets. Creates it with
    /// `nr_pages` pages if needed.
    ///
    /// # Errors
    /// Fails if the system refuses a userfaultfd, a descriptor or an address range.
    fn page_file(&self, nr_pages: u64) -> std::io::Result<Arc<PageFile>>;

    /// Returns a handle with its own readahead, which reads into the memory file.
    fn for_maps(&self) -> Self
    where
        Self: Sized;

    /// Reads page `index` into the memory file, with resident neighbours. The memory file must
    /// exist, and the handle must be [for maps](MappedPages::for_maps). Returns false if the file
    /// has no such page, or the memory file no place for it.
    ///
    /// # Errors
    /// As [`File::read_at`](crate::File::read_at). Fails with [`ReadError::Store`] also if no frame
    /// becomes free for seconds.
    fn map_in(&self, index: u64) -> Result<bool, ReadError>;

    /// Calls [`MappedPages::map_in`], then marks the page dirty and lets the faulting process store
    /// to it. The page stays resident until write-back, which removes it from all processes first.
    /// The memory file must be [ready for writers](PageFile::prepare_writers). Waits above the hard
    /// dirty limit.
    ///
    /// # Errors
    /// As [`MappedPages::map_in`].
    fn map_in_to_write(&self, index: u64, fault: &StoreFault<'_>) -> Result<bool, ReadError>;

    /// Locks pages in memory for `locker`, a number of the caller's choice. The pages are [mapped
    /// in](MappedPages::map_in) and stay until they are unlocked, truncated, or
    /// [unmapped](MappedPages::unmap_all). Returns false, and locks nothing, if all locked pages
    /// would exceed half of the memory limit, or if the file has no such pages.
    ///
    /// # Errors
    /// As [`MappedPages::map_in`]. On an error, `locker` has none of these pages locked.
    fn lock_pages(&self, locker: u64, pages: Range<u64>) -> Result<bool, ReadError>;

    /// Unlocks pages that `locker` has locked.
    fn unlock_pages(&self, locker: u64, pages: &Range<u64>);

    /// Removes all pages from the memory file and from all processes. Keeps the pages in memory if
    /// `keep` is set, and otherwise drops all, even dirty ones. No page may be mapped in meanwhile.
    fn unmap_all(&self, keep: bool);
}
