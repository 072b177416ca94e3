//! A word for each thread, in which it says which biased lock it is in.
//!
//! **Problem.** A thread that takes a bias away must know whether its owner is inside. A word of
//! the lock will not do: an owner of long ago, stopped between its two looks, would write there
//! while a new owner is inside.
//!
//! **Idea.** Each thread writes to a word of its own, from a fixed table. A thread returns its slot
//! at its end, and the next thread inherits its biases, which is as good as any other start.
//!
//! **Data and invariants.** A slot belongs to at most one thread (`is_taken`, Acquire and Release:
//! what its last thread did happened before). `inside` is [`OUTSIDE`], or the address of the one
//! lock its thread is in by bias. A thread without a slot has [`nobodys`], which no lock is ever
//! biased to.
//!
//! **Ignored.** Threads beyond the table's length: they do without a bias.

use super::imp::{MINE, is_supported, lease, nobodys, slots};
use crate::sync::{AtomicBool, AtomicUsize, Ordering};
use std::cell::Cell;

/// In no lock by bias.
pub(super) const OUTSIDE: usize = 0;

/// Two cache lines, which are fetched together.
#[repr(align(128))]
pub(super) struct Slot {
    /// Written by its thread alone.
    pub(super) inside: AtomicUsize,
    pub(super) is_taken: AtomicBool,
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

/// This thread's slot, or one of no thread.
#[inline]
pub(super) fn mine() -> &'static Slot {
    MINE.with(Cell::get)
}

/// Gives this thread a slot, if there is one and the kernel has the fence it takes.
pub(super) fn take_one() {
    if !is_supported() {
        return;
    }
    // Acquire: pairs with the Release of the thread that had it before.
    let slot = slots().iter().find(|slot| !slot.is_taken.swap(true, Ordering::Acquire));
    let Some(slot) = slot else { return };
    if lease(slot) { MINE.with(|mine| mine.set(slot)) } else { give_back(slot) }
}

pub(super) fn give_back(slot: &'static Slot) {
    // A guard that was forgotten holds its lock, and the slot, for good.
    if slot.inside.load(Ordering::Relaxed) == OUTSIDE {
        slot.is_taken.store(false, Ordering::Release);
    }
}
