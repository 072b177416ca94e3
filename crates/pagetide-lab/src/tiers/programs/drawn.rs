//! Programs with pages drawn by weight.
//!
//! **pmbench.** The program of the published figures of hot-page selection, with unpublished
//! arguments. Assumed from the author's other series: four reads to a write, and normally
//! distributed addresses, centred, with a standard deviation of an eighth of memory:
//!
//! ```text
//!             _
//!            / \         68 % of the touches in the middle quarter,
//!         __/   \__      95 % in the middle half
//!     ___/         \___
//!     0            pages
//! ```
//!
//! **Zipf's law.** Popular keys scattered over memory: rank k has a weight of k^-skew, ranks have
//! random pages, and one touch in ten is a write.
//!
//! Ignored: offsets in a page, and keys that share pages. Sources: Yang and Seymour, "Pmbench: A
//! Micro-Benchmark for Profiling Paging Performance", 2018. The usual benchmark of caches, as in
//! YCSB.

use super::AccessStream;
use super::alias::Alias;
use crate::random::Random;
use crate::tiers::access_loop::TierAccess;

/// A program with pages drawn by weight.
#[derive(Debug)]
pub struct DrawnPages {
    pages: Alias,
    nr_pages: u32,
    /// Writes out of 256 touches.
    writes: u8,
    random: Random,
}

impl DrawnPages {
    /// Returns pmbench over `nr_pages` pages.
    pub fn bell(nr_pages: u32, seed: u64) -> DrawnPages {
        let middle = f64::from(nr_pages) / 2.0;
        let sigma = f64::from(nr_pages) / 8.0;
        let weight = |page: u32| {
            let deviations = (f64::from(page) + 0.5 - middle) / sigma;
            (-deviations * deviations / 2.0).exp()
        };
        let weights: Vec<f64> = (0..nr_pages).map(weight).collect();
        let random = Random::stream(seed, 1);
        DrawnPages { pages: Alias::new(&weights), nr_pages, writes: 51, random }
    }

    /// Returns Zipf's law over `nr_pages` pages with this skew.
    pub fn zipf(nr_pages: u32, skew: f64, seed: u64) -> DrawnPages {
        let mut random = Random::stream(seed, 2);
        let mut weights = vec![0.0; nr_pages as usize];
        for (rank, page) in random.order(nr_pages).into_iter().enumerate() {
            weights[page as usize] = ((rank + 1) as f64).powf(-skew);
        }
        DrawnPages { pages: Alias::new(&weights), nr_pages, writes: 26, random }
    }
}

impl AccessStream for DrawnPages {
    fn nr_pages(&self) -> u32 {
        self.nr_pages
    }

    fn touch(&mut self, nr: usize, touches: &mut Vec<TierAccess>) {
        touches.extend((0..nr).map(|_| {
            let (page, bits) = self.pages.next(&mut self.random);
            if bits < self.writes { TierAccess::write(page) } else { TierAccess::read(page) }
        }));
    }
}
