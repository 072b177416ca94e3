//! Cache hits without the server: pages are found and copied in the server's own frames.
//!
//! ```text
//!   pread --> tag of the description --> hint, number, key --> copy, number the same --> done
//!                 | none yet                 | absent
//!                 v                          v
//!              request; the reply has it    `serve` fills the page or reads it here, and retries
//! ```
//!
//! Each thread logs its hits, and sends the log when it is full, or has the page that starts the
//! next readahead window.
//!
//! **Data and invariants.** A table of atomics holds each description's tag, so a forked child sees
//! no half-written entry. A tag never names another file, and a revoked tag finds nothing.
//! Children, which may belong to another user, do not get the mapping.
//!
//! The file position of a read-only description is a word that this process moves itself
//! (`pagetide_sys::shared::Positions`). The position of a writable description is a word that this
//! process only sees: a seek to the same position needs no request.
//!
//! **Ignored.** Reads at the position of a writable description ask the server for a range first.

use crate::channel::{self, Answer, Parcel};
use crate::{own, process};
use libc::{c_int, c_void, iovec, off_t};
use pagetide_run::wire::{
    FILE_BYTES_MAX, Op, PAGE_BYTES, PAGE_SHIFT, Reply, Request, SHOWN, TOUCH_BYTES,
};
use pagetide_run::wire::{decode_touch, encode_touch, viewer_of};
use pagetide_sys::shared::{FrameView, PositionView, Positions, ReadMarks};
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, Ordering};

/// Known tags: a power of two.
const NR_TAGS: usize = 1 << 12;
/// The maximum number of log entries. Sending wakes the server on another processor, which may take
/// as long as ten hits.
const LOG_LEN: usize = 256;
/// The maximum number of pages in a log: a quarter of a stream's readahead.
const MORE_PAGES: u64 = 128;
/// Frames per log entry, so that hits in a small memory are reported before eviction.
const FRAMES_AN_ENTRY: usize = 64;

/// A description's number and tag, half a word each.
static TAGS: [AtomicU64; NR_TAGS] = [const { AtomicU64::new(0) }; NR_TAGS];
/// A description's number, and the index of its position word.
static POSITION_WORDS: [AtomicU64; NR_TAGS] = [const { AtomicU64::new(0) }; NR_TAGS];
/// A description's number, and the page where its last read ended.
static LAST: [AtomicU64; NR_TAGS] = [const { AtomicU64::new(0) }; NR_TAGS];

/// The range to ask for if the file's length must be visible.
const END: Range<u64> = u64::MAX - 1..u64::MAX;

/// The state of the mappings, in a byte that is 0 in a new child.
const NOT_TRIED: u8 = 0;
const TRYING: u8 = 1;
const THERE: u8 = 2;
const GIVEN_UP: u8 = 3;

struct Shared {
    view: FrameView,
    positions: Positions,
    shown: PositionView,
    read_marks: ReadMarks,
    nr_batched: usize,
}

struct Storage(UnsafeCell<MaybeUninit<Shared>>);

// SAFETY: written by the thread that turned the process's state from NOT_TRIED to TRYING, and read
// only after it is THERE (S22). Threads may share a view.
unsafe impl Sync for Storage {}

static SHARED: Storage = Storage(UnsafeCell::new(MaybeUninit::uninit()));

thread_local! {
    /// Encoded hits.
    static LOG: [Cell<[u8; TOUCH_BYTES]>; LOG_LEN] =
        const { [const { Cell::new([0; TOUCH_BYTES]) }; LOG_LEN] };
    static NR_LOGGED: Cell<usize> = const { Cell::new(0) };
    static NR_MORE_PAGES: Cell<u64> = const { Cell::new(0) };
    /// The tag and the page of the last marker sent.
    static MARKER_TOLD: Cell<(u32, u64)> = const { Cell::new((0, 0)) };
}

#[inline]
fn view() -> Option<&'static FrameView> {
    Some(&shared()?.view)
}

/// Returns the words for pages that threads are reading from disk.
pub(crate) fn read_marks() -> Option<&'static ReadMarks> {
    Some(&shared()?.read_marks)
}

fn shared() -> Option<&'static Shared> {
    if process::view_state().load(Ordering::Acquire) != THERE {
        return None;
    }
    // SAFETY: the state says that the value was written, and no thread writes it again (S22).
    let storage = unsafe { &*SHARED.0.get() };
    // SAFETY: as above (S22).
    Some(unsafe { storage.assume_init_ref() })
}

/// Returns true if hits are possible. Maps the frames on the first call.
fn is_there() -> bool {
    match process::view_state().load(Ordering::Acquire) {
        THERE => true,
        NOT_TRIED => open(),
        _ => false,
    }
}

