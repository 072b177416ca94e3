//! The lock with real threads: biases given, used, and taken away.

use super::*;
use std::sync::Barrier;

fn is_biased<T>(lock: &TryLock<T>) -> bool {
    lock.word.load(Ordering::Relaxed) > POISONED
}

/// A lock that this thread is the owner of, unless the system has no such fence.
fn biased<T>(value: T) -> TryLock<T> {
    let lock = TryLock::with_row(value, 2);
    (0..6).for_each(|_| drop(lock.lock()));
    if !is_biased(&lock) {
        eprintln!("SKIPPED: a biased lock: no membarrier here, or no slot left");
    }
    lock
}

#[test]
fn one_guard_at_a_time() {
    for lock in [TryLock::new(1), biased(1)] {
        let mut guard = lock.try_lock().expect("nobody has it");
        *guard += 1;
        assert!(lock.try_lock().is_none());
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(lock.try_lock().is_none()));
        });
        drop(guard);
        assert_eq!(*lock.lock(), 2);
    }
}

#[test]
fn many_times_in_a_row_are_a_bias_until_another_thread_comes() {
    let lock = biased(0);
    let was_biased = is_biased(&lock);
    *lock.lock() += 1;
    assert_eq!(is_biased(&lock), was_biased, "its owner's visits leave it alone");
    std::thread::scope(|scope| {
        scope.spawn(|| *lock.lock() += 1);
    });
    assert!(!is_biased(&lock));
    assert_eq!(*lock.lock(), 2);
}

#[test]
fn an_owner_inside_one_lock_gets_into_another_of_its_own() {
    let (one, two) = (biased(1), biased(2));
    let (first, second) = (one.lock(), two.lock());
    assert_eq!((*first, *second), (1, 2));
    assert!(one.try_lock().is_none() && two.try_lock().is_none());
    drop(first);
    assert!(one.try_lock().is_some() && two.try_lock().is_none());
}

#[test]
fn threads_that_insist_all_get_it() {
    let nr_rounds = if cfg!(miri) { 20 } else { 2000 };
    for wanted in [1, 3, ROW] {
        let lock = TryLock::with_row(0_u32, wanted);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    (0..nr_rounds).for_each(|_| *lock.lock() += 1);
                });
            }
        });
        assert_eq!(*lock.lock(), 3 * nr_rounds);
    }
}

/// Two words that are only ever changed together, by an owner at full speed and by one who takes
/// the bias away again and again.
#[test]
fn an_owner_at_work_and_one_who_takes_its_bias_never_meet() {
    let nr_rounds: u64 = if cfg!(miri) { 30 } else { 300_000 };
    let lock = TryLock::with_row((0_u64, 0_u64), 4);
    let start = Barrier::new(2);
    let nr_seen = std::thread::scope(|scope| {
        scope.spawn(|| {
            start.wait();
            for _ in 0..nr_rounds {
                let mut guard = lock.lock();
                guard.0 += 1;
                guard.1 += 1;
            }
        });
        start.wait();
        let mut nr_seen = 0;
        while lock.lock().0 < nr_rounds {
            let guard = lock.lock();
            assert_eq!(guard.0, guard.1);
            nr_seen += 1;
            drop(guard);
            // Time for the owner to become it again.
            (0..100).for_each(|_| std::hint::spin_loop());
            std::thread::yield_now();
        }
        nr_seen
    });
    assert_eq!(*lock.lock(), (nr_rounds, nr_rounds), "seen {nr_seen} times");
}

#[test]
fn slots_of_threads_that_ended_are_used_again() {
    let nr_threads = if cfg!(miri) { 4 } else { 300 };
    for _ in 0..nr_threads {
        std::thread::spawn(|| _ = biased(())).join().expect("no panic");
    }
    let lock = biased(());
    assert!(cfg!(miri) || !barrier::is_supported() || is_biased(&lock), "the table ran out");
}

#[test]
fn a_panic_inside_is_passed_on() {
    for wanted in [1, ROW] {
        let lock = TryLock::with_row((), wanted);
        std::thread::scope(|scope| {
            let holder = scope.spawn(|| {
                (0..6).for_each(|_| drop(lock.lock()));
                let _guard = lock.lock();
                panic!("inside");
            });
            assert!(holder.join().is_err());
        });
        let next =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lock.try_lock().is_some()));
        let message = next.expect_err("the value may be half changed");
        assert!(message.downcast_ref::<&str>().expect("a text").contains("half changed"));
    }
}
