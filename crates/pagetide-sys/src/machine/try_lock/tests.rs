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
        let mut guard = lock.try_lock().expect("it is free");
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
    let nr_rounds = 2000;
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

/// Two words that are only ever changed together, by an owner at full speed and by a thread that
/// takes the bias away again and again.
#[test]
fn an_owner_at_work_and_one_who_takes_its_bias_never_meet() {
    let nr_rounds: u64 = 300_000;
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
            yield_now();
        }
        nr_seen
    });
    assert_eq!(*lock.lock(), (nr_rounds, nr_rounds), "seen {nr_seen} times");
}

#[test]
fn slots_of_threads_that_ended_are_used_again() {
    for _ in 0..300 {
        std::thread::spawn(|| _ = biased(())).join().expect("no panic");
    }
    let lock = biased(());
    assert!(!imp::is_supported() || is_biased(&lock), "the table ran out");
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

#[test]
fn a_destructor_that_comes_by_while_its_thread_panics_harms_nothing() {
    struct ComesBy<'a>(&'a TryLock<u32>);
    impl Drop for ComesBy<'_> {
        fn drop(&mut self) {
            *self.0.lock() += 1;
            assert!(self.0.with_bias(|value| *value += 1).is_none() || is_biased(self.0));
        }
    }
    for wanted in [1, ROW] {
        let lock = TryLock::with_row(0, wanted);
        std::thread::scope(|scope| {
            let holder = scope.spawn(|| {
                let _one = ComesBy(&lock);
                let _two = ComesBy(&lock);
                panic!("outside");
            });
            assert!(holder.join().is_err());
        });
        assert!(*lock.lock() >= 2);
    }
}

#[test]
fn only_the_owner_of_a_bias_is_let_in_by_it() {
    let lock = TryLock::with_row(0, ROW);
    assert_eq!(lock.with_bias(|value| *value += 1), None, "no thread has one yet");
    let lock = biased(0);
    if !is_biased(&lock) {
        eprintln!("SKIPPED: only_the_owner_of_a_bias: the kernel has no membarrier");
        return;
    }
    assert_eq!(lock.with_bias(|value| std::mem::replace(value, 7)), Some(0));
    assert_eq!(lock.with_bias(|_| lock.with_bias(|_| ())), Some(None), "inside already");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(lock.with_bias(|value| *value), None, "another's");
            assert_eq!(*lock.lock(), 7);
        });
    });
    assert_eq!(lock.with_bias(|value| *value), None, "it was taken away");
}

#[test]
fn a_panic_inside_by_bias_is_passed_on() {
    let lock = biased(0);
    if !is_biased(&lock) {
        eprintln!("SKIPPED: a_panic_inside_by_bias: the kernel has no membarrier");
        return;
    }
    let inside = std::panic::AssertUnwindSafe(|| lock.with_bias(|_| panic!("inside")));
    assert!(std::panic::catch_unwind(inside).is_err());
    let next = std::panic::AssertUnwindSafe(|| lock.with_bias(|_| ()).is_some());
    assert_eq!(std::panic::catch_unwind(next).ok(), Some(false));
    let next = std::panic::AssertUnwindSafe(|| lock.try_lock().is_some());
    assert!(std::panic::catch_unwind(next).is_err());
}
