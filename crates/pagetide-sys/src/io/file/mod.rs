//! A regular file as the store of a mapping: frames in, bytes out, past the kernel's page cache.
//!
//! **Problem.** Contents cached twice, here and in the kernel, halve what the memory is worth.
//! Direct I/O avoids that, but only some file systems take it, only for aligned ranges, and never
//! for the tail of a file whose length is no multiple of a page.
//!
//! **Idea.** Two descriptors of the same file. Direct where the file proved to take it and the
//! request is aligned; buffered for all the rest, and to go on where a direct request was cut
//! short. A file that is *held* (`held`) has one descriptor that is both.
//!
//! ```text
//!   file:   |  page 0  |  page 1  |  page 2  |  tail  |  end
//!   reads:  |<--------- direct, preadv into locked frames ... short ->| then zeros
//!   writes: |<----------- direct ----------->|<- buffered ->|   sync drops this from the kernel
//! ```
//!
//! **Invariants.** S8: memory is given to the kernel only while it is exclusively held: frames
//! under [`Lock`], buffers by `&mut`. A result is negative or a count until it was checked: EINTR
//! is tried again, EINVAL and EOPNOTSUPP of a direct request are tried buffered, everything else
//! is reported with its range. A short read means the end of the file only once a read returns
//! nothing.
//!
//! **Ignored.** Other programs changing the file meanwhile: a [`Look`] tells, before and after.
//!
//! Source: Linux man pages open(2) `O_DIRECT`, statx(2) `STATX_DIOALIGN`, preadv(2),
//! posix_fadvise(2), lseek(2).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pagetide_core::units::{Bytes, PAGE_BYTES};
use rustix::fs::{Advice, FileType, OFlags, SeekFrom, Statx, StatxFlags};

pub use self::error::{OpenStoreError, StoreError};
pub(crate) use self::frames::{PARTS_MAX, first_of, len_of, parts, place_of};
use self::held::Held;
use self::look::read_statx;
pub use self::look::{Fingerprint, Look};
use crate::io::aligned::AlignedBuf;

mod error;
mod frames;
mod held;
mod look;
mod nameless;

const PAGE: u64 = PAGE_BYTES as u64;
const NOTHING_CACHED: u64 = u64::MAX;

/// How a store is to be opened. It is always opened for reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreOptions {
    /// Open for writing too.
    pub write: bool,
    /// Make the file if there is none; needs `write`.
    pub create: bool,
    /// Cut the file to nothing; needs `write`.
    pub truncate: bool,
    /// Use direct I/O if the file takes it.
    pub direct: bool,
}

/// An open regular file, used as a store.
///
/// # Concurrency
/// Shared freely: every method takes `&self` and names its own offset.
#[derive(Debug)]
pub struct StoreFile {
    descriptors: Descriptors,
    /// From here on, buffered writes may have left contents in the kernel's cache.
    cached_from: AtomicU64,
}

/// What requests go through.
#[derive(Debug)]
enum Descriptors {
    Two { buffered: File, direct: Option<File> },
    One(Held),
}

impl StoreFile {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// [`OpenStoreError`]. A refusal of direct I/O is none: see [`is_direct`](Self::is_direct).
    pub fn open(path: &Path, options: StoreOptions) -> Result<StoreFile, OpenStoreError> {
        let os = |source| OpenStoreError::Os { source };
        // A pipe without a peer would block in open: nothing here wants to wait for one.
        let buffered = OpenOptions::new()
            .read(true)
            .write(options.write)
            .create(options.create)
            .truncate(options.truncate)
            .custom_flags(libc::O_NONBLOCK)
            .open(path);
        let buffered = match buffered {
            // A directory opened for writing.
            Err(error) if error.raw_os_error() == Some(libc::EISDIR) => {
                return Err(OpenStoreError::NotRegular { kind: "directory" });
            }
            result => result.map_err(os)?,
        };
        // Left set, it would make io_uring answer EAGAIN where it should wait.
        rustix::fs::fcntl_setfl(&buffered, OFlags::empty()).map_err(|error| os(error.into()))?;
        if let Some(kind) = kind_unless_regular(&read_statx(&buffered).map_err(os)?) {
            return Err(OpenStoreError::NotRegular { kind });
        }
        Ok(StoreFile::over(buffered, options.write, options.direct))
    }

