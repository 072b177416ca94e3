//! This thread's miss ring: passes pages that the thread has read to the server.
//!
//! ```text
//!      guard | taken | around | at once | slot 0 .. slot 63 | guard    one mapping per thread,
//!                                  ^ taken ^ reported ^ pushed         of the server's file
//! ```
//!
//! Pages are reported in batches of 32, with the log of hits, or at once if others wait for
//! them. The thread itself finds a page in its slot until the server has taken it. A packet states
//! its position, so a lost packet loses only its own pages.
//!
//! **Data and invariants.** A ring is released with its socket. The server's words are untrusted.
//! Only `self_read` uses the ring, and keeps signal handlers out meanwhile.
//!
//! **Ignored.** Unreported pages of a killed process.

use crate::channel::Parcel;
use crate::channel::mapping::Mapping;
use crate::{channel, view};
use libc::iovec;
use pagetide_run::wire::{MissRecord, Op, PAGE_BYTES, RECORD_BYTES, Request};
use pagetide_sys::miss_ring::{
    AROUND_WORD, AT_ONCE_WORD, NR_SLOTS, RING_BYTES, SLOTS_AT, TAKEN_WORD,
};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages per report.
const NR_REPORTED: u64 = NR_SLOTS as u64 / 2;
/// Misses or reports of a thread before it gets a ring: most threads stop earlier.
const FEW: u32 = 4;

#[derive(Clone, Copy)]
struct MissRing {
    mapping: Mapping,
    nr_pushed: u64,
    nr_reported: u64,
}

/// The record of a skipped slot.
const LEFT_OUT: MissRecord =
    MissRecord { id: 0, index: 0, is_around: false, continues: true, writes: 0, checksum: 0 };

const NONE: MissRing = MissRing { mapping: Mapping::NONE, nr_pushed: 0, nr_reported: 0 };

thread_local! {
    static RING: Cell<MissRing> = const { Cell::new(NONE) };
    static NR_WANTED: Cell<u32> = const { Cell::new(0) };
    /// The socket of a refused request for a ring.
    static REFUSED_BY: Cell<u32> = const { Cell::new(0) };
    static RECORDS: [Cell<MissRecord>; NR_SLOTS] = const {
        [const { Cell::new(LEFT_OUT) }; NR_SLOTS]
    };
}

impl MissRing {
    fn slot(&self, nr: u64) -> *mut u8 {
        self.mapping.start.wrapping_add(SLOTS_AT + nr as usize % NR_SLOTS * PAGE_BYTES)
    }

    /// Clamped to the possible range.
    fn nr_taken(&self) -> u64 {
        let oldest = self.nr_pushed.saturating_sub(NR_SLOTS as u64);
        self.word(TAKEN_WORD).load(Ordering::Acquire).clamp(oldest, self.nr_reported)
    }

    fn word(&self, nth: usize) -> &AtomicU64 {
        // SAFETY: the front of this thread's ring (S22).
        unsafe { &*self.mapping.start.cast::<AtomicU64>().wrapping_add(nth) }
    }

    fn is_behind(&self) -> bool {
        self.nr_taken() < self.nr_reported
    }
}

/// Returns the server's suggested number of pages to read for a miss, including the wanted ones.
pub(crate) fn nr_around() -> u64 {
    let ring = RING.get();
    if ring.mapping.is_own() { ring.word(AROUND_WORD).load(Ordering::Relaxed) } else { 0 }
}

/// Returns true if the server suggests to pass each page at once.
pub(crate) fn is_at_once() -> bool {
    let ring = RING.get();
    ring.mapping.is_own() && ring.word(AT_ONCE_WORD).load(Ordering::Relaxed) != 0
}

/// Returns consecutive slots to read `nr_pages` pages into, which [`push`] then pushes. `None`
/// if the ring is full.
pub(crate) fn room(nr_pages: u64) -> Option<*mut u8> {
    let mut ring = own()?;
    let nr_slots = NR_SLOTS as u64;
    let nr_due = if ring.is_behind() { NR_REPORTED / 2 } else { NR_REPORTED };
    if ring.nr_pushed - ring.nr_reported >= nr_due {
        tell();
        ring = own()?;
    }
    // Slots must not wrap around.
    let left_out = match nr_slots - ring.nr_pushed % nr_slots {
        before_end if before_end < nr_pages => before_end,
        _ => 0,
    };
    if ring.nr_pushed + left_out + nr_pages > ring.nr_taken() + nr_slots {
        tell();
        return None;
    }
    for nr in ring.nr_pushed..ring.nr_pushed + left_out {
        RECORDS.with(|records| records[nr as usize % NR_SLOTS].set(LEFT_OUT));
    }
    ring.nr_pushed += left_out;
    RING.set(ring);
    Some(ring.slot(ring.nr_pushed))
}

