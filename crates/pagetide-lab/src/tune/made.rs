//! Traces made up from a seed: the habits that policies are argued with, in pure form.
//!
//! ```text
//!   zipf      skewed, and never changing                      frequency wins
//!   zscan     every second access to a page never seen again  probation wins
//!   loop      one and a half memories, round and round        nothing but keeping a part helps
//!   shift     four skewed sets, one after the other           what was hot must go
//!   zigzag    up and down, one and a half memories            recency wins
//!   slide     new pages, and looks back at not so new ones    recency wins
//! ```

use crate::random::Random;
use crate::scenario::zipf::Zipf;
use crate::trace::DenseTrace;

/// A trace that is made, by habit. Sizes are in pages.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Made {
    /// Zipf's popularity over 1,000,000 pages, 5,000,000 accesses.
    Zipf {
        /// The exponent.
        skew: f64,
    },
    /// As zipf 0.9, but every second access goes to a page never seen again.
    ZipfAndScan,
    /// 30,000 pages in order, 50 times.
    Loop,
    /// Zipf 0.9 over 40,000 fresh pages, 500,000 accesses; four times.
    Shift,
    /// 0 up to 29,999 and down again, 25 times.
    Zigzag,
    /// Every fourth access to the next page, the others as far back from there as Pareto says: half
    /// of them farther than 2,000 pages, one in ten farther than 20,000; 2,000,000 accesses.
    Slide,
}

const SEED: u64 = 42;
const UNIVERSE: u32 = 1_000_000;
const NR_ACCESSES: u64 = 5_000_000;
const LOOP_PAGES: u64 = 30_000;
const ROUNDS: u64 = 50;
const SLIDES: u64 = 2_000_000;
const LOOK_BACK_MIN: f64 = 1000.0;
const LOOK_BACK_SHAPE: f64 = 1.0;

impl Made {
    /// The trace.
    pub fn trace(self) -> DenseTrace {
        let mut random = Random::new(SEED);
        match self {
            Made::Zipf { skew } => {
                let zipf = Zipf::new(&mut random, UNIVERSE, skew);
                DenseTrace::from_reads((0..NR_ACCESSES).map(|_| zipf.next(&mut random).into()))
            }
            Made::ZipfAndScan => {
                let zipf = Zipf::new(&mut random, UNIVERSE, 0.9);
                DenseTrace::from_reads((0..NR_ACCESSES).map(|at| {
                    if at % 2 == 0 {
                        zipf.next(&mut random).into()
                    } else {
                        u64::from(UNIVERSE) + at
                    }
                }))
            }
            Made::Loop => {
                DenseTrace::from_reads((0..LOOP_PAGES * ROUNDS).map(|at| at % LOOP_PAGES))
            }
            Made::Shift => {
                let zipf = Zipf::new(&mut random, 40_000, 0.9);
                DenseTrace::from_reads(
                    (0..2_000_000_u64)
                        .map(|at| at / 500_000 * 40_000 + u64::from(zipf.next(&mut random))),
                )
            }
            Made::Zigzag => DenseTrace::from_reads((0..LOOP_PAGES * ROUNDS).map(|at| {
                let step = at % (2 * LOOP_PAGES);
                step.min(2 * LOOP_PAGES - 1 - step)
            })),
            Made::Slide => DenseTrace::from_reads((0..SLIDES).map(|at| {
                let newest = at / 4;
                if at % 4 == 0 { newest } else { newest.saturating_sub(look_back(&mut random)) }
            })),
        }
    }
}

/// How far back: Pareto's distribution, by its inverse.
fn look_back(random: &mut Random) -> u64 {
    (LOOK_BACK_MIN * random.unit().max(f64::MIN_POSITIVE).powf(-LOOK_BACK_SHAPE.recip())) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_traces_have_their_size() {
        let extent = |made: Made| {
            let trace = made.trace();
            (trace.nr_accesses(), trace.nr_pages())
        };
        assert_eq!(extent(Made::Loop), (1_500_000, 30_000));
        assert_eq!(extent(Made::Zigzag), (1_500_000, 30_000));
        assert_eq!(extent(Made::Shift).0, 2_000_000);
    }
}
