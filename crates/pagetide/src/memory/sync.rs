//! The switch between the standard library's locks and loom's model of them, and locking in one
//! word.
//!
//! What loom explores takes its types from here, so that the code explored under `--cfg loom` is
//! the code that ships.
//!
//! A poisoned lock means an assertion failed while core's state was half changed. Going on could
//! hand out wrong bytes, so every later user of that state panics too.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// Locks, and panics if an earlier holder did.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("an earlier panic left this state half changed")
}
