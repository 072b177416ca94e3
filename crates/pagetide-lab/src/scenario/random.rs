//! What a seed decides: numbers, orders and popularities.
//!
//! SplitMix64, whose every state is good: neighbouring seeds may be used side by side. The same
//! seed gives the same numbers on every machine, for ever; results in documents depend on it.
//!
//! Sources: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014; Lemire,
//! "Fast random integer generation in an interval", 2019 (without its rejection: the bias of
//! 2^-40 and less is nothing here).

/// A stream of numbers that a seed decides.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub(crate) fn new(seed: u64) -> Random {
        // One step apart, seeds 0, 1, 2, ... would give the same stream, shifted.
        let mut scrambled = Random(seed ^ 0x70a6_e71d_e000_0000);
        Random(scrambled.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    ///
    /// # Panics
    /// When `end` is 0.
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        assert!(end > 0, "no number is below zero");
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u32
    }

    /// A number from 0 up to but not 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The numbers below `end` in random order.
    pub(crate) fn order(&mut self, end: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..end).collect();
        for last in (1..end).rev() {
            order.swap(last as usize, self.below(last + 1) as usize);
        }
        order
    }
}

/// Zipf's popularity over so many items, the items in random order.
#[derive(Debug)]
pub(crate) struct Zipf {
    /// `[items]`, the chance of this rank or a better one.
    cumulative: Vec<f64>,
    /// `[items]`, the item of each rank.
    items: Vec<u32>,
}

impl Zipf {
    /// Item of rank k with a chance in proportion to `k^-skew`.
    pub(crate) fn new(random: &mut Random, nr_items: u32, skew: f64) -> Zipf {
        let mut sum = 0.0;
        let mut cumulative: Vec<f64> = Vec::with_capacity(nr_items as usize);
        for rank in 1..=nr_items {
            sum += f64::from(rank).powf(-skew);
            cumulative.push(sum);
        }
        cumulative.iter_mut().for_each(|chance| *chance /= sum);
        Zipf { cumulative, items: random.order(nr_items) }
    }

    /// The next item.
    pub(crate) fn next(&self, random: &mut Random) -> u32 {
        let at = random.unit();
        let rank = self.cumulative.partition_point(|chance| *chance <= at);
        self.items[rank.min(self.items.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_each_number_once_and_another_seed_gives_another() {
        let mut sorted = Random::new(1).order(1000);
        assert_ne!(sorted, Random::new(2).order(1000));
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..1000));
    }

    #[test]
    fn numbers_stay_below_and_reach_both_ends() {
        let mut random = Random::new(7);
        let drawn: Vec<u32> = (0..1000).map(|_| random.below(4)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&0), Some(&3)));
    }

    #[test]
    fn the_most_popular_item_comes_as_often_as_zipf_says() {
        let mut random = Random::new(3);
        let zipf = Zipf::new(&mut random, 100, 1.0);
        let best = zipf.items[0];
        let nr_hits = (0..20_000).filter(|_| zipf.next(&mut random) == best).count();
        // 1 / H(100) = 0.1928.
        assert!((3600..4120).contains(&nr_hits), "{nr_hits} of 20000");
    }
}
