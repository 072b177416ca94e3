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
//! **New files.** A file that the run has created, and only writes, is the kernel's. A close
//! reports a short new file by its path (`small_reports`). A longer file is reported each MiB by
//! the descriptor, and earlier if the open new files together have more unreported bytes.
//!
//! **Ignored.** Calls of the C library's streams for standard output, except fwrite. The server
//! looks at such files itself. Unreported bytes of new files when the process is killed, at most
//! 1 MiB.

use crate::channel::{Parcel, ask};
use crate::{errno, next, process, small, small_reports, table};
use libc::{c_int, iovec, off_t};
use pagetide_run::wire::{Op, Reason, Request, SHORT_FILE_BYTES, pass};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

const IGNORED: u64 = u64::MAX;
/// The reply for a file in memory, or without read access for the server.
const CANNOT_LIMIT: i64 = 1;
/// Flag of a descriptor that was looked at.
const KNOWN: u64 = 1;
const FRESH: u64 = pass::FRESH;
const NEW: u64 = pass::NEW;
/// Flag of a new file that was reported by a descriptor.
const REPORTED: u64 = 8;
/// Flag of a small file that is only read, and not reported unless the file has grown.
const SMALL: u64 = 16;
const FLAGS: u64 = KNOWN | FRESH | NEW | REPORTED | SMALL;
const SHIFT: u32 = 5;
/// Minimum number of bytes that a close reports.
const FEW_BYTES: u64 = 64 << 10;

/// Unreported bytes of the open new files. An upper limit.
static NR_NEW_BYTES: AtomicU64 = AtomicU64::new(0);

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

/// Begins to report a new file, all of whose cached pages are the run's.
pub(crate) fn begin_new(fd: c_int) {
    if let Some(slot) = table::state_word(fd) {
        slot.store(KNOWN | FRESH | NEW, Relaxed);
    }
}

/// Returns true for a new file that the kernel has.
#[inline]
pub(crate) fn is_new(fd: c_int) -> bool {
    new_state(fd).is_some()
}

/// Returns the state of a new file.
#[inline]
fn new_state(fd: c_int) -> Option<u64> {
    Some(table::state_word(fd)?.load(Relaxed)).filter(is_new_state)
}

fn is_new_state(state: &u64) -> bool {
    *state != IGNORED && state & NEW != 0
}

/// Returns true if a new file was written so little that no report by the descriptor was due.
pub(crate) fn is_short(fd: c_int, nr_bytes_max: u64) -> bool {
    new_state(fd).is_some_and(|known| known & REPORTED == 0 && known >> SHIFT <= nr_bytes_max)
}

/// Records that `copy` is a new descriptor of the open file of `fd`.
pub(crate) fn duplicated(fd: c_int, copy: c_int) {
    if let Some(slot) = table::state_word(copy).filter(|_| is_new(fd)) {
        slot.store(KNOWN | FRESH | NEW | REPORTED, Relaxed);
    }
}

/// Counts bytes that a call has written to a new file. Reports the bytes if they are many.
#[inline]
pub(crate) fn wrote(fd: c_int, nr_bytes: u64) {
    let Some(slot) = table::state_word(fd).filter(|_| is_new(fd) && nr_bytes > 0) else { return };
    let now = slot.fetch_add(nr_bytes << SHIFT, Relaxed) + (nr_bytes << SHIFT);
    let all = NR_NEW_BYTES.fetch_add(nr_bytes, Relaxed) + nr_bytes;
    let is_many = || {
        // Descriptors may have been closed unseen.
        NR_NEW_BYTES.store(count_new_bytes(), Relaxed);
        NR_NEW_BYTES.load(Relaxed) > pass::WINDOW
    };
    if now >> SHIFT >= pass::WINDOW || all > pass::WINDOW && is_many() {
        report_new(fd);
    }
}

fn count_new_bytes() -> u64 {
    table::numbers().filter_map(new_state).map(|known| known >> SHIFT).sum()
}

