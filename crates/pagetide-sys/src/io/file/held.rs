//! One descriptor for direct and for buffered requests.
//!
//! **Problem.** A lease is granted while there is one open file of an inode, and no other. Two
//! descriptors, one direct and one buffered, are two. **Idea.** `O_DIRECT` is a flag of the open
//! file that can be changed: it is taken off for the time of a buffered request.
//!
//! ```text
//!   flags  O_DIRECT ----------|          |---- O_DIRECT
//!                       buffered request             one at a time
//! ```
//!
//! A direct request that is issued meanwhile goes through the kernel's cache, which costs memory
//! there and is right. A short file is written through the kernel's cache altogether: a device
//! request for each of many small files costs more than all else that is done with them.
//!
//! Source: Linux man page fcntl(2), `F_SETFL` and `F_SETLEASE`.

use super::{OpenStoreError, kind_unless_regular, read_statx, takes_direct};
use crate::io::aligned::AlignedBuf;
use pagetide_core::units::PAGE_BYTES;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Writes that end within this go through the kernel's cache.
const SMALL_BYTES: u64 = 128 << 10;

/// The one descriptor of a file.
#[derive(Debug)]
pub(super) struct Held {
    file: Arc<File>,
    is_direct: bool,
    /// Held while `O_DIRECT` is off.
    buffered: Mutex<()>,
}

impl Held {
    /// Takes over `file`.
    pub(super) fn new(file: Arc<File>, direct: bool) -> Result<Held, OpenStoreError> {
        let os = |source| OpenStoreError::Os { source };
        let stat = read_statx(&file).map_err(os)?;
        if let Some(kind) = kind_unless_regular(&stat) {
            return Err(OpenStoreError::NotRegular { kind });
        }
        let is_direct = direct
            && match takes_direct(&stat) {
                Some(takes) => takes && set_direct(&file, true).is_ok(),
                None => set_direct(&file, true).is_ok() && has_read_direct(&file),
            };
        if !is_direct {
            set_direct(&file, false).map_err(os)?;
        }
        Ok(Held { file, is_direct, buffered: Mutex::new(()) })
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn direct(&self) -> Option<&File> {
        self.is_direct.then_some(&*self.file)
    }

    /// Runs a request that goes through the kernel's page cache.
    pub(super) fn buffered<T>(&self, request: impl FnOnce(&File) -> T) -> T {
        if !self.is_direct {
            return request(&self.file);
        }
        let _turn = self.buffered.lock().unwrap_or_else(PoisonError::into_inner);
        // Where the flag cannot be changed, the request says so itself.
        let _ = set_direct(&self.file, false);
        let result = request(&self.file);
        let _ = set_direct(&self.file, true);
        result
    }

    /// Whether the file ends at `end`, or before: no other process changes it.
    pub(super) fn is_end(&self, end: u64) -> bool {
        rustix::fs::fstat(&*self.file).is_ok_and(|stat| stat.st_size as u64 <= end)
    }

    /// Whether a write that ends there belongs to a short file.
    pub(super) fn is_small(&self, end: u64) -> bool {
        end <= SMALL_BYTES
            && rustix::fs::fstat(&*self.file).is_ok_and(|stat| stat.st_size as u64 <= SMALL_BYTES)
    }
}

/// Keeps the access mode and whatever else is set.
fn set_direct(file: &File, on: bool) -> io::Result<()> {
    let flags = fcntl_getfl(file)?;
    let wanted = if on { flags | OFlags::DIRECT } else { flags - OFlags::DIRECT };
    Ok(fcntl_setfl(file, wanted)?)
}

fn has_read_direct(file: &File) -> bool {
    let mut buffer = AlignedBuf::zeroed(PAGE_BYTES);
    rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut buffer[..], 0)).is_ok()
}
