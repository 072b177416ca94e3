//! Prices of fast and slow memory: the only numbers of this world outside core.
//!
//! **Problem.** The gain of a move depends on access and move costs. **Idea.** One table of sourced
//! prices. Callers can set each, and every result prints all.
//!
//! ```text
//!   an access      cpu + latency(node, read or write) x how loaded the node is
//!   a hint fault   hint_fault, and move_page more if the page is promoted
//!   beside it      demote and scan, by the reclaim thread; all of them move bytes
//! ```
//!
//! The defaults describe the machine of the published figures: two sockets with six DRAM and six
//! Optane modules each. Sources:
//!
//! - Latencies, and the bandwidth of six interleaved modules (39.4 GB/s read, 13.9 GB/s written, a
//!   quarter for single cache lines because the medium has 256-byte lines): Izraelevitz et al.,
//!   "Basic Performance Measurements of the Intel Optane DC Persistent Memory Module", 2019. A
//!   write is a store and its write-back, up to the memory controller.
//! - DRAM bandwidth: assumed, four fifths of six channels of DDR4-2666, and two thirds of that
//!   value for writes.
//! - `cpu`, the program's work between accesses with the page walk: assumed.
//! - `hint_fault`, `page_fault`, `arm`, `move_page`, `demote`, `scan`: assumed, within a factor of
//!   two of the kernel's paths.
//!
//! **Deliberately ignored.** Sockets, TLB shootdowns, and CPU caches: every access misses them.

use crate::machine::{CostError, Price};
use std::fmt;

/// A priced item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item {
    /// A read of idle fast memory, in nanoseconds.
    FastRead,
    /// A write to idle fast memory, in nanoseconds.
    FastWrite,
    /// Read bandwidth of all fast memory, in MB (10^6 bytes) a second.
    FastReadMb,
    /// Write bandwidth of all fast memory, in MB (10^6 bytes) a second.
    FastWriteMb,
    /// Bytes moved by one access.
    FastLine,
    /// As [`Item::FastRead`], of slow memory.
    SlowRead,
    /// As [`Item::FastWrite`], of slow memory.
    SlowWrite,
    /// As [`Item::FastReadMb`], of slow memory.
    SlowReadMb,
    /// As [`Item::FastWriteMb`], of slow memory.
    SlowWriteMb,
    /// As [`Item::FastLine`], of slow memory.
    SlowLine,
    /// The program's work per access besides memory.
    Cpu,
    /// A hint fault without a move.
    HintFault,
    /// The first access of a page: a fault that clears a frame.
    PageFault,
    /// Making one page-table entry inaccessible.
    Arm,
    /// Moving a page in a hint fault: copy, reverse map, TLB flush.
    MovePage,
    /// Demoting a page, by the reclaim thread.
    Demote,
    /// Scanning a folio, by the reclaim thread.
    Scan,
}

/// `[items]`: name and default price.
const TABLE: [(&str, u64); 17] = [
    ("fast_read", 101),
    ("fast_write", 57),
    ("fast_read_mb", 204_000),
    ("fast_write_mb", 136_000),
    ("fast_line", 64),
    ("slow_read", 305),
    ("slow_write", 62),
    ("slow_read_mb", 78_800),
    ("slow_write_mb", 27_800),
    ("slow_line", 256),
    ("cpu", 100),
    ("hint_fault", 1_000),
    ("page_fault", 1_500),
    ("arm", 50),
    ("move_page", 3_000),
    ("demote", 3_000),
    ("scan", 300),
];

const NAMES: [&str; 17] = {
    let mut names = [""; 17];
    let mut at = 0;
    while at < names.len() {
        names[at] = TABLE[at].0;
        at += 1;
    }
    names
};

/// All prices, in nanoseconds, MB a second (bandwidths), or bytes (line lengths).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TierPrices([u64; 17]);

/// An impossible combination of prices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PriceError {
    /// A zero price. Set a value above zero.
    #[error("{name} is 0: memory takes time and moves bytes; set it to 1 or more")]
    Zero {
        /// The price.
        name: &'static str,
    },
    /// Slow memory is not slower. Swap the two.
    #[error(
        "slow memory reads in {slow_ns} ns, fast memory in {fast_ns} ns: these are one tier; make \
         slow_read the larger"
    )]
    NotSlower {
        /// A read of slow memory.
        slow_ns: u64,
        /// A read of fast memory.
        fast_ns: u64,
    },
}

