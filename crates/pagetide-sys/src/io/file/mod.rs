//! A regular file as a store, with I/O that bypasses the kernel's page cache.
//!
//! **Problem.** Caching contents here and in the kernel halves the value of memory. Direct I/O
//! needs support by the file system and aligned ranges, and excludes a partial last page.
//!
//! **Idea.** Two descriptors of one file. Aligned requests are direct if that has proved to work.
//! Other requests, and the rest of a short direct request, are buffered. A *held* file (`held`) has
//! one descriptor for both.
//!
//! ```text
//!   file:   |  page 0  |  page 1  |  page 2  |  tail  |  end
//!   reads:  |<--------- direct, preadv into locked frames ... short ->| then zeros
//!   writes: |<----------- direct ----------->|<- buffered ->|   sync drops this from the kernel
//! ```
//!
//! **Invariants.** S8: the kernel gets memory only while the caller has exclusive access: frames
//! under [`Lock`], buffers by `&mut`. `EINTR` repeats the request. `EINVAL` and `EOPNOTSUPP` of a
//! direct request repeat it buffered. Other errors are reported with their range. Only a read of 0
//! bytes means the end of the file.
//!
//! **Ignored.** Concurrent changes by other programs, which a [`Look`] before and after shows.
//!
//! Source: Linux man pages open(2) `O_DIRECT`, statx(2) `STATX_DIOALIGN`, preadv(2),
//! posix_fadvise(2), lseek(2).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
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
use crate::io::lease;

mod error;
mod frames;
mod held;
mod look;
mod nameless;

const PAGE: u64 = PAGE_BYTES as u64;
const NOTHING_CACHED: u64 = u64::MAX;

/// Options for opening a store. Stores are always readable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreOptions {
    /// Opens for writing too.
    pub write: bool,
    /// Creates a missing file. Needs `write`.
    pub create: bool,
    /// Creates the file, and fails if there is one. Needs `write`.
    pub create_new: bool,
    /// The permissions of a created file, less the process's umask.
    pub mode: u32,
    /// Truncates the file to length 0. Needs `write`.
    pub truncate: bool,
    /// Uses direct I/O if the file supports it.
    pub direct: bool,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            write: false,
            create: false,
            create_new: false,
            mode: 0o666,
            truncate: false,
            direct: false,
        }
    }
}

/// An open regular file, used as a store.
///
/// # Concurrency
/// Shared freely. Every method takes `&self` and names its own offset.
#[derive(Debug)]
pub struct StoreFile {
    descriptors: Descriptors,
    /// The lowest offset of a buffered write since the last sync.
    cached_from: AtomicU64,
}

#[derive(Debug)]
enum Descriptors {
    Two {
        buffered: File,
        direct: Option<File>,
        /// The description of `buffered` is also the caller's.
        is_shared: bool,
    },
    One(Held),
}

impl StoreFile {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// [`OpenStoreError`]. A file without direct I/O is not an error: see
    /// [`is_direct`](Self::is_direct).
    pub fn open(path: &Path, options: StoreOptions) -> Result<StoreFile, OpenStoreError> {
        let os = |source| OpenStoreError::Os { source };
        // `O_NONBLOCK`: opening a pipe without a peer would block.
        let buffered = OpenOptions::new()
            .read(true)
            .write(options.write)
            .create(options.create)
            .create_new(options.create_new)
            .mode(options.mode)
            .truncate(options.truncate)
            .custom_flags(libc::O_NONBLOCK)
            .open(path);
        let buffered = match buffered {
            // A directory, opened for writing.
            Err(error) if error.raw_os_error() == Some(libc::EISDIR) => {
                return Err(OpenStoreError::NotRegular { kind: "directory" });
            }
            result => result.map_err(os)?,
        };
        // With the flag set, io_uring would answer `EAGAIN` instead of waiting.
        rustix::fs::fcntl_setfl(&buffered, OFlags::empty()).map_err(|error| os(error.into()))?;
        if let Some(kind) = kind_unless_regular(&read_statx(&buffered).map_err(os)?) {
            return Err(OpenStoreError::NotRegular { kind });
        }
        Ok(StoreFile::over(buffered, options.write, options.direct, false))
    }

    /// Opens the file of a descriptor again, with descriptors of its own. `file` must be open for
    /// reading, and for writing if `write` is set. `direct` is as in [`StoreOptions`].
    ///
    /// Without /proc, or without the permission to open the file again, shares the open file
    /// description of `file`, and clears its flag `O_NONBLOCK`.
    ///
    /// # Errors
    /// [`OpenStoreError`], and the system's error if a shared description would append.
    pub fn again(file: &File, write: bool, direct: bool) -> Result<StoreFile, OpenStoreError> {
        let os = |source| OpenStoreError::Os { source };
        if let Some(kind) = kind_unless_regular(&read_statx(file).map_err(os)?) {
            return Err(OpenStoreError::NotRegular { kind });
        }
        let own = OpenOptions::new().read(true).write(write).open(path_of(file));
        let is_shared = own.is_err();
        let own = own.or_else(|refused| share(file, refused)).map_err(os)?;
        Ok(StoreFile::over(own, write, direct, is_shared))
    }

