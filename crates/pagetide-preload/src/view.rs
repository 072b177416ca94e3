//! Hits without the server: pages that are found in the server's own frames, and copied.
//!
//! ```text
//!   pread --> tag of the description --> hint, number, key --> copy, number the same --> done
//!                 | none yet                 | not there
//!                 v                          v
//!              request; the reply has it    `serve` has them brought in, or read here, and looks
//!                                           again
//! ```
//!
//! What was read so is written to a log of this thread, and sent when that is full, or when it has
//! the page that the next window of readahead waits for: the server counts each page as a hit. A
//! log that cannot be sent is dropped, and with it what a policy would have learnt from it.
//!
//! **Data and invariants.** A table of atomics, so that nothing is half-written in a fork's child:
//! the tag for each description. A tag is never another file's, and one that is revoked finds
//! nothing. The frames are mapped read-only, once, and no child gets the mapping: it asks for its
//! own, as a child of another user must not have it.
//!
//! The file position of a description that can only be read is a word, which we move by ourselves
//! (`pagetide_sys::shared::Positions`). It is closed where the server alone knows.
//!
//! **Ignored.** The position of what can be written: it is the server's, so reads there ask it for
//! a range first.

use crate::channel::{self, Answer, Parcel};
use crate::{own, process};
use libc::{c_int, c_void, iovec};
use pagetide_run::wire::{Op, PAGE_SHIFT, Reply, Request, TOUCH_BYTES};
use pagetide_run::wire::{decode_touch, encode_touch, viewer_of};
use pagetide_sys::shared::{FrameView, Positions};
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE_BYTES: usize = 1 << PAGE_SHIFT;
/// Descriptions whose tags are known: a power of two.
const NR_TAGS: usize = 1 << 12;
/// Entries of a log that are told at once, at most. To tell them wakes the server on another
/// processor, which may take as long as ten reads of pages that are found.
const LOG_LEN: usize = 256;
/// Pages in them that are, beside the first of each: of a stream, a quarter of what is read ahead.
const MORE_PAGES: u64 = 128;
/// Of so many frames an entry waits to be told: in a small memory a page is gone before the
/// server is told that it was hit, which is then not counted.
const FRAMES_AN_ENTRY: usize = 64;

/// Number and tag of a description, half a word each.
static TAGS: [AtomicU64; NR_TAGS] = [const { AtomicU64::new(0) }; NR_TAGS];
/// Number of a description, and the word that its position is in.
static PLACES: [AtomicU64; NR_TAGS] = [const { AtomicU64::new(0) }; NR_TAGS];
/// Number of a description, and the page where its last read ended.
static LAST: [AtomicU64; NR_TAGS] = [const { AtomicU64::new(0) }; NR_TAGS];

/// Where a file's length is to be known.
const END: Range<u64> = u64::MAX - 1..u64::MAX;

/// What this process has of the server's, in a byte that no child begins with.
const NOT_TRIED: u8 = 0;
const TRYING: u8 = 1;
const THERE: u8 = 2;
const GIVEN_UP: u8 = 3;

/// What is the server's, mapped here.
struct Shared {
    view: FrameView,
    positions: Positions,
    /// Entries of a log that are reported together, in this memory.
    nr_batched: usize,
}

/// The view, once it is there.
struct Storage(UnsafeCell<MaybeUninit<Shared>>);

// SAFETY: written by the thread that turned the process's state from NOT_TRIED to TRYING, and read
// only after it is THERE (S22); a view may be shared among threads.
unsafe impl Sync for Storage {}

static SHARED: Storage = Storage(UnsafeCell::new(MaybeUninit::uninit()));

thread_local! {
    /// What was found, as it is told.
    static LOG: [Cell<[u8; TOUCH_BYTES]>; LOG_LEN] =
        const { [const { Cell::new([0; TOUCH_BYTES]) }; LOG_LEN] };
    static NR_LOGGED: Cell<usize> = const { Cell::new(0) };
    static NR_MORE_PAGES: Cell<u64> = const { Cell::new(0) };
    /// The marker that was told last, and of which tag.
    static MARKER_TOLD: Cell<(u32, u64)> = const { Cell::new((0, 0)) };
}

/// The server's frames, if we have them.
#[inline]
fn view() -> Option<&'static FrameView> {
    Some(&shared()?.view)
}

fn shared() -> Option<&'static Shared> {
    if process::view_state().load(Ordering::Acquire) != THERE {
        return None;
    }
    // SAFETY: the state says that it was written, and no thread writes it again (S22).
    let storage = unsafe { &*SHARED.0.get() };
    // SAFETY: as above (S22).
    Some(unsafe { storage.assume_init_ref() })
}