    /// A file of `len` zeros in `folder` that has no name, is its owner's alone, and goes when it
    /// is dropped; to be read and written, by direct I/O if it takes that and `direct` is wanted.
    ///
    /// # Errors
    /// What the system says: usually that the folder is not there, or may not be written to.
    pub fn nameless(folder: &Path, len: u64, direct: bool) -> io::Result<StoreFile> {
        let file = nameless::create(folder)?;
        file.set_len(len)?;
        Ok(StoreFile::over(file, true, direct))
    }

    /// Takes an open file that its holder has to itself, by a lease or otherwise: opened to be
    /// read, and written if it is to be; no second descriptor is made of it, which would count
    /// against the lease. `direct` as in [`StoreOptions`].
    ///
    /// # Errors
    /// [`OpenStoreError`].
    pub fn held(file: Arc<File>, direct: bool) -> Result<StoreFile, OpenStoreError> {
        let held = Held::new(file, direct)?;
        let cached_from = AtomicU64::new(NOTHING_CACHED);
        Ok(StoreFile { descriptors: Descriptors::One(held), cached_from })
    }

    fn over(buffered: File, write: bool, direct: bool) -> StoreFile {
        let direct = if direct { open_direct(&buffered, write) } else { None };
        let descriptors = Descriptors::Two { buffered, direct };
        StoreFile { descriptors, cached_from: AtomicU64::new(NOTHING_CACHED) }
    }

    /// Bytes that the file system of the file has left for this user.
    ///
    /// # Errors
    /// What fstatvfs(3) says.
    pub fn read_room(&self) -> io::Result<Bytes> {
        let found = rustix::fs::fstatvfs(self.any())?;
        Ok(Bytes(found.f_bavail.saturating_mul(found.f_frsize)))
    }

    /// Where the file is now; `None` if it has no name any more, or there is no /proc to ask.
    pub fn read_path(&self) -> Option<PathBuf> {
        let path = std::fs::read_link(format!("/proc/self/fd/{}", self.any().as_raw_fd())).ok()?;
        (!path.as_os_str().as_bytes().ends_with(b" (deleted)")).then_some(path)
    }

    /// Whether aligned requests go past the kernel's page cache.
    pub fn is_direct(&self) -> bool {
        self.direct().is_some()
    }

    /// The descriptor for aligned requests, where there is one.
    fn direct(&self) -> Option<&File> {
        match &self.descriptors {
            Descriptors::Two { direct, .. } => direct.as_ref(),
            Descriptors::One(held) => held.direct(),
        }
    }

    /// A descriptor for requests about the file as a whole.
    fn any(&self) -> &File {
        match &self.descriptors {
            Descriptors::Two { buffered, .. } => buffered,
            Descriptors::One(held) => held.file(),
        }
    }

    /// Runs a request through `direct`, or through the kernel's page cache.
    fn through<T>(&self, direct: Option<&File>, request: impl FnOnce(&File) -> T) -> T {
        match (direct, &self.descriptors) {
            (Some(direct), _) => request(direct),
            (None, Descriptors::Two { buffered, .. }) => request(buffered),
            (None, Descriptors::One(held)) => held.buffered(request),
        }
    }

    /// Whether a read that came as far as `end` needs not be tried for more.
    fn is_known_end(&self, end: u64) -> bool {
        matches!(&self.descriptors, Descriptors::One(held) if held.is_end(end))
    }

    /// Whether a write that ends at `end` goes through the kernel's page cache.
    pub(crate) fn is_small(&self, end: u64) -> bool {
        matches!(&self.descriptors, Descriptors::One(held) if held.is_small(end))
    }

