//! Two fences of which one is nearly free, because the other is dear; and where slots are.
//!
//! ```text
//!   one thread:    write A     light     read B      a compiler fence
//!   another:       write B     heavy     read A      the kernel fences every running thread
//! ```
//!
//! As with two full fences, at least one of the reads sees the other thread's write: the kernel
//! interrupts each CPU that runs one of our threads and lets it finish its writes; a thread that is
//! not running has finished them.
//!
//! S13 (the asymmetric fence). Source: membarrier(2).

use super::slot::{OUTSIDE, Slot, give_back};
use rustix::thread::{MembarrierCommand, membarrier};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, compiler_fence};

const NR_SLOTS: usize = 64;

const NOT_ASKED: u8 = 0;
const YES: u8 = 1;
const NO: u8 = 2;
static ANSWER: AtomicU8 = AtomicU8::new(NOT_ASKED);

/// Whether the kernel has the heavy fence for us. The first time asks for it, which may take
/// milliseconds in a program of many threads.
pub(super) fn is_supported() -> bool {
    match ANSWER.load(Ordering::Relaxed) {
        NOT_ASKED => {
            let answer = if register() { YES } else { NO };
            ANSWER.store(answer, Ordering::Relaxed);
            answer == YES
        }
        answer => answer == YES,
    }
}

fn register() -> bool {
    membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
}

#[inline]
pub(super) fn light() {
    compiler_fence(Ordering::SeqCst);
}

/// # Panics
/// When the kernel refuses what it granted: a filter of system calls that came later.
///
/// # Cost
/// Some microseconds.
pub(super) fn heavy() {
    let fence = || membarrier(MembarrierCommand::PrivateExpedited).is_ok();
    // A child of a fork may have to register again.
    assert!(fence() || (register() && fence()), "membarrier is refused, and was not before");
}

const fn empty() -> Slot {
    Slot { inside: AtomicUsize::new(OUTSIDE), is_taken: AtomicBool::new(false) }
}

static SLOTS: [Slot; NR_SLOTS] = [const { empty() }; NR_SLOTS];
static NOBODYS: Slot = empty();

thread_local! {
    // Without a destructor, so that it can be read until the thread's last instruction.
    pub(super) static MINE: Cell<&'static Slot> = const { Cell::new(&NOBODYS) };
    static LEASE: Lease = const { Lease(Cell::new(None)) };
}

struct Lease(Cell<Option<&'static Slot>>);

impl Drop for Lease {
    fn drop(&mut self) {
        MINE.set(nobodys());
        self.0.take().into_iter().for_each(give_back);
    }
}

/// Sees to it that the slot is given back; `false` when this thread is at its end already.
pub(super) fn lease(slot: &'static Slot) -> bool {
    LEASE.try_with(|lease| lease.0.set(Some(slot))).is_ok()
}

#[inline]
pub(super) fn nobodys() -> &'static Slot {
    &NOBODYS
}

pub(super) fn slots() -> &'static [Slot] {
    &SLOTS
}
