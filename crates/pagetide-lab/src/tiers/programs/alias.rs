//! Draws a page by weight in constant time.
//!
//! **Problem.** A search in cumulative weights costs more than the access. **Idea.** Columns of
//! equal width, each shared by at most two pages:
//!
//! ```text
//!   weights  A .5  B .2  C .3    columns  [ A     |-B- A--|-C---A ]    draw: a column, then
//!                                                                            above or below
//! ```
//!
//! Ignored: weight differences beyond 32 bits. Source: Walker, "An Efficient Method for Generating
//! Discrete Random Variables with General Distributions", 1977. Vose's construction.

use crate::random::Random;

#[derive(Debug)]
pub(super) struct Alias {
    /// `[pages]`: share of the column (of 2^32) for the page itself, and the page of the rest.
    columns: Vec<(u32, u32)>,
}

impl Alias {
    /// Takes the weights of pages 0, 1, ...
    pub(super) fn new(weights: &[f64]) -> Alias {
        let sum: f64 = weights.iter().sum();
        assert!(sum > 0.0 && weights.iter().all(|weight| *weight >= 0.0), "weights of pages");
        let mean = sum / weights.len() as f64;
        let mut shares: Vec<f64> = weights.iter().map(|weight| weight / mean).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..weights.len() as u32).partition(|page| shares[*page as usize] < 1.0);
        let mut columns: Vec<(u32, u32)> =
            (0..weights.len() as u32).map(|page| (u32::MAX, page)).collect();
        while let (Some(below), Some(&above)) = (small.pop(), large.last()) {
            let share = shares[below as usize];
            columns[below as usize] = ((share * 4_294_967_296.0) as u32, above);
            shares[above as usize] -= 1.0 - share;
            if shares[above as usize] < 1.0 {
                large.pop();
                small.push(above);
            }
        }
        Alias { columns }
    }

    /// Draws a page, with eight more random bits.
    #[inline]
    pub(super) fn next(&self, random: &mut Random) -> (u32, u8) {
        let bits = random.bits();
        let product = u128::from(bits) * self.columns.len() as u128;
        let page = (product >> 64) as usize;
        let (share, other) = self.columns[page];
        let is_own = (product as u64 >> 32) as u32 <= share;
        (if is_own { page as u32 } else { other }, bits as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_as_often_as_their_weight_says() {
        let weights = [5.0, 2.0, 3.0, 0.0, 10.0];
        let alias = Alias::new(&weights);
        let mut random = Random::new(3);
        let mut drawn = [0_u32; 5];
        (0..200_000).for_each(|_| drawn[alias.next(&mut random).0 as usize] += 1);
        for (weight, drawn) in weights.into_iter().zip(drawn) {
            let expected = weight * 10_000.0;
            assert!((f64::from(drawn) - expected).abs() < 600.0, "{drawn} for {expected}");
        }
        assert_eq!(drawn[3], 0);
    }
}
