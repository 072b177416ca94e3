//! Where this thread sets down pages that it has read, for the server to take.
//!
//! ```text
//!      guard | taken | around | slot 0 .. slot 63 | guard      one mapping a thread, of the
//!                                ^ taken ^ offered ^ set down    server's file
//! ```
//!
//! Pages are offered thirty-two at a time, with the log of what was found, so that the server is
//! not woken for one page. Until the server has said that a page is taken, its slot is not used
//! again, and the page is found there by its own thread. A packet says where in the tray it begins:
//! those that are lost, lose their pages and no more.
//!
//! **Data and invariants.** The slots lie between pages that cannot be touched, and no fork gets
//! the mapping: a child has no tray until it asks for one. A tray belongs to one socket; with
//! another socket it is given up. What the server says it has taken, and how much it wants read,
//! are looked at as numbers that may be anything. `self_read` alone uses this, and sees to it that
//! no signal's handler does so in between.
//!
//! **Ignored.** Pages that were set down and not offered when the process was killed.

use crate::{channel, next, own, view};
use libc::{c_int, iovec};
use pagetide_run::wire::{OFFER_BYTES, Offer, Op, PAGE_SHIFT, Request};
use pagetide_sys::tray::{AROUND_WORD, NR_SLOTS, SLOTS_AT, TAKEN_WORD, TRAY_BYTES};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE_BYTES: usize = 1 << PAGE_SHIFT;
/// Pages that are offered at once.
const NR_OFFERED: u64 = NR_SLOTS as u64 / 2;
/// How often a thread misses, or reports, before it gets a tray: most do so no more.
const FEW: u32 = 4;

/// This thread's tray, if it has one.
#[derive(Clone, Copy)]
struct Tray {
    process: u64,
    /// The socket that it was asked for by.
    socket: u32,
    /// Where it begins; null where there is none.
    start: *mut u8,
    nr_set_down: u64,
    nr_offered: u64,
}

/// The label of a slot that was left out.
const LEFT_OUT: Offer = Offer { id: 0, index: 0, is_around: false, writes: 0, checksum: 0 };

const NONE: Tray =
    Tray { process: 0, socket: 0, start: std::ptr::null_mut(), nr_set_down: 0, nr_offered: 0 };

thread_local! {
    static TRAY: Cell<Tray> = const { Cell::new(NONE) };
    static NR_WANTED: Cell<u32> = const { Cell::new(0) };
    /// The socket that was asked for a tray, and had none.
    static REFUSED_BY: Cell<u32> = const { Cell::new(0) };
    static LABELS: [Cell<Offer>; NR_SLOTS] = const {
        [const { Cell::new(LEFT_OUT) }; NR_SLOTS]
    };
}

impl Tray {
    fn is_own(&self) -> bool {
        !self.start.is_null() && self.process == own::number()
    }

    /// The server takes from it.
    fn is_in_use(&self) -> bool {
        self.is_own() && self.socket == channel::socket_number()
    }

    fn slot(&self, nr: u64) -> *mut u8 {
        self.start.wrapping_add(SLOTS_AT + nr as usize % NR_SLOTS * PAGE_BYTES)
    }

    /// Pages that were told of and taken, whatever the word in the tray says.
    fn nr_taken(&self) -> u64 {
        let oldest = self.nr_set_down.saturating_sub(NR_SLOTS as u64);
        self.word(TAKEN_WORD).load(Ordering::Acquire).clamp(oldest, self.nr_offered)
    }

    /// One of the words at its front.
    fn word(&self, nth: usize) -> &AtomicU64 {
        // SAFETY: the front of this thread's tray (S22).
        unsafe { &*self.start.cast::<AtomicU64>().wrapping_add(nth) }
    }

    /// The server has not taken yet what was told of.
    fn is_behind(&self) -> bool {
        self.nr_taken() < self.nr_offered
    }
}

/// How many pages a miss should read, with those that are wanted, as far as the server has said.
pub(crate) fn nr_around() -> u64 {
    let tray = TRAY.get();
    if tray.is_own() { tray.word(AROUND_WORD).load(Ordering::Relaxed) } else { 0 }
}

/// Slots for `nr_pages` pages, one behind the other, to be read into; the pages are set down by
/// [`set_down`]. `None` if there is no room.
pub(crate) fn room(nr_pages: u64) -> Option<*mut u8> {
    let mut tray = own()?;
    let nr_slots = NR_SLOTS as u64;
    let nr_due = if tray.is_behind() { NR_OFFERED / 2 } else { NR_OFFERED };
    if tray.nr_set_down - tray.nr_offered >= nr_due {
        tell();
        tray = own()?;
    }
    // They do not go round the end: slots that are left out are told of as no description's.
    let left_out = match nr_slots - tray.nr_set_down % nr_slots {
        before_end if before_end < nr_pages => before_end,
        _ => 0,
    };
    if tray.nr_set_down + left_out + nr_pages > tray.nr_taken() + nr_slots {
        tell();
        return None;
    }
    for nr in tray.nr_set_down..tray.nr_set_down + left_out {
        LABELS.with(|labels| labels[nr as usize % NR_SLOTS].set(LEFT_OUT));
    }
    tray.nr_set_down += left_out;
    TRAY.set(tray);
    Some(tray.slot(tray.nr_set_down))
}