    /// Reads from `offset` into `target`; returns the bytes read, fewer only at the end of the
    /// file.
    ///
    /// Direct if offset, length and memory are page aligned (an [`AlignedBuf`] is), else buffered.
    ///
    /// # Errors
    /// [`StoreError::Read`]; `target` holds anything.
    pub fn read_bytes(&self, target: &mut [u8], offset: u64) -> Result<usize, StoreError> {
        let (len, mut done) = (target.len(), 0);
        let mut direct = self.direct().filter(|_| is_aligned(target, offset));
        while done < len {
            let file = direct.filter(|_| done.is_multiple_of(PAGE_BYTES));
            let at = offset + done as u64;
            if file.is_none() && done > 0 && self.is_known_end(at) {
                break;
            }
            match self.through(file, |file| rustix::io::pread(file, &mut target[done..], at)) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) if file.is_some() && is_refusal_of_direct(&error.into()) => {
                    direct = None
                }
                Err(error) => return Err(StoreError::Read { offset, len, source: error.into() }),
            }
        }
        Ok(done)
    }

    /// Writes all of `source` at `offset`.
    ///
    /// Whole pages go direct if offset and memory are page aligned; a tail, and everything else,
    /// goes through the kernel's cache, and is dropped from there by the next successful sync.
    ///
    /// # Errors
    /// [`StoreError::Write`]; any part may have been written.
    pub fn write_bytes(&self, source: &[u8], offset: u64) -> Result<(), StoreError> {
        self.continue_write(source, offset, 0)
    }

    /// As [`write_bytes`](Self::write_bytes), where `done` bytes have been written already.
    pub(crate) fn continue_write(
        &self,
        source: &[u8],
        offset: u64,
        mut done: usize,
    ) -> Result<(), StoreError> {
        let len = source.len();
        let goes_direct = is_aligned(&source[..0], offset) && !self.is_small(offset + len as u64);
        let mut direct = self.direct().filter(|_| goes_direct);
        while done < len {
            let whole = (len - done) / PAGE_BYTES * PAGE_BYTES;
            let file = direct.filter(|_| done.is_multiple_of(PAGE_BYTES) && whole > 0);
            let end = if file.is_some() { done + whole } else { len };
            let at = offset + done as u64;
            if file.is_none() {
                self.cached_from.fetch_min(at, Ordering::Relaxed);
            }
            let written =
                self.through(file, |file| rustix::io::pwrite(file, &source[done..end], at));
            let error = match written {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(count) => {
                    done += count;
                    continue;
                }
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => io::Error::from(error),
            };
            if file.is_none() || !is_refusal_of_direct(&error) {
                return Err(StoreError::Write { offset, len, source: error });
            }
            direct = None;
        }
        Ok(())
    }

    /// Has the kernel read the page at `offset`, of which a part is to be written soon: beside
    /// other requests, not in the middle of the write.
    pub fn prepare_part(&self, offset: u64) {
        // A refusal costs time alone.
        let len = std::num::NonZeroU64::new(PAGE);
        let prepare = |file: &File| rustix::fs::fadvise(file, offset, len, Advice::WillNeed);
        let _ = self.through(None, prepare);
    }

    /// Makes all writes so far durable, and what is needed to find them.
    ///
    /// # Errors
    /// [`StoreError::Sync`]: any write since the last sync may be lost, and the kernel may not say
    /// so again; keep the contents.
    pub fn sync_data(&self) -> Result<(), StoreError> {
        self.sync(File::sync_data)
    }

    /// As [`sync_data`](Self::sync_data), with all that is known about the file.
    ///
    /// # Errors
    /// As [`sync_data`](Self::sync_data).
    pub fn sync_all(&self) -> Result<(), StoreError> {
        self.sync(File::sync_all)
    }

    fn sync(&self, sync: fn(&File) -> io::Result<()>) -> Result<(), StoreError> {
        let from = self.cached_from.swap(NOTHING_CACHED, Ordering::Relaxed);
        let result = sync(self.any());
        if result.is_err() {
            self.cached_from.fetch_min(from, Ordering::Relaxed);
        } else if from != NOTHING_CACHED && self.is_direct() {
            // A courtesy: those pages are clean now, and kept here anyway. Refusals do not matter.
            let _ = rustix::fs::fadvise(self.any(), from, None, Advice::DontNeed);
        }
        result.map_err(|source| StoreError::Sync { source })
    }

    /// The file's length in bytes, asked of the system.
    ///
    /// # Errors
    /// [`StoreError::Stat`].
    pub fn read_len(&self) -> Result<u64, StoreError> {
        Ok(self.look()?.fingerprint.len)
    }

    /// The longest that the file system lets the file become, bytes, up to `most`. Does not change
    /// the file.
    ///
    /// lseek(2) refuses offsets beyond that length, which differs by file system, block size and
    /// kind of inode.
    ///
    /// # Errors
    /// What lseek(2) says of a file without a position.
    pub fn read_len_max(&self, most: u64) -> io::Result<u64> {
        let file = self.any();
        let position = rustix::fs::tell(file)?;
        let accepts = |len| rustix::fs::seek(file, SeekFrom::Start(len)).is_ok();
        let (mut accepted, mut refused) = (0, most);
        if accepts(most) {
            accepted = most;
        }
        while accepted + 1 < refused && accepted < most {
            let between = accepted + (refused - accepted) / 2;
            if accepts(between) { accepted = between } else { refused = between }
        }
        rustix::fs::seek(file, SeekFrom::Start(position))?;
        Ok(accepted)
    }

    /// Cuts or extends the file to `len` bytes; what is added reads as zero.
    ///
    /// # Errors
    /// [`StoreError::SetLen`]; the length is what it was.
    pub fn set_len(&self, len: u64) -> Result<(), StoreError> {
        self.any().set_len(len).map_err(|source| StoreError::SetLen { len, source })
    }

    /// Which file this is, in what state, and whether that will tell on a change.
    ///
    /// # Errors
    /// [`StoreError::Stat`].
    pub fn look(&self) -> Result<Look, StoreError> {
        Look::at(self.any()).map_err(|source| StoreError::Stat { source })
    }

    /// The descriptor for page-aligned requests of whole pages.
    pub(crate) fn aligned_fd(&self) -> RawFd {
        self.direct().unwrap_or(self.any()).as_raw_fd()
    }
}

