//! Synthetic traces from a seed: typical access patterns in pure form.
//!
//! ```text
//!   zipf      skewed, and never changing                      frequency wins
//!   zscan     every second access to a page never seen again  probation wins
//!   loop      one and a half memories, round and round        nothing but keeping a part helps
//!   shift     four skewed sets, one after the other           old hot pages must go
//!   zigzag    up and down, one and a half memories            recency wins
//!   slide     new pages, and looks back at not so new ones    recency wins
//!   habits    skewed, then a loop, then a zigzag              changing with it wins
//! ```

use crate::random::Random;
use crate::scenario::zipf::Popularity;
use crate::trace::DenseTrace;

/// A synthetic trace, by pattern. Sizes are in pages.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Made {
    /// Zipf's popularity over 1,000,000 pages, 5,000,000 accesses.
    Zipf {
        /// The exponent.
        skew: f64,
    },
    /// Zipf 0.9, with every second access to a new page.
    ZipfAndScan,
    /// 30,000 pages in order, 50 times.
    Loop,
    /// Zipf 0.9 over 40,000 fresh pages, 500,000 accesses, four times.
    Shift,
    /// 0 up to 29,999 and down again, 25 times.
    Zigzag,
    /// Every fourth access to the next page, the rest back from there by Pareto's law: half beyond
    /// 2,000 pages, a tenth beyond 20,000. 2,000,000 accesses.
    Slide,
    /// Shift's 500,000 accesses, 16 rounds of the loop, 8 of the zigzag, each over its own pages.
    Habits,
}

const SEED: u64 = 42;
const UNIVERSE: u32 = 1_000_000;
const NR_ACCESSES: u64 = 5_000_000;
const SET_PAGES: u32 = 40_000;
const LOOP_PAGES: u64 = 30_000;
const ROUNDS: u64 = 50;
const SLIDES: u64 = 2_000_000;
const LOOK_BACK_MIN: f64 = 1000.0;
const LOOK_BACK_SHAPE: f64 = 1.0;

impl Made {
    /// Each pattern with its name on the command line.
    pub const NAMED: [(&'static str, Made); 8] = [
        ("zipf90", Made::Zipf { skew: 0.9 }),
        ("zipf99", Made::Zipf { skew: 0.99 }),
        ("zscan", Made::ZipfAndScan),
        ("loop15", Made::Loop),
        ("shift4", Made::Shift),
        ("zigzag", Made::Zigzag),
        ("slide", Made::Slide),
        ("habits", Made::Habits),
    ];

    /// Returns the trace.
    pub fn trace(self) -> DenseTrace {
        DenseTrace::from_reads(self.reads())
    }

    /// Returns the pages read, in order.
    pub fn reads(self) -> Box<dyn Iterator<Item = u64>> {
        let mut random = Random::new(SEED);
        match self {
            Made::Zipf { skew } => {
                let zipf = Popularity::new(&mut random, UNIVERSE, skew);
                Box::new((0..NR_ACCESSES).map(move |_| zipf.next(&mut random).into()))
            }
            Made::ZipfAndScan => {
                let zipf = Popularity::new(&mut random, UNIVERSE, 0.9);
                Box::new((0..NR_ACCESSES).map(move |at| match at % 2 {
                    0 => zipf.next(&mut random).into(),
                    _ => u64::from(UNIVERSE) + at,
                }))
            }
            Made::Loop => Box::new((0..LOOP_PAGES * ROUNDS).map(|at| at % LOOP_PAGES)),
            Made::Shift => {
                let zipf = Popularity::new(&mut random, SET_PAGES, 0.9);
                Box::new((0..2_000_000_u64).map(move |at| {
                    at / 500_000 * u64::from(SET_PAGES) + u64::from(zipf.next(&mut random))
                }))
            }
            Made::Zigzag => Box::new(zigzag(ROUNDS)),
            Made::Slide => Box::new((0..SLIDES).map(move |at| {
                let newest = at / 4;
                if at % 4 == 0 { newest } else { newest.saturating_sub(look_back(&mut random)) }
            })),
            Made::Habits => {
                let zipf = Popularity::new(&mut random, SET_PAGES, 0.9);
                let popular = (0..500_000).map(move |_| u64::from(zipf.next(&mut random)));
                let round = (0..LOOP_PAGES * 16).map(|at| at % LOOP_PAGES);
                let apart = u64::from(SET_PAGES);
                Box::new(
                    popular
                        .chain(round.map(move |page| apart + page))
                        .chain(zigzag(16).map(move |page| 2 * apart + page)),
                )
            }
        }
    }
}

fn zigzag(rounds: u64) -> impl Iterator<Item = u64> {
    (0..LOOP_PAGES * rounds).map(|at| {
        let step = at % (2 * LOOP_PAGES);
        step.min(2 * LOOP_PAGES - 1 - step)
    })
}

/// Draws a distance back from Pareto's distribution.
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
        assert_eq!(extent(Made::Habits).0, 500_000 + 2 * 16 * 30_000);
    }
}
