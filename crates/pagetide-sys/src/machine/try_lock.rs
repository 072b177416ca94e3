//! A lock for callers that rarely wait.
//!
//! **Problem.** A per-CPU list is locked for nanoseconds, nearly always by one thread. The standard
//! mutex takes two atomic read-modify-writes, and lets threads sleep.
//!
//! **Idea.** A thread that finds the lock held goes elsewhere. The few callers that need the lock
//! (a drain of all lists) yield until it is free. Unlocking is a store.
//!
//! ```text
//!   FREE --compare and swap--> HELD --store--> FREE        HELD --store, in a panic--> POISONED
//! ```
//!
//! **Data and invariants.** S13: only the guard of the thread that set the word to HELD reaches the
//! value. Acquire and Release order the accesses of successive guards.
//!
//! **Ignored.** Fairness. A preempted holder delays `lock`, never `try_lock`.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use crate::sync::{AtomicU32, Ordering, yield_now};

const FREE: u32 = 0;
const HELD: u32 = 1;
const POISONED: u32 = 2;

/// Attempts before the first yield.
const SPINS: u32 = if cfg!(loom) { 0 } else { 64 };

/// A value for one thread at a time.
pub struct TryLock<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: S13 (one guard at a time): the value moves between threads, and is never shared.
unsafe impl<T: Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    /// Makes an unlocked value.
    pub fn new(value: T) -> TryLock<T> {
        TryLock { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Locks the value if it is free.
    ///
    /// # Panics
    /// If an earlier holder panicked, since the value may be half changed.
    ///
    /// # Cost
    /// One atomic read-modify-write. Unlocking is a store.
    #[inline]
    pub fn try_lock(&self) -> Option<TryGuard<'_, T>> {
        let guard = self.attempt();
        if guard.is_none() && self.is_poisoned() {
            refuse_poisoned();
        }
        guard
    }

    /// Waits for the lock, and calls `look`, even with a poisoned value. For counts and reports.
    pub fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R
    where
        T: Sync,
    {
        let mut nr_looks = 0;
        loop {
            if let Some(guard) = self.attempt() {
                return look(&guard);
            }
            if self.is_poisoned() {
                // SAFETY: S13 (one guard at a time): a poisoned lock gives no guard, and its last
                // guard is gone. The reference is shared.
                return look(unsafe { &*self.value.get() });
            }
            nr_looks += 1;
            pause(nr_looks);
        }
    }

    /// Waits for the lock: spins, then yields. Never sleeps.
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

    #[inline]
    fn attempt(&self) -> Option<TryGuard<'_, T>> {
        // Acquire: pairs with the Release of the last guard's drop.
        let got = self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed);
        let was_panicking = std::thread::panicking();
        // `then_some` would make the guard, and drop it, on failure too.
        got.is_ok().then(|| TryGuard { lock: self, was_panicking, value: PhantomData })
    }

    fn is_poisoned(&self) -> bool {
        // Acquire: pairs with the Release of the panicked holder.
        self.word.load(Ordering::Acquire) == POISONED
    }
}

#[cold]
fn refuse_poisoned() -> ! {
    panic!("an earlier panic left this state half changed")
}

fn pause(nr_looks: u32) {
    if nr_looks < SPINS { std::hint::spin_loop() } else { yield_now() }
}

impl<T> fmt::Debug for TryLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TryLock(..)")
    }
}

/// Exclusive access to the value until drop.
pub struct TryGuard<'a, T> {
    lock: &'a TryLock<T>,
    /// True if the panic began before this guard, and did not interrupt a change of the value.
    was_panicking: bool,
    /// `Sync` only if the value is.
    value: PhantomData<&'a mut T>,
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
        let is_poisoned = std::thread::panicking() && !self.was_panicking;
        // Release: pairs with the Acquire of the next guard.
        self.lock.word.store(if is_poisoned { POISONED } else { FREE }, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn one_guard_at_a_time() {
        let lock = TryLock::new(1);
        let mut guard = lock.try_lock().expect("it is free");
        *guard += 1;
        assert!(lock.try_lock().is_none());
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(lock.try_lock().is_none()));
        });
        drop(guard);
        assert_eq!(*lock.lock(), 2);
    }

    #[test]
    fn threads_that_insist_all_get_it() {
        let nr_rounds = 20_000;
        let lock = TryLock::new((0_u32, 0_u32));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..nr_rounds {
                        let mut guard = lock.lock();
                        guard.0 += 1;
                        assert_eq!(guard.0, guard.1 + 1);
                        guard.1 += 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), (3 * nr_rounds, 3 * nr_rounds));
    }

    #[test]
    fn a_panic_inside_is_passed_on_but_the_value_can_be_looked_at() {
        let lock = TryLock::new(7);
        let inside = AssertUnwindSafe(|| {
            let _guard = lock.lock();
            panic!("inside");
        });
        assert!(catch_unwind(inside).is_err());
        let next = catch_unwind(AssertUnwindSafe(|| lock.try_lock().is_some()));
        let message = next.expect_err("the value may be half changed");
        assert!(message.downcast_ref::<&str>().expect("a text").contains("half changed"));
        assert_eq!(lock.look(|value| *value), 7);
    }

    #[test]
    fn a_destructor_that_comes_by_while_its_thread_panics_harms_nothing() {
        struct ComesBy<'a>(&'a TryLock<u32>);
        impl Drop for ComesBy<'_> {
            fn drop(&mut self) {
                *self.0.lock() += 1;
            }
        }
        let lock = TryLock::new(0);
        let outside = AssertUnwindSafe(|| {
            let _comes_by = ComesBy(&lock);
            panic!("outside");
        });
        assert!(catch_unwind(outside).is_err());
        assert_eq!(*lock.lock(), 1);
    }
}

/// All interleavings of two threads in the lock.
///
/// Run: `RUSTFLAGS="--cfg loom" cargo test -p pagetide-sys --release --lib loom`.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32 as Word;

    /// Adds to a word that only the lock orders: relaxed on purpose.
    fn add(shared: &(TryLock<()>, Word), guard: Option<TryGuard<'_, ()>>) -> u32 {
        if guard.is_none() {
            return 0;
        }
        let before = shared.1.load(Ordering::Relaxed);
        shared.1.store(before + 1, Ordering::Relaxed);
        1
    }

    #[test]
    fn loom_two_holders_never_meet_and_pass_their_writes_on() {
        loom::model(|| {
            let shared = Arc::new((TryLock::new(()), Word::new(0)));
            let other = {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || add(&shared, Some(shared.0.lock())))
            };
            let mine = add(&shared, shared.0.try_lock());
            let theirs = other.join().expect("no panic");
            let _guard = shared.0.lock();
            assert_eq!(shared.1.load(Ordering::Relaxed), mine + theirs, "an increment got lost");
        });
    }
}
