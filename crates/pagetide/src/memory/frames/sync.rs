//! The switch between the standard library's locks and loom's model of them, for the frames.
//!
//! What loom explores takes its types from here, so that the code explored under `--cfg loom` is
//! the code that ships. The rest of the crate compiles under loom as it is, and is not explored.

use crate::memory::locks::POISONED;

#[cfg(loom)]
use loom::sync as world;
#[cfg(not(loom))]
use std::sync as world;

pub(super) use world::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// Locks, and panics if an earlier holder did.
#[inline]
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect(POISONED)
}
