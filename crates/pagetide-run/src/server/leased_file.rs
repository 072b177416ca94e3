//! A managed file: the inode's only open file, a lease, and pages in the cache.
//!
//! ```text
//!   read lease    read-only descriptor         outside processes may read, too
//!   write lease   read-write descriptor        no other open file exists
//! ```
//!
//! The kernel always knows the file's length, and that the file changed: a write that extends the
//! file extends the kernel's file, and writes set the file's time, at most ten times a second. The
//! disk always has room for accepted bytes: a growing short file is written through, and a long
//! file gets blocks before the length grows.

use crate::errno::{Errno, IntoErrno};
use crate::storage::{Storage, TMPFS};
use crate::wire::{CHUNK_BYTES, FILE_BYTES_MAX, Reason, SHORT_FILE_BYTES};
use pagetide::seam::{HeldFiles, MappedPages, SharedPages};
use pagetide::{Advice, File};
use pagetide_core::units::PAGE_BYTES;
use pagetide_sys::kernel_cache::{read_kernel_cache, read_resident, write_back};
use pagetide_sys::lease::{self, LeaseKind};
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::time::{ClockId, Timespec};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use super::Server;
use super::answer::ONLY_KERNEL;
use super::copies::{Copies, CopySlot};
use super::identity::{is_uncached, lock, path_of};
use super::windows::Source;

/// Minimum time between two updates of the file's time, in nanoseconds. An update waits for
/// write-back in progress, so not every write or kernel tick makes one.
const TOUCH_NS: u64 = 100_000_000;
/// Maximum of the blocks allocated ahead for a growing long file, in bytes. The amount is the
/// file's length divided by `AHEAD_PART`.
const AHEAD_BYTES_MAX: u64 = 4 << 20;
const AHEAD_PART: u64 = 8;
const BLOCK_BYTES: u64 = 4096;
/// Blocks held back, in bytes. A full disk frees these for accepted bytes.
const SPARE_BYTES: u64 = 64 << 10;

pub(super) struct LeasedFile {
    /// The file in the page cache, with the access of the lease.
    pub(super) file: File,
    /// The descriptor that holds the lease.
    pub(super) real: Arc<std::fs::File>,
    pub(super) kind: LeaseKind,
    growth: Mutex<Growth>,
    /// True if the file may have holes.
    is_sparse: AtomicBool,
    /// True if the disk was full at the last allocation ahead.
    is_short: AtomicBool,
    /// True if no page of the file was in the kernel's page cache before the run opened the file.
    pub(super) is_fresh: bool,
    /// True if pages were written through the kernel's page cache and not dropped since.
    has_copies: AtomicBool,
    copies: Arc<Copies>,
    /// True if a process has the leased descriptor as well.
    pub(super) is_lent: AtomicBool,
    /// Time of the last update of the file's time, in nanoseconds. 0 makes the next write update.
    touched: AtomicU64,
}

/// The kernel's view of the file's length and blocks.
struct Growth {
    /// In bytes.
    len: u64,
    /// End of the range with blocks, in bytes. The range starts at the length at open.
    has_room: u64,
}

impl LeasedFile {
    /// Opens the file of the stand-in, or takes `made`, the real descriptor of a new file. `lease`
    /// takes a lease on the descriptor.
    ///
    /// # Errors
    /// Fails with the reason for which the kernel keeps the file.
    pub(super) fn take(
        server: &Server,
        lease: impl FnOnce(&std::fs::File, LeaseKind) -> Result<(), Reason>,
        stand_in: &OwnedFd,
        made: Option<OwnedFd>,
        write: bool,
    ) -> Result<LeasedFile, Reason> {
        let was_made = made.is_some();
        let real = match made {
            Some(real) => real,
            None => open(&path_of(stand_in), write)?,
        };
        let real = Arc::new(std::fs::File::from(real));
        if !is_local(&real) {
            return Err(Reason::Unleased);
        }
        let kind = if write { LeaseKind::Write } else { LeaseKind::Read };
        lease(&real, kind)?;
        let mut opened = LeasedFile::with_lease(server, &real, kind).map_err(|_| {
            let _ = lease::release(real.as_fd());
            Reason::Excluded
        })?;
        if was_made {
            opened.has_pages_of_the_run();
        }
        Ok(opened)
    }

    /// Records that all pages in the kernel's page cache are the run's.
    pub(super) fn has_pages_of_the_run(&mut self) {
        self.is_fresh = true;
        *self.has_copies.get_mut() = !self.file.is_empty();
    }

