//! An in-place sort of four times the memory.
//!
//!   cargo run --release -p pagetide --example sort_larger_than_memory
//!
//! Needs Linux 5.7 or newer with userfaultfd allowed.

use pagetide::{Bytes, PageCache, RegionOptions};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const LIMIT: Bytes = Bytes(1 << 20);
const CONTENTS: Bytes = Bytes(4 << 20);

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = PageCache::builder().memory(LIMIT).build()?;
    // Evicted pages go to an unnamed file in TMPDIR.
    let numbers = cache.region(RegionOptions::anonymous(CONTENTS))?;
    let words = numbers.words();

    let mut state = 1_u64;
    for word in words {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        word.store(state, Relaxed);
    }
    sort(words);
    assert!(words.is_sorted_by(|a, b| a.load(Relaxed) <= b.load(Relaxed)));

    let stats = numbers.stats();
    assert!(stats.resident_bytes <= LIMIT.0);
    println!("{} numbers sorted in {LIMIT}, {CONTENTS} of them", words.len());
    println!("{} faults on absent pages", stats.missing_faults);
    Ok(())
}

/// Quicksort. Each pass is sequential, which reads ahead. A part that fits into memory stays there
/// until it is sorted.
fn sort(mut words: &[AtomicU64]) {
    let swap = |words: &[AtomicU64], a: usize, b: usize| {
        let word = words[a].load(Relaxed);
        words[a].store(words[b].load(Relaxed), Relaxed);
        words[b].store(word, Relaxed);
    };
    while let Some(last) = words.len().checked_sub(1).filter(|last| *last > 0) {
        swap(words, last / 2, last);
        let (pivot, mut nr_less) = (words[last].load(Relaxed), 0);
        for at in 0..last {
            if words[at].load(Relaxed) < pivot {
                swap(words, at, nr_less);
                nr_less += 1;
            }
        }
        swap(words, nr_less, last);
        let (lower, higher) = (&words[..nr_less], &words[nr_less + 1..]);
        let is_lower_shorter = lower.len() < higher.len();
        sort(if is_lower_shorter { lower } else { higher });
        words = if is_lower_shorter { higher } else { lower };
    }
}
