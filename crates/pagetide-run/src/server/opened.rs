//! A file that is ours: the only open file of its inode, a lease on it, and its pages in the cache.
//!
//! ```text
//!   read lease    the descriptor can only read        processes outside may read, too
//!   write lease   the descriptor reads and writes     no other open file there is
//! ```
//!
//! The kernel always knows the file's right length, and that it was changed: what a write makes
//! longer, is longer there, and a write sets the file's time, ten times a second at the most. And
//! there is always room for what was written: a short file that grows is written through, a long
//! one is given blocks before its length.

use crate::errno::{Errno, IntoErrno};
use crate::wire::{FILE_BYTES_MAX, Reason};
use pagetide::seam::{HeldFiles, MappedPages, SharedPages};
use pagetide::{Advice, File};
use pagetide_sys::lease::{self, LeaseKind};
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::time::{ClockId, Timespec};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use super::Server;
use super::answer::ONLY_KERNEL;
use super::identity::{lock, path_of};

/// A write changes its file's time so long after the last that did: to do it each time, or in each
/// of the kernel's ticks, is to wait for write-back that is under way.
const TOUCH_NS: u64 = 100_000_000;
/// A file that grows within this is written through to the kernel.
const SMALL_BYTES: u64 = 128 << 10;
/// A long file is given room ahead of what it is written: a part of its length, at most so much.
const AHEAD_BYTES_MAX: u64 = 4 << 20;
const AHEAD_PART: u64 = 8;
const BLOCK_BYTES: u64 = 4096;
/// Of what is given ahead, so much is not used up: where the disk is full, it goes back, and what
/// was accepted can be written.
const SPARE_BYTES: u64 = 64 << 10;

/// One file in our hands.
pub(super) struct Opened {
    /// With all the access there is.
    pub(super) file: File,
    /// The descriptor the lease is on.
    pub(super) real: Arc<std::fs::File>,
    pub(super) kind: LeaseKind,
    growth: Mutex<Growth>,
    /// Some of it may have no blocks.
    is_sparse: AtomicBool,
    /// The disk had no room ahead, the last time.
    is_short: AtomicBool,
    /// When a write last changed the file's time; 0 if the next is to.
    touched: AtomicU64,
}

/// What the kernel has been told of the file's length.
struct Growth {
    /// The kernel's length.
    len: u64,
    /// Up to here there are blocks, from what was there when the file was opened.
    has_room: u64,
}

impl Opened {
    /// Takes the file that the stand-in names, or the real descriptor that a program has just made
    /// it by, once `lease` has a lease on the descriptor.
    ///
    /// # Errors
    /// Why it is the kernel's.
    pub(super) fn take(
        server: &Server,
        lease: impl FnOnce(&std::fs::File, LeaseKind) -> Result<(), Reason>,
        stand_in: &OwnedFd,
        made: Option<OwnedFd>,
        write: bool,
    ) -> Result<Opened, Reason> {
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
        Opened::with_lease(server, &real, kind).map_err(|_| {
            let _ = lease::release(real.as_fd());
            Reason::Excluded
        })
    }

    fn with_lease(
        server: &Server,
        real: &Arc<std::fs::File>,
        kind: LeaseKind,
    ) -> Result<Opened, Errno> {
        // What the program has made appends where it said so; what is written back has its place.
        let flags = rustix::fs::fcntl_getfl(real)?;
        let stat = rustix::fs::fstat(real)?;
        rustix::fs::fcntl_setfl(real, flags - OFlags::APPEND)?;
        let opened = server.cache.open_held(Arc::clone(real), kind == LeaseKind::Write);
        let file = opened.errno().inspect_err(|_| {
            let _ = rustix::fs::fcntl_setfl(real, flags);
        })?;
        file.show();
        let len = stat.st_size as u64;
        Ok(Opened {
            file,
            real: Arc::clone(real),
            kind,
            growth: Mutex::new(Growth { len, has_room: len.next_multiple_of(BLOCK_BYTES) }),
            is_short: AtomicBool::new(false),
            is_sparse: AtomicBool::new((stat.st_blocks as u64) * 512 < len),
            touched: AtomicU64::new(0),
        })
    }

