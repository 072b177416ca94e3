//! Misses without waiting for the server: a page here and there, read from the file by ourselves.
//!
//! **Problem.** A miss that asks the server is two switches of threads longer than the device
//! takes, for the thread that waits. **Idea.** The thread that misses a page reads it from the file
//! itself, past the kernel's page cache, and sends the server what it has read, which is not
//! waited for.
//!
//! ```text
//!   count of writes even? --> read into this thread's tray --> count the same? --> checksum
//!                                                                       |
//!   the program has its bytes <-----------------------------------------+
//!   the server has the page   <-- with others, or the thread ends ------+
//! ```
//!
//! While memory is ample, the server says so in the tray, and the pages behind the one that is
//! missed are read with it, as `pagetide_core::readahead` has it: counted as no access, and found
//! in the tray like any other.
//!
//! The count (`pagetide_sys::shared`) is even while the file on disk has all there is: it was not
//! written through the page cache. The server compares it once more before it admits the page,
//! and the checksum with it. A packet arrives whole or not at all, whenever we are killed.
//!
//! **Data and invariants.** What is set down was never the program's memory: it is read by the
//! kernel into a tray (`tray`), between pages that cannot be touched. A program that scribbles over
//! its memory all the same is found out by the checksum, made right after the read.
//! It is read by a descriptor that the server lends (`lent`), of a file that was opened with
//! O_DIRECT, once the description has missed a few times. A signal's handler that comes in the
//! middle of it asks the server.
//!
//! **Ignored.** Streams: the server reads ahead for those. Long reads, ends of files, files that
//! were written, and file systems without O_DIRECT: the server reads those. Pages that are still in
//! another thread's tray: they are read again.
//!
//! Source: open(2), "O_DIRECT".

use crate::lent::{self, Lent};
use crate::{next, own, tray, view};
use libc::{c_void, iovec};
use pagetide_run::wire::{Offer, PAGE_SHIFT};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

const PAGE_BYTES: usize = 1 << PAGE_SHIFT;
/// Pages of one read, at most.
const PAGES_MAX: usize = 4;

thread_local! {
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
}

/// How often a description misses before it is worth a descriptor.
const FEW: u32 = 4;
/// Misses of the descriptions with such a number, until it was.
static NR_MISSES: [AtomicU32; 1 << 12] = [const { AtomicU32::new(0) }; 1 << 12];

/// Reads the range, which begins with a page that is not resident; returns whether it did. If not,
/// nothing has happened.
pub(crate) fn read(id: u64, tag: u32, target: *mut c_void, len: usize, offset: u64) -> bool {
    if len == 0 || len > PAGES_MAX * PAGE_BYTES || IS_BUSY.get() {
        return false;
    }
    let (first, last) = (offset >> PAGE_SHIFT, (offset + len as u64 - 1) >> PAGE_SHIFT);
    let nr_pages = (last + 1 - first) as usize;
    let wanted = first..last + 1;
    let Some((file_len, writes)) = view::file(tag, &wanted) else { return false };
    let is_whole = last < file_len >> PAGE_SHIFT;
    if nr_pages > PAGES_MAX || !is_whole || writes & 1 == 1 {
        return false;
    }
    let Some(lent) = borrow(id) else { return false };
    IS_BUSY.set(true);
    let end = last + 1 + nr_behind(tag, last + 1..file_len >> PAGE_SHIFT, nr_pages);
    let read = [end, last + 1].into_iter().find_map(|end| Some((end, tray::room(end - first)?)));
    let read = read.filter(|(end, start)| read_pages(lent, first..*end, *start));
    // If all is as it was, then the descriptor was this file's all the time, and nothing was
    // written.
    let is_same = view::file(tag, &wanted).is_some_and(|(_, now)| now == writes)
        && lent::known(id) == Some(Some(lent));
    let is_read = match read {
        Some((end, start)) if is_same => {
            for index in first..end {
                tray::set_down(Offer { id, index, is_around: index > last, writes, checksum: 0 });
            }
            let from = start.wrapping_add(offset as usize % PAGE_BYTES);
            // SAFETY: the range is inside the slots that were read into (S22), and the program's
            // memory is given to be read into (S20).
            unsafe { std::ptr::copy_nonoverlapping(from, target.cast::<u8>(), len) };
            true
        }
        _ => false,
    };
    IS_BUSY.set(false);
    is_read
}

