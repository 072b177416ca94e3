//! What the microbenches share: measuring by turns, samples, and a smoke mode for tests.
//!
//! ```text
//!   cargo bench -p pagetide --bench lock     the real sizes, many rounds
//!   cargo test                               the same code, small: does it still run?
//! ```
//!
//! Contenders run once a round, in turned order every other round, so that a drift of the machine
//! meets all alike; ratios are taken within a round. The checksum at the end is of what the
//! measured code did: it keeps the compiler from leaving the work out.

/// How long a bench measures: for numbers, or to see that it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Real,
    Smoke,
}

impl Mode {
    /// Cargo says `--bench` where numbers are wanted.
    pub(crate) fn from_arguments() -> Mode {
        if std::env::args().any(|word| word == "--bench") { Mode::Real } else { Mode::Smoke }
    }

    /// `real`, or `smoke` in a test.
    pub(crate) fn pick<T>(self, real: T, smoke: T) -> T {
        if self == Mode::Real { real } else { smoke }
    }
}

/// What one contender took in each round, in nanoseconds.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// The least, the middle and the most.
    fn spread(&self) -> [f64; 3] {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        [sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1]]
    }

    /// What follows from this one and `other`, round by round.
    pub(crate) fn with(&self, other: &Samples, combine: impl Fn(f64, f64) -> f64) -> Samples {
        Samples(self.0.iter().zip(&other.0).map(|(mine, other)| combine(*mine, *other)).collect())
    }

    /// Prints the line of a case.
    pub(crate) fn print(&self, case: &str) {
        let [low, median, high] = self.spread();
        println!("{case:<36} {median:>10.2} ns   {low:.2} to {high:.2}");
    }

    /// The same, with the time of `reference` over this one's: above 1 is faster than it.
    pub(crate) fn print_against(&self, case: &str, name: &str, reference: &Samples) {
        self.print(case);
        let [low, median, high] = self.with(reference, |mine, reference| reference / mine).spread();
        println!("{:<36} {median:>10.3} x    {low:.3} to {high:.3}", format!("  {name} over it"));
    }
}

/// Something that is measured: returns nanoseconds an operation.
pub(crate) type Contender<'a> = Box<dyn FnMut() -> f64 + 'a>;

/// Runs each contender once a round; returns their samples in the order given.
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
