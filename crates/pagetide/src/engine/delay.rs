//! Busy waits of a few hundred nanoseconds, to emulate slow memory. Problem: a sleep takes at least
//! 50 us, and a calibrated empty loop varies with the clock rate. Idea: poll the clock.

use std::time::{Duration, Instant};

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
