//! The page cache: opening files, statistics, resizing, and shutdown.

use crate::api::file::{Access, File};
use crate::api::seam::{FrameUse, HeldFiles};
use crate::api::stats::cache::CacheStats;
use crate::engine::errors::{OpenError, ResizeError, SyncError};
use crate::engine::flush::scope::OnLocked;
use crate::engine::groups::directory::Member;
use crate::engine::held;
use crate::engine::sizer::SizeChanges;
use crate::engine::stats::counters::Event;
use crate::memory::store::{Backing, Store};
use crate::workers::CacheShared;
use pagetide_core::lru::GenCommandError;
use pagetide_core::lru::lru_gen::Detail;
use pagetide_core::units::{Bytes, Millis};
use pagetide_sys::{StoreFile, StoreOptions, read_access};
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A page cache with a hard byte limit. Clones are the same cache.
///
/// Lives until the last clone and the last [`File`] are dropped. Then it writes back dirty pages
/// and stops its threads. Errors of that write-back cannot be reported: sync first.
///
/// # Concurrency
/// All calls are thread-safe. The only code of the caller that runs inside is a [`Store`].
///
/// # Cost
/// Beside the contents, at most 128 bytes for each frame, 16 bytes for each page of the files
/// accessed so far, and 16 MiB. A clone costs one count.
#[derive(Clone)]
pub struct PageCache {
    pub(crate) shared: Arc<CacheShared>,
}

/// Options for opening a file, as [`std::fs::OpenOptions`].
///
/// A file that needs other flags is opened by the caller, and passed to [`PageCache::open_file`].
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    create: bool,
    create_new: bool,
    mode: u32,
    truncate: bool,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            read: false,
            write: false,
            create: false,
            create_new: false,
            mode: 0o666,
            truncate: false,
        }
    }
}

impl OpenOptions {
    /// Starts with no access: set at least one of read and write.
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

    /// Creates the file if it does not exist. No effect without `write`.
    pub fn create(mut self, create: bool) -> OpenOptions {
        self.create = create;
        self
    }

    /// Creates the file, and fails with `AlreadyExists` if there is one. No other program can
    /// create the file in between. No effect without `write`.
    pub fn create_new(mut self, create_new: bool) -> OpenOptions {
        self.create_new = create_new;
        self
    }

    /// Sets the permissions of a file that this open creates, less the process's umask, as
    /// [`OpenOptionsExt::mode`](std::os::unix::fs::OpenOptionsExt::mode). 0o666 by default.
    pub fn mode(mut self, mode: u32) -> OpenOptions {
        self.mode = mode;
        self
    }

