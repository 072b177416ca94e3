//! The switch between the standard library's locks and loom's model, for the frames. The rest of
//! the crate compiles under loom, but is not explored.

use crate::memory::locks::POISONED;

#[cfg(loom)]
use loom::sync as world;
#[cfg(not(loom))]
use std::sync as world;

pub(super) use world::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

#[inline]
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect(POISONED)
}
