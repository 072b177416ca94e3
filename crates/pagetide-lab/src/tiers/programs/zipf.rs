//! A store of which a few pages are wanted most of the time.
//!
//! ```text
//!   rank k wanted in proportion to k^-skew; ranks scattered over the pages
//! ```
//!
//! Problem: key-value stores spread their popular keys all over memory, so no stretch of it is hot.
//! Idea: Zipf's law over pages in random order; one touch in ten is a write. Ignored: that keys
//! share pages, which flattens the law. Source: the usual benchmark of caches, as in YCSB.

use super::AccessStream;
use super::alias::Alias;
use crate::random::Random;
use crate::tiers::access_loop::TierAccess;

/// So many of 256 touches are writes.
const WRITES: u8 = 26;

/// See the module.
#[derive(Debug)]
pub struct Zipf {
    pages: Alias,
    nr_pages: u32,
    random: Random,
}

impl Zipf {
    /// Over so many pages, with this skew.
    ///
    /// # Panics
    /// Without pages.
    pub fn new(nr_pages: u32, skew: f64, seed: u64) -> Zipf {
        let mut random = Random::stream(seed, 2);
        let mut weights = vec![0.0; nr_pages as usize];
        for (rank, page) in random.order(nr_pages).into_iter().enumerate() {
            weights[page as usize] = ((rank + 1) as f64).powf(-skew);
        }
        Zipf { pages: Alias::new(&weights), nr_pages, random }
    }
}

impl AccessStream for Zipf {
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
