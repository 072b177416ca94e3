//! Which file a descriptor is of, and how to open that file once more.

use crate::errno::Errno;
use rustix::fs::{AtFlags, StatxFlags, statx};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

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

    /// Device and inode, as stat(2) has them.
    pub(super) fn numbers(&self) -> (u64, u64) {
        (rustix::fs::makedev(self.device.0, self.device.1), self.inode)
    }
}

/// A path that opens what `descriptor` has open, whatever it is called by now.
pub(super) fn path_of(descriptor: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd()))
}

/// A holder that panicked has said so; the files of others must still be written back.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
