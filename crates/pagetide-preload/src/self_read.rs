//! Misses without waiting for the server: a page here and there, read from the file by ourselves.
//!
//! **Problem.** A miss that asks the server is two switches of threads longer than the device
//! takes, for the one who waits. **Idea.** The thread that misses a page reads it from the file
//! itself, past the kernel's page cache, and sends the server what it has read; nobody waits for
//! that.
//!
//! ```text
//!   count of writes even? --> read into this thread's buffer --> count the same? --> checksum
//!                                                                       |
//!   the program has its bytes <-----------------------------------------+
//!   the server has the page   <-- buffer full, or the thread ends ------+
//! ```
//!
//! The count (`pagetide_sys::shared`) is even while the file on disk has all there is: nobody has
//! written it through the page cache. The server compares it once more before it admits the page,
//! and the checksum with it. A packet arrives whole or not at all, whenever we are killed.
//!
//! **Data and invariants.** What is sent was never the program's memory: it comes from buffers of
//! our own, between pages that cannot be touched, and is read there by the kernel. A program that
//! scribbles over its memory all the same is found out by the checksum, made right after the read.
//! The program's descriptor gets O_DIRECT for it, which nothing else notices while the file is
//! managed; the server takes it away when it hands the file to the kernel. A signal's handler that
//! comes in the middle of it asks the server.
//!
//! **Ignored.** Streams: the server reads ahead for those. Long reads, ends of files, files that
//! were written, and file systems without O_DIRECT: the server reads those. Pages that are still in
//! a buffer: others who want them read them again.
//!
//! Source: open(2), "O_DIRECT".

use crate::table::{self, Entry};
use crate::{channel, next, view};
use libc::{c_int, c_void, iovec};
use pagetide_sys::wire::{OFFER_BYTES, Offer, Op, PAGE_SHIFT, Request};
use std::cell::Cell;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64};

const PAGE_BYTES: usize = 1 << PAGE_SHIFT;
/// Pages of one read, at most.
const PAGES_MAX: usize = 4;
/// Pages that are sent at once.
const NR_PAGES: usize = 8;
const BUFFER_BYTES: usize = NR_PAGES * PAGE_BYTES;
/// Threads that can have a buffer; more of them ask the server.
const NR_BUFFERS: usize = 64;
const REGION_BYTES: usize = NR_BUFFERS * BUFFER_BYTES;

/// The first buffer, page aligned.
static REGION: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
/// A bit for each buffer that a thread has. Those of other threads at a fork are the child's loss.
static TAKEN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// This thread's buffer, if it has one, or null.
    static BUFFER: Cell<*mut u8> = const { Cell::new(std::ptr::null_mut()) };
    /// Pages in it that are to be sent, and their labels.
    static NR_KEPT: Cell<usize> = const { Cell::new(0) };
    static LABELS: [Cell<Offer>; NR_PAGES] = const {
        [const { Cell::new(Offer { id: 0, index: 0, writes: 0, checksum: 0 }) }; NR_PAGES]
    };
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
}

/// What we know of a description's O_DIRECT: its number times four, and one of these.
static DIRECT: [AtomicU64; 1 << 12] = [const { AtomicU64::new(0) }; 1 << 12];
const REFUSED: u64 = 1;
const SET_BY_US: u64 = 2;
const SET_BEFORE: u64 = 3;