#[cold]
fn open() -> bool {
    let state = process::view_state();
    let first = state.compare_exchange(NOT_TRIED, TRYING, Ordering::AcqRel, Ordering::Acquire);
    if first.is_err() {
        return false;
    }
    let share = Request::new(Op::Share, 0);
    let Ok(Answer { reply, files }) = channel::ask(&share, Parcel::default()) else { return false };
    let [frames, numbers, positions, shown, read_marks] = files;
    // SAFETY: descriptors that were just received, open until the end of this function (S22).
    let borrow = |fd: c_int| unsafe { BorrowedFd::borrow_raw(fd) };
    let open = || {
        let nr_frames = reply.result as u32;
        let view = FrameView::open(borrow(frames), borrow(numbers), nr_frames).ok()?;
        Some(Shared {
            view: view.of_viewer(viewer_of(own::number())),
            positions: Positions::open(borrow(positions)).ok()?,
            shown: Positions::open_view(borrow(shown)).ok()?,
            read_marks: ReadMarks::open(borrow(read_marks)).ok()?,
            nr_batched: (nr_frames as usize / FRAMES_AN_ENTRY).clamp(1, LOG_LEN),
        })
    };
    let have_all = reply.result > 0 && files.iter().all(|fd| *fd >= 0);
    let opened = if have_all { open() } else { None };
    files.into_iter().filter(|fd| *fd >= 0).for_each(own::close);
    let Some(opened) = opened else { return false };
    // SAFETY: only this thread has turned the state to TRYING, and no thread reads before THERE. A
    // parent's value is not mapped here, and is not dropped (S22).
    unsafe { *SHARED.0.get() = MaybeUninit::new(opened) };
    state.store(THERE, Ordering::Release);
    true
}

/// Stops all hits, and makes the server's memory inaccessible to this process.
pub(crate) fn stop() {
    if let Some(shared) = shared() {
        let _ = shared.view.blank();
        let _ = shared.positions.blank();
        let _ = shared.shown.blank();
        let _ = shared.read_marks.blank();
    }
    process::view_state().store(GIVEN_UP, Ordering::Release);
}

/// `None` if the number is too large.
fn half(id: u64) -> Option<u64> {
    (id >> 32 == 0).then_some(id << 32)
}

#[inline]
pub(crate) fn tag(id: u64) -> Option<u32> {
    let known = TAGS[id as usize % NR_TAGS].load(Relaxed);
    (known >> 32 == id).then_some(known as u32)
}

/// Records the tag and the position word of a reply, 0 for none.
pub(crate) fn learn(id: u64, reply: &Reply) {
    if let (1.., Some(half)) = (reply.tag, half(id))
        && is_there()
    {
        TAGS[id as usize % NR_TAGS].store(half | u64::from(reply.tag), Relaxed);
        if reply.word != 0 {
            POSITION_WORDS[id as usize % NR_TAGS].store(half | u64::from(reply.word), Relaxed);
        }
    }
}

/// Moves the position of a description over at most `total` bytes, which then belong to this call.
/// Returns the first byte and the number of bytes, `None` if only the server can move the position.
#[inline]
pub(crate) fn advance(id: u64, total: u64) -> Option<(u64, u64)> {
    let word = word(id).filter(|word| word & SHOWN == 0)?;
    let (len, _) = file(tag(id)?, &END)?;
    shared()?.positions.advance(word, total, len)
}

/// Moves the position of a description as lseek(2) does. Returns the position, `None` if only the
/// server can move the position. For a writable description, only a seek that keeps the position
/// needs no request.
pub(crate) fn seek(id: u64, offset: off_t, whence: c_int) -> Option<off_t> {
    let (word, shared) = (word(id)?, shared()?);
    let len = match whence {
        libc::SEEK_END => file(tag(id)?, &END)?.0,
        _ => 0,
    };
    let target = |before: u64| {
        let from = match whence {
            libc::SEEK_SET => 0,
            libc::SEEK_CUR => before,
            libc::SEEK_END => len,
            _ => return None,
        };
        from.checked_add_signed(offset).filter(|at| *at < FILE_BYTES_MAX)
    };
    let position = match word & SHOWN {
        0 => shared.positions.update(word, target),
        _ => shared.shown.get(word & !SHOWN).filter(|before| target(*before) == Some(*before)),
    };
    position.map(|at| at as off_t)
}

fn word(id: u64) -> Option<u32> {
    let known = POSITION_WORDS[id as usize % NR_TAGS].load(Relaxed);
    (known >> 32 == id && known as u32 != 0).then_some(known as u32)
}

/// `None` if these pages are hidden.
#[inline]
pub(crate) fn file(tag: u32, pages: &Range<u64>) -> Option<(u64, u64)> {
    view()?.file(tag, pages)
}

