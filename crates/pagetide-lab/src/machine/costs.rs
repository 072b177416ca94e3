//! Prices on a virtual CPU: the only numbers of the machine outside core.
//!
//! **Problem.** Virtual time is only as good as its prices. **Idea.** One table of measured prices.
//! Every report prints the table, and callers can set each price.
//!
//! **Deliberately ignored.** Caches beyond the lines of the lock and the zone (`zone_page` and
//! `touch` include a page's own), shared memory bandwidth, sockets, turbo, hyperthreads.

use super::clock::Nanos;
use std::str::FromStr;

/// Prices, all durations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// A page taken from, or returned to, a per-CPU list.
    pub list_hit: Nanos,
    /// Taking a free lock.
    pub acquire: Nanos,
    /// From a release to the first waiter's first instruction.
    pub hand_off: Nanos,
    /// Added to `acquire` if another CPU held the lock last.
    pub line_transfer: Nanos,
    /// A block moved between the zone and a CPU's list, under the zone's lock.
    pub zone_page: Nanos,
    /// The zone's cache lines, once a hold, if another CPU held the lock last.
    pub zone_lines: Nanos,
    /// A page fault, clearing and unmapping, without the allocator's part.
    pub touch: Nanos,
    /// From one task's send to the receiver's wake-up on another CPU.
    pub wake: Nanos,
}

/// An invalid price.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CostError {
    /// Not NAME=NUMBER. Write the price like this.
    #[error("{text:?} is no price: write NAME=NUMBER, as in zone_page=40")]
    NotAPrice {
        /// The input.
        text: String,
    },
    /// An unknown name. The message lists the known names.
    #[error("no price is called {name:?}: there are {}", known.join(", "))]
    UnknownName {
        /// The input.
        name: String,
        /// The known names.
        known: &'static [&'static str],
    },
    /// Above the maximum of 10^9, which is a second for a time.
    #[error("{name}={number} is more than a price may be, {LARGEST}")]
    TooLarge {
        /// The price's name.
        name: String,
        /// The input.
        number: u64,
    },
}

const NAMES: [&str; 8] = [
    "list_hit",
    "acquire",
    "hand_off",
    "line_transfer",
    "zone_page",
    "zone_lines",
    "touch",
    "wake",
];

const LARGEST: u64 = 1_000_000_000;

impl Costs {
    /// Measured on a virtual machine with 2 CPUs of an AMD EPYC (family 26), Linux 6.18, while the
    /// CPUs were two cores, not two threads of one. Named prices are medians of `cargo bench -p
    /// pagetide --bench lock`:
    ///
    /// - `list_hit`: half of `pagetide bench alloc`'s fault loop with `refill`, 128 MiB at a time
    ///   without the zone, 23.8 ns. A single pair (10.6 ns) keeps its frame's word in the nearest
    ///   cache.
    /// - `acquire` 4.9, `line_transfer` 88, `hand_off` 176 (22 between threads of a core).
    ///   Published between cores of a socket: 47 to 51 (Intel, 24 and 32 cores), between groups of
    ///   cores 107 and 115 (AMD), between sockets 108 to 197 (N. Viennot, "core-to-core latency").
    /// - `zone_page` 20.2, `zone_lines` 1138: two threads take turns with 28 programs each that
    ///   take and return 128 MiB. 63 frames take 2501 ns, 2016 frames 41,919 ns. One thread with
    ///   few frames pays 10 ns a frame.
    /// - `touch`: page_fault1's loop with one process (`mmap`, a write to each page, `munmap`, 128
    ///   MiB, no huge pages) takes 1876 ns a page, the median of seven runs of 1738 to 2721. Less
    ///   94 ns, published for a pair of Linux's allocator.
    /// - `wake`: the fastest wake-up across CPUs.
    pub const HOST: Costs = Costs {
        list_hit: Nanos(12),
        acquire: Nanos(5),
        hand_off: Nanos(176),
        line_transfer: Nanos(88),
        zone_page: Nanos(20),
        zone_lines: Nanos(1138),
        touch: Nanos(1782),
        wake: Nanos(17_000),
    };

    /// Returns each price with its name.
    pub fn named(&self) -> [(&'static str, Nanos); 8] {
        let Costs { list_hit, acquire, hand_off, line_transfer, .. } = *self;
        let Costs { zone_page, zone_lines, touch, wake, .. } = *self;
        let prices =
            [list_hit, acquire, hand_off, line_transfer, zone_page, zone_lines, touch, wake];
        std::array::from_fn(|at| (NAMES[at], prices[at]))
    }

    /// Replaces one price.
    ///
    /// # Errors
    /// Fails with [`CostError::UnknownName`] if the name is unknown.
    pub fn with(mut self, price: &Price) -> Result<Costs, CostError> {
        let slot = match price.index_in(&NAMES)? {
            0 => &mut self.list_hit,
            1 => &mut self.acquire,
            2 => &mut self.hand_off,
            3 => &mut self.line_transfer,
            4 => &mut self.zone_page,
            5 => &mut self.zone_lines,
            6 => &mut self.touch,
            _ => &mut self.wake,
        };
        *slot = Nanos(price.number);
        Ok(self)
    }
}

impl Default for Costs {
    fn default() -> Costs {
        Costs::HOST
    }
}

/// One price on the command line: `zone_page=40`. The table of prices checks the name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Price {
    name: String,
    /// The value, mostly in nanoseconds.
    pub number: u64,
}

impl Price {
    /// Returns the index in `names`.
    ///
    /// # Errors
    /// Fails with [`CostError::UnknownName`] if missing.
    pub fn index_in(&self, names: &'static [&'static str]) -> Result<usize, CostError> {
        let index = names.iter().position(|known| *known == self.name);
        index.ok_or_else(|| CostError::UnknownName { name: self.name.clone(), known: names })
    }
}

impl FromStr for Price {
    type Err = CostError;

    fn from_str(text: &str) -> Result<Price, CostError> {
        let none = || CostError::NotAPrice { text: text.to_owned() };
        let (name, number) = text.split_once('=').ok_or_else(none)?;
        let (name, number): (_, u64) =
            (name.trim().to_owned(), number.trim().parse().map_err(|_| none())?);
        match (name.is_empty(), number > LARGEST) {
            (true, _) => Err(none()),
            (_, true) => Err(CostError::TooLarge { name, number }),
            (false, false) => Ok(Price { name, number }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_price_can_be_set_by_its_name_alone() {
        for (index, name) in NAMES.iter().enumerate() {
            let price = format!("{name}=12345").parse().expect("a price");
            let costs = Costs::HOST.with(&price).expect("a name of the table");
            for (at, (before, after)) in
                Costs::HOST.named().into_iter().zip(costs.named()).enumerate()
            {
                assert_eq!(after.1, if at == index { Nanos(12345) } else { before.1 }, "{name}");
            }
        }
    }

    #[test]
    fn what_is_no_price_is_refused_with_the_names() {
        let refused = |text: &str| text.parse::<Price>().expect_err(text).to_string();
        for text in ["", "zone_page", "zone_page=", "zone_page=-1", "zone_page=4x", "=4="] {
            assert!(refused(text).contains("NAME=NUMBER"), "{text}");
        }
        let unknown = Costs::HOST.with(&"zonepage=4".parse().expect("the shape of a price"));
        assert!(unknown.expect_err("no such name").to_string().contains("zone_page"));
        assert!(refused("touch=1000000001").contains("more than a price may be"));
    }
}