    /// Moves the pages of a file that is not short from the kernel's page cache to the page cache,
    /// as long as frames are free, and drops them in the kernel's.
    pub(super) fn move_pages(&self, server: &Server) {
        let len = self.file.len();
        if len <= SHORT_FILE_BYTES || is_uncached(&self.real) {
            return;
        }
        self.has_copies.store(false, Relaxed);
        if let Err(error) = write_back(&self.real, true) {
            // The kernel has reported the failure to this descriptor, and reports it only once.
            self.file.note_failed_write(&error);
        }
        let Ok(flags) = rustix::fs::fcntl_getfl(&*self.real) else { return };
        let found = read_resident(&self.real, len).unwrap_or_default();
        // Reads without O_DIRECT find the pages.
        let is_set = rustix::fs::fcntl_setfl(&*self.real, flags - OFlags::DIRECT).is_ok();
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut pieces = found.into_iter().flat_map(|range| {
            let end = range.end;
            range.step_by(CHUNK_BYTES).map(move |at| (at, CHUNK_BYTES.min((end - at) as usize)))
        });
        let moves = |(at, nr): (u64, usize)| self.move_piece(&mut buffer[..nr], at, server);
        if is_set {
            // Without a free frame, the other pages are dropped.
            let _is_whole = pieces.all(moves);
        }
        let _ = rustix::fs::fcntl_setfl(&*self.real, flags);
        let _ = rustix::fs::fadvise(&*self.real, 0, None, rustix::fs::Advice::DontNeed);
    }

    /// Moves the whole pages of a piece, and returns their memory to the page cache. Returns false
    /// if no frame was free.
    fn move_piece(&self, piece: &mut [u8], offset: u64, server: &Server) -> bool {
        let Ok(nr_read) = rustix::io::pread(&*self.real, &mut *piece, offset) else { return false };
        let writes = self.file.writes();
        let (pages, _) = piece[..nr_read].as_chunks::<PAGE_BYTES>();
        let nr_moved = (offset / PAGE_BYTES as u64..)
            .zip(pages)
            .take_while(|(index, page)| self.file.insert_copied(*index, writes, page))
            .count();
        let nr_bytes = NonZeroU64::new(nr_read as u64);
        let _ = rustix::fs::fadvise(&*self.real, offset, nr_bytes, rustix::fs::Advice::DontNeed);
        server.take_back_loan();
        nr_moved == pages.len()
    }

    fn with_lease(
        server: &Server,
        real: &Arc<std::fs::File>,
        kind: LeaseKind,
    ) -> Result<LeasedFile, Errno> {
        // The program's descriptor may have `O_APPEND`. Write-back needs explicit offsets.
        let flags = rustix::fs::fcntl_getfl(real)?;
        let stat = rustix::fs::fstat(real)?;
        rustix::fs::fcntl_setfl(real, flags - OFlags::APPEND)?;
        let opened = server.cache.open_held(Arc::clone(real), kind == LeaseKind::Write);
        let file = opened.errno().inspect_err(|_| {
            let _ = rustix::fs::fcntl_setfl(real, flags);
        })?;
        file.show();
        let len = stat.st_size as u64;
        Ok(LeasedFile {
            file,
            real: Arc::clone(real),
            kind,
            growth: Mutex::new(Growth { len, has_room: len.next_multiple_of(BLOCK_BYTES) }),
            is_short: AtomicBool::new(false),
            is_sparse: AtomicBool::new((stat.st_blocks as u64) * 512 < len),
            is_fresh: kind == LeaseKind::Write && (len == 0 || is_uncached(real)),
            has_copies: AtomicBool::new(false),
            copies: Arc::clone(&server.copies),
            is_lent: AtomicBool::new(false),
            touched: AtomicU64::new(0),
        })
    }

    /// Returns true if a process has the leased descriptor as well.
    pub(super) fn is_lent(&self) -> bool {
        self.is_lent.load(Relaxed)
    }

    /// Writes back all dirty pages.
    pub(super) fn flush(&self) -> Result<(), Errno> {
        self.touched.store(0, Relaxed);
        self.file.flush().errno()
    }

    /// Writes a prefix of `source` at `offset`, while the disk has room. Returns the length in
    /// bytes.
    ///
    /// # Errors
    /// Fails with `ENOSPC`, or another kernel error, if no byte was written.
    pub(super) fn write(
        &self,
        handle: &File,
        source: Source<'_>,
        offset: u64,
    ) -> Result<usize, Errno> {
        let end = offset + source.len() as u64;
        let before = handle.len();
        if end > before && end <= SHORT_FILE_BYTES {
            return self.write_through(handle, source, offset, before);
        }
        let len = self.make_room(handle, offset, source.len() as u64, before)?;
        let nr_written = write(handle, source.front(len), offset)?;
        if (nr_written as u64) < len {
            self.shorten(handle)?;
        }
        if self.is_short.load(Relaxed)
            && let Err(errno) = handle.flush().errno()
        {
            return Err(take_back(handle, before, errno));
        }
        self.touch();
        Ok(nr_written)
    }

