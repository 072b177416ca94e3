//! What a server of other processes needs beyond the public interface: `pagetide run` is built on
//! it, and nothing else should be. It may change in any release.
//!
//! ```text
//!   HeldFiles     an open file its holder has to itself       open_held
//!                 frames that other processes look at         shared_files
//!   SharedPages   hits and misses of those processes          touch_ranges, admit, bring_in
//!                 whether they find the file's pages at all   hide, show, show_only_to
//!   MappedPages   pages that those processes map              page_file, map_in, map_in_to_write
//! ```
//!
//! Other processes find pages by a file's *tag* in a [view](pagetide_sys::shared::FrameView) of the
//! frames. A page that one of them has missed and read by itself is offered with its bytes, and
//! admitted only as what the file on disk had while it was not written through the cache.

use crate::engine::errors::{OpenError, ReadError};
use pagetide_core::units::PAGE_BYTES;
use pagetide_sys::{PageFile, StoreFault};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The seam of a page cache.
pub trait HeldFiles {
    /// An open file: a [`File`](crate::File).
    type File: SharedPages;

    /// Opens the file behind a descriptor whose holder has the file to itself, by a lease: no other
    /// open file of it exists, none is made, and what changes the file beside the cache is the
    /// holder's own doing. The file is opened to be read, and written where `write` says so.
    ///
    /// What is cached of it from before is believed only if the file looks as it did then.
    ///
    /// # Errors
    /// As [`PageCache::open`](crate::PageCache::open).
    fn open_held(&self, file: Arc<std::fs::File>, write: bool) -> Result<Self::File, OpenError>;

    /// Waits for the reads ahead that keep files open of which no handle is left: such a file, if
    /// it has no name either, has room on its disk until then.
    fn wait_for_closed_files(&self);

    /// Two memory files, and the number of frames they are of: what another process makes a view
    /// from. `None` unless the cache was built to be shared.
    fn shared_files(&self) -> Option<([BorrowedFd<'_>; 2], u32)>;
}

/// The seam of an open file.
pub trait SharedPages {
    /// What a view finds the file's pages by. `None` where the cache is not shared.
    fn tag(&self) -> Option<u32>;

    /// The longest that the file may become, bytes: what its file system takes.
    fn len_max(&self) -> u64;

    /// No view finds the file's pages from here on, and no page is admitted that was read before.
    fn hide(&self);

    /// Views find the file's pages again.
    fn show(&self);

    /// Only views of `viewer` find these pages from here on, if the file is not hidden; 0 is for
    /// all. Where there is no end (`u64::MAX`), neither do others know its length. Called by one
    /// thread at a time.
    fn show_only_to(&self, viewer: u32, pages: &Range<u64>);

    /// Other processes may change the file again. As it looks now, it is what the cache has: its
    /// holder has changed it, and no other, and what was written was written back.
    fn agree(&self);

    /// What waits for the reads ahead of this file that keep `descriptor` open, to be called once
    /// the descriptor's holder has closed it.
    fn reads_ahead(&self, descriptor: &Arc<std::fs::File>) -> Box<dyn FnOnce()>;

    /// Drops all pages, dirty ones too: another process is about to have the file, and what could
    /// not be written back is lost. The next sync of each handle has said why.
    fn discard(&self);

    /// Reads as [`File::read_at`](crate::File::read_at) does, without the bytes; they are to be
    /// found by views then, as far as there is room. Returns how many bytes of the range the file
    /// has.
    ///
    /// # Errors
    /// As [`File::read_at`](crate::File::read_at).
    fn bring_in(&self, offset: u64, len: u64) -> Result<u64, ReadError>;

    /// Notes that `nr` pages from `first` on were found by a view, and read: hits as any other.
    /// Pages that are not resident any more are passed over.
    fn touch_pages(&self, first: u64, nr: u64);

    /// As [`SharedPages::touch_pages`] for each of `ranges`: the first page, and how many.
    fn touch_ranges(&self, ranges: &[(u64, u64)]);

    /// Starts bringing in what [`SharedPages::admit`] of page `index` will look at and change.
    /// Costs a few cycles, and changes nothing but time.
    fn fetch_absent(&self, index: u64);

    /// How many pages to read for a miss outside any stream, with the one that is wanted, now.
    fn nr_around(&self) -> u64;

    /// Takes in page `index`, which another process has missed and read past the cache from the
    /// file on disk, when its [count of writes](pagetide_sys::shared) was `writes`. Returns whether
    /// the page is resident now; if not, it was stale, or there was no room, and nothing is lost.
    fn admit(&self, index: u64, writes: u64, bytes: &[u8; PAGE_BYTES]) -> bool;

    /// As [`SharedPages::admit`], of a page that was not asked for: it was read with another, as
    /// [`SharedPages::nr_around`] has it. It is no access, and is left where memory is not ample
    /// any more.
    fn admit_around(&self, index: u64, writes: u64, bytes: &[u8; PAGE_BYTES]) -> bool;
}

/// The seam of an open file that other processes map.
pub trait MappedPages {
    /// The memory file in which others map the file's pages, offset for offset; made for `nr_pages`
    /// pages if there is none.
    ///
    /// # Errors
    /// What the system says of userfaultfd, descriptors and addresses.
    fn page_file(&self, nr_pages: u64) -> std::io::Result<Arc<PageFile>>;

    /// A handle with its own readahead, whose pages are brought into the memory file.
    fn for_maps(&self) -> Self
    where
        Self: Sized;

    /// Has page `index` in the memory file, which must have been made, as a read of the page would
    /// have it in memory, and its neighbours that are; by a handle that is [for
    /// maps](MappedPages::for_maps). `false` where the file has no such page.
    ///
    /// # Errors
    /// As [`File::read_at`](crate::File::read_at); [`ReadError::Store`] also where no frame is to
    /// be had for seconds.
    fn map_in(&self, index: u64) -> Result<bool, ReadError>;

    /// As [`MappedPages::map_in`], and lets the process with the fault store to the page, which is
    /// dirty from here on: until it is written back, which takes it from all processes first, it
    /// does not leave memory. The memory file must have been made
    /// [ready for that](PageFile::prepare_writers). Waits while more than the hard dirty limit is
    /// dirty.
    ///
    /// # Errors
    /// As [`MappedPages::map_in`].
    fn map_in_to_write(&self, index: u64, fault: &StoreFault<'_>) -> Result<bool, ReadError>;

    /// Locks pages in memory for `locker`, a number of the caller's: they are [mapped
    /// in](MappedPages::map_in), and stay until it lets them go, they are cut off, or [all are
    /// taken out](MappedPages::unmap_all). `false`, and none is locked, where half of the memory
    /// limit is too little for all pages that are locked, or the file has no such pages.
    ///
    /// # Errors
    /// As [`MappedPages::map_in`]; `locker` has none of these pages locked then.
    fn lock_pages(&self, locker: u64, pages: Range<u64>) -> Result<bool, ReadError>;

    /// `locker` lets go of pages that it has locked.
    fn unlock_pages(&self, locker: u64, pages: &Range<u64>);

    /// Takes all pages out of the memory file: no process has one mapped when this returns. They
    /// stay in memory where `keep` says so, and are dropped otherwise, dirty ones too. The caller
    /// sees to it that none is mapped in meanwhile.
    fn unmap_all(&self, keep: bool);
}
