//! Busy waits of a few hundred nanoseconds: what makes DRAM behave like slower memory.
//!
//! Problem: a sleep takes fifty microseconds at least, and reading a clock until the time is over
//! is as coarse as the clock is slow. Idea: count how many turns of an empty loop a nanosecond has,
//! once a process, and make that many.
//!
//! Ignored: what else the processor does meanwhile. A slower clock rate than when it was measured
//! makes waits longer, in proportion.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Turns in one measurement: some 30 us.
const MEASURED_TURNS: u64 = 1 << 16;
/// Measurements; the fastest counts, as nobody came in between there.
const NR_MEASUREMENTS: usize = 16;
/// Turns a nanosecond are kept times this.
const SCALE: u64 = 1 << 16;

/// A wait of a fixed length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delay {
    nr_turns: u64,
}

impl Delay {
    /// Waits of `length`. The first of a process measures the loop, for about a millisecond.
    pub(crate) fn new(length: Duration) -> Delay {
        static TURNS_PER_NS: OnceLock<u64> = OnceLock::new();
        let scaled = *TURNS_PER_NS.get_or_init(measure_turns);
        let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        Delay { nr_turns: length_ns.saturating_mul(scaled) / SCALE }
    }

    /// Waits, using the processor.
    #[inline]
    pub(crate) fn spin(self) {
        turn(self.nr_turns);
    }
}

fn turn(nr_turns: u64) {
    for nth in 0..nr_turns {
        black_box(nth);
    }
}

/// Turns a nanosecond, times [`SCALE`].
fn measure_turns() -> u64 {
    let measure = |_| {
        let started = Instant::now();
        turn(MEASURED_TURNS);
        started.elapsed().as_nanos() as u64
    };
    let least_ns = (0..NR_MEASUREMENTS).map(measure).min().unwrap_or(1).max(1);
    MEASURED_TURNS * SCALE / least_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_about_as_long_as_it_says() {
        for length_ns in [300, 3_000, 100_000] {
            let delay = Delay::new(Duration::from_nanos(length_ns));
            // Others use the processor, too: the shortest of many.
            let waits = (0..200).map(|_| {
                let started = Instant::now();
                delay.spin();
                started.elapsed().as_nanos() as u64
            });
            let least_ns = waits.min().expect("some");
            let range = length_ns * 7 / 10..length_ns * 3 + 200;
            assert!(range.contains(&least_ns), "{least_ns} ns instead of {length_ns}");
        }
    }
}
