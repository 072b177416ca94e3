//! This thread's miss ring: passes pages that the thread has read to the server.
//!
//! ```text
//!      guard | taken | around | slot 0 .. slot 63 | guard      one mapping per thread, of the
//!                                ^ taken ^ offered ^ pushed      server's file
//! ```
//!
//! Pages are reported in batches of 32, with the log of hits, or at once if others wait for them. The thread itself finds a page in its
//! slot until the server has taken it. A packet states its position, so a lost packet loses only
//! its own pages.
//!
//! **Data and invariants.** Forked children do not get the mapping. A ring is released with its
//! socket. The server's words are untrusted. Only `self_read` uses the ring, and keeps signal
//! handlers out meanwhile.
//!
//! **Ignored.** Unreported pages of a killed process.

use crate::channel::Parcel;
use crate::{channel, next, own, view};
use libc::{c_int, iovec};
use pagetide_run::wire::{OFFER_BYTES, Offer, Op, PAGE_SHIFT, Request};
use pagetide_sys::tray::{AROUND_WORD, AT_ONCE_WORD, NR_SLOTS, SLOTS_AT, TAKEN_WORD, TRAY_BYTES};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE_BYTES: usize = 1 << PAGE_SHIFT;
/// Pages per report.
const NR_OFFERED: u64 = NR_SLOTS as u64 / 2;
/// Misses or reports of a thread before it gets a ring: most threads stop earlier.
const FEW: u32 = 4;

#[derive(Clone, Copy)]
struct Tray {
    process: u64,
    /// The socket of the request for the ring.
    socket: u32,
    /// The ring's address, null for none.
    start: *mut u8,
    nr_set_down: u64,
    nr_offered: u64,
}

/// The label of a skipped slot.
const LEFT_OUT: Offer =
    Offer { id: 0, index: 0, is_around: false, continues: true, writes: 0, checksum: 0 };

const NONE: Tray =
    Tray { process: 0, socket: 0, start: std::ptr::null_mut(), nr_set_down: 0, nr_offered: 0 };

thread_local! {
    static TRAY: Cell<Tray> = const { Cell::new(NONE) };
    static NR_WANTED: Cell<u32> = const { Cell::new(0) };
    /// The socket of a refused request for a ring.
    static REFUSED_BY: Cell<u32> = const { Cell::new(0) };
    static LABELS: [Cell<Offer>; NR_SLOTS] = const {
        [const { Cell::new(LEFT_OUT) }; NR_SLOTS]
    };
}

impl Tray {
    fn is_own(&self) -> bool {
        !self.start.is_null() && self.process == own::number()
    }

    fn is_in_use(&self) -> bool {
        self.is_own() && self.socket == channel::socket_number()
    }

    fn slot(&self, nr: u64) -> *mut u8 {
        self.start.wrapping_add(SLOTS_AT + nr as usize % NR_SLOTS * PAGE_BYTES)
    }

    /// Clamped to the possible range.
    fn nr_taken(&self) -> u64 {
        let oldest = self.nr_set_down.saturating_sub(NR_SLOTS as u64);
        self.word(TAKEN_WORD).load(Ordering::Acquire).clamp(oldest, self.nr_offered)
    }

    fn word(&self, nth: usize) -> &AtomicU64 {
        // SAFETY: the front of this thread's ring (S22).
        unsafe { &*self.start.cast::<AtomicU64>().wrapping_add(nth) }
    }

    fn is_behind(&self) -> bool {
        self.nr_taken() < self.nr_offered
    }
}

/// Returns the server's suggested number of pages to read for a miss, including the wanted ones.
pub(crate) fn nr_around() -> u64 {
    let tray = TRAY.get();
    if tray.is_own() { tray.word(AROUND_WORD).load(Ordering::Relaxed) } else { 0 }
}

/// Returns true if the server suggests to pass each page at once.
pub(crate) fn is_at_once() -> bool {
    let tray = TRAY.get();
    tray.is_own() && tray.word(AT_ONCE_WORD).load(Ordering::Relaxed) != 0
}

/// Returns consecutive slots to read `nr_pages` pages into, which [`set_down`] then pushes. `None`
/// if the ring is full.
pub(crate) fn room(nr_pages: u64) -> Option<*mut u8> {
    let mut tray = own()?;
    let nr_slots = NR_SLOTS as u64;
    let nr_due = if tray.is_behind() { NR_OFFERED / 2 } else { NR_OFFERED };
    if tray.nr_set_down - tray.nr_offered >= nr_due {
        tell();
        tray = own()?;
    }
    // Slots must not wrap around.
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

pub(crate) fn set_down(label: Offer) {
    let mut tray = TRAY.get();
    // SAFETY: a slot of this thread's ring, without a read in progress (S22).
    let page = unsafe { std::slice::from_raw_parts(tray.slot(tray.nr_set_down), PAGE_BYTES) };
    LABELS.with(|labels| labels[tray.nr_set_down as usize % NR_SLOTS].set(label.sealed(page)));
    tray.nr_set_down += 1;
    TRAY.set(tray);
}

/// Returns a page that was pushed at count of writes `writes`, and not taken yet. Its bytes are
/// unchanged.
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
    // SAFETY: a slot of this thread's ring, without a read in progress (S22).
    let page = unsafe { std::slice::from_raw_parts(slot, PAGE_BYTES) };
    label_of(nr).is_whole(page).then_some(slot)
}

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
    channel::tell_only(&one, Parcel { source: &parts, ..Parcel::default() });
}

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

pub(crate) fn tell_pages() {
    let tray = TRAY.get();
    if tray.is_in_use() && tray.nr_offered < tray.nr_set_down {
        tell();
    }
}

pub(crate) fn give_up() {
    tell();
    let tray = TRAY.replace(NONE);
    if tray.is_own() {
        unmap(tray.start.wrapping_sub(PAGE_BYTES) as usize);
    }
}

/// Counts a reason for a ring.
pub(crate) fn want() {
    let _ = own();
}

/// Requests a ring after a few misses or reports.
fn own() -> Option<Tray> {
    let tray = TRAY.get();
    if tray.is_in_use() {
        return Some(tray);
    }
    // The program may have closed the socket, and the server no longer consumes the ring.
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

fn map(file: c_int) -> Option<*mut u8> {
    let len = TRAY_BYTES + 2 * PAGE_BYTES;
    let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    let arguments = [0, len, libc::PROT_NONE as usize, kind, usize::MAX, 0];
    // SAFETY: a new mapping at the kernel's choice (S22).
    let base = unsafe { next::system(libc::SYS_mmap, arguments) }.ok()?;
    let start = base + PAGE_BYTES;
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let kind = (libc::MAP_SHARED | libc::MAP_FIXED) as usize;
    let arguments = [start, TRAY_BYTES, access, kind, file as usize, 0];
    // SAFETY: inside the mapping just made, which it replaces (S22).
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
    // SAFETY: a mapping of the library, with no address in any thread (S22).
    let _ =
        unsafe { next::system(libc::SYS_munmap, [base, TRAY_BYTES + 2 * PAGE_BYTES, 0, 0, 0, 0]) };
}
