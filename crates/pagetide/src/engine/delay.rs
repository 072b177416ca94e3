//! Busy waits of a few hundred nanoseconds: what makes DRAM behave like slower memory.
//!
//! Problem: a sleep takes fifty microseconds at least, and turns of an empty loop, counted
//! beforehand, are as long as the processor is slow just then: of 300 ns, 190 were left once.
//! Idea: read the clock until the time is over.
//!
//! A wait is never shorter than it says, and longer by about one reading of the clock: some 30 ns
//! where a reading takes 35.

use std::time::{Duration, Instant};

/// Waits for `length`, using the processor.
#[inline]
pub(crate) fn spin(length: Duration) {
    let started = Instant::now();
    while started.elapsed() < length {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_never_shorter_than_it_says() {
        for length in [300, 3_000, 100_000].map(Duration::from_nanos) {
            let waits = (0..200).map(|_| {
                let started = Instant::now();
                spin(length);
                started.elapsed()
            });
            let least = waits.min().expect("some");
            assert!(least >= length, "{least:?} instead of {length:?}");
        }
    }
}