/// Whether pages can be found; asks for the frames the first time.
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
    let [frames, numbers, positions] = files;
    // SAFETY: descriptors that were just received, open until the end of this function (S22).
    let borrow = |fd: c_int| unsafe { BorrowedFd::borrow_raw(fd) };
    let open = || {
        let nr_frames = reply.result as u32;
        let view = FrameView::open(borrow(frames), borrow(numbers), nr_frames).ok()?;
        Some(Shared {
            view: view.of_viewer(viewer_of(own::number())),
            positions: Positions::open(borrow(positions)).ok()?,
            nr_batched: (nr_frames as usize / FRAMES_AN_ENTRY).clamp(1, LOG_LEN),
        })
    };
    let have_all = reply.result > 0 && files.iter().all(|fd| *fd >= 0);
    let opened = if have_all { open() } else { None };
    files.into_iter().filter(|fd| *fd >= 0).for_each(own::close);
    let Some(opened) = opened else { return false };
    // SAFETY: this thread alone has turned the state to TRYING, and none reads before THERE; what a
    // parent had there is not mapped here, and is not dropped (S22).
    unsafe { *SHARED.0.get() = MaybeUninit::new(opened) };
    state.store(THERE, Ordering::Release);
    true
}

/// Nothing is found any more, and nothing of the server's can be reached by this process.
pub(crate) fn give_up() {
    if let Some(shared) = shared() {
        // What fails leaves the process with what it had the right to until now.
        let _ = shared.view.blank();
        let _ = shared.positions.blank();
    }
    process::view_state().store(GIVEN_UP, Ordering::Release);
}

/// A half of a word for a description's number; `None` for one that is too large to be kept.
fn half(id: u64) -> Option<u64> {
    (id >> 32 == 0).then_some(id << 32)
}

/// What pages of the description are found by, if that is known.
#[inline]
pub(crate) fn tag(id: u64) -> Option<u32> {
    let known = TAGS[id as usize % NR_TAGS].load(Relaxed);
    (known >> 32 == id).then_some(known as u32)
}

/// Remembers the tag and the place that a reply tells; 0 is none.
pub(crate) fn learn(id: u64, reply: &Reply) {
    if let (1.., Some(half)) = (reply.tag, half(id))
        && is_there()
    {
        TAGS[id as usize % NR_TAGS].store(half | u64::from(reply.tag), Relaxed);
        if reply.place != 0 {
            PLACES[id as usize % NR_TAGS].store(half | u64::from(reply.place), Relaxed);
        }
    }
}

/// Moves the position of a description over `total` bytes, or as many as there are; they are
/// this call's. Returns where they begin, and how many they are; `None` if that is the server's
/// to say.
#[inline]
pub(crate) fn advance(id: u64, total: u64) -> Option<(u64, u64)> {
    let known = PLACES[id as usize % NR_TAGS].load(Relaxed);
    let place = (known >> 32 == id && known as u32 != 0).then_some(known as u32)?;
    let (len, _) = file(tag(id)?, &END)?;
    shared()?.positions.advance(place, total, len)
}

/// The file's length and its count of writes, if these pages may be looked at.
#[inline]
pub(crate) fn file(tag: u32, pages: &Range<u64>) -> Option<(u64, u64)> {
    view()?.file(tag, pages)
}

/// The pages that `len` bytes at `offset` are of.
#[inline]
pub(crate) fn pages_of(offset: u64, len: usize) -> Range<u64> {
    let last = offset.saturating_add(len.saturating_sub(1) as u64) >> PAGE_SHIFT;
    offset >> PAGE_SHIFT..last + 1
}

/// Whether the page is there to be found.
pub(crate) fn has(tag: u32, index: u64) -> bool {
    view().is_some_and(|view| view.read_into(tag, index, 0, &mut []))
}

/// Whether a read from page `first` to page `last` goes on where the last one ended; remembers
/// where it ends.
pub(crate) fn goes_on(id: u64, first: u64, last: u64) -> bool {
    let Some(half) = half(id) else { return true };
    let known = LAST[id as usize % NR_TAGS].swap(half | last & u64::from(u32::MAX), Relaxed);
    let previous = u64::from(known as u32);
    if known >> 32 == id { first == previous || first == previous + 1 } else { first == 0 }
}

/// What was found of a range.
pub(crate) struct Found {
    /// Bytes that were copied, from its start.
    pub(crate) nr_bytes: usize,
    /// Whether the file has no more of the range.
    pub(crate) is_all: bool,
}

/// Copies as much of the range as is found before the first page that is not. `None` if the file
/// may not be looked at, or is just changing its length.
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

/// Writes down that the bytes were found, and copied; returns whether the server is to be told at
/// once: the log is full, or readahead waits for one of these pages.
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

/// Whether the page that the server waits for is among these, and was not told of.
fn is_marked(tag: u32, first: u64, nr: u64) -> bool {
    let marker = view().map_or(u64::MAX, |view| view.marker(tag));
    let is_new = marker.wrapping_sub(first) < nr && MARKER_TOLD.get() != (tag, marker);
    if is_new {
        MARKER_TOLD.set((tag, marker));
    }
    is_new
}

/// Sends this thread's log.
pub(crate) fn tell() {
    let log = take_log();
    if log.iov_len > 0 {
        channel::tell_only(&Request::new(Op::Touch, 0), &[log]);
    }
}

/// This thread's log, to be sent at once, and by this thread; what is found from now on begins
/// another in its place. (A signal's handler that does so leaves whole entries, if not these.)
pub(crate) fn take_log() -> iovec {
    let iov_len = NR_LOGGED.replace(0).min(LOG_LEN) * TOUCH_BYTES;
    NR_MORE_PAGES.set(0);
    LOG.with(|log| iovec { iov_base: log.as_ptr().cast_mut().cast(), iov_len })
}