/// Reads the range, which begins with a page that is not resident; returns whether it did. If not,
/// nothing has happened.
pub(crate) fn read(
    fd: c_int,
    id: u64,
    tag: u32,
    target: *mut c_void,
    len: usize,
    offset: u64,
) -> bool {
    if len == 0 || len > PAGES_MAX * PAGE_BYTES || IS_BUSY.get() {
        return false;
    }
    let (first, last) = (offset >> PAGE_SHIFT, (offset + len as u64 - 1) >> PAGE_SHIFT);
    let nr_pages = (last + 1 - first) as usize;
    let Some((file_len, writes)) = view::file(tag) else { return false };
    let is_whole = last < file_len >> PAGE_SHIFT;
    if nr_pages > PAGES_MAX || !is_whole || writes & 1 == 1 || !is_direct(fd, id, tag) {
        return false;
    }
    IS_BUSY.set(true);
    let start = read_pages(fd, first, nr_pages);
    // If all is as it was, then the descriptor was this file's all the time, and nobody has
    // written it.
    let is_same = view::file(tag).is_some_and(|(_, now)| now == writes)
        && table::entry(fd) == Entry::Managed(id);
    let is_read = match start {
        Some(start) if is_same => {
            (first..=last).for_each(|index| keep(id, index, writes));
            let from = start.wrapping_add(offset as usize % PAGE_BYTES);
            // SAFETY: the range is inside the pages that were read (S22), and the program's memory
            // is given to be read into (S20).
            unsafe { std::ptr::copy_nonoverlapping(from, target.cast::<u8>(), len) };
            true
        }
        _ => false,
    };
    IS_BUSY.set(false);
    is_read
}

/// Reads pages behind those that are kept; returns where they begin.
fn read_pages(fd: c_int, first: u64, nr_pages: usize) -> Option<*mut u8> {
    if NR_KEPT.get() + nr_pages > NR_PAGES {
        send();
    }
    let start = buffer()?.wrapping_add(NR_KEPT.get() * PAGE_BYTES);
    let nr_bytes = nr_pages * PAGE_BYTES;
    let offset = (first << PAGE_SHIFT) as usize;
    let arguments = [fd as usize, start as usize, nr_bytes, offset, 0, 0];
    // SAFETY: inside this thread's buffer (S22).
    let nr_read = unsafe { next::system(libc::SYS_pread64, arguments) };
    (nr_read == Ok(nr_bytes)).then_some(start)
}

/// Labels the next page of the buffer.
fn keep(id: u64, index: u64, writes: u64) {
    let nr_kept = NR_KEPT.get();
    let label = Offer::new(id, index, writes, page(nr_kept));
    LABELS.with(|labels| labels[nr_kept].set(label));
    NR_KEPT.set(nr_kept + 1);
}

/// A page of this thread's buffer, which it has.
fn page<'a>(nr: usize) -> &'a [u8] {
    let start = BUFFER.get().wrapping_add(nr * PAGE_BYTES);
    // SAFETY: inside this thread's buffer, which is never unmapped; no read is in progress (S22).
    unsafe { std::slice::from_raw_parts(start, PAGE_BYTES) }
}

/// Sends the pages that are kept.
fn send() {
    let nr_kept = NR_KEPT.replace(0);
    let mut labels = [0; NR_PAGES * OFFER_BYTES];
    LABELS.with(|kept| {
        for (label, bytes) in kept[..nr_kept].iter().zip(labels.chunks_exact_mut(OFFER_BYTES)) {
            bytes.copy_from_slice(&label.get().encode());
        }
    });
    if nr_kept > 0 {
        let (labels, pages) = (part(&labels[..nr_kept * OFFER_BYTES]), BUFFER.get());
        let pages = iovec { iov_base: pages.cast(), iov_len: nr_kept * PAGE_BYTES };
        let one = Request { len: nr_kept as u64, ..Request::new(Op::Admit, 0) };
        channel::tell_only(&one, &[labels, pages]);
    }
}

