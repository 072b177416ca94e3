//! Files that the program names by a path, where the server must hear of them first.
//!
//! ```text
//!   path --> a descriptor that names the file, and can do nothing else --> request --> close
//! ```
//!
//! Ignored: what cannot be named, which the program's own call will find out; and a path that means
//! another file a moment later.
//!
//! Source: open(2), `O_PATH`.

use crate::{next, process, serve};
use libc::{c_char, c_int};
use pagetide_sys::wire::Reason;

/// Gives `each` a descriptor that names the file at a path, if there is one; `flags` may say
/// `O_NOFOLLOW`. errno stays.
pub(crate) fn with_file(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    each: impl FnOnce(c_int),
) {
    if !process::is_on() || path.is_null() {
        return;
    }
    let before = crate::errno::read();
    // SAFETY: our caller's path (S20).
    let fd = unsafe { next::openat(folder, path, flags | libc::O_PATH | libc::O_CLOEXEC, 0) };
    if fd >= 0 {
        each(fd);
        // SAFETY: our descriptor (S20).
        unsafe { next::close(fd) };
    }
    crate::errno::set(before);
}

/// Has the kernel take over the regular file at a path, if there is one.
pub(crate) fn hand_over(folder: c_int, path: *const c_char, reason: Reason) {
    with_file(folder, path, 0, |fd| {
        if process::stat(fd).is_ok_and(|stat| serve::is_regular(&stat)) {
            // The server's failure to write back is in its log; the kernel reads what is there.
            let _ = serve::ask_to_hand_over(fd, reason);
        }
    });
}
