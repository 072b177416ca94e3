//! Owned pins: bytes of a range that outlive the call, the thread and the borrow of the file.
//!
//! ```text
//!   in one page, or in adjacent frames     --> pinned in place          no copy
//!   scattered, or the file may be written  --> copied out of the cache  as many frames set aside
//! ```
//!
//! A program may keep a pin for ever, so nothing waits for a pin. Pages of a file that this cache
//! has open for writing are copied: a writer then meets no pin.

use super::{File, Handle, page_range};
use crate::engine::errors::ReadError;
use crate::engine::frame_source::aside::Aside;
use pagetide_core::ids::PageIndex;
use pagetide_core::readahead::ReadaheadRun;
use pagetide_core::units::{PAGE_BYTES, PAGE_SHIFT};
use pagetide_sys::{AlignedBuf, PinnedRun};
use std::fmt;
use std::ops::{Deref, Range};

/// The bytes of a range of a file, as one slice, until the pin is dropped: see [`File::pin`].
///
/// May be kept for any time, moved and shared between threads, and dropped on any thread. Wrap the
/// pin into an [`Arc`](std::sync::Arc) for several owners. Moving a pin does not move its bytes.
/// Keeps the handle of its file open.
pub struct PinnedRange {
    // Before the file, which keeps the memory of the frames.
    bytes: Held,
    file: File,
    /// The pinned pages. Empty for a copy.
    pages: Range<u64>,
}

enum Held {
    InPlace(PinnedRun),
    Copy { bytes: AlignedBuf, _aside: Aside },
}

impl File {
    /// Pins a byte range, and returns its bytes, which do not change any more. Reads absent pages
    /// first.
    ///
    /// The bytes count against the limit until the pin is dropped, because nothing can evict them.
    /// If no memory is left beside pins, the call fails. [`File::read_at`] still works then.
    ///
    /// - A range within one page is pinned in place, without a copy, and also a longer range whose
    ///   pages are in adjacent frames, as after readahead into free memory. Meanwhile calls that
    ///   would change such a page fail instead of waiting: [`WriteError::Pinned`] through a handle
    ///   that was opened for writing later, and [`ReadError::Pinned`] after another program has
    ///   changed the file.
    /// - Any other range is copied, and every range of a file that is open for writing in this
    ///   cache. Writes go on, and the copy stays as it was. A copy takes as many frames of the
    ///   cache as the range has pages, and is charged to the file's group.
    ///
    /// A copy is not in the record of a [recorded](crate::Builder::record) cache.
    ///
    /// ```
    /// # use pagetide::{Bytes, OpenOptions, PageCache};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("postings");
    /// # std::fs::write(&path, vec![7; 1 << 20])?;
    /// let cache = PageCache::builder().memory(Bytes(4 << 20)).build()?;
    /// let file = cache.open(&path, OpenOptions::new().read(true))?;
    /// let postings = file.pin(5_000..25_000)?;
    /// drop(file);
    /// let sum = std::thread::spawn(move || postings.iter().map(|byte| u64::from(*byte)).sum());
    /// let sum: u64 = sum.join().expect("no panic");
    /// assert_eq!(sum, 7 * 20_000);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails with:
    /// - [`ReadError::UnexpectedEnd`] if the file ends early, or the range ends before its start.
    /// - [`ReadError::NoFrame`] if the memory that is not pinned, dirty or busy is too little.
    /// - [`ReadError::NotReadable`], [`ReadError::Store`], [`ReadError::WouldDeadlock`] and
    ///   [`ReadError::Pinned`] as [`File::read_at`].
    ///
    /// # Concurrency
    /// Waits as [`File::read_at`] does. No thread waits for a pin.
    ///
    /// # Cost
    /// In place, on resident pages, two atomics for each page, and a short lock of the file. A copy
    /// costs the read, and for each page a frame and a system call, and keeps the pages in the
    /// cache as well until they are evicted.
    ///
    /// [`WriteError::Pinned`]: crate::WriteError::Pinned
    pub fn pin(&self, range: Range<u64>) -> Result<PinnedRange, ReadError> {
        let handle = &*self.handle;
        if !handle.access.read {
            return Err(ReadError::NotReadable);
        }
        let len = handle.mapping.len();
        if range.start > range.end || range.end > len {
            return Err(ReadError::UnexpectedEnd { end: range.end, len });
        }
        match handle.pin_in_place(&range)? {
            Some(run) => {
                let pages = page_range(range.start, range.end - range.start);
                let pages = pages.start.0..pages.end.0;
                Ok(PinnedRange { bytes: Held::InPlace(run), file: self.clone(), pages })
            }
            None => self.copy_out(range),
        }
    }