/// How many pages to read behind `nr_wanted`: of the file's whole ones, as far as none is resident.
fn nr_behind(tag: u32, behind: Range<u64>, nr_wanted: usize) -> u64 {
    let nr_max = tray::nr_around().min(PAGES_MAX as u64).saturating_sub(nr_wanted as u64);
    behind.take(nr_max as usize).take_while(|index| !view::has(tag, *index)).count() as u64
}

/// Reads pages into the tray, from slot `start` on; returns whether it has them all.
fn read_pages(lent: Lent, pages: Range<u64>, start: *mut u8) -> bool {
    let nr_bytes = (pages.end - pages.start) as usize * PAGE_BYTES;
    let offset = (pages.start << PAGE_SHIFT) as usize;
    let arguments = [lent.fd as usize, start as usize, nr_bytes, offset, 0, 0];
    // SAFETY: slots of this thread's tray that are not in use (S22).
    unsafe { next::system(libc::SYS_pread64, arguments) == Ok(nr_bytes) }
}

/// Copies the front of the range from a page that this thread has read itself and the server has
/// not taken yet; returns how many bytes.
pub(crate) fn find(id: u64, tag: u32, target: *mut c_void, len: usize, offset: u64) -> usize {
    let within = offset as usize % PAGE_BYTES;
    let nr_bytes = len.min(PAGE_BYTES - within);
    let pages = view::pages_of(offset, nr_bytes);
    let known = view::file(tag, &pages).filter(|_| !IS_BUSY.get());
    let Some((_, writes)) = known else { return 0 };
    let Some(page) = tray::find(id, offset >> PAGE_SHIFT, writes) else { return 0 };
    let from = page.wrapping_add(within);
    // SAFETY: inside a slot that is not used again before this thread reads more (S22), and the
    // program's memory is given to be read into (S20).
    unsafe { std::ptr::copy_nonoverlapping(from, target.cast::<u8>(), nr_bytes) };
    let is_same = view::file(tag, &pages).is_some_and(|(_, now)| now == writes);
    if is_same { nr_bytes } else { 0 }
}

/// Sends what this thread has set down and found, while it goes on.
pub(crate) fn tell() {
    if IS_BUSY.replace(true) {
        // A signal's handler.
        return view::tell();
    }
    tray::want();
    tray::tell();
    IS_BUSY.set(false);
}

/// Sends what this thread has set down; returns the log of what it found, as data of the request
/// that follows at once, if there is any left.
pub(crate) fn tell_before_asking() -> iovec {
    if !IS_BUSY.replace(true) {
        tray::tell_pages();
        IS_BUSY.set(false);
    }
    view::take_log()
}

/// The thread ends: it reads no more by itself.
pub(crate) fn finish() {
    if IS_BUSY.replace(true) {
        return;
    }
    tray::give_up();
    IS_BUSY.set(false);
}

/// What to read the description's file by, past the kernel's page cache.
fn borrow(id: u64) -> Option<Lent> {
    if let Some(known) = lent::known(id) {
        return known.filter(|lent| lent.is_direct);
    }
    let nr_misses = &NR_MISSES[id as usize % NR_MISSES.len()];
    if nr_misses.fetch_add(1, Relaxed) < FEW || !own::has_spare() {
        return None;
    }
    nr_misses.store(0, Relaxed);
    lent::borrow(id).filter(|lent| lent.is_direct)
}
