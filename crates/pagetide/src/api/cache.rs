//! The page cache: opening files, looking at it, resizing it, and its end.

use crate::api::file::{Access, File};
use crate::api::seam::HeldFiles;
use crate::api::stats::cache::CacheStats;
use crate::engine::errors::{OpenError, ResizeError, SyncError};
use crate::engine::flush::scope::OnLocked;
use crate::engine::groups::directory::Member;
use crate::engine::held;
use crate::engine::mapping::Mapping;
use crate::engine::sizer::SizeChanges;
use crate::memory::store::{Backing, Store};
use crate::workers::CacheShared;
use pagetide_core::lru::GenCommandError;
use pagetide_core::lru::lru_gen::Detail;
use pagetide_core::units::{Bytes, Millis};
use pagetide_sys::{StoreFile, StoreOptions};
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A page cache with a hard byte limit. Clones are the same cache.
///
/// It lives until the last clone and the last [`File`] are gone; then it writes back what is dirty
/// and stops its threads. Errors of that last write-back cannot be reported: sync first.
///
/// # Concurrency
/// Any number of threads at once, in all calls. The only code of the caller that runs inside is
/// that of a [`Store`].
///
/// # Cost
/// Beside the contents at most 128 bytes for each frame, 16 for each page of the files it has
/// touched, and 16 MiB. A clone costs a count.
#[derive(Clone)]
pub struct PageCache {
    pub(crate) shared: Arc<CacheShared>,
}

/// How to open a file; as [`std::fs::OpenOptions`].
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    create: bool,
    truncate: bool,
}

impl OpenOptions {
    /// No access: set at least one of read and write.
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// Allows reading.
    pub fn read(mut self, read: bool) -> OpenOptions {
        self.read = read;
        self
    }

    /// Allows writing. The file must be readable as well: partial pages are read first.
    pub fn write(mut self, write: bool) -> OpenOptions {
        self.write = write;
        self
    }

    /// Makes the file if there is none. Without `write` it does nothing.
    pub fn create(mut self, create: bool) -> OpenOptions {
        self.create = create;
        self
    }

    /// Cuts the file to nothing. Without `write` it does nothing.
    pub fn truncate(mut self, truncate: bool) -> OpenOptions {
        self.truncate = truncate;
        self
    }
}

impl PageCache {
    pub(crate) fn new(shared: Arc<CacheShared>) -> PageCache {
        PageCache { shared }
    }

    /// Opens a regular file. Two opens of one file share its pages.
    ///
    /// Close to open: what other programs had written when they closed the file is seen, here and
    /// by all handles from now on. Unless the file's length and times prove that it is unchanged,
    /// its clean pages are dropped; they prove nothing where it was written back here since the
    /// last open, nor within a few milliseconds of a change. Waits for no page, and for no guard.
    ///
    /// # Errors
    /// [`OpenError::Open`] with the system's reason, also for what is no regular file;
    /// [`OpenError::NoAccess`] if neither read nor write was asked for; [`OpenError::InRegion`] if
    /// a region is over the file; [`OpenError::TooLong`] and [`OpenError::TooManyMappings`].
    ///
    /// # Cost
    /// A few system calls; a visit to each resident page of the file where it may have changed.
    pub fn open(&self, path: impl AsRef<Path>, options: OpenOptions) -> Result<File, OpenError> {
        self.open_for(None, path.as_ref(), options)
    }

    pub(crate) fn open_for(
        &self,
        group: Option<&Member>,
        path: &Path,
        options: OpenOptions,
    ) -> Result<File, OpenError> {
        span!("open", path = %path.display());
        if !options.read && !options.write {
            return Err(OpenError::NoAccess);
        }
        let refused = |source| OpenError::Open { path: path.to_owned(), source };
        let limits = &self.shared.limits;
        // Truncation goes through the mapping, so that pages cached already are cut as well.
        let store_options = StoreOptions {
            write: options.write,
            create: options.create && options.write,
            truncate: false,
            direct: limits.direct_io,
        };
        let file = StoreFile::open(path, store_options).map_err(|error| refused(error.into()))?;
        let access = Access { read: options.read, write: options.write };
        let file = self.open_stored(group, path, file, access)?;
        if options.truncate && options.write {
            file.set_len(0).map_err(|error| refused(error.into()))?;
        }
        Ok(file)
    }

