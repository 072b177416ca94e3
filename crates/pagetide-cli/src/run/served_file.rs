//! One file of the tree of processes: in the page cache, or handed to the kernel.
//!
//! Problem: a file must be answered from one place only, for everybody, at any moment. Idea: a
//! state behind a lock that every request shares and a change of hands has alone.
//!
//! ```text
//!   first open --excluded?--> Kernel (for good)
//!       |                       ^
//!       v                       |  mapped, wide characters, standard output, a static program ...:
//!   PageCache ------------------+  written back, dropped from the cache, then the kernel's
//! ```
//!
//! The kernel always knows the file's right length: it is extended before a write that lengthens
//! it. And that it was changed: a write sets the file's time, ten times a second at the most.
//! So whoever asks the kernel about the file, by whatever call, hears the truth of these two.
//!
//! Ignored: coming back from the kernel. Nothing tells when the last mapping of a file is gone.

use super::errno::{Errno, IntoErrno};
use pagetide::{Advice, File, OpenOptions, PageCache};
use pagetide_sys::wire::{Reason, TAG};
use rustix::fs::{AtFlags, FallocateFlags, SeekFrom, StatxFlags, statx};
use rustix::fs::{Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::time::{ClockId, Timespec};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// A write changes its file's time so long after the last that did: to do it each time, or in each
/// of the kernel's ticks, is to wait for write-back that is under way.
const TOUCH_NS: u64 = 100_000_000;

/// Tells a file from all others, also from a later one with the same inode number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct FileKey {
    device: (u32, u32),
    inode: u64,
    made: Option<(i64, u32)>,
}

impl FileKey {
    /// The file behind a descriptor, and its length.
    pub(super) fn of(descriptor: &impl AsFd) -> Result<(FileKey, u64), Errno> {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let stat = statx(descriptor, c"", AtFlags::EMPTY_PATH, wanted)?;
        let has_btime = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
        let key = FileKey {
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            made: has_btime.then_some((stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec)),
        };
        Ok((key, stat.stx_size))
    }
}

/// Who answers for a file.
pub(super) enum Owner {
    /// Nobody yet: it is not open.
    Nobody,
    /// The page cache.
    PageCache(Opened),
    /// The kernel, for the rest of the run.
    Kernel,
}

/// What a file in the page cache is reached by.
pub(super) struct Opened {
    /// With all the access anybody has asked for so far.
    file: File,
    is_writable: bool,
    /// For lengths: the page cache's own store is told of them too late.
    raw: std::fs::File,
    /// Open descriptions, and those of them that can write.
    pub(super) nr_open: usize,
    pub(super) nr_writers: usize,
}

impl Opened {
    /// Writes back what is dirty.
    pub(super) fn flush(&self) -> Result<(), Errno> {
        self.file.flush().errno()
    }

