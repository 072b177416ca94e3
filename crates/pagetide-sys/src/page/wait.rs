//! Waiting for a page: a thread that finds its word locked or pinned sleeps here until it is free.
//!
//! **Problem.** There may be 2^33 words, and a waiter needs a mutex and a condition variable.
//!
//! **Idea.** A fixed table of both, shared by all words of the process and chosen by the word's
//! address; one bit in the word says that a thread waits, so that an unlock without waiters never
//! comes here.
//!
//! ```text
//!   waiter                                  holder
//!   lock bucket                             clear LOCK (or drop the last pin)
//!   page still taken? set WAITERS           WAITERS was set?
//!   sleep (gives the bucket up)  <--wake--    lock bucket, clear WAITERS, wake all
//! ```
//!
//! **Invariants.** No wake-up is lost: WAITERS is set only while the page is taken, by one
//! compare-and-swap, under the bucket's mutex, which the waiter gives up only by sleeping. So a
//! holder that lets go later sees the bit, and gets the mutex only once the waiter sleeps.
//!
//! **Ignored.** Fairness, and waiters for other words of a bucket: they wake, look, and sleep
//! again.

use crate::page::word::{PageWord, Snapshot};
use crate::sync::{Condvar, Mutex};

#[derive(Default)]
struct Bucket {
    mutex: Mutex<()>,
    freed: Condvar,
}

/// Sleeps until `waits` is false of the word; it must be false of a free word.
pub(crate) fn wait_while(word: &PageWord, waits: impl Fn(Snapshot) -> bool) {
    let bucket = bucket_of(word);
    let mut guard = bucket.mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    while word.announce_waiter(&waits) {
        guard = bucket.freed.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner());
    }
}

/// Wakes the threads that wait for the word; called after it became free, if WAITERS was set.
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
    // Fibonacci hashing: neighbouring words go to different buckets.
    let address = std::ptr::from_ref(word).addr() as u64 >> 3;
    let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - NR_BUCKETS.ilog2());
    &BUCKETS[hash as usize]
}

/// Loom replays executions, and addresses differ between them: all words share one bucket.
#[cfg(loom)]
fn bucket_of(_: &PageWord) -> &'static Bucket {
    loom::lazy_static! {
        static ref BUCKET: Bucket = Bucket::default();
    }
    &BUCKET
}
