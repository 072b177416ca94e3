//! A lock that is tried, seldom waited for, and costs one atomic operation.
//!
//! **Problem.** A per-CPU list is locked for some nanoseconds by one thread, twice a page. The
//! standard mutex has to ask at unlock whether somebody sleeps, which is a second atomic
//! read-modify-write: half of the whole hit.
//!
//! **Idea.** Nobody sleeps. Who finds the lock taken goes elsewhere; the few who must have it (a
//! drain of all lists) give their time slice away until it is free. Then unlocking is a store.
//!
//! ```text
//!   FREE --compare and swap--> HELD --store--> FREE        HELD --store, in a panic--> POISONED
//! ```
//!
//! **Data and invariants.** S13: the value is reached only by the one guard there is while the word
//! says HELD; Acquire and Release order one guard's accesses before the next one's.
//!
//! **Ignored.** Fairness. A holder that is preempted holds up `lock`, never `try_lock`.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::sync::{AtomicU32, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;
const POISONED: u32 = 2;

/// Looks at the lock before the first time slice is given away.
const SPINS: u32 = 64;

/// A value for one thread at a time, most of whom do not insist.
pub struct TryLock<T> {
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: S13 (one guard at a time): the value moves between threads, and is never shared.
unsafe impl<T: Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    /// Unlocked.
    pub fn new(value: T) -> TryLock<T> {
        TryLock { state: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// The value, unless somebody has it.
    ///
    /// # Panics
    /// When an earlier holder panicked: the value may be half changed.
    #[inline]
    pub fn try_lock(&self) -> Option<TryGuard<'_, T>> {
        // Acquire: pairs with the Release of the last guard's drop.
        match self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Some(TryGuard { lock: self }),
            Err(state) => {
                assert!(state != POISONED, "an earlier panic left this state half changed");
                None
            }
        }
    }

    /// The value, once nobody else has it. Spins, then gives time slices away; never sleeps.
    ///
    /// # Panics
    /// As [`TryLock::try_lock`].
    pub fn lock(&self) -> TryGuard<'_, T> {
        let mut nr_looks = 0;
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            nr_looks += 1;
            pause(nr_looks);
        }
    }
}

#[cfg(not(loom))]
fn pause(nr_looks: u32) {
    if nr_looks < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
}

#[cfg(loom)]
fn pause(nr_looks: u32) {
    let _ = nr_looks < SPINS;
    loom::thread::yield_now();
}

impl<T> fmt::Debug for TryLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TryLock(..)")
    }
}

/// The right to the value, given back on drop.
pub struct TryGuard<'a, T> {
    lock: &'a TryLock<T>,
}

impl<T> Deref for TryGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: S13 (one guard at a time): this one, borrowed shared.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for TryGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: S13 (one guard at a time): this one, borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for TryGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let state = if std::thread::panicking() { POISONED } else { FREE };
        self.lock.state.store(state, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_guard_at_a_time() {
        let lock = TryLock::new(1);
        let mut guard = lock.try_lock().expect("nobody has it");
        *guard += 1;
        assert!(lock.try_lock().is_none());
        drop(guard);
        assert_eq!(*lock.lock(), 2);
    }

    #[test]
    fn threads_that_insist_all_get_it() {
        let lock = TryLock::new(0_u32);
        let nr_rounds = if cfg!(miri) { 20 } else { 2000 };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..nr_rounds).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), 3 * nr_rounds);
    }

    #[test]
    #[should_panic(expected = "half changed")]
    fn a_panic_inside_is_passed_on() {
        let lock = TryLock::new(());
        std::thread::scope(|scope| {
            let holder = scope.spawn(|| {
                let _guard = lock.lock();
                panic!("inside");
            });
            assert!(holder.join().is_err());
        });
        lock.try_lock();
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32 as Word;

    /// Run: `RUSTFLAGS="--cfg loom" cargo test -p pagetide-sys --release --lib loom`.
    #[test]
    fn loom_two_holders_never_meet_and_pass_their_writes_on() {
        loom::model(|| {
            // Relaxed on purpose: only the lock orders it.
            let shared = Arc::new((TryLock::new(()), Word::new(0)));
            let add = |shared: &(TryLock<()>, Word)| {
                let _guard = shared.0.lock();
                let before = shared.1.load(Ordering::Relaxed);
                shared.1.store(before + 1, Ordering::Relaxed);
            };
            let other = {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || add(&shared))
            };
            add(&shared);
            other.join().expect("no panic");
            let _guard = shared.0.try_lock().expect("both are done");
            assert_eq!(shared.1.load(Ordering::Relaxed), 2, "an increment got lost");
        });
    }
}
