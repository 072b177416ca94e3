//! Seeded random pages, uniform or zipf.
//!
//! The hot set is scattered, so that neither readahead nor compact tables profit.
//!
//! ```text
//!   seed -> rank (zipf: 1 is the hottest) -> shuffle[rank - 1] -> page
//! ```
//!
//! Data: `shuffle`, a seeded permutation of `0..nr_pages` (Fisher-Yates), shared by threads. Each
//! thread has its own generator. Ranks are exact zipf.
//!
//! Source: W. Hormann, G. Derflinger, "Rejection-inversion to generate variates from monotone
//! discrete distributions", 1996, as `rand_distr` implements it.

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Skew {
    Uniform,
    /// Rank r has the weight `r^-exponent`.
    Zipf(f64),
}

/// A permutation from rank to page.
#[derive(Clone, Debug)]
pub(crate) struct Shuffle(Arc<[u32]>);

impl Shuffle {
    /// Costs 4 bytes per page.
    pub(crate) fn new(nr_pages: u32, seed: u64) -> Shuffle {
        let mut order: Vec<u32> = (0..nr_pages).collect();
        order.shuffle(&mut SmallRng::seed_from_u64(seed));
        Shuffle(order.into())
    }

    /// Takes rank 0 as the hottest.
    pub(crate) fn page_of(&self, rank: usize) -> u32 {
        self.0[rank]
    }
}

#[derive(Debug)]
pub(crate) struct PagePicker {
    shuffle: Shuffle,
    zipf: Option<Zipf<f64>>,
    random: SmallRng,
}

impl PagePicker {
    /// Threads need different seeds.
    pub(crate) fn new(shuffle: &Shuffle, skew: Skew, seed: u64) -> PagePicker {
        let nr_pages = shuffle.0.len();
        assert!(nr_pages > 0, "a picker needs pages");
        let zipf = match skew {
            Skew::Uniform => None,
            Skew::Zipf(exponent) => {
                Some(Zipf::new(nr_pages as f64, exponent).expect("a zipf exponent above zero"))
            }
        };
        PagePicker { shuffle: shuffle.clone(), zipf, random: SmallRng::seed_from_u64(seed) }
    }

    pub(crate) fn pick(&mut self) -> u32 {
        let nr_pages = self.shuffle.0.len();
        let rank = match &self.zipf {
            None => self.random.random_range(0..nr_pages),
            Some(zipf) => (zipf.sample(&mut self.random) as usize - 1).min(nr_pages - 1),
        };
        self.shuffle.0[rank]
    }

    pub(crate) fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(skew: Skew, nr_pages: u32, draws: u32) -> Vec<u32> {
        let shuffle = Shuffle::new(nr_pages, 1);
        let mut picker = PagePicker::new(&shuffle, skew, 2);
        let mut counts = vec![0; nr_pages as usize];
        for _ in 0..draws {
            counts[picker.pick() as usize] += 1;
        }
        counts
    }

    #[test]
    fn zipf_follows_its_weights() {
        let (nr_pages, draws, exponent) = (1000_u32, 400_000_u32, 0.99);
        let mut seen = counts(Skew::Zipf(exponent), nr_pages, draws);
        seen.sort_unstable_by(|a, b| b.cmp(a));
        let total: f64 = (1..=nr_pages).map(|rank| f64::from(rank).powf(-exponent)).sum();
        for rank in [1_u32, 2, 10, 100] {
            let expected = f64::from(rank).powf(-exponent) / total * f64::from(draws);
            let got = f64::from(seen[rank as usize - 1]);
            assert!(
                (got / expected - 1.0).abs() < 0.1,
                "rank {rank}: {got} drawn, {expected} expected"
            );
        }
        let top: f64 = seen[..100].iter().map(|&count| f64::from(count)).sum();
        let share: f64 =
            (1..=100_u32).map(|rank| f64::from(rank).powf(-exponent)).sum::<f64>() / total;
        assert!((top / f64::from(draws) - share).abs() < 0.01);
    }

    #[test]
    fn hot_pages_are_scattered() {
        let seen = counts(Skew::Zipf(0.99), 1000, 100_000);
        let mut hottest: Vec<usize> = (0..1000).collect();
        hottest.sort_unstable_by_key(|&page| std::cmp::Reverse(seen[page]));
        let neighbours =
            hottest[..20].iter().filter(|&&page| hottest[..20].contains(&(page + 1))).count();
        assert!(neighbours < 5, "{neighbours} of the 20 hottest pages have a hot neighbour");
    }

    #[test]
    fn uniform_reaches_every_page_alike() {
        let seen = counts(Skew::Uniform, 100, 100_000);
        assert!(seen.iter().all(|&count| (800..1200).contains(&count)), "{seen:?}");
    }

    #[test]
    fn same_seed_gives_the_same_pages() {
        assert_eq!(counts(Skew::Zipf(0.8), 64, 1000), counts(Skew::Zipf(0.8), 64, 1000));
    }
}
