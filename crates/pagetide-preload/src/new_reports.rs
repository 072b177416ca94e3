//! Reports the bytes that the program writes to new files, so that the server counts and limits
//! their pages in the kernel's page cache.
//!
//! ```text
//!   written: at most 1 MiB, then closed    --> by the path, in a batch (`small_reports`)
//!   each MiB, or less if many files have unreported bytes
//!            the close of a longer file    --> by the descriptor, and the program waits
//! ```
//!
//! **Data.** The words of `passing`, with the flag of new files.
//!
//! **Ignored.** Unreported bytes when the process is killed, at most 1 MiB.

use crate::errno::{self, Errno};
use crate::passing::{
    self, FEW_BYTES, FRESH, IGNORED, KNOWN, NEW, REPORTED, SHIFT, report, request_of, send,
};
use crate::{next, process, small, small_reports, table};
use libc::c_int;
use pagetide_run::wire::{Reason, Request, pass};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Unreported bytes of the open new files. An upper limit.
static NR_BYTES: AtomicU64 = AtomicU64::new(0);

/// Begins to report a new file. All its cached pages are the run's.
pub(crate) fn begin(fd: c_int) {
    if let Some(slot) = table::state_word(fd) {
        slot.store(KNOWN | NEW, Relaxed);
    }
}

/// Returns true for a new file that the kernel has.
#[inline]
pub(crate) fn is_new(fd: c_int) -> bool {
    state(fd).is_some()
}

/// Returns the state of a new file.
#[inline]
fn state(fd: c_int) -> Option<u64> {
    Some(table::state_word(fd)?.load(Relaxed)).filter(is_new_state)
}

fn is_new_state(state: &u64) -> bool {
    *state != IGNORED && state & NEW != 0
}

/// Returns true if a new file was written so little that no report by the descriptor was due.
pub(crate) fn is_short(fd: c_int, nr_bytes_max: u64) -> bool {
    state(fd).is_some_and(|known| known & REPORTED == 0 && known >> SHIFT <= nr_bytes_max)
}

/// Records that `copy` is a new descriptor of the open file of `fd`.
pub(crate) fn duplicated(fd: c_int, copy: c_int) {
    if let Some(slot) = table::state_word(copy).filter(|_| is_new(fd)) {
        slot.store(KNOWN | NEW | REPORTED, Relaxed);
    }
}

/// Counts bytes that a call has written to a new file. Reports the bytes if they are many.
#[inline]
pub(crate) fn wrote(fd: c_int, nr_bytes: u64) {
    let Some(slot) = table::state_word(fd).filter(|_| is_new(fd) && nr_bytes > 0) else { return };
    let now = slot.fetch_add(nr_bytes << SHIFT, Relaxed) + (nr_bytes << SHIFT);
    let all = NR_BYTES.fetch_add(nr_bytes, Relaxed) + nr_bytes;
    let is_many = || {
        // Descriptors may have been closed unseen.
        NR_BYTES.store(count_bytes(), Relaxed);
        NR_BYTES.load(Relaxed) > pass::WINDOW
    };
    if now >> SHIFT >= pass::WINDOW || all > pass::WINDOW && is_many() {
        report_bytes(fd);
    }
}

fn count_bytes() -> u64 {
    table::numbers().filter_map(state).map(|known| known >> SHIFT).sum()
}

/// Takes the unreported bytes of a new file. Returns the state before.
fn take(fd: c_int, now: u64) -> Option<u64> {
    let swap = |known: u64| is_new_state(&known).then_some(now);
    let known = table::state_word(fd)?.fetch_update(Relaxed, Relaxed, swap).ok()?;
    let less = |all: u64| Some(all.saturating_sub(known >> SHIFT));
    let _ = NR_BYTES.fetch_update(Relaxed, Relaxed, less);
    Some(known)
}

#[cold]
fn report_bytes(fd: c_int) {
    if let Some(known) = take(fd, KNOWN | NEW | REPORTED) {
        errno::kept(|| report(fd, known, -1, pass::WHOLE));
    }
}

/// Makes the server watch a new file, because a call that this library does not see is about to
/// write the file.
pub(crate) fn watch(fd: c_int, reason: Reason) {
    if is_new(fd) && process::is_on() {
        take(fd, KNOWN | FRESH);
        let request = Request { total: reason as u64, ..request_of(KNOWN, -1, pass::WATCH) };
        errno::kept(|| send(fd, &request));
    }
}

/// Makes the server free the blocks that it keeps of removed files, after a call that failed
/// because the disk is full. Returns true if the call is to be repeated.
pub(crate) fn makes_room(fd: c_int, failed: Errno) -> bool {
    let is_full = matches!(failed.0, libc::ENOSPC | libc::EDQUOT);
    is_full && is_new(fd) && process::is_on() && {
        send(fd, &request_of(KNOWN, -1, pass::ROOM));
        true
    }
}

/// Reports the rest of all new files, before an exec.
pub(crate) fn close_all() {
    table::numbers().filter(|fd| is_new(*fd)).for_each(close);
}

/// Reports the rest before the program closes the descriptor of a file, new or not.
pub(crate) fn close(fd: c_int) {
    match state(fd) {
        Some(known) if known >> SHIFT > 0 => close_new(fd),
        Some(_) => {}
        None => passing::close(fd),
    }
}

/// Reports the rest of a new file: by the path if the file was not reported before.
fn close_new(fd: c_int) {
    let Some(known) = take(fd, KNOWN | NEW | REPORTED) else { return };
    if process::is_on() {
        errno::kept(|| {
            if known & REPORTED != 0 || !is_reported_by_path(fd, known >> SHIFT) {
                report(fd, known, -1, pass::WHOLE);
            }
        });
    }
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