#[inline]
pub(crate) fn pages_of(offset: u64, len: usize) -> Range<u64> {
    let last = offset.saturating_add(len.saturating_sub(1) as u64) >> PAGE_SHIFT;
    offset >> PAGE_SHIFT..last + 1
}

pub(crate) fn has(tag: u32, index: u64) -> bool {
    view().is_some_and(|view| view.read_into(tag, index, 0, &mut []))
}

/// Returns true if a read of these pages continues the description's last read. Records its end.
pub(crate) fn goes_on(id: u64, first: u64, last: u64) -> bool {
    let Some(half) = half(id) else { return true };
    let known = LAST[id as usize % NR_TAGS].swap(half | last & u64::from(u32::MAX), Relaxed);
    let previous = u64::from(known as u32);
    if known >> 32 == id { first == previous || first == previous + 1 } else { first == 0 }
}

pub(crate) struct Found {
    pub(crate) nr_bytes: usize,
    /// True if the file has no more of the range.
    pub(crate) is_all: bool,
}

/// Copies the range up to the first page that is not found. `None` if the file is hidden, or its
/// length is changing.
pub(crate) fn copy(tag: u32, target: *mut c_void, len: usize, offset: u64) -> Option<Found> {
    let view = view()?;
    let pages = pages_of(offset, len);
    let (file_len, _) = view.file(tag, &pages)?;
    let most = file_len.saturating_sub(offset).min(len as u64) as usize;
    let mut done = 0;
    while done < most {
        let at = offset + done as u64;
        let within = at as usize % PAGE_BYTES;
        let nr_bytes = (PAGE_BYTES - within).min(most - done);
        let part = target.wrapping_byte_add(done).cast();
        // SAFETY: part of the program's memory, given to be read into (S20).
        if !unsafe { view.read(tag, at >> PAGE_SHIFT, within, part, nr_bytes) } {
            break;
        }
        done += nr_bytes;
    }
    let is_same = view.file(tag, &pages).is_some_and(|(now, _)| now == file_len);
    is_same.then_some(Found { nr_bytes: done, is_all: done == most })
}

/// Records a hit. Returns true if the server must be told at once: the log is full, or readahead
/// waits for one of the pages.
#[must_use]
pub(crate) fn note(id: u64, tag: u32, offset: u64, nr_bytes: usize) -> bool {
    if nr_bytes == 0 {
        return false;
    }
    let first = offset >> PAGE_SHIFT;
    let nr = ((offset + nr_bytes as u64 - 1) >> PAGE_SHIFT) + 1 - first;
    let nr_logged = NR_LOGGED.get();
    let nr_new = LOG.with(|log| {
        let last = nr_logged.checked_sub(1).map(|last| &log[last.min(LOG_LEN - 1)]);
        match last.map(|last| (last, decode_touch(&last.get()))) {
            Some((last, (known, from, nr_known))) if known == id && from + nr_known == first => {
                last.set(encode_touch(id, from, nr_known + nr));
                0
            }
            _ => {
                log[nr_logged.min(LOG_LEN - 1)].set(encode_touch(id, first, nr));
                1
            }
        }
    });
    NR_LOGGED.set(nr_logged + nr_new);
    let nr_more_pages = NR_MORE_PAGES.get() + nr - nr_new as u64;
    NR_MORE_PAGES.set(nr_more_pages);
    let nr_batched = shared().map_or(LOG_LEN, |shared| shared.nr_batched);
    let is_full =
        nr_more_pages >= MORE_PAGES.min(nr_batched as u64) || nr_logged + nr_new >= nr_batched;
    is_full | is_marked(tag, first, nr)
}

fn is_marked(tag: u32, first: u64, nr: u64) -> bool {
    let marker = view().map_or(u64::MAX, |view| view.marker(tag));
    let is_new = marker.wrapping_sub(first) < nr && MARKER_TOLD.get() != (tag, marker);
    if is_new {
        MARKER_TOLD.set((tag, marker));
    }
    is_new
}

pub(crate) fn tell() {
    let log = take_log();
    if log.iov_len > 0 {
        let parcel = Parcel { source: &[log], ..Parcel::default() };
        channel::tell_only(&Request::new(Op::Touch, 0), parcel);
    }
}

/// Returns this thread's log, for this thread to send at once, and starts a new log in place. (A
/// signal handler in between leaves whole entries, perhaps other ones.)
pub(crate) fn take_log() -> iovec {
    let iov_len = NR_LOGGED.replace(0).min(LOG_LEN) * TOUCH_BYTES;
    NR_MORE_PAGES.set(0);
    LOG.with(|log| iovec { iov_base: log.as_ptr().cast_mut().cast(), iov_len })
}
