//! Zipf popularity: few items are requested often, many hardly ever.
//!
//! A table of cumulative weights by rank, and the items in random order, so that neighbours differ
//! in popularity. Source: the distribution of the benchmarks that the scenarios repeat.

use crate::random::Random;

/// Zipf's popularity over items in random order.
#[derive(Debug)]
pub struct Popularity {
    /// `[items]`: chance of this rank or a better one.
    cumulative: Vec<f64>,
    /// `[items]`: item of each rank.
    items: Vec<u32>,
}

impl Popularity {
    /// Weights the item of rank k with `k^-skew`.
    pub fn new(random: &mut Random, nr_items: u32, skew: f64) -> Popularity {
        Popularity { items: random.order(nr_items), ..Popularity::in_order(nr_items, skew) }
    }

    /// Returns the same with items in order of popularity.
    pub fn in_order(nr_items: u32, skew: f64) -> Popularity {
        let mut sum = 0.0;
        let mut cumulative: Vec<f64> = Vec::with_capacity(nr_items as usize);
        for rank in 1..=nr_items {
            sum += f64::from(rank).powf(-skew);
            cumulative.push(sum);
        }
        cumulative.iter_mut().for_each(|chance| *chance /= sum);
        Popularity { cumulative, items: (0..nr_items).collect() }
    }

    /// Draws the next item.
    pub fn next(&self, random: &mut Random) -> u32 {
        let at = random.unit();
        let rank = self.cumulative.partition_point(|chance| *chance <= at);
        self.items[rank.min(self.items.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_popular_item_comes_as_often_as_zipf_says() {
        let mut random = Random::new(3);
        let zipf = Popularity::new(&mut random, 100, 1.0);
        let best = zipf.items[0];
        let nr_hits = (0..20_000).filter(|_| zipf.next(&mut random) == best).count();
        // 1 / H(100) = 0.1928.
        assert!((3600..4120).contains(&nr_hits), "{nr_hits} of 20000");
    }
}