/// Opens the same file once more, with O_DIRECT; `None` if it does not take aligned reads that way.
fn open_direct(file: &File, write: bool) -> Option<File> {
    if takes_direct(&read_statx(file).ok()?) == Some(false) {
        return None;
    }
    // By descriptor, not by path: the path may name another file by now.
    let direct = OpenOptions::new()
        .read(true)
        .write(write)
        .custom_flags(libc::O_DIRECT)
        .open(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .ok()?;
    let mut buffer = AlignedBuf::zeroed(PAGE_BYTES);
    rustix::io::retry_on_intr(|| rustix::io::pread(&direct, &mut buffer[..], 0)).ok()?;
    Some(direct)
}

/// Whether the file system takes page-aligned direct requests, where it says so.
fn takes_direct(stat: &Statx) -> Option<bool> {
    let knows = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN);
    let fits = |align: u32| align != 0 && u64::from(align) <= PAGE;
    knows.then(|| fits(stat.stx_dio_mem_align) && fits(stat.stx_dio_offset_align))
}

fn kind_unless_regular(stat: &Statx) -> Option<&'static str> {
    match FileType::from_raw_mode(u32::from(stat.stx_mode)) {
        FileType::RegularFile => None,
        FileType::Directory => Some("directory"),
        FileType::Fifo => Some("pipe"),
        FileType::Socket => Some("socket"),
        FileType::CharacterDevice => Some("character device"),
        FileType::BlockDevice => Some("block device"),
        _ => Some("file of an unknown kind"),
    }
}

/// Whether memory, length and offset are all multiples of a page.
fn is_aligned(bytes: &[u8], offset: u64) -> bool {
    (bytes.as_ptr().addr() as u64 | bytes.len() as u64 | offset).is_multiple_of(PAGE)
}

/// What file systems say to a direct request they will not do as asked.
pub(crate) fn is_refusal_of_direct(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}

#[cfg(test)]
mod tests;
