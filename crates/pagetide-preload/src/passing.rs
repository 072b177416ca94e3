//! Reports bytes that reads and writes move past the server, so that the server keeps the kernel's
//! copies of the file small.
//!
//! ```text
//!   0              not looked at since the descriptor was opened
//!   IGNORED        no regular file, a small file that is only read, or a file of the system
//!   n * 4 + flags  n bytes since the last report, in which the server writes back and drops pages
//! ```
//!
//! The program waits for the report, as a writer waits for the kernel if too many pages are dirty.
//!
//! **Ignored.** Calls of the C library's streams for standard output, except fwrite. The server
//! looks at such files itself.

use crate::channel::{Parcel, ask};
use crate::{errno, process, small, table};
use libc::{c_int, iovec, off_t};
use pagetide_run::wire::{Op, Request, pass};
use std::sync::atomic::Ordering::Relaxed;

const IGNORED: u64 = u64::MAX;
/// The reply for a file in memory, or without read access for the server.
const CANNOT_LIMIT: i64 = 1;
/// Flag of a descriptor that was looked at.
const KNOWN: u64 = 1;
const FRESH: u64 = pass::FRESH;
const FLAGS: u64 = KNOWN | FRESH;
const SHIFT: u32 = 2;
/// Minimum number of bytes that a close reports.
const FEW_BYTES: u64 = 64 << 10;

/// Makes a descriptor's calls unreported.
pub(crate) fn ignore(fd: c_int) {
    if let Some(slot) = table::state_word(fd) {
        slot.store(IGNORED, Relaxed);
    }
}

/// Begins to report a descriptor of a file, all of whose cached pages are the run's.
pub(crate) fn begin_fresh(fd: c_int) {
    if let Some(slot) = table::state_word(fd) {
        slot.store(KNOWN | FRESH, Relaxed);
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
    if before == IGNORED {
        return;
    }
    let nr_bytes = parts.iter().map(|part| (part.iov_len as u64).min(pass::WINDOW)).sum::<u64>();
    let now = before + (nr_bytes << SHIFT);
    if now >> SHIFT < pass::WINDOW {
        slot.store(now, Relaxed);
        return;
    }
    slot.store(now & FLAGS, Relaxed);
    report(fd, now, at.unwrap_or(-1), if is_write { pass::WHOLE } else { 0 });
}

/// Reports the rest before the program closes the descriptor.
pub(crate) fn close(fd: c_int) {
    let Some(slot) = table::state_word(fd) else { return };
    let known = slot.load(Relaxed);
    if known != IGNORED && known >> SHIFT >= FEW_BYTES {
        report(fd, known, -1, pass::WHOLE);
    }
}

/// Looks at a descriptor before its first read or write. Returns the new state.
#[cold]
fn look(fd: c_int) -> u64 {
    let before = errno::read();
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
    errno::set(before);
    slot.load(Relaxed)
}

#[cold]
fn report(fd: c_int, moved: u64, offset: i64, flags: u64) {
    let request = Request { flags: flags | moved & FRESH, offset, ..Request::new(Op::Pass, 0) };
    // Without an answer, the pages stay.
    let asked = ask(&request, Parcel { files: &[fd], ..Parcel::default() });
    if asked.is_ok_and(|answer| answer.reply.result == CANNOT_LIMIT) {
        ignore(fd);
    }
    crate::channel::close_if_idle();
}
