//! Alternating measurements and their statistics.
//!
//! ```text
//!   round 1: a b c   round 2: c b a  ...     each letter its own Samples
//! ```
//!
//! Drift and after-effects hit all contenders alike. Ratios are taken within a round.

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::terminal::Progress;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Nanoseconds per operation, one per round.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Samples(Vec<f64>);

impl From<Vec<f64>> for Samples {
    fn from(samples: Vec<f64>) -> Samples {
        Samples(samples)
    }
}

impl Samples {
    pub(super) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match sorted.len() % 2 {
            _ if sorted.is_empty() => f64::NAN,
            0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
            _ => sorted[middle],
        }
    }

    pub(super) fn range(&self) -> (Option<f64>, Option<f64>) {
        let samples = || self.0.iter().copied();
        (samples().reduce(f64::min), samples().reduce(f64::max))
    }

    pub(super) fn means_of(&self, nr: u32) -> Samples {
        let mean = |some: &[f64]| some.iter().sum::<f64>() / some.len() as f64;
        Samples(self.0.chunks(nr as usize).map(mean).collect())
    }

    /// Returns `other` / `self` per round.
    pub(super) fn ratios_to(&self, other: &Samples) -> Samples {
        self.with(other, |subject, reference| reference / subject)
    }

    pub(super) fn with(&self, other: &Samples, combine: impl Fn(f64, f64) -> f64) -> Samples {
        Samples(self.0.iter().zip(&other.0).map(|(mine, other)| combine(*mine, *other)).collect())
    }
}

/// Returns nanoseconds per operation.
pub(super) type TimedRun<'a> = Box<dyn FnMut() -> Result<f64, Failure> + 'a>;

/// Runs each contender once a round, in reverse order every second round.
pub(super) fn interleave<const N: usize>(
    label: &str,
    nr_rounds: u32,
    interrupt: &Interrupt,
    timed_runs: [TimedRun<'_>; N],
) -> Result<[Samples; N], Failure> {
    let samples = interleave_all(label, nr_rounds, interrupt, timed_runs.into())?;
    Ok(samples.try_into().expect("each contender has its samples"))
}

pub(super) fn interleave_all(
    label: &str,
    nr_rounds: u32,
    interrupt: &Interrupt,
    mut timed_runs: Vec<TimedRun<'_>>,
) -> Result<Vec<Samples>, Failure> {
    let progress = Progress::new(label.to_owned());
    let mut samples = vec![Samples::default(); timed_runs.len()];
    let nr = timed_runs.len();
    for round in 0..nr_rounds {
        for turn in 0..nr {
            interrupt.check()?;
            let next = if round % 2 == 0 { turn } else { nr - 1 - turn };
            samples[next].0.push(timed_runs[next]()?);
        }
        progress.set(f64::from(round + 1) / f64::from(nr_rounds));
    }
    interrupt.check()?;
    Ok(samples)
}

/// The fastest run counts, because other programs disturb the machine.
const SHORT_RUNS: u32 = 50;
/// With a quick bench's duration, there are fewer runs.
const SHORT_RUN_MIN: Duration = Duration::from_millis(2);

/// Returns the fastest of many runs that share `duration`.
pub(super) fn fastest_of(
    duration: Duration,
    mut run: impl FnMut(Duration) -> Result<f64, Failure>,
) -> Result<f64, Failure> {
    let nr_whole = (duration.as_millis() / SHORT_RUN_MIN.as_millis()) as u32;
    let nr_runs = nr_whole.clamp(1, SHORT_RUNS);
    let mut runs = (0..nr_runs).map(|_| run(duration / nr_runs));
    runs.try_fold(f64::INFINITY, |fastest, time| Ok(fastest.min(time?)))
}

/// Pins this thread if possible.
pub(super) fn stay_on(cpu: u32) {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(cpu as usize);
    let _ = rustix::thread::sched_setaffinity(None, &cpus);
}

/// Runs `operate` on a thread per state, reading the clock once per `batch` operations. Returns a
/// thread's nanoseconds per operation, the mean over threads.
pub(super) fn time_threads<S: Send>(
    (duration, batch): (Duration, u32),
    states: Vec<S>,
    operate: impl Fn(&mut S) -> Result<(), Failure> + Sync,
) -> Result<f64, Failure> {
    let barrier = Barrier::new(states.len());
    let (barrier, operate) = (&barrier, &operate);
    let thread_main = move |mut state: S| -> Result<f64, Failure> {
        barrier.wait();
        let start = Instant::now();
        let mut nr_operations = 0_u64;
        loop {
            for _ in 0..batch {
                operate(&mut state)?;
            }
            nr_operations += u64::from(batch);
            let elapsed = start.elapsed();
            if elapsed >= duration {
                black_box(&mut state);
                return Ok(elapsed.as_nanos() as f64 / nr_operations as f64);
            }
        }
    };
    let outcomes: Vec<Result<f64, Failure>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            states.into_iter().map(|state| scope.spawn(move || thread_main(state))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a measured thread does not panic"))
            .collect()
    });
    let times = outcomes.into_iter().collect::<Result<Vec<f64>, _>>()?;
    Ok(times.iter().sum::<f64>() / times.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle() {
        assert_eq!(Samples(vec![3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(Samples(vec![4.0, 1.0, 2.0, 3.0]).median(), 2.5);
        assert!(Samples::default().median().is_nan());
    }

    #[test]
    fn turns_of_a_round_are_one_sample() {
        assert_eq!(Samples(vec![1.0, 3.0, 5.0, 9.0]).means_of(2), Samples(vec![2.0, 7.0]));
        assert_eq!(Samples(vec![1.0, 3.0]).means_of(1), Samples(vec![1.0, 3.0]));
    }

    #[test]
    fn rounds_take_turns() {
        let order = std::cell::RefCell::new(Vec::new());
        let timed_run = |name: u8| -> TimedRun<'_> {
            let order = &order;
            Box::new(move || {
                order.borrow_mut().push(name);
                Ok(f64::from(name))
            })
        };
        let [one, two] = interleave("", 2, &Interrupt::default(), [timed_run(1), timed_run(2)])
            .expect("no failure");
        assert_eq!(*order.borrow(), [1, 2, 2, 1]);
        assert_eq!(one.ratios_to(&two), Samples(vec![2.0, 2.0]));
    }

    #[test]
    fn failure_of_one_thread_is_the_failure_of_all() {
        let outcome = time_threads((Duration::from_millis(1), 1), vec![0, 1], |state| {
            if *state == 1 { Err(Failure::Refused("no".to_owned())) } else { Ok(()) }
        });
        assert!(outcome.is_err());
    }
}