pub(crate) fn push(record: MissRecord) {
    let mut ring = RING.get();
    // SAFETY: a slot of this thread's ring, without a read in progress (S22).
    let page = unsafe { std::slice::from_raw_parts(ring.slot(ring.nr_pushed), PAGE_BYTES) };
    RECORDS.with(|records| records[ring.nr_pushed as usize % NR_SLOTS].set(record.sealed(page)));
    ring.nr_pushed += 1;
    RING.set(ring);
}

/// Returns a page that was pushed at count of writes `writes`, and not taken yet. Its bytes are
/// unchanged.
pub(crate) fn find(id: u64, index: u64, writes: u64) -> Option<*const u8> {
    let ring = RING.get();
    if !ring.mapping.is_own() {
        return None;
    }
    let record_of = |nr: u64| RECORDS.with(|records| records[nr as usize % NR_SLOTS].get());
    let nr = (ring.nr_taken()..ring.nr_pushed).rev().find(|nr| {
        let record = record_of(*nr);
        (record.id, record.index, record.writes) == (id, index, writes)
    })?;
    let slot = ring.slot(nr).cast_const();
    // SAFETY: a slot of this thread's ring, without a read in progress (S22).
    let page = unsafe { std::slice::from_raw_parts(slot, PAGE_BYTES) };
    record_of(nr).is_whole(page).then_some(slot)
}

pub(crate) fn tell() {
    let mut ring = RING.get();
    if !ring.mapping.is_in_use() {
        return view::tell();
    }
    let mut records = [0; NR_SLOTS * RECORD_BYTES];
    let (one, records) = insert_request(&ring, &mut records);
    ring.nr_reported = ring.nr_pushed;
    RING.set(ring);
    let parts = [records, view::take_log()];
    if parts.iter().all(|part| part.iov_len == 0) {
        return;
    }
    channel::tell_only(&one, Parcel { source: &parts, ..Parcel::default() });
}

/// Encodes the unreported records, and returns the request with them.
fn insert_request(ring: &MissRing, bytes: &mut [u8; NR_SLOTS * RECORD_BYTES]) -> (Request, iovec) {
    let nr_pages = ring.nr_pushed - ring.nr_reported;
    for (nr, bytes) in (ring.nr_reported..ring.nr_pushed).zip(bytes.chunks_exact_mut(RECORD_BYTES))
    {
        let record = RECORDS.with(|records| records[nr as usize % NR_SLOTS].get());
        bytes.copy_from_slice(&record.encode());
    }
    let one =
        Request { offset: ring.nr_reported as i64, len: nr_pages, ..Request::new(Op::Insert, 0) };
    let iov_base = bytes.as_mut_ptr().cast();
    (one, iovec { iov_base, iov_len: nr_pages as usize * RECORD_BYTES })
}

pub(crate) fn tell_pages() {
    let ring = RING.get();
    if ring.mapping.is_in_use() && ring.nr_reported < ring.nr_pushed {
        tell();
    }
}

pub(crate) fn release() {
    tell();
    RING.replace(NONE).mapping.release();
}

/// Counts a reason for a ring.
pub(crate) fn want() {
    let _ = own();
}

/// Requests a ring after a few misses or reports.
fn own() -> Option<MissRing> {
    let ring = RING.get();
    if ring.mapping.is_in_use() {
        return Some(ring);
    }
    // The program may have closed the socket, and the server no longer consumes the ring.
    release();
    let nr_wanted = NR_WANTED.get();
    NR_WANTED.set(nr_wanted.saturating_add(1));
    if nr_wanted < FEW || !channel::enter() || REFUSED_BY.get() == channel::socket_number() {
        return None;
    }
    REFUSED_BY.set(channel::socket_number());
    let mapping = Mapping::new(channel::ask_for_ring()?, RING_BYTES)?;
    REFUSED_BY.set(0);
    RING.set(MissRing { mapping, ..NONE });
    Some(RING.get())
}