impl TierPrices {
    /// DRAM and Optane on two sockets: see the module.
    pub const OPTANE: TierPrices = {
        let mut prices = [0; 17];
        let mut at = 0;
        while at < prices.len() {
            prices[at] = TABLE[at].1;
            at += 1;
        }
        TierPrices(prices)
    };

    /// Returns the price of an item.
    pub const fn of(&self, item: Item) -> u64 {
        self.0[item as usize]
    }

    /// Replaces the price of an item.
    pub const fn set(mut self, item: Item, number: u64) -> TierPrices {
        self.0[item as usize] = number;
        self
    }

    /// Replaces one named price.
    ///
    /// # Errors
    /// Fails with [`CostError::UnknownName`] if the name is unknown.
    pub fn with(mut self, price: &Price) -> Result<TierPrices, CostError> {
        self.0[price.index_in(&NAMES)?] = price.number;
        Ok(self)
    }

    /// Checks that a machine can have these prices.
    ///
    /// # Errors
    /// Fails with [`PriceError`] for the first impossible price.
    pub fn check(self) -> Result<TierPrices, PriceError> {
        let may_be_zero = [Item::Cpu, Item::Arm, Item::Scan].map(|item| item as usize);
        for (at, name) in NAMES.into_iter().enumerate() {
            if self.0[at] == 0 && !may_be_zero.contains(&at) {
                return Err(PriceError::Zero { name });
            }
        }
        let (fast_ns, slow_ns) = (self.of(Item::FastRead), self.of(Item::SlowRead));
        if slow_ns <= fast_ns {
            return Err(PriceError::NotSlower { slow_ns, fast_ns });
        }
        Ok(self)
    }

    /// Returns the accesses that repay a promotion's fault, its move and the demotion that made
    /// room. Counts reads in idle memory.
    pub fn accesses_to_earn_back(&self) -> u64 {
        let cost = self.of(Item::HintFault) + self.of(Item::MovePage) + self.of(Item::Demote);
        let gain = self.of(Item::SlowRead).saturating_sub(self.of(Item::FastRead));
        cost.div_ceil(gain.max(1))
    }
}

impl Default for TierPrices {
    fn default() -> TierPrices {
        TierPrices::OPTANE
    }
}

impl fmt::Display for TierPrices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = NAMES.iter().zip(self.0).map(|(name, number)| format!("{name} {number}"));
        write!(f, "{}", listed.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_price_is_set_by_its_name_and_found_by_its_item() {
        for (at, name) in NAMES.into_iter().enumerate() {
            let price = format!("{name}=7").parse().expect("a price");
            let prices = TierPrices::OPTANE.with(&price).expect("a name of the table");
            for (other, (_, usual)) in TABLE.into_iter().enumerate() {
                assert_eq!(prices.0[other], if other == at { 7 } else { usual }, "{name}");
            }
        }
        assert_eq!(TierPrices::OPTANE.of(Item::SlowLine), 256);
        assert_eq!(TierPrices::OPTANE.of(Item::Scan), 300, "the last item has the last price");
        let unknown = TierPrices::OPTANE.with(&"slow=3".parse().expect("the shape of a price"));
        assert!(unknown.expect_err("no such name").to_string().contains("slow_read_mb"));
    }

    #[test]
    fn impossible_prices_are_refused_in_a_sentence() {
        assert_eq!(TierPrices::OPTANE.check(), Ok(TierPrices::OPTANE));
        let free = TierPrices::OPTANE.set(Item::SlowRead, 0).check();
        assert_eq!(free, Err(PriceError::Zero { name: "slow_read" }));
        let one_tier = TierPrices::OPTANE.set(Item::SlowRead, 101).check();
        assert_eq!(one_tier, Err(PriceError::NotSlower { slow_ns: 101, fast_ns: 101 }));
        assert!(TierPrices::OPTANE.set(Item::Cpu, 0).check().is_ok());
    }

    #[test]
    fn a_promotion_earns_its_cost_back_after_so_many_accesses() {
        // 7000 ns at 204 ns each.
        assert_eq!(TierPrices::OPTANE.accesses_to_earn_back(), 35);
    }
}
