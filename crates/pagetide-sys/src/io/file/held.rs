//! One descriptor for direct and buffered requests.
//!
//! **Problem.** A lease requires a single open file description. **Idea.** Buffered requests clear
//! the flag `O_DIRECT` temporarily.
//!
//! ```text
//!   flags  O_DIRECT ----------|          |---- O_DIRECT
//!                       buffered request             one at a time
//! ```
//!
//! A concurrent direct request then goes through the kernel's cache, which costs memory. Short
//! files are always written so, because one device request per small file costs more than
//! everything else.
//!
//! Source: Linux man page fcntl(2), `F_SETFL` and `F_SETLEASE`.

use super::{OpenStoreError, kind_unless_regular, read_statx, takes_direct};
use crate::io::aligned::AlignedBuf;
use pagetide_core::units::PAGE_BYTES;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Files up to this length are always written through the kernel's cache.
const SMALL_BYTES: u64 = 128 << 10;

#[derive(Debug)]
pub(super) struct Held {
    file: Arc<File>,
    is_direct: bool,
    /// Held while `O_DIRECT` is off.
    buffered: Mutex<()>,
}

impl Held {
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

    pub(super) fn buffered<T>(&self, request: impl FnOnce(&File) -> T) -> T {
        if !self.is_direct {
            return request(&self.file);
        }
        let _turn = self.buffered.lock().unwrap_or_else(PoisonError::into_inner);
        // If the flag cannot be changed, the request itself fails.
        let _ = set_direct(&self.file, false);
        let result = request(&self.file);
        let _ = set_direct(&self.file, true);
        result
    }

    /// Returns true if the file ends at or before `end`. No other process changes the file.
    pub(super) fn is_end(&self, end: u64) -> bool {
        rustix::fs::fstat(&*self.file).is_ok_and(|stat| stat.st_size as u64 <= end)
    }

    pub(super) fn is_small(&self, end: u64) -> bool {
        end <= SMALL_BYTES
            && rustix::fs::fstat(&*self.file).is_ok_and(|stat| stat.st_size as u64 <= SMALL_BYTES)
    }
}

/// Changes only `O_DIRECT`.
fn set_direct(file: &File, on: bool) -> io::Result<()> {
    let flags = fcntl_getfl(file)?;
    let wanted = if on { flags | OFlags::DIRECT } else { flags - OFlags::DIRECT };
    Ok(fcntl_setfl(file, wanted)?)
}

fn has_read_direct(file: &File) -> bool {
    let mut buffer = AlignedBuf::zeroed(PAGE_BYTES);
    rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut buffer[..], 0)).is_ok()
}
