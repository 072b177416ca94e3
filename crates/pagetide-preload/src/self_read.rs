//! Misses without waiting for the server: the thread reads single pages from the file itself.
//!
//! **Problem.** A miss through the server costs two thread switches beyond the device's time.
//! **Idea.** The thread reads the page itself, without the kernel's page cache, and sends it to the
//! server without waiting.
//!
//! ```text
//!   count of writes even? --> read into this thread's ring --> count the same? --> checksum
//!                                                                       |
//!   the program has its bytes <-----------------------------------------+
//!   the server has the page   <-- in a batch, or when the thread ends --+
//! ```
//!
//! A thread marks the pages that it reads ([`ReadMarks`]). Other threads wait for these pages.
//!
//! While memory is ample, a word of the ring tells to read the following pages too, as in
//! `pagetide_core::readahead`. They count as no access.
//!
//! The count (`pagetide_sys::shared`) is even while the file on disk is complete. The server checks
//! count and checksum before it inserts the page. A packet arrives whole or not at all.
//!
//! **Data and invariants.** The kernel reads pages into a miss ring (`miss_ring`), never into the
//! program's memory. The checksum, made right after the read, detects programs that overwrite the
//! ring. After a few misses, a description gets a direct descriptor (`lent`) with O_DIRECT. A
//! signal handler in between asks the server.
//!
//! **Ignored.** Left to the server: streams, long reads, ends of files, written files, and file
//! systems without O_DIRECT. Pages in another thread's ring are read again, until the server tells
//! both threads to pass each page at once.
//!
//! Source: open(2), "O_DIRECT".

use crate::lent::{self, Lent};
use crate::{miss_ring, next, own, view};
use libc::{c_void, iovec};
use pagetide_run::wire::{MissRecord, PAGE_BYTES, PAGE_SHIFT};
use pagetide_sys::shared::{Mark, ReadMarks};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// The maximum number of pages of a read.
const PAGES_MAX: usize = 4;

