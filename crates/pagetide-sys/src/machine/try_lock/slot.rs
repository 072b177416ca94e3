//! A word for each thread, in which it says which biased lock it is in.
//!
//! **Problem.** Who takes a bias away must know whether its owner is inside. A word of the lock
//! will not do: an owner of long ago, stopped between its two looks, would write there while a new
//! owner is inside.
//!
//! **Idea.** Each thread writes to a word of its own, from a fixed table. A thread returns its slot
//! at its end, and whoever gets it next inherits its biases, which is as good as any other start.
//!
//! **Data and invariants.** A slot belongs to at most one thread (`is_taken`, Acquire and Release:
//! what its last thread did happened before). `inside` is [`OUTSIDE`], or the address of the one
//! lock its thread is in by bias. A thread without a slot has [`nobodys`], which no lock is ever
//! biased to.
//!
//! **Ignored.** Threads beyond the table's length: they do without a bias.

use crate::sync::{AtomicBool, AtomicUsize, Ordering};
use std::cell::Cell;

/// In no lock by bias.
pub(super) const OUTSIDE: usize = 0;

const NR_SLOTS: usize = if cfg!(loom) { 4 } else { 64 };

/// Two cache lines, which are fetched together.
#[repr(align(128))]
pub(super) struct Slot {
    /// Written by its thread alone.
    pub(super) inside: AtomicUsize,
    is_taken: AtomicBool,
}

impl Slot {
    /// What the word of a lock is that is biased to this slot's thread.
    #[inline]
    pub(super) fn tag(&'static self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    #[inline]
    pub(super) fn is_somebodys(&'static self) -> bool {
        !std::ptr::eq(self, nobodys())
    }
}

/// The slot of a lock's word.
pub(super) fn of_tag(tag: usize) -> &'static Slot {
    let slot = slots().iter().find(|slot| slot.tag() == tag);
    slot.expect("S13: a lock's word is one of three numbers, or a slot's tag")
}

/// This thread's slot, or nobody's.
#[inline]
pub(super) fn mine() -> &'static Slot {
    MINE.with(Cell::get)
}

/// Gives this thread a slot, if there is one and the kernel has the fence it takes.
pub(super) fn take_one() {
    if !super::barrier::is_supported() {
        return;
    }
    // Acquire: pairs with the Release of the thread that had it before.
    let slot = slots().iter().find(|slot| !slot.is_taken.swap(true, Ordering::Acquire));
    let Some(slot) = slot else { return };
    if lease(slot) { MINE.with(|mine| mine.set(slot)) } else { give_back(slot) }
}

fn give_back(slot: &'static Slot) {
    // A guard that was forgotten holds its lock, and the slot, for good.
    if slot.inside.load(Ordering::Relaxed) == OUTSIDE {
        slot.is_taken.store(false, Ordering::Release);
    }
}

#[cfg(not(loom))]
mod table {
    use super::*;

    const fn empty() -> Slot {
        let (inside, is_taken) = (AtomicUsize::new(OUTSIDE), AtomicBool::new(false));
        Slot { inside, is_taken }
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
}

/// Loom's words cannot be constants, and its threads keep their slots.
#[cfg(loom)]
mod table {
    use super::*;

    fn empty() -> Slot {
        let (inside, is_taken) = (AtomicUsize::new(OUTSIDE), AtomicBool::new(false));
        Slot { inside, is_taken }
    }

    loom::lazy_static! {
        static ref SLOTS: Vec<Slot> = (0..=NR_SLOTS).map(|_| empty()).collect();
    }

    loom::thread_local! {
        pub(super) static MINE: Cell<&'static Slot> = Cell::new(nobodys());
    }

    pub(super) fn lease(_: &'static Slot) -> bool {
        true
    }

    pub(super) fn nobodys() -> &'static Slot {
        &SLOTS[NR_SLOTS]
    }

    pub(super) fn slots() -> &'static [Slot] {
        &SLOTS[..NR_SLOTS]
    }
}

use table::{MINE, lease, nobodys, slots};