    /// Where the next contents, or the next hole, are, from an offset on. The kernel knows, if it
    /// has all there is. Until then all is contents: to write it back would change the file's times
    /// under whoever looks, and tar takes that for a change of the file.
    pub(super) fn find(&self, handle: &File, what: SeekFrom) -> Result<i64, Errno> {
        let found = if handle.is_stored() {
            rustix::fs::seek(&self.raw, what)?
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
}

/// One file, whoever has it open.
pub(super) struct ServedFile {
    /// Requests share it; changing hands, lengths and opens have it alone.
    pub(super) owner: RwLock<Owner>,
    /// The end of what has been reserved for appends.
    appended: Mutex<u64>,
    /// Held while the kernel's file is made longer.
    growing: Mutex<()>,
    /// When a write last changed the file's time; 0 if the next is to.
    touched: AtomicU64,
}

impl ServedFile {
    pub(super) fn new() -> ServedFile {
        ServedFile {
            owner: RwLock::new(Owner::Nobody),
            appended: Mutex::default(),
            growing: Mutex::default(),
            touched: AtomicU64::new(0),
        }
    }

    /// Opens the file behind `descriptor` in the page cache, with a handle of its own.
    pub(super) fn open(
        &self,
        owner: &mut Owner,
        cache: &PageCache,
        descriptor: &impl AsFd,
        write: bool,
    ) -> Result<File, Errno> {
        let path = path_of(descriptor);
        let needs_open = match owner {
            Owner::PageCache(opened) => write && !opened.is_writable,
            _ => true,
        };
        if needs_open {
            // Read access as well: writing part of a page reads the rest of it.
            let file = cache.open(&path, OpenOptions::new().read(true).write(write)).errno()?;
            let raw = std::fs::OpenOptions::new().read(!write).write(write).open(&path).errno()?;
            let (nr_open, nr_writers) = match owner {
                Owner::PageCache(opened) => (opened.nr_open, opened.nr_writers),
                _ => (0, 0),
            };
            if nr_open == 0 {
                *lock(&self.appended) = 0;
            }
            let opened = Opened { file, is_writable: write, raw, nr_open, nr_writers };
            *owner = Owner::PageCache(opened);
        }
        let Owner::PageCache(opened) = owner else { return Err(Errno::IO) };
        opened.nr_open += 1;
        opened.nr_writers += usize::from(write);
        Ok(opened.file.reopen())
    }

    /// One open description less. The caller has written back what it had to.
    pub(super) fn close(owner: &mut Owner, write: bool) {
        let Owner::PageCache(opened) = owner else { return };
        opened.nr_open -= 1;
        opened.nr_writers -= usize::from(write);
        if opened.nr_open == 0 {
            *owner = Owner::Nobody;
        }
    }

    /// Writes back what is dirty and leaves the file to the kernel.
    ///
    /// # Errors
    /// What could not be written is dirty still, and the file stays where it was.
    pub(super) fn hand_over(owner: &mut Owner) -> Result<(), Errno> {
        if let Owner::PageCache(opened) = owner {
            // What processes can find of its pages, they must not use any more.
            opened.file.revoke();
            opened.flush()?;
            opened.file.advise(Advice::DontNeed, 0, 0).errno()?;
        }
        *owner = Owner::Kernel;
        Ok(())
    }

    /// Makes the kernel's file at least `end` long, before the page cache's is.
    pub(super) fn grow(&self, opened: &Opened, end: u64) -> Result<(), Errno> {
        if end <= opened.file.len() {
            return Ok(());
        }
        let _one_at_a_time = lock(&self.growing);
        if opened.raw.metadata().errno()?.len() < end {
            opened.raw.set_len(end).errno()?;
        }
        Ok(())
    }

    /// The file was written at `offset`, of which the kernel will not know before write-back: its
    /// time changes now, and it has a block at least; looked at again after [`TOUCH_NS`].
    pub(super) fn touch(&self, opened: &Opened, offset: u64) {
        let now = rustix::time::clock_gettime(ClockId::MonotonicCoarse);
        let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        if now.wrapping_sub(self.touched.load(Relaxed)) < TOUCH_NS {
            return;
        }
        self.touched.store(now, Relaxed);
        if rustix::fs::fstat(&opened.raw).is_ok_and(|stat| stat.st_blocks == 0) {
            // A file without any is taken for one hole, and not read. What the file system cannot
            // promise, the next write-back makes true.
            let _ = rustix::fs::fallocate(&opened.raw, FallocateFlags::KEEP_SIZE, offset, 1);
        }
        let at = |nanoseconds| Timespec { tv_sec: 0, tv_nsec: nanoseconds };
        let times = Timestamps { last_access: at(UTIME_OMIT), last_modification: at(UTIME_NOW) };
        // Who may write but does not own the file may not; write-back changes the time then.
        let _ = rustix::fs::futimens(&opened.raw, &times);
    }

    /// Somebody is about to set the times, or has taken blocks away: the next write changes that,
    /// however soon it comes.
    pub(super) fn forget_touch(&self) {
        self.touched.store(0, Relaxed);
    }

    /// Reserves `wanted` bytes at the end of the file, or as many as are [`allowed`]; returns where
    /// they begin, and how many they are.
    pub(super) fn reserve(
        &self,
        opened: &Opened,
        wanted: u64,
        len_max: u64,
    ) -> Result<(u64, u64), Errno> {
        let mut appended = lock(&self.appended);
        let base = opened.file.len().max(*appended);
        let total = allowed(base, wanted, len_max)?;
        *appended = base + total;
        Ok((base, total))
    }

    /// Cuts or extends the file behind `descriptor`, in the page cache, for somebody who has not
    /// opened it.
    pub(super) fn set_len_by_name(
        &self,
        owner: &mut Owner,
        cache: &PageCache,
        descriptor: &impl AsFd,
        len: u64,
    ) -> Result<(), Errno> {
        let handle = self.open(owner, cache, descriptor, true)?;
        let cut = self.set_len(&handle, len).and_then(|()| handle.flush().errno());
        ServedFile::close(owner, true);
        cut
    }

    /// Cuts or extends the file. `owner` is held alone.
    pub(super) fn set_len(&self, handle: &File, len: u64) -> Result<(), Errno> {
        if len >= TAG {
            return Err(Errno::FBIG);
        }
        *lock(&self.appended) = 0;
        self.forget_touch();
        handle.set_len(len).errno()
    }

    /// As fallocate(2). `owner` is held alone.
    pub(super) fn allocate(
        &self,
        opened: &Opened,
        handle: &File,
        mode: u32,
        offset: u64,
        len: u64,
    ) -> Result<(), Errno> {
        use FallocateFlags as Mode;
        let mode = Mode::from_bits_retain(mode);
        let end = offset.checked_add(len).filter(|end| *end < TAG).ok_or(Errno::FBIG)?;
        let keeps_size = mode.contains(Mode::KEEP_SIZE);
        match mode - Mode::KEEP_SIZE {
            rest if rest.is_empty() => {
                rustix::fs::fallocate(&opened.raw, mode, offset, len)?;
                if !keeps_size && end > handle.len() {
                    self.set_len(handle, end)?;
                }
                Ok(())
            }
            rest if rest == Mode::ZERO_RANGE => {
                if !keeps_size && end > handle.len() {
                    self.set_len(handle, end)?;
                }
                write_zeros(handle, offset, end.min(handle.len()))
            }
            rest if rest == Mode::PUNCH_HOLE && keeps_size => {
                write_zeros(handle, offset, end.min(handle.len()))?;
                handle.flush().errno()?;
                // The same bytes without the space; of those that have it still, nobody reads
                // others.
                let _ = rustix::fs::fallocate(&opened.raw, mode, offset, len);
                self.forget_touch();
                Ok(())
            }
            _ => Err(Errno::OPNOTSUPP),
        }
    }
}

/// How many of `wanted` bytes at `base` may be written by a process that may not make a file longer
/// than `len_max`.
pub(super) fn allowed(base: u64, wanted: u64, len_max: u64) -> Result<u64, Errno> {
    let left = len_max.min(TAG - 1).checked_sub(base).filter(|left| *left > 0);
    left.map(|left| left.min(wanted)).ok_or(Errno::FBIG)
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

/// A path that opens what `descriptor` has open, whatever it is called by now.
pub(super) fn path_of(descriptor: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd()))
}

/// As the sentence about files handed over names them.
pub(super) fn say_reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Mapped => "mapped",
        Reason::Stream => "C streams",
        Reason::Standard => "standard input or output",
        Reason::Inherited => "inherited by programs that cannot be served",
        Reason::Interface => "used by other interfaces",
        Reason::Outside => "open outside",
        Reason::Excluded => "excluded",
    }
}

/// A holder that panicked has said so; the files of others must still be written back.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