thread_local! {
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Misses of a description before it gets a descriptor.
const FEW: u32 = 4;
static NR_MISSES: [AtomicU32; 1 << 12] = [const { AtomicU32::new(0) }; 1 << 12];

/// The result of [`read`].
pub(crate) enum Miss {
    /// This number of bytes is read.
    Read(usize),
    /// Another thread has read the first page. The page may be in the cache now.
    Waited,
    /// Nothing was done.
    Left,
}

/// Reads the front of a range that begins with an absent page, up to a page that another thread is
/// reading. If another thread is reading the first page, waits for it.
pub(crate) fn read(id: u64, tag: u32, target: *mut c_void, len: usize, offset: u64) -> Miss {
    if len == 0 || len > PAGES_MAX * PAGE_BYTES || IS_BUSY.get() {
        return Miss::Left;
    }
    let (first, last) = (offset >> PAGE_SHIFT, (offset + len as u64 - 1) >> PAGE_SHIFT);
    let wanted = first..last + 1;
    let Some((file_len, writes)) = view::file(tag, &wanted) else { return Miss::Left };
    let is_whole = last < file_len >> PAGE_SHIFT;
    if last - first >= PAGES_MAX as u64 || !is_whole || writes & 1 == 1 {
        return Miss::Left;
    }
    let (Some(lent), Some(read_marks)) = (borrow(id), view::read_marks()) else {
        return Miss::Left;
    };
    IS_BUSY.set(true);
    let marks = Marks::new(read_marks, tag, &wanted);
    let miss = match marks.nr_free {
        0 => {
            read_marks.wait(tag, first);
            Miss::Waited
        }
        // The page came between the look and the mark.
        _ if view::has(tag, first) => Miss::Waited,
        nr_free => {
            let wanted = first..first + nr_free;
            let nr_bytes = len.min(nr_free as usize * PAGE_BYTES - offset as usize % PAGE_BYTES);
            let start = read_marked(lent, (id, tag, writes), &wanted, file_len >> PAGE_SHIFT);
            match start {
                Some(start) => {
                    marks.end();
                    let from = start.wrapping_add(offset as usize % PAGE_BYTES);
                    // SAFETY: the range is inside the slots just read (S22), and the program gave
                    // its memory to be read into (S20).
                    unsafe { std::ptr::copy_nonoverlapping(from, target.cast::<u8>(), nr_bytes) };
                    Miss::Read(nr_bytes)
                }
                None => Miss::Left,
            }
        }
    };
    IS_BUSY.set(false);
    miss
}

/// Reads `wanted` pages, and perhaps the pages behind up to `end`, into the ring, and pushes them.
/// Returns the address of the first page.
fn read_marked(
    lent: Lent,
    (id, tag, writes): (u64, u32, u64),
    wanted: &Range<u64>,
    end: u64,
) -> Option<*mut u8> {
    let first = wanted.start;
    let nr_wanted = (wanted.end - first) as usize;
    let with_behind = wanted.end + nr_behind(tag, wanted.end..end, nr_wanted);
    let has_room = |end: u64| Some((end, miss_ring::room(end - first)?));
    let (end, start) = [with_behind, wanted.end].into_iter().find_map(has_room)?;
    let is_read = read_pages(lent, first..end, start);
    // If nothing changed, the descriptor was this file's all the time, and nothing was written.
    let is_same = view::file(tag, wanted).is_some_and(|(_, now)| now == writes)
        && lent::known(id) == Some(Some(lent));
    if !is_read || !is_same {
        return None;
    }
    for index in first..end {
        let (is_around, continues) = (index >= wanted.end, index > first);
        miss_ring::push(MissRecord { id, index, is_around, continues, writes, checksum: 0 });
    }
    Some(start)
}

/// Marks of the pages that this thread is reading, so that other threads wait for them.
struct Marks {
    read_marks: &'static ReadMarks,
    tag: u32,
    first: u64,
    /// Pages up to the first one that another thread is reading.
    nr_free: u64,
    /// A bit for each page with a mark of this thread.
    own: u32,
}

impl Marks {
    fn new(read_marks: &'static ReadMarks, tag: u32, pages: &Range<u64>) -> Marks {
        let mut marks = Marks { read_marks, tag, first: pages.start, nr_free: 0, own: 0 };
        for index in pages.clone() {
            match read_marks.mark(tag, index) {
                Mark::Own => marks.own |= 1 << marks.nr_free,
                Mark::None => {}
                Mark::Taken => break,
            }
            marks.nr_free += 1;
        }
        marks
    }

    /// Removes the marks after a read. If another thread waits, or the server suggests it, passes
    /// the pages to the server, which removes the marks.
    fn end(mut self) {
        let mut is_passed = miss_ring::is_at_once();
        if !is_passed {
            for index in self.pages() {
                is_passed |= !self.read_marks.unmark_unwaited(self.tag, index);
            }
        }
        if is_passed {
            miss_ring::tell();
        }
        self.own = 0;
    }

    fn pages(&self) -> impl Iterator<Item = u64> + use<> {
        let Marks { first, nr_free, own, .. } = *self;
        (0..nr_free).filter(move |nth| own >> nth & 1 == 1).map(move |nth| first + nth)
    }
}

impl Drop for Marks {
    /// Removes the marks that are left after a failure.
    fn drop(&mut self) {
        for index in self.pages() {
            self.read_marks.unmark(self.tag, index);
        }
    }
}

/// Returns the number of whole pages to read after `nr_wanted`, up to the first resident one.
fn nr_behind(tag: u32, behind: Range<u64>, nr_wanted: usize) -> u64 {
    let nr_max = miss_ring::nr_around().min(PAGES_MAX as u64).saturating_sub(nr_wanted as u64);
    behind.take(nr_max as usize).take_while(|index| !view::has(tag, *index)).count() as u64
}

fn read_pages(lent: Lent, pages: Range<u64>, start: *mut u8) -> bool {
    let nr_bytes = (pages.end - pages.start) as usize * PAGE_BYTES;
    let offset = (pages.start << PAGE_SHIFT) as usize;
    let arguments = [lent.fd as usize, start as usize, nr_bytes, offset, 0, 0];
    // SAFETY: unused slots of this thread's ring (S22).
    unsafe { next::system(libc::SYS_pread64, arguments) == Ok(nr_bytes) }
}

/// Copies the front of the range from a page in this thread's ring. Returns the number of bytes.
pub(crate) fn find(id: u64, tag: u32, target: *mut c_void, len: usize, offset: u64) -> usize {
    let within = offset as usize % PAGE_BYTES;
    let nr_bytes = len.min(PAGE_BYTES - within);
    let pages = view::pages_of(offset, nr_bytes);
    let known = view::file(tag, &pages).filter(|_| !IS_BUSY.get());
    let Some((_, writes)) = known else { return 0 };
    let Some(page) = miss_ring::find(id, offset >> PAGE_SHIFT, writes) else { return 0 };
    let from = page.wrapping_add(within);
    // SAFETY: inside a slot that is not reused before this thread's next read (S22), and the
    // program gave its memory to be read into (S20).
    unsafe { std::ptr::copy_nonoverlapping(from, target.cast::<u8>(), nr_bytes) };
    let is_same = view::file(tag, &pages).is_some_and(|(_, now)| now == writes);
    if is_same { nr_bytes } else { 0 }
}

pub(crate) fn tell() {
    if IS_BUSY.replace(true) {
        // In a signal handler.
        return view::tell();
    }
    miss_ring::want();
    miss_ring::tell();
    IS_BUSY.set(false);
}

/// Sends the pushed pages. Returns the rest of the log, to be sent with the request that follows.
pub(crate) fn tell_before_asking() -> iovec {
    if !IS_BUSY.replace(true) {
        miss_ring::tell_pages();
        IS_BUSY.set(false);
    }
    view::take_log()
}

pub(crate) fn finish() {
    if IS_BUSY.replace(true) {
        return;
    }
    miss_ring::release();
    IS_BUSY.set(false);
}

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
