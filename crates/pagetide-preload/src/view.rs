//! Hits without the server: pages we were told of, copied from the server's own frames.
//!
//! ```text
//!   pread --> slot of (description, page) --> sight still good? copy, still good --> done
//!                                                 | no, or no slot
//!                                                 v
//!                              request; the reply tells where the pages are now --> slots
//! ```
//!
//! What was read so is written to a log of this thread, and sent when that is full: the server
//! counts each as a hit. A log that cannot be sent is dropped, and with it what a policy would have
//! learnt from it.
//!
//! **Data and invariants.** One table a process, of slots that each have a sequence lock; a slot
//! that a fork caught half-written stays unused. The frames are mapped read-only, once.
//!
//! **Ignored.** Reads at the file position: the position is the server's, so it is asked.

use crate::channel;
use libc::{c_int, c_void, off_t};
use pagetide_sys::shared::{FrameView, Sight};
use pagetide_sys::wire::{
    Op, PAGE_SHIFT, Reply, SIGHT_BYTES, SIGHTS_MAX, decode_sight, encode_touch,
};
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

const PAGE_BYTES: usize = 1 << PAGE_SHIFT;
/// Slots, a power of two: pages of 1 GiB. Untouched ones take no memory; no description has
/// number 0.
const SLOTS: usize = 1 << 18;
/// Reads that are told at once.
const LOG_LEN: usize = 64;

/// Where one page was last.
struct Slot {
    /// Odd while it is written.
    sequence: AtomicU32,
    frame: AtomicU32,
    id: AtomicU64,
    page: AtomicU64,
    number: AtomicU64,
    epoch: AtomicU64,
}

static TABLE: [Slot; SLOTS] = [const {
    Slot {
        sequence: AtomicU32::new(0),
        frame: AtomicU32::new(0),
        id: AtomicU64::new(0),
        page: AtomicU64::new(0),
        number: AtomicU64::new(0),
        epoch: AtomicU64::new(0),
    }
}; SLOTS];

const NOT_TRIED: u8 = 0;
const TRYING: u8 = 1;
const THERE: u8 = 2;

/// The view, once it is there.
struct Storage(UnsafeCell<MaybeUninit<FrameView>>);

// SAFETY: written once, by whoever turned the state from NOT_TRIED to TRYING, and read only after
// it is THERE (S22); a view may be shared among threads.
unsafe impl Sync for Storage {}

static STATE: AtomicU8 = AtomicU8::new(NOT_TRIED);
static VIEW: Storage = Storage(UnsafeCell::new(MaybeUninit::uninit()));

thread_local! {
    static LOG: [Cell<(u64, u64)>; LOG_LEN] = const { [const { Cell::new((0, 0)) }; LOG_LEN] };
    static LOGGED: Cell<usize> = const { Cell::new(0) };
}

/// The server's frames, if we have them.
fn view() -> Option<&'static FrameView> {
    if STATE.load(Ordering::Acquire) != THERE {
        return None;
    }
    // SAFETY: the state says that it was written, and nobody writes it again (S22).
    let storage = unsafe { &*VIEW.0.get() };
    // SAFETY: as above (S22).
    Some(unsafe { storage.assume_init_ref() })
}

/// Whether it is worth being told where pages are; asks for the frames the first time.
pub(crate) fn is_there() -> bool {
    match STATE.load(Ordering::Acquire) {
        THERE => true,
        NOT_TRIED => open(),
        _ => false,
    }
}

#[cold]
fn open() -> bool {
    let first = STATE.compare_exchange(NOT_TRIED, TRYING, Ordering::AcqRel, Ordering::Acquire);
    if first.is_err() {
        return false;
    }
    let Ok((reply, files)) = channel::ask_for_files(Op::Share) else { return false };
    let [frames, numbers] = files;
    // SAFETY: two descriptors that were just received, open until the end of this function (S22).
    let borrow = |fd: c_int| unsafe { BorrowedFd::borrow_raw(fd) };
    let opened = if frames >= 0 && numbers >= 0 && reply.result > 0 {
        FrameView::open(borrow(frames), borrow(numbers), reply.result as u32).ok()
    } else {
        None
    };
    files.into_iter().filter(|fd| *fd >= 0).for_each(channel::close);
    let Some(opened) = opened else { return false };
    // SAFETY: this thread alone has turned the state to TRYING, and nobody reads before THERE
    // (S22).
    unsafe { *VIEW.0.get() = MaybeUninit::new(opened) };
    STATE.store(THERE, Ordering::Release);
    true
}