    fn open_stored(
        &self,
        group: Option<&Member>,
        path: &Path,
        file: StoreFile,
        access: Access,
    ) -> Result<File, OpenError> {
        if !file.is_direct() {
            self.shared.engine.direct_io.store(false, Relaxed);
        }
        let backing = Backing::File { file: Arc::new(file), writable: access.write };
        let mapping =
            self.shared.engine.map_file(backing, group).map_err(|error| error.on(path))?;
        Ok(self.handle(mapping, access))
    }

    /// Opens a store of the caller's, for reading and writing. It is shared with no other handle.
    ///
    /// # Errors
    /// [`OpenError::Open`] if the store does not know its length.
    pub fn open_store(&self, store: Box<dyn Store>) -> Result<File, OpenError> {
        self.open_store_for(None, store)
    }

    pub(crate) fn open_store_for(
        &self,
        group: Option<&Member>,
        store: Box<dyn Store>,
    ) -> Result<File, OpenError> {
        let mapping = self.shared.engine.map_file(Backing::Custom(store), group);
        let mapping = mapping.map_err(|error| error.on(Path::new("(a custom store)")))?;
        Ok(self.handle(mapping, Access { read: true, write: true }))
    }

    fn handle(&self, mapping: Arc<Mapping>, access: Access) -> File {
        File::new(Arc::clone(&self.shared), mapping, access)
    }

    /// What the cache has done so far; prints as some ten lines.
    ///
    /// # Cost
    /// Takes the lock of each node's lists in turn, and reads every thread's counts: not for every
    /// request.
    pub fn stats(&self) -> CacheStats {
        CacheStats::collect(&self.shared.engine)
    }

    /// How its size has followed what the machine can spare; `None` where it does not.
    pub fn size_changes(&self) -> Option<SizeChanges> {
        self.shared.engine.sizer.as_ref().map(|sizer| sizer.changes())
    }

    /// The generations in the shape of Linux's `lru_gen`, or `lru_gen_full`: sequence number, age
    /// in milliseconds, anonymous and file pages. Empty where the policy has none. Files of no
    /// [group](PageCache::group) are those of `memcg 0 /`, and its node is 0.
    pub fn describe_lru_gen(&self, detail: Detail) -> String {
        self.shared.engine.source.describe_lru_gen(detail)
    }

    /// Carries out commands in the shape of Linux's `lru_gen`, which stand apart by `,`, `;` or new
    /// lines: `+ 0 0 max_gen [swappiness [force]]` starts a generation, `- 0 0 min_gen [swappiness
    /// [nr_pages]]` evicts those up to one. Returns how many pages were evicted.
    ///
    /// # Errors
    /// [`GenCommandError`], for the first that cannot be carried out; those before it are.
    ///
    /// # Concurrency
    /// In the calling thread, beside others that reclaim.
    pub fn command_lru_gen(&self, commands: &str) -> Result<u64, GenCommandError> {
        self.shared.engine.source.command_lru_gen(commands)
    }

    /// Tells the time, in milliseconds of any clock that does not go back: what is due is done, in
    /// the calling thread. A cache with [background threads](crate::Builder::background) does it by
    /// itself; without them, hot pages of slow memory are found only if this is called now and
    /// then.
    pub fn tick(&self, now: Millis) {
        self.shared.engine.source.tick(now);
    }

    /// Walks all pages, frames and lists, and panics where they contradict each other: for tests.
    /// No other thread may use the cache meanwhile, and it must have no
    /// [background threads](crate::Builder::background).
    pub fn validate(&self) {
        self.shared.engine.validate();
    }