    /// Prepares a store to a mapped page at `offset`: allocates blocks, and sets the file's time.
    ///
    /// # Errors
    /// Fails with `ENOSPC` or another kernel error.
    pub(super) fn note_store(&self, offset: u64) -> Result<(), Errno> {
        let start = offset / BLOCK_BYTES * BLOCK_BYTES;
        let len = self.file.len().saturating_sub(start).min(BLOCK_BYTES);
        if self.is_sparse.load(Relaxed) && len > 0 {
            self.allocate(start, len)?;
        }
        self.touch();
        Ok(())
    }

    /// Extends a short file. The kernel reports a full disk at once.
    fn write_through(
        &self,
        handle: &File,
        source: Source<'_>,
        offset: u64,
        before: u64,
    ) -> Result<usize, Errno> {
        if offset > before.next_multiple_of(BLOCK_BYTES) {
            self.is_sparse.store(true, Relaxed);
        }
        let nr_written = write(handle, source, offset)?;
        let end = offset + nr_written as u64;
        if let Err(errno) = handle.flush().errno() {
            return Err(take_back(handle, before, errno));
        }
        self.has_copies.store(true, Relaxed);
        let mut growth = lock(&self.growth);
        growth.len = growth.len.max(end);
        growth.has_room = growth.has_room.max(end.next_multiple_of(BLOCK_BYTES));
        Ok(nr_written)
    }

    /// Reserves blocks and extends the length for `len` bytes at `offset` of a file of `before`
    /// bytes. Returns the number of bytes with room.
    fn make_room(&self, handle: &File, offset: u64, len: u64, before: u64) -> Result<u64, Errno> {
        let end = offset + len;
        if end <= before {
            let is_sparse = self.is_sparse.load(Relaxed);
            return if is_sparse { self.allocate_most(offset, len) } else { Ok(len) };
        }
        let mut growth = lock(&self.growth);
        if offset > growth.has_room {
            self.is_sparse.store(true, Relaxed);
        }
        let mut len = len;
        if end + SPARE_BYTES > growth.has_room && !self.gain_room(&mut growth, offset, end) {
            self.give_back(&mut growth);
            handle.flush().errno()?;
            let from = growth.has_room.max(offset);
            if end > from {
                let nr_bytes = self.allocate_most(from, end - from)?;
                growth.has_room = growth.has_room.max(from + nr_bytes);
                len = from + nr_bytes - offset;
            }
        }
        let end = offset + len;
        if growth.len < end {
            rustix::fs::ftruncate(&*self.real, end)?;
            growth.len = end;
        }
        Ok(len)
    }

    /// Sets the kernel's length back to the accepted bytes, after a write that was cut short.
    fn shorten(&self, handle: &File) -> Result<(), Errno> {
        let mut growth = lock(&self.growth);
        let len = handle.len();
        if growth.len > len {
            rustix::fs::ftruncate(&*self.real, len)?;
            growth.len = len;
            growth.has_room = growth.has_room.min(len.next_multiple_of(BLOCK_BYTES));
        }
        Ok(())
    }

    /// Allocates blocks up to `end` and ahead. Returns false if the disk is full. Accepted bytes
    /// are then written through until an allocation succeeds.
    fn gain_room(&self, growth: &mut Growth, offset: u64, end: u64) -> bool {
        let from = growth.has_room.max(offset);
        let ahead = (end / AHEAD_PART).clamp(SPARE_BYTES, AHEAD_BYTES_MAX);
        let goal = (end + ahead).next_multiple_of(BLOCK_BYTES);
        let has_gained = self.allocate(from, goal - from).is_ok();
        if has_gained {
            growth.has_room = goal;
        }
        if self.is_fresh && self.has_copies.load(Relaxed) {
            // Starts the write-back of pages written while the file was short, and drops the pages
            // that are clean already.
            let len = NonZeroU64::new(SHORT_FILE_BYTES);
            let _ = rustix::fs::fadvise(&*self.real, 0, len, rustix::fs::Advice::DontNeed);
            let is_left = read_kernel_cache(&*self.real, 0, SHORT_FILE_BYTES);
            self.has_copies.store(is_left.is_ok_and(|left| left.nr_cached > 0), Relaxed);
        }
        self.is_short.store(!has_gained, Relaxed);
        has_gained
    }