    /// Writes back what is dirty.
    pub(super) fn flush(&self) -> Result<(), Errno> {
        self.touched.store(0, Relaxed);
        self.file.flush().errno()
    }

    /// Writes the front of `source` at `offset`, as much as there is room for; returns how much
    /// that is.
    ///
    /// # Errors
    /// ENOSPC, or what else the kernel says, where it is nothing.
    pub(super) fn write(&self, handle: &File, source: &[u8], offset: u64) -> Result<usize, Errno> {
        let end = offset + source.len() as u64;
        let before = handle.len();
        if end > before && end <= SMALL_BYTES {
            return self.write_through(handle, source, offset, before);
        }
        let len = self.make_room(handle, offset, source.len() as u64, before)?;
        let nr_written = handle.write_at(&source[..len as usize], offset).errno()?;
        if self.is_short.load(Relaxed)
            && let Err(errno) = handle.flush().errno()
        {
            return Err(take_back(handle, before, errno));
        }
        self.touch();
        Ok(nr_written)
    }

    /// A page at `offset` is about to be stored to, where it is mapped: there is room for it, and
    /// the file's time changes.
    ///
    /// # Errors
    /// ENOSPC, or what else the kernel says.
    pub(super) fn note_store(&self, offset: u64) -> Result<(), Errno> {
        let start = offset / BLOCK_BYTES * BLOCK_BYTES;
        let len = self.file.len().saturating_sub(start).min(BLOCK_BYTES);
        if self.is_sparse.load(Relaxed) && len > 0 {
            self.allocate(start, len)?;
        }
        self.touch();
        Ok(())
    }

    /// A short file that grows: the kernel says at once whether there is room.
    fn write_through(
        &self,
        handle: &File,
        source: &[u8],
        offset: u64,
        before: u64,
    ) -> Result<usize, Errno> {
        let end = offset + source.len() as u64;
        if offset > before.next_multiple_of(BLOCK_BYTES) {
            self.is_sparse.store(true, Relaxed);
        }
        let nr_written = handle.write_at(source, offset).errno()?;
        if let Err(errno) = handle.flush().errno() {
            return Err(take_back(handle, before, errno));
        }
        let mut growth = lock(&self.growth);
        growth.len = growth.len.max(end);
        growth.has_room = growth.has_room.max(end.next_multiple_of(BLOCK_BYTES));
        Ok(nr_written)
    }

    /// Sees to blocks and length for `len` bytes at `offset` of a file of `before` bytes; returns
    /// for how many of them there is room.
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

    /// Whether there is room up to `end` and ahead of it now. Where there is not, what is accepted
    /// from here on is written at once.
    fn gain_room(&self, growth: &mut Growth, offset: u64, end: u64) -> bool {
        let from = growth.has_room.max(offset);
        let ahead = (end / AHEAD_PART).clamp(SPARE_BYTES, AHEAD_BYTES_MAX);
        let goal = (end + ahead).next_multiple_of(BLOCK_BYTES);
        let has_gained = self.allocate(from, goal - from).is_ok();
        if has_gained {
            growth.has_room = goal;
        }
        self.is_short.store(!has_gained, Relaxed);
        has_gained
    }

    /// Blocks past the file's end go back. A disk that is full to the last block has none for its
    /// own book-keeping, either, which write-back needs.
    fn give_back(&self, growth: &mut Growth) {
        let len = self.file.len();
        if growth.has_room > len.next_multiple_of(BLOCK_BYTES) {
            *growth = Growth { len, has_room: len.next_multiple_of(BLOCK_BYTES) };
            // They cost room on the disk, and no more.
            let _ = rustix::fs::ftruncate(&*self.real, len);
        }
    }

    /// Gives `len` bytes at `offset` blocks, or as many as there are; ENOSPC where there is none.
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

    /// Where the file system gives no blocks ahead, there is nothing to see to.
    fn allocate(&self, offset: u64, len: u64) -> Result<(), Errno> {
        match rustix::fs::fallocate(&*self.real, FallocateFlags::KEEP_SIZE, offset, len) {
            Err(Errno::OPNOTSUPP) => Ok(()),
            result => result,
        }
    }