    fn copy_out(&self, range: Range<u64>) -> Result<PinnedRange, ReadError> {
        let handle = &*self.handle;
        let no_frame = |_| ReadError::NoFrame { frames: handle.pages.nodes.nr_frames() };
        let len = usize::try_from(range.end - range.start).map_err(|_| no_frame(()))?;
        let nr_frames = len.div_ceil(PAGE_BYTES) as u64;
        let aside = handle.engine().source.set_aside(&handle.mapping, nr_frames);
        let aside = aside.map_err(|_| no_frame(()))?;
        let mut bytes = AlignedBuf::zeroed(len);
        self.read_exact_at(&mut bytes, range.start)?;
        let bytes = Held::Copy { bytes, _aside: aside };
        Ok(PinnedRange { bytes, file: self.clone(), pages: 0..0 })
    }
}

impl Handle {
    /// Pins the pages of a range if they are in adjacent frames, and no writer may meet the pins.
    fn pin_in_place(&self, range: &Range<u64>) -> Result<Option<PinnedRun>, ReadError> {
        let pages = page_range(range.start, range.end - range.start);
        let pages = pages.start.0..pages.end.0;
        if range.is_empty() || self.mapping.is_writable() {
            return Ok(None);
        }
        if pages.end - pages.start > 1 {
            self.bring_in_all(&pages);
            if !self.is_adjacent(&pages) {
                return Ok(None);
            }
        }
        self.mapping.owned_pins.add(pages.clone());
        let pinned = self.pin_all(&pages);
        if !matches!(pinned, Ok(Some(_))) {
            self.mapping.owned_pins.remove(pages.clone());
        }
        let within = (range.start - (pages.start << PAGE_SHIFT)) as usize;
        let len = (range.end - range.start) as usize;
        let shown = pinned?.map(|mut run| {
            run.show(within..within + len);
            run
        });
        Ok(shown)
    }

    /// Reads the absent pages of a range that is to be pinned, with one request for adjacent pages.
    fn bring_in_all(&self, pages: &Range<u64>) {
        let is_here = |index| {
            let page = self.mapping.table.page(PageIndex(index));
            page.is_some_and(|page| page.load().is_resident())
        };
        if let Some(first) = pages.clone().find(|index| !is_here(*index)) {
            let nr = (pages.end - first).min(self.prefetched_max());
            let run = ReadaheadRun::asked_for(first, nr);
            self.engine().prefetcher.bring_in(&self.mapping, [run].into_iter());
        }
    }

    /// Returns true if all pages are resident, in adjacent frames.
    fn is_adjacent(&self, pages: &Range<u64>) -> bool {
        let frame_of = |index| self.mapping.table.page(PageIndex(index))?.load().frame();
        let Some(first) = frame_of(pages.start) else { return false };
        pages
            .clone()
            .zip(first.0..)
            .all(|(index, frame)| frame_of(index).is_some_and(|at| at.0 == frame))
    }

    /// Pins all pages, recorded as owned pins, and counts the accesses. Returns `None` if the pages
    /// must be copied.
    fn pin_all(&self, pages: &Range<u64>) -> Result<Option<PinnedRun>, ReadError> {
        let mut run: Option<PinnedRun> = None;
        for index in pages.clone() {
            let guard = match self.pin_plain(index) {
                Some(guard) => guard,
                None => self.pin_slowly(index)?,
            };
            // The guard keeps the page in place until the owned pin does.
            let is_pinned = !self.mapping.is_writable()
                && match &mut run {
                    Some(run) => run.try_extend(),
                    None => {
                        run = PinnedRun::try_new(&self.table, PageIndex(index));
                        run.is_some()
                    }
                };
            drop(guard);
            if !is_pinned {
                self.note_unpins(pages.start..index + 1);
                return Ok(None);
            }
        }
        Ok(run)
    }

    fn note_unpins(&self, pages: Range<u64>) {
        if !self.reads_plainly {
            pages.for_each(|index| self.note_unpin(index));
        }
    }
}

impl PinnedRange {
    /// Returns true if the bytes are pinned in the cache, without a copy.
    pub fn is_in_place(&self) -> bool {
        matches!(self.bytes, Held::InPlace(_))
    }
}

impl Deref for PinnedRange {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Held::InPlace(run) => run,
            Held::Copy { bytes, .. } => bytes,
        }
    }
}

impl AsRef<[u8]> for PinnedRange {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for PinnedRange {
    fn drop(&mut self) {
        let handle = &*self.file.handle;
        // First: a thread that waits for the page from now on is woken by the unpin.
        handle.mapping.owned_pins.remove(self.pages.clone());
        handle.note_unpins(self.pages.clone());
    }
}

impl fmt::Debug for PinnedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedRange({:?}, {} bytes)", self.file, self.len())
    }
}
