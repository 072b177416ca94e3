//! Reports bytes that reads and writes move past the server, so that the server limits the file's
//! pages in the kernel's page cache.
//!
//! ```text
//!   0               not looked at since the descriptor was opened
//!   IGNORED         no regular file, or a file of the system
//!   n * 32 + flags  n bytes since the last report, in which the server writes back and drops pages
//! ```
//!
//! The program waits for the report, as a writer waits for the kernel if too many pages are dirty.
//!
//! New files have the same words, and reports of their own (`new_reports`).
//!
//! **Ignored.** Calls of the C library's streams for standard output, except fwrite. The server
//! looks at such files itself.

use crate::channel::{Parcel, ask};
use crate::{errno, process, small, table};
use libc::{c_int, iovec, off_t};
use pagetide_run::wire::{Op, Request, SHORT_FILE_BYTES, pass};
use std::sync::atomic::Ordering::Relaxed;

pub(crate) const IGNORED: u64 = u64::MAX;
/// The reply for a file in memory, or without read access for the server.
const CANNOT_LIMIT: i64 = 1;
/// Flag of a descriptor that was looked at.
pub(crate) const KNOWN: u64 = 1;
pub(crate) const FRESH: u64 = pass::FRESH;
pub(crate) const NEW: u64 = pass::NEW;
/// Flag of a new file that was reported by a descriptor.
pub(crate) const REPORTED: u64 = 8;
/// Flag of a small file that is only read, and not reported unless the file has grown.
const SMALL: u64 = 16;
const FLAGS: u64 = KNOWN | FRESH | NEW | REPORTED | SMALL;
pub(crate) const SHIFT: u32 = 5;
/// Minimum number of bytes that a close reports.
pub(crate) const FEW_BYTES: u64 = 64 << 10;

/// Makes a descriptor's calls unreported.
pub(crate) fn ignore(fd: c_int) {
    if let Some(slot) = table::state_word(fd) {
        slot.store(IGNORED, Relaxed);
    }
}

/// Begins to count the bytes of a small file that is only read.
pub(crate) fn begin_small(fd: c_int) {
    if let Some(slot) = table::state_word(fd) {
        slot.store(KNOWN | SMALL, Relaxed);
    }
}

/// Counts a call that is about to read, or with `is_write` to write, `parts` at offset `at`, or at
/// the position. Reports the calls before if they have moved enough.
#[inline]
pub(crate) fn note(fd: c_int, parts: &[iovec], at: Option<off_t>, is_write: bool) {
    let Some(slot) = table::state_word(fd) else { return };
    let known = slot.load(Relaxed);
    if known == IGNORED || !process::is_on() {
        return;
    }
    let before = if known == 0 { look(fd) } else { known };
    // The bytes of a new file are counted after the write.
    if before == IGNORED || before & NEW != 0 {
        return;
    }
    let nr_bytes = parts.iter().map(|part| (part.iov_len as u64).min(pass::WINDOW)).sum::<u64>();
    let now = before + (nr_bytes << SHIFT);
    if now >> SHIFT < pass::WINDOW {
        slot.store(now, Relaxed);
        return;
    }
    slot.store(now & FLAGS, Relaxed);
    if now & SMALL != 0 {
        if process::stat(fd).is_ok_and(|stat| stat.st_size as u64 > SHORT_FILE_BYTES) {
            look(fd);
        }
        return;
    }
    report(fd, now, at.unwrap_or(-1), if is_write { pass::WHOLE } else { 0 });
}

/// Reports the rest before the program closes a descriptor of a file that is not new.
pub(crate) fn close(fd: c_int) {
    let Some(slot) = table::state_word(fd) else { return };
    let known = slot.load(Relaxed);
    if known != IGNORED && known >> SHIFT >= FEW_BYTES && known & SMALL == 0 {
        report(fd, known, -1, pass::WHOLE);
    }
}

/// Looks at a descriptor before its first read or write. Returns the new state.
#[cold]
fn look(fd: c_int) -> u64 {
    errno::kept(|| {
        let stat = process::stat(fd).ok().filter(process::is_regular);
        let state = match stat.and_then(|_| small::nr_cached(fd)) {
            None => IGNORED,
            Some(0) => KNOWN | FRESH,
            Some(_) => KNOWN,
        };
        let Some(slot) = table::state_word(fd) else { return IGNORED };
        slot.store(state, Relaxed);
        if state == KNOWN && stat.is_some_and(|stat| stat.st_size as u64 >= pass::WINDOW) {
            // The server remembers the pages that are there now.
            report(fd, state, -1, 0);
        }
        slot.load(Relaxed)
    })
}

#[cold]
pub(crate) fn report(fd: c_int, moved: u64, offset: i64, flags: u64) {
    send(fd, &request_of(moved, offset, flags));
    crate::channel::close_if_idle();
}

pub(crate) fn request_of(moved: u64, offset: i64, flags: u64) -> Request {
    let (flags, len) = (flags | moved & (FRESH | NEW), moved >> SHIFT);
    Request { flags, offset, len, ..Request::new(Op::Pass, 0) }
}

pub(crate) fn send(fd: c_int, request: &Request) {
    // Without an answer, the pages stay.
    let asked = ask(request, Parcel { files: &[fd], ..Parcel::default() });
    if asked.is_ok_and(|answer| answer.reply.result == CANNOT_LIMIT) {
        ignore(fd);
    }
}
