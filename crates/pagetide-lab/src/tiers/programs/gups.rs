//! Random updates with a hot set that moves.
//!
//! ```text
//!   touches   9 of 10 here        then here              then here
//!             [####........] ...  [....####....]  ...    [........####]
//! ```
//!
//! Problem: promotion that converges slowly looks good on a program that never changes. Idea: all
//! touches are updates (a read, then a write of the same page), nine in ten within a hot eighth of
//! memory; after so many touches another eighth is hot. Ignored: the cost of computing addresses.
//! Source: the HPC Challenge's RandomAccess, with the hot set that papers on tiering give it.

use super::AccessStream;
use crate::random::Random;
use crate::tiers::access_loop::TierAccess;

/// The hot set is one part in so many of memory.
const PARTS: u32 = 8;
/// Of 256 updates, in the hot set.
const HOT: u64 = 230;
/// Touches of each page, on average, before the hot set moves: some four minutes on the machine
/// that is modelled by default.
const TOUCHES_A_PAGE: u64 = 1600;

/// See the module.
#[derive(Debug)]
pub struct Gups {
    nr_pages: u32,
    random: Random,
    /// The first page of the hot set.
    hot_from: u32,
    /// Updates until it moves.
    left: u64,
    /// The second half of an update under way.
    pending: Option<u32>,
}

impl Gups {
    /// Over so many pages.
    ///
    /// # Panics
    /// Without a page for each eighth.
    pub fn new(nr_pages: u32, seed: u64) -> Gups {
        assert!(nr_pages >= PARTS, "an eighth of {nr_pages} pages is no hot set");
        let mut random = Random::stream(seed, 3);
        let hot_from = random.index(PARTS) * (nr_pages / PARTS);
        Gups { nr_pages, random, hot_from, left: Gups::period(nr_pages), pending: None }
    }

    fn period(nr_pages: u32) -> u64 {
        u64::from(nr_pages) * TOUCHES_A_PAGE / 2
    }

    /// Moves the hot set to another eighth.
    fn shift(&mut self) {
        let len = self.nr_pages / PARTS;
        let ahead = 1 + self.random.index(PARTS - 1);
        self.hot_from = (self.hot_from / len + ahead) % PARTS * len;
        self.left = Gups::period(self.nr_pages);
    }

    fn next(&mut self) -> TierAccess {
        if let Some(page) = self.pending.take() {
            return TierAccess::write(page);
        }
        if self.left == 0 {
            self.shift();
        }
        self.left -= 1;
        let bits = self.random.bits();
        let (first, len) = match bits & 255 < HOT {
            true => (self.hot_from, self.nr_pages / PARTS),
            false => (0, self.nr_pages),
        };
        let page = first + ((u128::from(bits) * u128::from(len)) >> 64) as u32;
        self.pending = Some(page);
        TierAccess::read(page)
    }
}

impl AccessStream for Gups {
    fn nr_pages(&self) -> u32 {
        self.nr_pages
    }

    fn touch(&mut self, nr: usize, touches: &mut Vec<TierAccess>) {
        touches.extend((0..nr).map(|_| self.next()));
    }
}