fn part(bytes: &[u8]) -> iovec {
    iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

/// This thread reads no more: sends what it has kept, and gives its buffer back.
pub(crate) fn finish() {
    if IS_BUSY.replace(true) {
        return;
    }
    send();
    let start = BUFFER.replace(std::ptr::null_mut());
    if !start.is_null() {
        let index = (start as usize - REGION.load(Acquire) as usize) / BUFFER_BYTES;
        TAKEN.fetch_and(!(1 << index), Release);
    }
    IS_BUSY.set(false);
}

/// Whether the descriptor reads past the kernel's page cache; asks for it the first time.
fn is_direct(fd: c_int, id: u64, tag: u32) -> bool {
    let slot = &DIRECT[id as usize % DIRECT.len()];
    let known = slot.load(Relaxed);
    if known >> 2 == id {
        return known & 3 != REFUSED;
    }
    let Ok(flags) = control(fd, libc::F_GETFL, 0) else { return false };
    let direct = libc::O_DIRECT as usize;
    let state = if flags & direct != 0 {
        SET_BEFORE
    } else if control(fd, libc::F_SETFL, flags | direct).is_ok() {
        SET_BY_US
    } else {
        REFUSED
    };
    if state == SET_BY_US && view::file(tag).is_none() {
        // The file is just being handed to the kernel, and its descriptions with it.
        let _ = control(fd, libc::F_SETFL, flags);
        return false;
    }
    slot.store(id << 2 | state, Relaxed);
    state != REFUSED
}

fn control(fd: c_int, command: c_int, argument: usize) -> Result<usize, crate::errno::Errno> {
    // SAFETY: numbers only (S20).
    unsafe { next::system(libc::SYS_fcntl, [fd as usize, command as usize, argument, 0, 0, 0]) }
}

/// Whether the description's O_DIRECT is not the program's.
pub(crate) fn has_set_direct(id: u64) -> bool {
    DIRECT[id as usize % DIRECT.len()].load(Relaxed) == id << 2 | SET_BY_US
}

/// The program has set the description's flags: ours are gone.
pub(crate) fn forget(id: u64) {
    let slot = &DIRECT[id as usize % DIRECT.len()];
    let known = slot.load(Relaxed);
    if known >> 2 == id {
        // Whoever was faster, knows better.
        let _ = slot.compare_exchange(known, 0, Relaxed, Relaxed);
    }
}

/// This thread's buffer; takes one the first time. The thread's end gives it back, if the thread
/// has a socket.
fn buffer() -> Option<*mut u8> {
    let known = BUFFER.get();
    if !known.is_null() {
        return Some(known);
    }
    let region = region().filter(|_| channel::enter())?;
    let mut taken = TAKEN.load(Relaxed);
    loop {
        let index = taken.trailing_ones() as usize;
        if index >= NR_BUFFERS {
            return None;
        }
        match TAKEN.compare_exchange_weak(taken, taken | 1 << index, Acquire, Relaxed) {
            Ok(_) => {
                let start = region.wrapping_add(index * BUFFER_BYTES);
                BUFFER.set(start);
                return Some(start);
            }
            Err(now) => taken = now,
        }
    }
}

/// The buffers, between two pages that nobody can touch.
fn region() -> Option<*mut u8> {
    let known = REGION.load(Acquire);
    if !known.is_null() {
        return Some(known);
    }
    let len = REGION_BYTES + 2 * PAGE_BYTES;
    let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    let arguments = [0, len, libc::PROT_NONE as usize, kind, usize::MAX, 0];
    // SAFETY: a new mapping, where the kernel likes it (S22).
    let base = unsafe { next::system(libc::SYS_mmap, arguments) }.ok()?;
    let start = base + PAGE_BYTES;
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    // SAFETY: inside the mapping just made (S22).
    let opened =
        unsafe { next::system(libc::SYS_mprotect, [start, REGION_BYTES, access, 0, 0, 0]) };
    let new = start as *mut u8;
    if opened.is_ok() && REGION.compare_exchange(std::ptr::null_mut(), new, AcqRel, Acquire).is_ok()
    {
        return Some(new);
    }
    // SAFETY: the mapping just made, which nobody was told of (S22).
    let _ = unsafe { next::system(libc::SYS_munmap, [base, len, 0, 0, 0, 0]) };
    let known = REGION.load(Acquire);
    (!known.is_null()).then_some(known)
}
