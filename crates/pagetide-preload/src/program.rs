//! Programs that are about to be executed, as the library in their parent finds them.
//!
//! One that cannot be served finds stand-ins open that the kernel refuses to read and write, so
//! what it would inherit is handed over before.

use crate::{next, own, process};
use libc::c_int;
pub(crate) use pagetide_run::program::Unserved;
use pagetide_run::program::{self, Owner, ProgramFile};
use std::ffi::CStr;
use std::mem::ManuallyDrop;

/// A program's file, closed when dropped.
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
        // SAFETY: a live buffer, so long (S20).
        unsafe { next::pread64(self.0, to, len, offset as i64) }.max(0) as usize
    }
}

/// Opens a program's file.
pub(crate) fn open(path: &CStr) -> Option<c_int> {
    // SAFETY: a string (S20).
    let fd =
        unsafe { next::openat(libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0) };
    (fd >= 0).then_some(fd)
}

/// Why the program that is open at `fd` cannot be served, if so.
pub(crate) fn inspect(fd: c_int) -> Option<Unserved> {
    // SAFETY: no arguments (S20).
    let user = unsafe { libc::geteuid() };
    // SAFETY: no arguments (S20).
    let group = unsafe { libc::getegid() };
    // It is our caller's, which closes it.
    program::inspect(&*ManuallyDrop::new(Opened(fd)), Owner { user, group })
}
