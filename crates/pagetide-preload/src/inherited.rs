//! How far the stand-ins reach that a program was executed with.
//!
//! **Problem.** close_range(2) takes whole ranges, up to every number there is. A stand-in that
//! came by exec has no entry in the table yet, but its close must be told. **Idea.** The folder of
//! this process's descriptors is read once, before the program runs: close_range looks at unknown
//! descriptors no further than that.
//!
//! **Ignored.** Stand-ins that come later without a call of ours (pidfd_getfd) and are closed by
//! close_range: the server finds by itself that they are gone.
//!
//! Source: getdents64(2), proc(5) "/proc/pid/fd".

use crate::{next, own, process};
use libc::c_int;
use std::ffi::CStr;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

static END: AtomicI32 = AtomicI32::new(0);
/// In an entry of a folder: where its length is, and where its name begins.
const LEN_AT: usize = 16;
const NAME_AT: usize = 19;

/// No stand-in that the program was executed with has this number or a higher one.
pub(crate) fn end() -> c_int {
    END.load(Relaxed)
}

/// Looks, before the program runs.
pub(crate) fn look() {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: a string (S20).
    let folder = unsafe { next::openat(libc::AT_FDCWD, c"/proc/self/fd".as_ptr(), flags, 0) };
    if folder < 0 {
        return;
    }
    let mut entries = [0_u8; 4096];
    loop {
        let arguments = [folder as usize, entries.as_mut_ptr() as usize, entries.len(), 0, 0, 0];
        // SAFETY: room for as many bytes (S20).
        let read = unsafe { next::system(libc::SYS_getdents64, arguments) };
        let Some(mut rest) = read.ok().and_then(|len| entries.get(..len)) else { break };
        if rest.is_empty() {
            break;
        }
        while let Some(fd) = take_number(&mut rest) {
            if fd.is_some_and(process::is_stand_in) {
                END.fetch_max(fd.map_or(0, |fd| fd + 1), Relaxed);
            }
        }
    }
    own::close(folder);
}

/// Takes the first entry; returns its name, if that is a number. `None` at the end.
fn take_number(entries: &mut &[u8]) -> Option<Option<c_int>> {
    let len = entries.get(LEN_AT..LEN_AT + 2)?;
    let len = usize::from(u16::from_ne_bytes([len[0], len[1]]));
    let name = entries.get(NAME_AT..len)?;
    *entries = &entries[len..];
    let name = CStr::from_bytes_until_nul(name).ok()?;
    Some(name.to_str().ok().and_then(|name| name.parse().ok()))
}