    /// Frees the blocks past the file's end. Write-back needs blocks for the file system's
    /// metadata, and a full disk has none.
    fn give_back(&self, growth: &mut Growth) {
        let len = self.file.len();
        if growth.has_room > len.next_multiple_of(BLOCK_BYTES) {
            *growth = Growth { len, has_room: len.next_multiple_of(BLOCK_BYTES) };
            // A failure only leaves blocks allocated.
            let _ = rustix::fs::ftruncate(&*self.real, len);
        }
    }

    /// Allocates blocks for `len` bytes at `offset`, or for as many as possible. Fails with
    /// `ENOSPC` or `EDQUOT` if there is no block.
    fn allocate_most(&self, offset: u64, len: u64) -> Result<u64, Errno> {
        let mut wanted = len;
        loop {
            match self.allocate(offset, wanted) {
                Ok(()) => return Ok(wanted),
                Err(Errno::NOSPC | Errno::DQUOT) if wanted > BLOCK_BYTES => {
                    wanted = (wanted / 2).next_multiple_of(BLOCK_BYTES).min(wanted - 1);
                }
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Allocates blocks. Succeeds without blocks if the file system has no fallocate.
    fn allocate(&self, offset: u64, len: u64) -> Result<(), Errno> {
        match rustix::fs::fallocate(&*self.real, FallocateFlags::KEEP_SIZE, offset, len) {
            Err(Errno::OPNOTSUPP) => Ok(()),
            result => result,
        }
    }

    /// Updates the file's time after a write to the cache, at most once in [`TOUCH_NS`].
    fn touch(&self) {
        let now = rustix::time::clock_gettime(ClockId::MonotonicCoarse);
        let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        if now.wrapping_sub(self.touched.load(Relaxed)) < TOUCH_NS {
            return;
        }
        self.touched.store(now, Relaxed);
        let at = |nanoseconds| Timespec { tv_sec: 0, tv_nsec: nanoseconds };
        let times = Timestamps { last_access: at(UTIME_OMIT), last_modification: at(UTIME_NOW) };
        // The kernel refuses this to a writer that is not the owner. Write-back then sets the time.
        let _ = rustix::fs::futimens(&*self.real, &times);
    }

    /// Finds the next data or the next hole from an offset on. The kernel answers if no page is
    /// dirty. Otherwise the whole file counts as data. A write-back would change the file's times
    /// during a read, and tar reports that as a change.
    pub(super) fn find(&self, handle: &File, what: SeekFrom) -> Result<i64, Errno> {
        let found = if handle.is_stored() {
            rustix::fs::seek(&*self.real, what)?
        } else {
            let len = handle.len();
            match what {
                SeekFrom::Data(offset) if offset < len => offset,
                SeekFrom::Hole(offset) if offset < len => len,
                _ => return Err(Errno::NXIO),
            }
        };
        i64::try_from(found).map_err(|_| Errno::OVERFLOW)
    }

    /// Truncates or extends the file. The caller holds `state` for writing.
    pub(super) fn set_len(&self, handle: &File, len: u64) -> Result<(), Errno> {
        if len >= FILE_BYTES_MAX {
            return Err(ONLY_KERNEL);
        }
        let before = handle.len();
        handle.set_len(len).errno()?;
        self.touched.store(0, Relaxed);
        if len > before {
            self.is_sparse.store(true, Relaxed);
        }
        let mut growth = lock(&self.growth);
        *growth = Growth { len, has_room: len.next_multiple_of(BLOCK_BYTES) };
        Ok(())
    }

    /// Serves fallocate(2). The caller holds `state` for writing.
    pub(super) fn change_blocks(
        &self,
        handle: &File,
        mode: u32,
        offset: u64,
        len: u64,
    ) -> Result<(), Errno> {
        use FallocateFlags as Flags;
        let mode = Flags::from_bits_retain(mode);
        let end = offset.checked_add(len).filter(|end| *end < FILE_BYTES_MAX);
        let end = end.ok_or(ONLY_KERNEL)?;
        let keeps_size = mode.contains(Flags::KEEP_SIZE);
        match mode - Flags::KEEP_SIZE {
            rest if rest.is_empty() => {
                rustix::fs::fallocate(&*self.real, mode, offset, len)?;
                if !keeps_size && end > handle.len() {
                    self.set_len(handle, end)?;
                }
                Ok(())
            }
            rest if rest == Flags::ZERO_RANGE => {
                if !keeps_size && end > handle.len() {
                    self.set_len(handle, end)?;
                }
                write_zeros(handle, offset, end.min(handle.len()))
            }
            rest if rest == Flags::PUNCH_HOLE && keeps_size => {
                // The flush unmaps the pages, and no process can store to the pages until this call
                // ends.
                handle.flush().errno()?;
                write_zeros(handle, offset, end.min(handle.len()))?;
                handle.flush().errno()?;
                // The range is zero already. This frees the blocks.
                let _ = rustix::fs::fallocate(&*self.real, mode, offset, len);
                self.is_sparse.store(true, Relaxed);
                self.touched.store(0, Relaxed);
                Ok(())
            }
            _ => Err(ONLY_KERNEL),
        }
    }

    fn trim(&self) {
        self.give_back(&mut lock(&self.growth));
    }

    /// Releases the file after a write-back. Clean pages stay in the cache, for the next open of an
    /// unchanged file.
    pub(super) fn release(self) {
        self.file.hide();
        self.file.unmap_all(true);
        self.trim();
        self.file.agree();
        // The close ends the lease as well.
        let _ = lease::release(self.real.as_fd());
    }

    /// Releases the file as [`LeasedFile::release`] does, and remembers pages that were written
    /// through the kernel's page cache.
    pub(super) fn close(self, copy: &Arc<CopySlot>) {
        let copies = self.is_fresh.then(|| Arc::clone(&self.copies));
        let real = Arc::clone(&self.real);
        let has_copies = copies.is_some() && !is_uncached(&real);
        self.release();
        if let Some(copies) = copies.filter(|_| has_copies) {
            copies.note_closed(copy, real);
        }
    }

    /// Returns a function that waits for reads ahead, which keep the descriptor open. The function
    /// must run after the release.
    pub(super) fn reads_ahead(&self) -> Box<dyn FnOnce()> {
        self.file.reads_ahead(&self.real)
    }

    /// Hands the file over to the kernel: writes back and drops all pages.
    ///
    /// # Errors
    /// Fails if a page cannot be written back. The page stays dirty, and the file managed.
    pub(super) fn hand_over(&self) -> Result<(), Errno> {
        self.file.hide();
        if let Err(errno) = self.flush() {
            self.file.show();
            return Err(errno);
        }
        self.file.unmap_all(false);
        self.trim();
        self.file.advise(Advice::DontNeed, 0, 0).errno()?;
        self.file.agree();
        let _ = lease::release(self.real.as_fd());
        Ok(())
    }

    /// Hands the file over to the kernel, and drops dirty pages.
    pub(super) fn discard(&self) {
        self.file.hide();
        self.file.unmap_all(false);
        self.file.discard();
        self.trim();
        self.file.agree();
        let _ = lease::release(self.real.as_fd());
    }
}

/// Writes a prefix of `source` to the cache. Returns the length in bytes.
fn write(handle: &File, source: Source<'_>, offset: u64) -> Result<usize, Errno> {
    source.write_to(offset, |bytes, at| handle.write_at(bytes, at).errno())
}

/// Rolls back a failed append, and returns the error. The sync consumes the error, so that no later
/// sync reports the same error.
fn take_back(handle: &File, before: u64, errno: Errno) -> Errno {
    let cut = handle.set_len(before).errno();
    let _ = handle.sync_data();
    cut.err().unwrap_or(errno)
}

/// Opens the file at `path`. Waits for other processes' leases on the file.
fn open(path: &Path, write: bool) -> Result<OwnedFd, Reason> {
    let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
    let flags = access | OFlags::CLOEXEC | OFlags::NOCTTY;
    rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty())).map_err(|errno| {
        match errno {
            Errno::MFILE | Errno::NFILE => Reason::Exhausted,
            _ => Reason::Excluded,
        }
    })
}

/// Returns true if each change of the file breaks leases, because the change goes through this
/// kernel. Network and user-space file systems have other paths for changes.
fn is_local(real: &std::fs::File) -> bool {
    let is_one = |kind| kind == TMPFS || Storage::of_kind(kind) == Storage::Local;
    rustix::fs::fstatfs(real).is_ok_and(|stat| is_one(stat.f_type as u64))
}

fn write_zeros(handle: &File, from: u64, end: u64) -> Result<(), Errno> {
    let zeros = [0; 64 << 10];
    let mut at = from;
    while at < end {
        let nr_bytes = (end - at).min(zeros.len() as u64);
        handle.write_at(&zeros[..nr_bytes as usize], at).errno()?;
        at += nr_bytes;
    }
    Ok(())
}
