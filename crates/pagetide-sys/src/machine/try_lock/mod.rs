//! A lock that is tried, seldom waited for, and costs its usual holder no atomic operation.
//!
//! **Problem.** A per-CPU list is locked for some nanoseconds by one thread, twice a page. The
//! standard mutex is two atomic read-modify-writes each time; even a plain try-lock is one, and
//! that is a third of the whole hit.
//!
//! **Idea.** No thread sleeps: one that finds the lock taken goes elsewhere, and the few that must
//! have it (a drain of all lists) give their time slice away until it is free. Then unlocking is a
//! store. And a thread that had the lock many times in a row keeps a *bias*: it goes in by a store
//! to a word of its own (`slot`) and a look at the lock. Another thread takes the bias away first,
//! which is dear: the kernel puts a fence into every running thread (`real`).
//!
//! ```text
//!   FREE --compare and swap--> HELD --store--> FREE        HELD --store, in a panic--> POISONED
//!                              |  ^
//!          many times in a row v  | compare and swap, fence, and the owner is seen outside
//!                            BIASED(slot of its owner)     (seen inside: BIASED again, no guard)
//!
//!   the owner:   slot = this lock     light fence    is the word still mine?   then inside
//!   another:     word = HELD          heavy fence    is the slot this lock?    if not, inside
//! ```
//!
//! One of the two always sees the other. The row that earns a bias takes ten times as long as
//! taking it away does, so threads which take turns on a CPU lose little by it.
//!
//! **Data and invariants.** S13: the value is reached only by the one guard there is: of the thread
//! that made the word HELD, or of the owner of a bias, whose slot names this lock. Acquire and
//! Release order one guard's accesses before the next one's.
//!
//! **Ignored.** Fairness. A holder that is preempted holds up `lock`, never `try_lock`.
//!
//! Source: quickly reacquirable locks (Dice, Moir, Scherer, 2003); the asymmetric fence is Linux's
//! membarrier(2).

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use crate::sync::{AtomicUsize, Ordering, PlainAtomicU32, PlainAtomicUsize, yield_now};
use slot::Slot;

#[cfg_attr(loom, path = "model.rs")]
#[cfg_attr(not(loom), path = "real.rs")]
mod imp;
mod slot;

// The word of a lock; every other value is the tag of the slot it is biased to.
const FREE: usize = slot::OUTSIDE;
const HELD: usize = 1;
const POISONED: usize = 2;

/// Looks at the lock before the first time slice is given away.
const SPINS: u32 = if cfg!(loom) { 0 } else { 64 };
/// Times in a row that earn a bias: some 80 microseconds of nothing else.
const ROW: u32 = 1 << 13;

/// A value for one thread at a time; most threads do not insist.
pub struct TryLock<T> {
    word: AtomicUsize,
    row: Row,
    value: UnsafeCell<T>,
}

/// The thread that had the lock in a row. Advice only: changed by holders, and harmless if wrong.
struct Row {
    of: PlainAtomicUsize,
    length: PlainAtomicU32,
    wanted: u32,
}