    /// Writes back all dirty pages of all files; does not make them durable.
    ///
    /// # Errors
    /// [`SyncError::Writeback`] if a page could not be written: it is dirty still, and the next
    /// sync of its file says why. [`SyncError::WouldDeadlock`] if this thread has a
    /// [`PageGuardMut`](crate::PageGuardMut).
    ///
    /// # Concurrency
    /// Beside all others. Waits for other threads' [`PageGuardMut`](crate::PageGuardMut)s of dirty
    /// pages.
    ///
    /// # Cost
    /// The device's: one request for up to 64 neighbouring pages, several at once.
    pub fn flush_all(&self) -> Result<(), SyncError> {
        let engine = &self.shared.engine;
        let files = engine.mappings.snapshot();
        if let Some(index) = files.iter().find_map(|mapping| held::first_exclusive(mapping)) {
            return Err(SyncError::WouldDeadlock { index });
        }
        let flushed = engine.flusher.flush_all(OnLocked::End);
        if flushed.nr_failed == 0 {
            return Ok(());
        }
        let message = format!("{} pages could not be written", flushed.nr_failed);
        Err(SyncError::Writeback(io::Error::other(message)))
    }

    /// Changes the limit. Shrinking evicts until it fits, and gives the memory to the system.
    ///
    /// With [tiers](crate::Builder::tier), `memory` is the sum of all but the compressed one. Each
    /// keeps its share, as the builder or [`PageCache::resize_tier`] set it last, unless it can
    /// neither grow nor shrink so far; the others then take up the difference. Fast memory is
    /// demoted before it is given up, and what leaves the slowest is evicted.
    ///
    /// # Errors
    /// [`ResizeError::OutOfRange`], or [`ResizeError::Promised`] if groups are promised more, and
    /// then nothing changed; [`ResizeError::Busy`] if too many frames are pinned or cannot be
    /// written back.
    ///
    /// # Concurrency
    /// Beside others that use the cache; they get frames as they become free. With tiers, one
    /// resize waits for another.
    pub fn resize(&self, memory: Bytes) -> Result<(), ResizeError> {
        self.shared.engine.source.resize(memory, &self.shared.limits)
    }

    /// Changes the size of one tier, `nth` from the fastest, as
    /// [`TieringStats::tiers`](crate::TieringStats) lists them, up to what was reserved
    /// ([`Tier::growing_to`](crate::Tier::growing_to)). The fast tier can be no larger than all
    /// others together. A cache of one kind of memory has only its tier 0.
    ///
    /// ```
    /// # use pagetide::{Bytes, PageCache, Tier};
    /// # use std::time::Duration;
    /// let fast = Tier::dram(Bytes(2 << 20)).growing_to(Bytes(4 << 20));
    /// let slow = Tier::emulated(Bytes(8 << 20), Duration::from_nanos(300));
    /// let cache = PageCache::builder().tier(fast).tier(slow).build()?;
    /// cache.resize_tier(0, Bytes(4 << 20))?;
    /// assert_eq!(cache.stats().memory_bytes, 12 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`PageCache::resize`], and [`ResizeError::NoSuchTier`].
    pub fn resize_tier(&self, nth: usize, memory: Bytes) -> Result<(), ResizeError> {
        self.shared.engine.source.resize_tier(nth, memory, &self.shared.limits)
    }
}

impl HeldFiles for PageCache {
    type File = File;

    fn open_held(&self, file: Arc<std::fs::File>, write: bool) -> Result<File, OpenError> {
        let path = Path::new("(a held file)");
        let refused = |source| OpenError::Open { path: path.to_owned(), source };
        let file = StoreFile::held(file, self.shared.limits.direct_io)
            .map_err(|error| refused(error.into()))?;
        let file = self.open_stored(None, path, file, Access { read: true, write })?;
        file.hold();
        Ok(file)
    }

    fn wait_for_closed_files(&self) {
        self.shared.engine.prefetcher.wait_for_closed_files();
    }

    fn shared_files(&self) -> Option<([BorrowedFd<'_>; 2], u32)> {
        let arena = &self.shared.engine.pages.arena;
        Some((arena.shared_files()?, arena.nr_frames()))
    }
}

impl fmt::Debug for PageCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageCache({})", Bytes(self.shared.engine.pages.nodes.managed_bytes()))
    }
}
