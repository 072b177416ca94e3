//! The descriptors that a program was executed with: the highest stand-in, and files with locks.
//!
//! **Problem.** close_range(2) takes whole ranges, up to the highest possible number. A stand-in
//! from before an exec has no entry in the table yet, but the server must know of the close.
//!
//! **Idea.** The library reads the directory of this process's descriptors once, before the program
//! runs. close_range checks unknown descriptors only up to the highest stand-in in that directory.
//! Files with record locks are recorded in `lent`, because the process may have taken the locks
//! before the exec.
//!
//! **Ignored.** Stand-ins that the process gets later without an intercepted call (pidfd_getfd) and
//! closes by close_range. The server's scan of the processes finds such closes.
//!
//! Source: getdents64(2), proc(5) "/proc/pid/fd".

use crate::{lent, next, own, process};
use libc::c_int;
use std::ffi::CStr;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

static END: AtomicI32 = AtomicI32::new(0);
/// Offsets of the length and of the name in a directory entry.
const LEN_AT: usize = 16;
const NAME_AT: usize = 19;

/// Returns an exclusive upper limit of the stand-ins' numbers from before the exec.
pub(crate) fn end() -> c_int {
    END.load(Relaxed)
}

/// Scans this process's descriptors, before the program runs.
pub(crate) fn look() {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the path is a string (S20).
    let folder = unsafe { next::openat(libc::AT_FDCWD, c"/proc/self/fd".as_ptr(), flags, 0) };
    if folder < 0 {
        return;
    }
    let mut entries = [0_u8; 4096];
    loop {
        let arguments = [folder as usize, entries.as_mut_ptr() as usize, entries.len(), 0, 0, 0];
        // SAFETY: the buffer has the length that is passed (S20).
        let read = unsafe { next::system(libc::SYS_getdents64, arguments) };
        let Some(mut rest) = read.ok().and_then(|len| entries.get(..len)) else { break };
        if rest.is_empty() {
            break;
        }
        while let Some(fd) = take_number(&mut rest) {
            match fd {
                Some(fd) if process::is_stand_in(fd) => {
                    END.fetch_max(fd + 1, Relaxed);
                }
                Some(fd) if process::stat(fd).is_ok_and(|stat| process::is_regular(&stat)) => {
                    lent::note_lock_from_before(fd);
                }
                _ => {}
            }
        }
    }
    own::close(folder);
}

/// Takes the first entry. Returns the name if the name is a number, and `None` at the end.
fn take_number(entries: &mut &[u8]) -> Option<Option<c_int>> {
    let len = entries.get(LEN_AT..LEN_AT + 2)?;
    let len = usize::from(u16::from_ne_bytes([len[0], len[1]]));
    let name = entries.get(NAME_AT..len)?;
    *entries = &entries[len..];
    let name = CStr::from_bytes_until_nul(name).ok()?;
    Some(name.to_str().ok().and_then(|name| name.parse().ok()))
}
