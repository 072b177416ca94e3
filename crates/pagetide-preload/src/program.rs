//! Inspects programs that are about to be executed.
//!
//! A program that cannot be served would inherit stand-ins, which the kernel refuses to read and
//! write. Their files are handed over first.

use crate::{next, own, process};
use libc::c_int;
pub(crate) use pagetide_run::program::Unserved;
use pagetide_run::program::{self, Owner, ProgramFile};
use std::ffi::CStr;
use std::mem::ManuallyDrop;

struct Opened(c_int);

impl Drop for Opened {
    fn drop(&mut self) {
        own::close(self.0);
    }
}

impl ProgramFile for Opened {
    fn open(path: &CStr) -> Option<Opened> {
        open(path).map(Opened)
    }

    fn mode_and_owner(&self) -> Option<(u32, Owner)> {
        let stat = process::stat(self.0).ok()?;
        Some((stat.st_mode, Owner { user: stat.st_uid, group: stat.st_gid }))
    }

    fn read_at(&self, target: &mut [u8], offset: u64) -> usize {
        let (to, len) = (target.as_mut_ptr().cast(), target.len());
        // SAFETY: a live buffer of that length (S20).
        unsafe { next::pread64(self.0, to, len, offset as i64) }.max(0) as usize
    }
}

pub(crate) fn open(path: &CStr) -> Option<c_int> {
    // SAFETY: a string (S20).
    let fd =
        unsafe { next::openat(libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0) };
    (fd >= 0).then_some(fd)
}

/// Returns the reason why the program open at `fd` cannot be served, if any.
pub(crate) fn inspect(fd: c_int) -> Option<Unserved> {
    // SAFETY: no arguments (S20).
    let user = unsafe { libc::geteuid() };
    // SAFETY: no arguments (S20).
    let group = unsafe { libc::getegid() };
    // The caller closes the descriptor.
    program::inspect(&*ManuallyDrop::new(Opened(fd)), Owner { user, group })
}