    /// The file was written, of which the kernel will not know before write-back: its time changes
    /// now; looked at again after [`TOUCH_NS`].
    fn touch(&self) {
        let now = rustix::time::clock_gettime(ClockId::MonotonicCoarse);
        let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        if now.wrapping_sub(self.touched.load(Relaxed)) < TOUCH_NS {
            return;
        }
        self.touched.store(now, Relaxed);
        let at = |nanoseconds| Timespec { tv_sec: 0, tv_nsec: nanoseconds };
        let times = Timestamps { last_access: at(UTIME_OMIT), last_modification: at(UTIME_NOW) };
        // A process that may write and does not own the file may not; write-back changes it then.
        let _ = rustix::fs::futimens(&*self.real, &times);
    }

    /// Where the next contents, or the next hole, are, from an offset on. The kernel knows, if it
    /// has all there is. Until then all is contents: to write it back would change the file's times
    /// under a program that looks, and tar takes that for a change of the file.
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

    /// Cuts or extends the file. The caller has it alone.
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

    /// As fallocate(2). The caller has the file alone.
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
                // No process may store to a page of it from here on, until this is done.
                handle.flush().errno()?;
                write_zeros(handle, offset, end.min(handle.len()))?;
                handle.flush().errno()?;
                // The same bytes without the blocks.
                let _ = rustix::fs::fallocate(&*self.real, mode, offset, len);
                self.is_sparse.store(true, Relaxed);
                self.touched.store(0, Relaxed);
                Ok(())
            }
            _ => Err(ONLY_KERNEL),
        }
    }

    /// Blocks that were given ahead go back.
    fn trim(&self) {
        self.give_back(&mut lock(&self.growth));
    }

    /// Lets go of the file, which has all there is; its clean pages stay, to be believed if it
    /// looks as it does now when it is opened again.
    pub(super) fn let_go(self) {
        self.file.hide();
        self.file.unmap_all(true);
        self.trim();
        self.file.agree();
        // With the descriptor the lease ends as well.
        let _ = lease::release(self.real.as_fd());
    }

    /// What waits for the reads ahead that keep the descriptor open, once the file is let go of.
    pub(super) fn reads_ahead(&self) -> Box<dyn FnOnce()> {
        self.file.reads_ahead(&self.real)
    }

    /// Lets go of the file for the kernel to have: what is dirty is written back, nothing is kept.
    ///
    /// # Errors
    /// What could not be written is dirty still, and the file ours.
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

    /// Lets go of the file for the kernel to have, with what could not be written back lost.
    pub(super) fn discard(&self) {
        self.file.hide();
        self.file.unmap_all(false);
        self.file.discard();
        self.trim();
        self.file.agree();
        let _ = lease::release(self.real.as_fd());
    }
}

/// Of what could not be stored, nothing was written: the file is as long as before. The error is
/// said now, and not by the next sync again.
fn take_back(handle: &File, before: u64, errno: Errno) -> Errno {
    let cut = handle.set_len(before).errno();
    let _ = handle.sync_data();
    cut.err().unwrap_or(errno)
}

/// Opens what the path names, waiting for the holder of another lease if there is one.
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

/// Whether each change of the file passes this machine's kernel, and so its leases: of a network
/// file system, or one that a process serves, others may have changed it.
fn is_local(real: &std::fs::File) -> bool {
    const EXT: u64 = 0xef53;
    const XFS: u64 = 0x5846_5342;
    const BTRFS: u64 = 0x9123_683e;
    const F2FS: u64 = 0xf2f5_2010;
    const TMPFS: u64 = 0x0102_1994;
    const OVERLAY: u64 = 0x794c_7630;
    const ZFS: u64 = 0x2fc1_2fc1;
    const BCACHEFS: u64 = 0xca45_1a4e;
    let local = [EXT, XFS, BTRFS, F2FS, TMPFS, OVERLAY, ZFS, BCACHEFS];
    rustix::fs::fstatfs(real).is_ok_and(|stat| local.contains(&(stat.f_type as u64)))
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