    /// Creates an unnamed file of `len` zeros in `folder`, accessible only to its owner, and
    /// deleted on drop. `direct` is as in [`StoreOptions`].
    ///
    /// # Errors
    /// Fails with the system's error, usually a missing folder or permission.
    pub fn nameless(folder: &Path, len: u64, direct: bool) -> io::Result<StoreFile> {
        let file = nameless::create(folder)?;
        file.set_len(len)?;
        Ok(StoreFile::over(file, true, direct, false))
    }

    /// Takes an open file that the caller uses exclusively, for example by a lease. It must be open
    /// for reading, and for writing if it will be written. Makes no second descriptor, which would
    /// conflict with the lease. `direct` is as in [`StoreOptions`].
    ///
    /// # Errors
    /// Fails with [`OpenStoreError`].
    pub fn held(file: Arc<File>, direct: bool) -> Result<StoreFile, OpenStoreError> {
        let held = Held::new(file, direct)?;
        let cached_from = AtomicU64::new(NOTHING_CACHED);
        Ok(StoreFile { descriptors: Descriptors::One(held), cached_from })
    }

    fn over(buffered: File, write: bool, direct: bool, is_shared: bool) -> StoreFile {
        let direct = if direct { open_direct(&buffered, write) } else { None };
        let descriptors = Descriptors::Two { buffered, direct, is_shared };
        StoreFile { descriptors, cached_from: AtomicU64::new(NOTHING_CACHED) }
    }

    /// Returns the free bytes of the file system for this user.
    ///
    /// # Errors
    /// Fails with the error of fstatvfs(3).
    pub fn read_room(&self) -> io::Result<Bytes> {
        let found = rustix::fs::fstatvfs(self.any())?;
        Ok(Bytes(found.f_bavail.saturating_mul(found.f_frsize)))
    }

    /// Returns the current path, or `None` if the file has no name any more, or /proc is not
    /// mounted.
    pub fn read_path(&self) -> Option<PathBuf> {
        let path = std::fs::read_link(path_of(self.any())).ok()?;
        (!path.as_os_str().as_bytes().ends_with(b" (deleted)")).then_some(path)
    }

