//! Every order in which two threads can meet in the lock, with and without a bias.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p pagetide-sys --release --lib loom`.

use super::*;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32 as Word;
use loom::thread;

/// A lock that wants a row of `wanted`, and a word that only it orders: relaxed on purpose.
struct Shared {
    lock: TryLock<()>,
    word: Word,
}

impl Shared {
    fn new(wanted: u32) -> Arc<Shared> {
        Arc::new(Shared { lock: TryLock::with_row((), wanted), word: Word::new(0) })
    }

    fn add(&self) {
        self.add_under(self.lock.lock());
    }

    /// Returns what was added: nothing where another thread has the lock.
    fn try_to_add(&self) -> u32 {
        let guard = self.lock.try_lock();
        guard.map_or(0, |guard| {
            self.add_under(guard);
            1
        })
    }

    fn add_under(&self, guard: TryGuard<'_, ()>) {
        let before = self.word.load(Ordering::Relaxed);
        self.word.store(before + 1, Ordering::Relaxed);
        drop(guard);
    }

    fn check(&self, sum: u32) {
        let _guard = self.lock.lock();
        assert_eq!(self.word.load(Ordering::Relaxed), sum, "an increment got lost");
    }
}

fn explore(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(test);
}

#[test]
fn loom_two_holders_never_meet_and_pass_their_writes_on() {
    loom::model(|| {
        let shared = Shared::new(ROW);
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.add())
        };
        shared.add();
        other.join().expect("no panic");
        shared.check(2);
    });
}

/// The owner goes in by its bias twice, while the other takes the bias away.
#[test]
fn loom_an_owner_and_who_takes_its_bias_never_meet() {
    explore(3, || {
        let shared = Shared::new(1);
        // A slot, then the bias.
        shared.add();
        shared.add();
        assert!(shared.lock.word.load(Ordering::Relaxed) > POISONED, "biased");
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.add())
        };
        shared.add();
        shared.add();
        other.join().expect("no panic");
        shared.check(5);
    });
}

/// An owner of long ago, stopped between its two looks, does not disturb the next owner, nor the
/// thread that takes the bias from that one.
#[test]
fn loom_an_earlier_owner_disturbs_nobody() {
    explore(2, || {
        let shared = Shared::new(1);
        shared.add();
        shared.add();
        let next_owner = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                (0..3).for_each(|_| shared.add());
            })
        };
        let third = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.try_to_add())
        };
        let mine = shared.try_to_add();
        next_owner.join().expect("no panic");
        let theirs = third.join().expect("no panic");
        shared.check(5 + mine + theirs);
    });
}

/// A thread that only tries never waits for an owner inside, and leaves it its bias.
#[test]
fn loom_a_try_finds_the_owner_inside_or_gets_in() {
    explore(3, || {
        let shared = Shared::new(1);
        shared.add();
        shared.add();
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.try_to_add())
        };
        let mine = shared.try_to_add();
        let theirs = other.join().expect("no panic");
        shared.check(2 + mine + theirs);
    });
}