fn slot_of(id: u64, page: u64) -> &'static Slot {
    let spread = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    &TABLE[(spread.wrapping_add(page)) as usize % SLOTS]
}

fn look_up(id: u64, page: u64) -> Option<Sight> {
    let slot = slot_of(id, page);
    let before = slot.sequence.load(Ordering::Acquire);
    let is_it = slot.id.load(Ordering::Relaxed) == id && slot.page.load(Ordering::Relaxed) == page;
    let sight = Sight {
        frame: slot.frame.load(Ordering::Relaxed),
        number: slot.number.load(Ordering::Relaxed),
        epoch: slot.epoch.load(Ordering::Relaxed),
    };
    fence(Ordering::Acquire);
    let is_whole = before & 1 == 0 && slot.sequence.load(Ordering::Relaxed) == before;
    (is_it && is_whole).then_some(sight)
}

fn remember(id: u64, page: u64, sight: Sight) {
    let slot = slot_of(id, page);
    let before = slot.sequence.load(Ordering::Relaxed);
    let mine = before & 1 == 0
        && slot
            .sequence
            .compare_exchange(before, before + 1, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
    if !mine {
        return;
    }
    fence(Ordering::Release);
    slot.id.store(id, Ordering::Relaxed);
    slot.page.store(page, Ordering::Relaxed);
    slot.frame.store(sight.frame, Ordering::Relaxed);
    slot.number.store(sight.number, Ordering::Relaxed);
    slot.epoch.store(sight.epoch, Ordering::Relaxed);
    slot.sequence.store(before.wrapping_add(2), Ordering::Release);
}

/// Reads without asking, if all of the range is known to be where it was.
pub(crate) fn read(id: u64, target: *mut c_void, len: usize, offset: off_t) -> bool {
    let Some(view) = view() else { return false };
    if offset < 0 || len == 0 || len > SIGHTS_MAX * PAGE_BYTES {
        return false;
    }
    let offset = offset as u64;
    let mut done = 0;
    while done < len {
        let at = offset + done as u64;
        let within = at as usize % PAGE_BYTES;
        let nr_bytes = (PAGE_BYTES - within).min(len - done);
        let Some(sight) = look_up(id, at >> PAGE_SHIFT) else { return false };
        let part = target.wrapping_byte_add(done).cast();
        // SAFETY: part of the program's memory, given to be read into (S20).
        if !unsafe { view.read(sight, within, part, nr_bytes) } {
            return false;
        }
        done += nr_bytes;
    }
    let last = (offset + len as u64 - 1) >> PAGE_SHIFT;
    (offset >> PAGE_SHIFT..=last).for_each(|page| note(id, page));
    true
}

/// Remembers what a reply tells about the pages from `offset` on; the sights are in `told`.
pub(crate) fn learn(id: u64, offset: off_t, reply: &Reply, told: &[u8]) {
    let first = offset as u64 >> PAGE_SHIFT;
    let nr = (reply.total as usize).min(SIGHTS_MAX);
    for (page, bytes) in (first..).zip(told.chunks_exact(SIGHT_BYTES).take(nr)) {
        let (frame, number) = decode_sight(bytes);
        if number & 1 == 0 {
            remember(id, page, Sight { frame, number, epoch: reply.offset });
        }
    }
}

fn note(id: u64, page: u64) {
    let nr = LOGGED.get();
    LOG.with(|log| log[nr.min(LOG_LEN - 1)].set((id, page)));
    LOGGED.set(nr + 1);
    if nr + 1 >= LOG_LEN {
        tell();
    }
}

/// Sends this thread's log.
pub(crate) fn tell() {
    let nr = LOGGED.replace(0).min(LOG_LEN);
    if nr == 0 {
        return;
    }
    let mut packet = [0; LOG_LEN * 16];
    LOG.with(|log| {
        for (entry, bytes) in log[..nr].iter().zip(packet.chunks_exact_mut(16)) {
            let (id, page) = entry.get();
            bytes.copy_from_slice(&encode_touch(id, page));
        }
    });
    channel::send_touches(&packet[..nr * 16]);
}
