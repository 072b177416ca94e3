//! Threads sleep here until a page word is no longer locked or pinned.
//!
//! **Problem.** There may be 2^33 words, and a waiter needs a mutex and a condition variable.
//!
//! **Idea.** All words of the process share a fixed table of buckets, chosen by the word's address.
//! One bit in the word records that a thread waits, so an unlock without waiters skips the table.
//!
//! ```text
//!   waiter                                  holder
//!   lock bucket                             clear LOCK (or drop the last pin)
//!   page still taken? set WAITERS           WAITERS was set?
//!   sleep (gives the bucket up)  <--wake--    lock bucket, clear WAITERS, wake all
//! ```
//!
//! **Invariants.** No wake-up is lost. A waiter sets WAITERS with one compare-and-swap while the
//! page is taken, under the bucket's mutex, and releases the mutex only to sleep. A later unlock
//! sees the bit, and gets the mutex only after the waiter sleeps.
//!
//! **Ignored.** Fairness. Waiters for other words of a bucket wake, check, and sleep again.

use crate::page::word::{PageWord, Snapshot};
use crate::sync::{Condvar, Mutex};

#[derive(Default)]
struct Bucket {
    mutex: Mutex<()>,
    freed: Condvar,
}

/// Sleeps while `waits` is true of the word. `waits` must be false of a free word.
pub(crate) fn wait_while(word: &PageWord, waits: impl Fn(Snapshot) -> bool) {
    let bucket = bucket_of(word);
    let mut guard = bucket.mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    while word.announce_waiter(&waits) {
        guard = bucket.freed.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner());
    }
}

/// Wakes the word's waiters. Called after the word became free, if WAITERS was set.
#[cold]
pub(crate) fn wake(word: &PageWord) {
    let bucket = bucket_of(word);
    let _guard = bucket.mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    word.clear_waiters();
    bucket.freed.notify_all();
}

#[cfg(not(loom))]
fn bucket_of(word: &PageWord) -> &'static Bucket {
    use crossbeam_utils::CachePadded;
    const NR_BUCKETS: usize = 256;
    static BUCKETS: [CachePadded<Bucket>; NR_BUCKETS] =
        [const { CachePadded::new(Bucket { mutex: Mutex::new(()), freed: Condvar::new() }) };
            NR_BUCKETS];
    // Fibonacci hashing spreads adjacent words over the buckets.
    let address = std::ptr::from_ref(word).addr() as u64 >> 3;
    let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - NR_BUCKETS.ilog2());
    &BUCKETS[hash as usize]
}

/// Loom replays executions with different addresses, so all words share one bucket.
#[cfg(loom)]
fn bucket_of(_: &PageWord) -> &'static Bucket {
    loom::lazy_static! {
        static ref BUCKET: Bucket = Bucket::default();
    }
    &BUCKET
}