// SAFETY: S13 (one guard at a time): the value moves between threads, and is never shared.
unsafe impl<T: Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    /// Unlocked.
    pub fn new(value: T) -> TryLock<T> {
        // Not later, under the lock: the first time may take the kernel milliseconds.
        imp::is_supported();
        TryLock::with_row(value, ROW)
    }

    fn with_row(value: T, wanted: u32) -> TryLock<T> {
        let (of, length) = (PlainAtomicUsize::new(0), PlainAtomicU32::new(0));
        let row = Row { of, length, wanted };
        TryLock { word: AtomicUsize::new(FREE), row, value: UnsafeCell::new(value) }
    }

    /// The value, unless it is held.
    ///
    /// # Panics
    /// When an earlier holder panicked: the value may be half changed.
    ///
    /// # Cost
    /// One or two nanoseconds for the owner of a bias, an atomic read-modify-write without one;
    /// microseconds where another thread's bias is taken away.
    #[inline]
    pub fn try_lock(&self) -> Option<TryGuard<'_, T>> {
        let guard = self.attempt();
        if guard.is_none() && self.is_poisoned() {
            refuse_poisoned();
        }
        guard
    }

    /// What `look` makes of the value, once it is free; also of one that an earlier holder left
    /// half changed, which is not changed any more. For counts and reports.
    pub fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R
    where
        T: Sync,
    {
        let mut nr_looks = 0;
        loop {
            if let Some(guard) = self.attempt().or_else(|| self.wait_for_owner()) {
                return look(&guard);
            }
            if self.is_poisoned() {
                // SAFETY: S13 (one guard at a time): a poisoned lock gives none, and was left by
                // the one there was; what is lent out here is shared.
                return look(unsafe { &*self.value.get() });
            }
            nr_looks += 1;
            pause(nr_looks);
        }
    }

    fn is_poisoned(&self) -> bool {
        // Acquire: pairs with the Release of the holder that panicked.
        self.word.load(Ordering::Acquire) == POISONED
    }

    #[inline]
    fn attempt(&self) -> Option<TryGuard<'_, T>> {
        let me = slot::mine();
        // Relaxed: a hint, which `enter` checks. Loom is spared a look that can only fail.
        let may_own = !cfg!(loom) || me.is_somebodys();
        if may_own && self.word.load(Ordering::Relaxed) == me.tag() {
            self.enter(me)
        } else {
            self.acquire(me)
        }
    }

    /// What `change` makes of the value, if this thread owns the lock's bias and is in no lock by
    /// one. `None`: nothing was done, and [`TryLock::try_lock`] is what to ask. The shortest way in
    /// there is, for a caller that has a longer way as well.
    ///
    /// # Cost
    /// About a nanosecond.
    #[inline]
    pub fn with_bias<R>(&self, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        let me = slot::mine();
        if self.word.load(Ordering::Relaxed) != me.tag()
            || me.inside.load(Ordering::Relaxed) != slot::OUTSIDE
        {
            return None;
        }
        // As in `enter`, but for the guard: only a panic in `change` ever drops this one.
        me.inside.store(self.tag(), Ordering::Release);
        imp::light();
        if self.word.load(Ordering::Acquire) != me.tag() {
            me.inside.store(slot::OUTSIDE, Ordering::Release);
            return None;
        }
        let mut guard = TryGuard {
            lock: self,
            held_by: &me.inside,
            was_panicking: false,
            of_one_thread: PhantomData,
        };
        let result = change(&mut guard);
        guard.unlock();
        Some(result)
    }

    /// The value, once it is free. Spins, then gives time slices away; never sleeps.
    ///
    /// # Panics
    /// As [`TryLock::try_lock`].
    pub fn lock(&self) -> TryGuard<'_, T> {
        let mut nr_looks = 0;
        loop {
            if let Some(guard) = self.try_lock().or_else(|| self.wait_for_owner()) {
                return guard;
            }
            nr_looks += 1;
            pause(nr_looks);
        }
    }

    /// Takes the bias from another thread that is inside, for good: it is out soon, and not let in
    /// by its bias again.
    #[cold]
    fn wait_for_owner(&self) -> Option<TryGuard<'_, T>> {
        let tag = self.word.load(Ordering::Relaxed);
        if tag <= POISONED || tag == slot::mine().tag() {
            return None;
        }
        let owner = slot::of_tag(tag);
        let mut is_inside = self.take_bias(owner)?;
        let mut nr_looks = 0;
        while is_inside {
            nr_looks += 1;
            pause(nr_looks);
            is_inside = self.is_inside(owner);
        }
        self.taken_from_owner()
    }

    /// By the bias, if it is still this thread's.
    #[inline]
    fn enter(&self, me: &'static Slot) -> Option<TryGuard<'_, T>> {
        if me.inside.load(Ordering::Relaxed) != slot::OUTSIDE {
            return self.revoke(me);
        }
        // Release: a thread that sees the slot leave an earlier lock sees what was done there.
        me.inside.store(self.tag(), Ordering::Release);
        imp::light();
        // Acquire: pairs with the Release that made this thread the owner.
        if self.word.load(Ordering::Acquire) == me.tag() {
            return Some(self.guard(&me.inside));
        }
        me.inside.store(slot::OUTSIDE, Ordering::Release);
        None
    }

    /// By the word.
    #[inline]
    fn acquire(&self, me: &'static Slot) -> Option<TryGuard<'_, T>> {
        // Acquire: pairs with the Release of the last guard's drop.
        match self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Some(self.held_once_more(me)),
            Err(HELD | POISONED) => None,
            Err(tag) => self.revoke(slot::of_tag(tag)),
        }
    }

    /// The guard of the thread that made the word HELD, which may be the last in a row long enough.
    #[inline]
    fn held_once_more(&self, me: &'static Slot) -> TryGuard<'_, T> {
        let row = &self.row;
        if row.of.load(Ordering::Relaxed) != me.tag() {
            row.of.store(me.tag(), Ordering::Relaxed);
            row.length.store(0, Ordering::Relaxed);
        }
        let length = row.length.load(Ordering::Relaxed) + 1;
        row.length.store(length, Ordering::Relaxed);
        if length >= row.wanted {
            return self.bias_to(me);
        }
        self.guard(&self.word)
    }

    /// Makes `me` the owner, from inside. A thread without a slot gets one, and begins a row.
    #[cold]
    fn bias_to(&self, me: &'static Slot) -> TryGuard<'_, T> {
        self.row.length.store(0, Ordering::Relaxed);
        if !me.is_somebodys() {
            slot::take_one();
        }
        if !me.is_somebodys() || me.inside.load(Ordering::Relaxed) != slot::OUTSIDE {
            return self.guard(&self.word);
        }
        me.inside.store(self.tag(), Ordering::Release);
        // Release: pairs with the Acquire of a thread that takes the bias away, which then sees us
        // inside.
        self.word.store(me.tag(), Ordering::Release);
        self.guard(&me.inside)
    }

    /// Takes the bias from `owner`, unless it is inside.
    #[cold]
    fn revoke(&self, owner: &'static Slot) -> Option<TryGuard<'_, T>> {
        if self.take_bias(owner)? {
            // It fails when the owner has panicked meanwhile: so will the next attempt.
            let (give_back, relaxed) = (Ordering::Release, Ordering::Relaxed);
            let _ = self.word.compare_exchange(HELD, owner.tag(), give_back, relaxed);
            return None;
        }
        self.taken_from_owner()
    }

    /// Makes the word HELD, by this thread; says whether the owner is inside all the same. `None`
    /// when it is the owner's no more.
    fn take_bias(&self, owner: &'static Slot) -> Option<bool> {
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        self.word.compare_exchange(owner.tag(), HELD, acquire, relaxed).ok()?;
        imp::heavy();
        Some(self.is_inside(owner))
    }

    fn is_inside(&self, owner: &'static Slot) -> bool {
        // Acquire: pairs with the Release with which the owner left.
        owner.inside.load(Ordering::Acquire) == self.tag()
    }

    /// The guard of the thread that took the bias and saw its owner outside; none if that panicked.
    fn taken_from_owner(&self) -> Option<TryGuard<'_, T>> {
        if self.word.load(Ordering::Relaxed) == POISONED {
            return None;
        }
        Some(self.guard(&self.word))
    }

    fn guard<'a>(&'a self, held_by: &'a AtomicUsize) -> TryGuard<'a, T> {
        let was_panicking = std::thread::panicking();
        TryGuard { lock: self, held_by, was_panicking, of_one_thread: PhantomData }
    }

    /// What a slot says whose thread is in here.
    fn tag(&self) -> usize {
        std::ptr::from_ref(self).addr()
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

/// The right to the value, given back on drop. It stays on its thread, whose slot may name it.
pub struct TryGuard<'a, T> {
    lock: &'a TryLock<T>,
    /// The word that says so: the lock's own, or the owner's slot. 0 gives the right back.
    held_by: &'a AtomicUsize,
    /// The panic began before this guard, and says nothing of the value: a destructor came by.
    was_panicking: bool,
    of_one_thread: PhantomData<*const ()>,
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
        if std::thread::panicking() && !self.was_panicking {
            return self.poison();
        }
        self.held_by.store(FREE, Ordering::Release);
    }
}

impl<T> TryGuard<'_, T> {
    /// Gives the right back without a look for a panic: where none can be under way that began
    /// since it was got.
    #[inline]
    fn unlock(self) {
        let held_by = self.held_by;
        std::mem::forget(self);
        held_by.store(FREE, Ordering::Release);
    }

    /// No thread gets in any more.
    #[cold]
    fn poison(&self) {
        self.lock.word.store(POISONED, Ordering::Release);
        if !std::ptr::eq(self.held_by, &self.lock.word) {
            self.held_by.store(slot::OUTSIDE, Ordering::Release);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(test)]
mod tests;