/// Labels the page that was read into the next slot.
pub(crate) fn set_down(label: Offer) {
    let mut tray = TRAY.get();
    // SAFETY: a slot of this thread's tray, in which no read is in progress (S22).
    let page = unsafe { std::slice::from_raw_parts(tray.slot(tray.nr_set_down), PAGE_BYTES) };
    LABELS.with(|labels| labels[tray.nr_set_down as usize % NR_SLOTS].set(label.sealed(page)));
    tray.nr_set_down += 1;
    TRAY.set(tray);
}

/// A page that was set down, when the file's count of writes was `writes`, and is not taken yet. It
/// is as it was set down.
pub(crate) fn find(id: u64, index: u64, writes: u64) -> Option<*const u8> {
    let tray = TRAY.get();
    if !tray.is_own() {
        return None;
    }
    let label_of = |nr: u64| LABELS.with(|labels| labels[nr as usize % NR_SLOTS].get());
    let nr = (tray.nr_taken()..tray.nr_set_down).rev().find(|nr| {
        let label = label_of(*nr);
        (label.id, label.index, label.writes) == (id, index, writes)
    })?;
    let slot = tray.slot(nr).cast_const();
    // SAFETY: a slot of this thread's tray, in which no read is in progress (S22).
    let page = unsafe { std::slice::from_raw_parts(slot, PAGE_BYTES) };
    label_of(nr).is_whole(page).then_some(slot)
}

/// Tells the server what was set down, and the log of what was found.
pub(crate) fn tell() {
    let mut tray = TRAY.get();
    if !tray.is_in_use() {
        return view::tell();
    }
    let mut labels = [0; NR_SLOTS * OFFER_BYTES];
    let (one, labels) = label(&tray, &mut labels);
    tray.nr_offered = tray.nr_set_down;
    TRAY.set(tray);
    let parts = [labels, view::take_log()];
    if parts.iter().all(|part| part.iov_len == 0) {
        return;
    }
    channel::tell_only(&one, &parts);
}

/// What tells of the pages that were set down and not told of, and their labels.
fn label(tray: &Tray, bytes: &mut [u8; NR_SLOTS * OFFER_BYTES]) -> (Request, iovec) {
    let nr = tray.nr_set_down - tray.nr_offered;
    for (nr, bytes) in (tray.nr_offered..tray.nr_set_down).zip(bytes.chunks_exact_mut(OFFER_BYTES))
    {
        let label = LABELS.with(|labels| labels[nr as usize % NR_SLOTS].get());
        bytes.copy_from_slice(&label.encode());
    }
    let one = Request { offset: tray.nr_offered as i64, len: nr, ..Request::new(Op::Admit, 0) };
    let iov_base = bytes.as_mut_ptr().cast();
    (one, iovec { iov_base, iov_len: nr as usize * OFFER_BYTES })
}

/// Tells the server what was set down, if anything was.
pub(crate) fn tell_pages() {
    let tray = TRAY.get();
    if tray.is_in_use() && tray.nr_offered < tray.nr_set_down {
        tell();
    }
}

/// This thread's tray is given up: it sets down no more pages.
pub(crate) fn give_up() {
    tell();
    let tray = TRAY.replace(NONE);
    if tray.is_own() {
        unmap(tray.start.wrapping_sub(PAGE_BYTES) as usize);
    }
}

/// Takes note that this thread has something to tell.
pub(crate) fn want() {
    let _ = own();
}

/// This thread's tray; asks for one when there was something to tell, or to set down, a few times.
fn own() -> Option<Tray> {
    let tray = TRAY.get();
    if tray.is_in_use() {
        return Some(tray);
    }
    // The program may have closed the socket: such a tray is not taken from any more.
    give_up();
    let nr_wanted = NR_WANTED.get();
    NR_WANTED.set(nr_wanted.saturating_add(1));
    if nr_wanted < FEW || !channel::enter() || REFUSED_BY.get() == channel::socket_number() {
        return None;
    }
    let socket = channel::socket_number();
    REFUSED_BY.set(socket);
    let file = channel::ask_for_tray()?;
    let start = map(file);
    own::close(file);
    let start = start?;
    REFUSED_BY.set(0);
    TRAY.set(Tray { process: own::number(), socket, start, ..NONE });
    Some(TRAY.get())
}

/// Maps a tray between two pages that cannot be touched; no child gets it.
fn map(file: c_int) -> Option<*mut u8> {
    let len = TRAY_BYTES + 2 * PAGE_BYTES;
    let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    let arguments = [0, len, libc::PROT_NONE as usize, kind, usize::MAX, 0];
    // SAFETY: a new mapping, where the kernel likes it (S22).
    let base = unsafe { next::system(libc::SYS_mmap, arguments) }.ok()?;
    let start = base + PAGE_BYTES;
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let kind = (libc::MAP_SHARED | libc::MAP_FIXED) as usize;
    let arguments = [start, TRAY_BYTES, access, kind, file as usize, 0];
    // SAFETY: inside the mapping just made, in its place (S22).
    let mapped = unsafe { next::system(libc::SYS_mmap, arguments) };
    let arguments = [start, TRAY_BYTES, libc::MADV_DONTFORK as usize, 0, 0, 0];
    // SAFETY: the mapping just made (S22).
    if mapped.is_ok() && unsafe { next::system(libc::SYS_madvise, arguments) }.is_ok() {
        return Some(start as *mut u8);
    }
    unmap(base);
    None
}

fn unmap(base: usize) {
    // SAFETY: a mapping of ours, of which no thread has an address any more (S22).
    let _ =
        unsafe { next::system(libc::SYS_munmap, [base, TRAY_BYTES + 2 * PAGE_BYTES, 0, 0, 0, 0]) };
}
