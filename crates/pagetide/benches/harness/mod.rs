//! Shared parts of the microbenches: interleaved rounds, samples, and a smoke mode for tests.
//!
//! ```text
//!   cargo bench -p pagetide --bench lock     the real sizes, many rounds
//!   cargo test                               the same code, small: does it still run?
//! ```
//!
//! Each round runs every contender once, in alternating order, so that drift affects all contenders
//! alike. Ratios are taken within a round. The checksum of the results keeps the compiler from
//! removing the work.

/// The mode of a bench: real numbers, or a smoke test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Real,
    Smoke,
}

impl Mode {
    /// Cargo passes `--bench` for real numbers.
    pub(crate) fn from_arguments() -> Mode {
        if std::env::args().any(|word| word == "--bench") { Mode::Real } else { Mode::Smoke }
    }

    /// Returns `real`, or `smoke` in a test.
    pub(crate) fn pick<T>(self, real: T, smoke: T) -> T {
        if self == Mode::Real { real } else { smoke }
    }
}

/// One contender's time in each round, in nanoseconds.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// Returns minimum, median and maximum.
    fn spread(&self) -> [f64; 3] {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        [sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1]]
    }

    /// Combines the samples with `other`, round by round.
    pub(crate) fn with(&self, other: &Samples, combine: impl Fn(f64, f64) -> f64) -> Samples {
        Samples(self.0.iter().zip(&other.0).map(|(mine, other)| combine(*mine, *other)).collect())
    }

    pub(crate) fn print(&self, case: &str) {
        let [low, median, high] = self.spread();
        println!("{case:<36} {median:>10.2} ns   {low:.2} to {high:.2}");
    }

    /// Prints the case and the time of `reference` divided by this time. Above 1 is faster.
    pub(crate) fn print_against(&self, case: &str, name: &str, reference: &Samples) {
        self.print(case);
        let [low, median, high] = self.with(reference, |mine, reference| reference / mine).spread();
        println!("{:<36} {median:>10.3} x    {low:.3} to {high:.3}", format!("  {name} over it"));
    }
}

/// A measured operation. Returns nanoseconds per operation.
pub(crate) type Contender<'a> = Box<dyn FnMut() -> f64 + 'a>;

/// Runs each contender once per round. Returns the samples in the given order.
pub(crate) fn interleave<const N: usize>(
    nr_rounds: u32,
    mut contenders: [Contender<'_>; N],
) -> [Samples; N] {
    let mut samples = std::array::from_fn(|_| Samples::default());
    for round in 0..nr_rounds {
        for turn in 0..N {
            let next = if round % 2 == 0 { turn } else { N - 1 - turn };
            samples[next].0.push(contenders[next]());
        }
    }
    samples
}
