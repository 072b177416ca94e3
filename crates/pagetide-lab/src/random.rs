//! Random numbers from a seed.
//!
//! **Problem.** A run must repeat exactly on any machine, as documents cite results. **Idea.**
//! SplitMix64: one number of state, every state good, and a bijective output:
//!
//! ```text
//!   seed --> new(seed)            one stream, for a scenario
//!       `--> stream(seed, n)      one for each task, so that no task's draws shift another's
//! ```
//!
//! **Ignored.** Secrecy. The bias of ranges by multiplication, under one part in 2^32.
//!
//! Sources: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
//! Lemire, "Fast random integer generation in an interval", 2019 (without its rejection).

/// A stream of random numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Random(u64);

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// Returns the stream of a seed.
    pub fn new(seed: u64) -> Random {
        // Scrambled, because plain seeds 0, 1, 2, ... would give one stream, shifted.
        let mut scrambled = Random(seed ^ 0x70a6_e71d_e000_0000);
        Random(scrambled.bits())
    }

    /// Returns stream number `stream` of a seed.
    pub fn stream(seed: u64, stream: u64) -> Random {
        let mut whole = Random(seed);
        let base = whole.bits();
        Random(base ^ stream.wrapping_mul(GOLDEN))
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// Returns a number from 0 up to, excluding, `end`. Returns 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// Returns an index from 0 up to, excluding, `end`.
    pub fn index(&mut self, end: u32) -> u32 {
        assert!(end > 0, "no number is below zero");
        self.below(u64::from(end)) as u32
    }

    /// Returns a number from 0 up to, excluding, 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns `mean`, varied evenly by up to `percent` of it.
    pub fn around(&mut self, mean: u64, percent: u64) -> u64 {
        let spread = mean * percent / 100;
        mean - spread + self.below(2 * spread + 1)
    }

    /// Returns the numbers below `end` in random order.
    pub fn order(&mut self, end: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..end).collect();
        for last in (1..end).rev() {
            order.swap(last as usize, self.index(last + 1) as usize);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence_comes_from_state_zero() {
        let mut random = Random(0);
        let drawn = [random.bits(), random.bits(), random.bits()];
        let published = [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f];
        assert_eq!(drawn, published);
    }

    #[test]
    fn streams_and_seeds_differ_and_repeat() {
        let draw = |seed, stream| Random::stream(seed, stream).bits();
        assert_eq!(draw(1, 2), draw(1, 2));
        assert!(draw(1, 2) != draw(1, 3) && draw(1, 2) != draw(2, 2) && draw(1, 2) != draw(2, 1));
        assert_ne!(Random::new(1).bits(), Random::new(2).bits());
    }

    #[test]
    fn ranges_are_kept_and_reached() {
        let mut random = Random::stream(7, 0);
        let drawn: Vec<u64> = (0..2000).map(|_| random.around(100, 10)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&90), Some(&110)));
        assert_eq!((random.below(0), random.below(1), random.around(5, 0)), (0, 0, 5));
        let drawn: Vec<u32> = (0..1000).map(|_| random.index(4)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&0), Some(&3)));
    }

    #[test]
    fn an_order_has_each_number_once_and_another_seed_gives_another() {
        let mut sorted = Random::new(1).order(1000);
        assert_ne!(sorted, Random::new(2).order(1000));
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..1000));
    }
}
