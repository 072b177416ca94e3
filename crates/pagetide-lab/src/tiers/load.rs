//! Loaded latency: busy memory answers later.
//!
//! **Problem.** Promotions compete with the program for bandwidth. **Idea.** A node's traffic in
//! one window sets its latency in the next.
//!
//! ```text
//!   latency          share = bytes read / readable + bytes written / writable
//!     x10 |      .
//!         |     .     factor = 1 + share^3 / (2 (1 - share)), at most 10
//!      x1 |....'
//!         +--------- share
//!         0  .5  1
//! ```
//!
//! **Data and invariants.** A migration reads from one node and writes to another. The factor is at
//! least 1.
//!
//! **Deliberately ignored.** Bursts within a window. DRAM bank timing.
//!
//! Sources: the curve is Sakasegawa's approximation of a queue with several servers ("An
//! approximation formula", 1977). The exponent for six channels, 2.74, is rounded to 3. The factor
//! doubles latency at four fifths of the bandwidth, as in loaded-latency measurements.

use super::prices::{Item, TierPrices};

const FACTOR_MAX: f64 = 10.0;

/// Bytes moved, by node (fast, slow).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Moved {
    pub(super) read: [u64; 2],
    pub(super) written: [u64; 2],
}

/// Bandwidth of both nodes in the model, in bytes a nanosecond.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bandwidth {
    readable: [f64; 2],
    writable: [f64; 2],
}

impl Bandwidth {
    /// Returns 1 / `scale` of the bandwidth of the prices.
    pub(super) fn new(prices: &TierPrices, scale: u32) -> Bandwidth {
        let per_ns = |item| prices.of(item) as f64 / 1000.0 / f64::from(scale);
        Bandwidth {
            readable: [per_ns(Item::FastReadMb), per_ns(Item::SlowReadMb)],
            writable: [per_ns(Item::FastWriteMb), per_ns(Item::SlowWriteMb)],
        }
    }

    /// Returns the latency factor of each node after a window of `elapsed_ns`.
    pub(super) fn factors(&self, moved: &Moved, elapsed_ns: u64) -> [f64; 2] {
        let elapsed = (elapsed_ns as f64).max(1.0);
        std::array::from_fn(|node| {
            let read = moved.read[node] as f64 / (self.readable[node] * elapsed);
            let written = moved.written[node] as f64 / (self.writable[node] * elapsed);
            factor(read + written)
        })
    }
}

fn factor(share: f64) -> f64 {
    if share >= 1.0 {
        return FACTOR_MAX;
    }
    (1.0 + share * share * share / (2.0 * (1.0 - share))).min(FACTOR_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_grows_with_the_share_of_the_bandwidth_used() {
        assert_eq!(factor(0.0), 1.0);
        assert!((factor(0.8) - 2.28).abs() < 0.01, "{}", factor(0.8));
        let factors: Vec<f64> = (0..=30).map(|tenth| factor(f64::from(tenth) / 10.0)).collect();
        assert!(factors.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(factors.last(), Some(&FACTOR_MAX));
    }

    #[test]
    fn a_window_counts_reads_and_writes_of_each_node_against_its_own_bandwidth() {
        let prices = TierPrices::OPTANE.set(Item::SlowReadMb, 1000).set(Item::SlowWriteMb, 500);
        // One byte a nanosecond read, half a byte written, shared by two.
        let bandwidth = Bandwidth::new(&prices, 2);
        let moved = Moved { read: [0, 200], written: [0, 50] };
        let [fast, slow] = bandwidth.factors(&moved, 1000);
        assert_eq!(fast, 1.0);
        assert!((slow - factor(0.4 + 0.2)).abs() < 1e-9, "{slow}");
    }
}