    /// Truncates the file to length 0. No effect without `write`.
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
    /// Close-to-open consistency: all handles see the writes of programs that have closed the file
    /// by now. Clean pages are dropped unless the file's length and times prove that the file is
    /// unchanged. They prove nothing after a write-back by this cache since the last open, or
    /// within a few milliseconds of a change. Waits for no page and no guard.
    ///
    /// # Errors
    /// [`OpenError::Open`] with the system's error, also if the file is not a regular file.
    /// [`OpenError::NoAccess`] if neither read nor write is set. [`OpenError::InRegion`] if the
    /// file belongs to a region. [`OpenError::TooLong`] and [`OpenError::TooManyMappings`].
    ///
    /// # Cost
    /// A few system calls, and a visit to each resident page of a file that may have changed.
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
        // Truncation goes through the mapping, to cut cached pages as well.
        let store_options = StoreOptions {
            write: options.write,
            create: options.create && options.write,
            create_new: options.create_new && options.write,
            mode: options.mode,
            truncate: false,
            direct: limits.direct_io,
        };
        let file = StoreFile::open(path, store_options).map_err(|error| refused(error.into()))?;
        let access = Access { read: options.read, write: options.write };
        let file = self.open_stored(group, path, file, access, None)?;
        if options.truncate && options.write && !options.create_new {
            file.set_len(0).map_err(|error| refused(error.into()))?;
        }
        Ok(file)
    }

    /// Opens the file of a descriptor, with the access of the descriptor. Shares pages with all
    /// other opens of the file, and sees the writes of other programs, as [`PageCache::open`].
    ///
    /// Keeps the descriptor until this handle and its [`reopen`](File::reopen)s are dropped, and
    /// with the descriptor the locks of its open file description: flock(2), which
    /// [`std::fs::File::lock`] takes, and `F_OFD_SETLK` of fcntl(2). The last drop writes back all
    /// dirty pages before the lock ends, so that the next holder of the lock reads them, except
    /// pages that a [`PageGuardMut`](crate::PageGuardMut) of another handle has locked. Other
    /// flags of the descriptor have no effect here, nor has its position. The locks of `F_SETLK`
    /// belong to the process, and end when any descriptor of the file is closed.
    ///
    /// ```
    /// # use pagetide::{Bytes, PageCache};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("database");
    /// # let cache = PageCache::builder().memory(Bytes(1 << 20)).build()?;
    /// let open = || std::fs::File::options().read(true).write(true).create(true).open(&path);
    /// let file = open()?;
    /// file.try_lock()?;
    /// let database = cache.open_file(file)?;
    /// database.write_all_at(b"hello", 0)?;
    /// assert!(open()?.try_lock().is_err(), "a second database on the same file");
    /// drop(database);
    /// open()?.try_lock()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`OpenError::Open`] with `PermissionDenied` if the descriptor is not open for reading,
    /// because partial pages are read first. Otherwise as [`PageCache::open`].
    ///
    /// # Cost
    /// As [`PageCache::open`]. Each handle keeps one descriptor more.
    pub fn open_file(&self, file: std::fs::File) -> Result<File, OpenError> {
        self.open_file_for(None, file)
    }

    pub(crate) fn open_file_for(
        &self,
        group: Option<&Member>,
        file: std::fs::File,
    ) -> Result<File, OpenError> {
        let path = Path::new("(an open file)");
        let refused = |source| OpenError::Open { path: path.to_owned(), source };
        let (read, write) = read_access(&file).map_err(refused)?;
        if !read {
            return Err(refused(io::ErrorKind::PermissionDenied.into()));
        }
        let store = StoreFile::again(&file, write, self.shared.limits.direct_io)
            .map_err(|error| refused(error.into()))?;
        self.open_stored(group, path, store, Access { read, write }, Some(file))
    }

    fn open_stored(
        &self,
        group: Option<&Member>,
        path: &Path,
        file: StoreFile,
        access: Access,
        kept: Option<std::fs::File>,
    ) -> Result<File, OpenError> {
        if !file.is_direct() {
            self.shared.engine.direct_io.store(false, Relaxed);
        }
        let backing = Backing::File { file: Arc::new(file), writable: access.write };
        let mapping =
            self.shared.engine.map_file(backing, group).map_err(|error| error.on(path))?;
        Ok(File::new(Arc::clone(&self.shared), mapping, access, kept.map(Arc::new)))
    }

    /// Opens a store of the caller for reading and writing. No other handle shares it.
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
        let access = Access { read: true, write: true };
        Ok(File::new(Arc::clone(&self.shared), mapping, access, None))
    }

    /// Returns counters and usage, which print as about ten lines.
    ///
    /// # Cost
    /// Takes the lock of each node's lists, and reads every thread's counters: too slow for every
    /// request.
    pub fn stats(&self) -> CacheStats {
        CacheStats::collect(&self.shared.engine)
    }

    /// Returns the automatic changes of the memory size, or `None` if automatic sizing is off.
    pub fn size_changes(&self) -> Option<SizeChanges> {
        self.shared.engine.sizer.as_ref().map(|sizer| sizer.changes())
    }

    /// Returns the generations in the format of Linux's `lru_gen` or `lru_gen_full`: sequence
    /// number, age in milliseconds, anonymous and file pages. Empty if the policy has no
    /// generations. `memcg 0 /`, node 0, has the files outside any [group](PageCache::group).
    pub fn describe_lru_gen(&self, detail: Detail) -> String {
        self.shared.engine.source.describe_lru_gen(detail)
    }

    /// Executes commands in the format of Linux's `lru_gen`, separated by `,`, `;` or newlines: `+
    /// 0 0 max_gen [swappiness [force]]` starts a generation, `- 0 0 min_gen [swappiness
    /// [nr_pages]]` evicts generations up to `min_gen`. Returns the number of evicted pages.
    ///
    /// # Errors
    /// [`GenCommandError`] for the first command that fails. Earlier commands stay in effect.
    ///
    /// # Concurrency
    /// Runs in the calling thread, concurrently with other reclaim.
    pub fn command_lru_gen(&self, commands: &str) -> Result<u64, GenCommandError> {
        self.shared.engine.source.command_lru_gen(commands)
    }

    /// Advances the time, in milliseconds of any monotonic clock, and runs due work in the calling
    /// thread. [Background threads](crate::Builder::background) make this unnecessary. Without
    /// them, hot pages of slow memory are found only if `tick` is called now and then.
    pub fn tick(&self, now: Millis) {
        self.shared.engine.source.tick(now);
    }

    /// Checks all pages, frames and lists, for tests. Panics if they are inconsistent. No other
    /// thread may use the cache meanwhile, and the cache must have no [background
    /// threads](crate::Builder::background).
    pub fn validate(&self) {
        self.shared.engine.validate();
    }

    /// Writes back all dirty pages of all files, without making them durable.
    ///
    /// # Errors
    /// [`SyncError::Unwritten`] with the first file of which a page could not be written: the page
    /// stays dirty, and the next sync of each handle of the file reports the cause, too.
    /// [`SyncError::WouldDeadlock`] if this thread holds a [`PageGuardMut`](crate::PageGuardMut).
    ///
    /// # Concurrency
    /// Thread-safe. Waits for other threads' [`PageGuardMut`](crate::PageGuardMut)s of dirty pages.
    ///
    /// # Cost
    /// The device's: one request for up to 64 neighbouring pages, several in parallel.
    pub fn flush_all(&self) -> Result<(), SyncError> {
        let engine = &self.shared.engine;
        let files = engine.mappings.snapshot();
        if let Some(index) = files.iter().find_map(|mapping| held::first_exclusive(mapping)) {
            return Err(SyncError::WouldDeadlock { index });
        }
        let mut failed = Vec::new();
        engine.flusher.flush_each(OnLocked::End, |mapping| failed.push(Arc::clone(mapping)));
        let Some(first) = failed.first() else { return Ok(()) };
        let unknown = || io::ErrorKind::Other.into();
        Err(SyncError::Unwritten {
            path: first.path(),
            nr_bytes: Bytes::from_pages(first.dirty.nr()).0,
            nr_files: failed.len(),
            source: first.last_error().unwrap_or_else(unknown),
        })
    }

    /// Changes the limit. Shrinking evicts until usage fits, and returns the memory to the system.
    ///
    /// With [tiers](crate::Builder::tier), `memory` is the sum of all tiers but the compressed one.
    /// Each tier keeps its share, as set by the builder or [`PageCache::resize_tier`], within its
    /// bounds. Fast memory is demoted, and the slowest memory evicted.
    ///
    /// # Errors
    /// [`ResizeError::OutOfRange`], or [`ResizeError::Promised`] if groups are guaranteed more
    /// memory: nothing changed. [`ResizeError::Busy`] if too many frames are pinned or cannot be
    /// written back.
    ///
    /// # Concurrency
    /// Thread-safe. Other threads get frames as they become free. With tiers, one resize waits for
    /// another.
    pub fn resize(&self, memory: Bytes) -> Result<(), ResizeError> {
        self.shared.engine.source.resize(memory, &self.shared.limits)
    }

    /// Changes the size of one tier, `nth` from the fastest in the order of
    /// [`TieringStats::tiers`](crate::TieringStats), up to its reserve
    /// ([`Tier::growing_to`](crate::Tier::growing_to)). The fast tier must not be larger than the
    /// sum of the slower tiers. A cache without tiers has tier 0 only.
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
        let file = self.open_stored(None, path, file, Access { read: true, write }, None)?;
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

    fn frame_use(&self) -> Option<FrameUse> {
        let engine = &self.shared.engine;
        if engine.sizer.is_some() || engine.source.tiering.is_some() {
            return None;
        }
        let count = |event| engine.pages.counters.collect(event);
        Some(FrameUse {
            nr_bytes: engine.pages.nodes.managed_bytes(),
            nr_resident_bytes: Bytes::from_pages(engine.pages.nodes.sample_resident()).0,
            nr_accesses: count(Event::Hit) + count(Event::Miss),
        })
    }
}

impl fmt::Debug for PageCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageCache({})", Bytes(self.shared.engine.pages.nodes.managed_bytes()))
    }
}
