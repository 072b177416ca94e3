//! pmbench with normally distributed addresses.
//!
//! **Problem.** The published figures of hot-page selection are of this program; its arguments were
//! not published with them. **Idea.** What the same author's other series say: four reads to a
//! write, addresses from a normal distribution over the whole of memory, centred in its middle. Its
//! standard deviation here is an eighth of memory:
//!
//! ```text
//!             _
//!            / \         68 % of the touches in the middle quarter,
//!         __/   \__      95 % in the middle half
//!     ___/         \___
//!     0            pages
//! ```
//!
//! Ignored: where in the page. Source: the benchmark specification, section D; Yang and Seymour,
//! "Pmbench: A Micro-Benchmark for Profiling Paging Performance", 2018.

use super::AccessStream;
use super::alias::Alias;
use crate::random::Random;
use crate::tiers::access_loop::TierAccess;

/// So many of 256 touches are writes.
const WRITES: u8 = 51;

/// See the module.
#[derive(Debug)]
pub struct Gauss {
    pages: Alias,
    nr_pages: u32,
    random: Random,
}

impl Gauss {
    /// Over so many pages.
    ///
    /// # Panics
    /// Without pages.
    pub fn new(nr_pages: u32, seed: u64) -> Gauss {
        let middle = f64::from(nr_pages) / 2.0;
        let sigma = f64::from(nr_pages) / 8.0;
        let weight = |page: u32| {
            let deviations = (f64::from(page) + 0.5 - middle) / sigma;
            (-deviations * deviations / 2.0).exp()
        };
        let weights: Vec<f64> = (0..nr_pages).map(weight).collect();
        Gauss { pages: Alias::new(&weights), nr_pages, random: Random::stream(seed, 1) }
    }
}

impl AccessStream for Gauss {
    fn nr_pages(&self) -> u32 {
        self.nr_pages
    }

    fn touch(&mut self, nr: usize, touches: &mut Vec<TierAccess>) {
        touches.extend((0..nr).map(|_| {
            let (page, bits) = self.pages.next(&mut self.random);
            if bits < WRITES { TierAccess::write(page) } else { TierAccess::read(page) }
        }));
    }
}