/// Takes the unreported bytes of a new file. Returns the state before.
fn take_new(fd: c_int, now: u64) -> Option<u64> {
    let swap = |known: u64| is_new_state(&known).then_some(now);
    let known = table::state_word(fd)?.fetch_update(Relaxed, Relaxed, swap).ok()?;
    let less = |all: u64| Some(all.saturating_sub(known >> SHIFT));
    let _ = NR_NEW_BYTES.fetch_update(Relaxed, Relaxed, less);
    Some(known)
}

#[cold]
fn report_new(fd: c_int) {
    let before = errno::read();
    if let Some(known) = take_new(fd, KNOWN | FRESH | NEW | REPORTED) {
        report(fd, known, -1, pass::WHOLE);
    }
    errno::set(before);
}

/// Makes the server watch a new file, because a call that this library does not see is about to
/// write the file.
pub(crate) fn watch(fd: c_int, reason: Reason) {
    if is_new(fd) && process::is_on() {
        let before = errno::read();
        take_new(fd, KNOWN | FRESH);
        send(fd, &Request { total: reason as u64, ..request_of(KNOWN | FRESH, -1, pass::WATCH) });
        errno::set(before);
    }
}

/// Makes the server free the blocks that it keeps of removed files, after a call that failed
/// because the disk is full. Returns true if the call is to be repeated.
pub(crate) fn makes_room(fd: c_int, failed: errno::Errno) -> bool {
    let is_full = matches!(failed.0, libc::ENOSPC | libc::EDQUOT);
    is_full && is_new(fd) && process::is_on() && {
        send(fd, &request_of(KNOWN | FRESH, -1, pass::ROOM));
        true
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
    if before & NEW != 0 {
        // Counted after the write.
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

/// Reports the rest before the program closes the descriptor.
pub(crate) fn close(fd: c_int) {
    let Some(slot) = table::state_word(fd) else { return };
    let known = slot.load(Relaxed);
    if known == IGNORED || known >> SHIFT == 0 {
        return;
    }
    if is_new(fd) {
        close_new(fd);
    } else if known >> SHIFT >= FEW_BYTES && known & SMALL == 0 {
        report(fd, known, -1, pass::WHOLE);
    }
}

/// Reports the rest of all new files, before an exec.
pub(crate) fn close_all_new() {
    table::numbers().filter(|fd| is_new(*fd)).for_each(close);
}

/// Reports the rest of a new file: by the path if the file was not reported before.
fn close_new(fd: c_int) {
    let Some(known) = take_new(fd, KNOWN | FRESH | NEW | REPORTED) else { return };
    if !process::is_on() {
        return;
    }
    let before = errno::read();
    if known & REPORTED != 0 || !is_reported_by_path(fd, known >> SHIFT) {
        report(fd, known, -1, pass::WHOLE);
    }
    errno::set(before);
}

fn is_reported_by_path(fd: c_int, nr_bytes: u64) -> bool {
    let Ok(stat) = process::stat(fd) else { return true };
    if stat.st_nlink == 0 {
        return nr_bytes < FEW_BYTES;
    }
    if nr_bytes < stat.st_size as u64 {
        // Others have written as well. A report by the path would replace theirs.
        return false;
    }
    if small_reports::add(fd, &stat, stat.st_size as u64, true) {
        return true;
    }
    // The server cannot follow the path. This descriptor still drops the pages.
    let flags = libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let arguments = [fd as usize, 0, 0, flags as usize, 0, 0];
    // SAFETY: numbers only (S20).
    let _ = unsafe { next::system(libc::SYS_sync_file_range, arguments) };
    small::drop_pages(fd);
    true
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
    send(fd, &request_of(moved, offset, flags));
    crate::channel::close_if_idle();
}

fn request_of(moved: u64, offset: i64, flags: u64) -> Request {
    let (flags, len) = (flags | moved & (FRESH | NEW), moved >> SHIFT);
    Request { flags, offset, len, ..Request::new(Op::Pass, 0) }
}

fn send(fd: c_int, request: &Request) {
    // Without an answer, the pages stay.
    let asked = ask(request, Parcel { files: &[fd], ..Parcel::default() });
    if asked.is_ok_and(|answer| answer.reply.result == CANNOT_LIMIT) {
        ignore(fd);
    }
}
