//! Identifies the file behind a descriptor, opens the file again, and tells where its pages are.

use crate::errno::Errno;
use crate::storage::Storage;
use pagetide_sys::kernel_cache::read_kernel_cache;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, statx};
use rustix::process::Uid;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Identity of a file. A later file with the same inode number has another key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct FileKey {
    device: (u32, u32),
    inode: u64,
    made: Option<(i64, u32)>,
}

impl FileKey {
    /// Returns the key and length of the file behind a descriptor.
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

    /// Returns the device and inode numbers of stat(2).
    pub(super) fn numbers(&self) -> (u64, u64) {
        (rustix::fs::makedev(self.device.0, self.device.1), self.inode)
    }
}

/// Returns a path that opens the file behind `descriptor`, even after a rename or an unlink.
pub(super) fn path_of(descriptor: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd()))
}

/// Returns true if at least half of the server's descriptors are free, for sockets and for files
/// that are handed over. A new descriptor has the lowest free number, and that number decides.
pub(super) fn leaves_room(newest: &OwnedFd) -> bool {
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    most.is_none_or(|most| (newest.as_raw_fd() as u64) < most / 2)
}

/// Returns true if no page of the file is in the kernel's page cache.
pub(super) fn is_uncached(file: impl AsFd) -> bool {
    read_kernel_cache(file, 0, 0).is_ok_and(|found| found.nr_cached == 0)
}

/// Returns true if the file's pages in memory are its only storage.
pub(super) fn is_in_memory(file: &OwnedFd) -> bool {
    rustix::fs::fstatfs(file)
        .is_ok_and(|stat| Storage::of_kind(stat.f_type as u64) == Storage::Memory)
}

/// Returns the user that may use the server. The server never changes its user.
pub(super) fn own_user() -> Uid {
    static OWN_USER: OnceLock<Uid> = OnceLock::new();
    *OWN_USER.get_or_init(rustix::process::getuid)
}

/// Opens a read-only descriptor of a file, for other processes to map.
pub(super) fn open_read_only(file: BorrowedFd<'_>) -> std::io::Result<Arc<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let looked_at = rustix::fs::open(path_of(&file), flags, Mode::empty())?;
    // Keeps other users from reopening the file for writing.
    rustix::fs::fchmod(&looked_at, Mode::RUSR)?;
    Ok(Arc::new(looked_at))
}

/// Locks `mutex`, even if a holder panicked: other files must still be written back.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