    /// Returns true if the file has no name any more. False for a [held](Self::held) file.
    pub fn is_unlinked(&self) -> bool {
        let Descriptors::Two { buffered, .. } = &self.descriptors else { return false };
        rustix::fs::fstat(buffered).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Closes a file that no process has open otherwise, this one included. Otherwise returns the
    /// file. A file system without leases, and the file of another user, count as open.
    pub fn close_if_sole(self) -> Option<StoreFile> {
        let StoreFile { descriptors, cached_from } = self;
        let Descriptors::Two { buffered, direct, is_shared: false } = descriptors else {
            return Some(StoreFile { descriptors, cached_from });
        };
        let was_direct = direct.is_some();
        drop(direct);
        if lease::is_sole(buffered.as_fd()) {
            return None;
        }
        let write = read_access(&buffered).is_ok_and(|(_, write)| write);
        let direct = if was_direct { open_direct(&buffered, write) } else { None };
        Some(StoreFile {
            descriptors: Descriptors::Two { buffered, direct, is_shared: false },
            cached_from,
        })
    }

    /// Returns true if aligned requests bypass the kernel's page cache.
    pub fn is_direct(&self) -> bool {
        self.direct().is_some()
    }

    fn direct(&self) -> Option<&File> {
        match &self.descriptors {
            Descriptors::Two { direct, .. } => direct.as_ref(),
            Descriptors::One(held) => held.direct(),
        }
    }

    /// Returns a descriptor for requests about the whole file.
    fn any(&self) -> &File {
        match &self.descriptors {
            Descriptors::Two { buffered, .. } => buffered,
            Descriptors::One(held) => held.file(),
        }
    }

    fn through<T>(&self, direct: Option<&File>, request: impl FnOnce(&File) -> T) -> T {
        match (direct, &self.descriptors) {
            (Some(direct), _) => request(direct),
            (None, Descriptors::Two { buffered, .. }) => request(buffered),
            (None, Descriptors::One(held)) => held.buffered(request),
        }
    }

    fn is_known_end(&self, end: u64) -> bool {
        matches!(&self.descriptors, Descriptors::One(held) if held.is_end(end))
    }

    /// Returns true if a write that ends at `end` goes through the kernel's page cache.
    pub(crate) fn is_small(&self, end: u64) -> bool {
        matches!(&self.descriptors, Descriptors::One(held) if held.is_small(end))
    }

    /// Reads from `offset` into `target`. Returns the bytes read, fewer than requested only at the
    /// end of the file.
    ///
    /// The read is direct if offset, length and memory are page aligned (an [`AlignedBuf`] is).
    ///
    /// # Errors
    /// Fails with [`StoreError::Read`]. The contents of `target` are then unspecified.
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
    /// Whole pages are written directly if offset and memory are page aligned. Other bytes go
    /// through the kernel's page cache until the next successful sync.
    ///
    /// # Errors
    /// Fails with [`StoreError::Write`]. Any part may have been written.
    pub fn write_bytes(&self, source: &[u8], offset: u64) -> Result<(), StoreError> {
        self.continue_write(source, offset, 0)
    }

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

    /// Starts a kernel read of the page at `offset`, so that a later partial write does not wait.
    pub fn prepare_part(&self, offset: u64) {
        let len = std::num::NonZeroU64::new(PAGE);
        let prepare = |file: &File| rustix::fs::fadvise(file, offset, len, Advice::WillNeed);
        let _ = self.through(None, prepare);
    }

    /// Makes all previous writes durable, and the metadata needed to read them.
    ///
    /// # Errors
    /// Fails with [`StoreError::Sync`]. Any write since the last sync may be lost, and the kernel
    /// may not report it again. The caller must keep the contents.
    pub fn sync_data(&self) -> Result<(), StoreError> {
        self.sync(File::sync_data)
    }

    /// Makes all previous writes and all metadata of the file durable.
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
            // Frees the kernel's copies of these now clean pages. An error does no harm.
            let _ = rustix::fs::fadvise(self.any(), from, None, Advice::DontNeed);
        }
        result.map_err(|source| StoreError::Sync { source })
    }

    /// Reads the file's length in bytes from the system.
    ///
    /// # Errors
    /// [`StoreError::Stat`].
    pub fn read_len(&self) -> Result<u64, StoreError> {
        Ok(self.look()?.fingerprint.len)
    }

    /// Returns the largest length that the file system supports for this file, in bytes, up to
    /// `most`.
    ///
    /// lseek(2) refuses larger offsets. The limit depends on the file system, the block size and
    /// the kind of inode.
    ///
    /// # Errors
    /// Fails with the error of lseek(2) if the file has no position.
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

    /// Truncates the file, or extends it with zeros, to `len` bytes.
    ///
    /// # Errors
    /// Fails with [`StoreError::SetLen`]. The file keeps its old length.
    pub fn set_len(&self, len: u64) -> Result<(), StoreError> {
        self.any().set_len(len).map_err(|source| StoreError::SetLen { len, source })
    }

    /// Reads the file's identity and state.
    ///
    /// # Errors
    /// Fails with [`StoreError::Stat`].
    pub fn look(&self) -> Result<Look, StoreError> {
        Look::at(self.any()).map_err(|source| StoreError::Stat { source })
    }

    pub(crate) fn aligned_fd(&self) -> RawFd {
        self.direct().unwrap_or(self.any()).as_raw_fd()
    }
}

fn path_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Duplicates the descriptor, unless its writes go to the end of the file.
fn share(file: &File, refused: io::Error) -> io::Result<File> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    if flags.contains(OFlags::APPEND) {
        return Err(refused);
    }
    rustix::fs::fcntl_setfl(file, flags - OFlags::NONBLOCK)?;
    file.try_clone()
}

/// Returns the access of a descriptor: for reading, for writing.
///
/// # Errors
/// The system's.
pub fn read_access(file: &File) -> io::Result<(bool, bool)> {
    let mode = rustix::fs::fcntl_getfl(file)? & OFlags::RWMODE;
    let is_path = rustix::fs::fcntl_getfl(file)?.contains(OFlags::PATH);
    Ok((mode != OFlags::WRONLY && !is_path, mode != OFlags::RDONLY && !is_path))
}

/// Opens the file again with `O_DIRECT`. Returns `None` if aligned direct reads fail.
fn open_direct(file: &File, write: bool) -> Option<File> {
    if takes_direct(&read_statx(file).ok()?) == Some(false) {
        return None;
    }
    // By descriptor, because the path may name another file by now.
    let direct = OpenOptions::new()
        .read(true)
        .write(write)
        .custom_flags(libc::O_DIRECT)
        .open(path_of(file))
        .ok()?;
    let mut buffer = AlignedBuf::zeroed(PAGE_BYTES);
    rustix::io::retry_on_intr(|| rustix::io::pread(&direct, &mut buffer[..], 0)).ok()?;
    Some(direct)
}

/// Returns true if page-aligned direct requests work, `None` if the file system does not say.
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

/// Returns true if memory, length and offset are multiples of a page.
fn is_aligned(bytes: &[u8], offset: u64) -> bool {
    (bytes.as_ptr().addr() as u64 | bytes.len() as u64 | offset).is_multiple_of(PAGE)
}

/// Returns true for the errors of an unsupported direct request.
pub(crate) fn is_refusal_of_direct(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}

#[cfg(test)]
mod tests;
