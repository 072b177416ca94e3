//! What things cost on a virtual CPU: the only numbers in the machine that are not core's.
//!
//! **Problem.** Virtual time is worth what its prices are. **Idea.** One table, each price with
//! where it was measured, printed with every report, and each can be set from outside.
//!
//! **Deliberately ignored.** Caches beyond the lock's line and the zone's (a page's own are in
//! `zone_page` and `touch`), memory bandwidth shared by CPUs, sockets, turbo, hyperthreads.

use super::clock::Nanos;
use std::str::FromStr;

/// Prices, all durations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// A page taken from, or returned to, a per-CPU list.
    pub list_hit: Nanos,
    /// Taking a free lock.
    pub acquire: Nanos,
    /// From a release to the first waiter's first instruction inside.
    pub hand_off: Nanos,
    /// Added to `acquire` when another CPU had the lock last.
    pub line_transfer: Nanos,
    /// A block moved between the zone's lists and a CPU's, under the zone's lock.
    pub zone_page: Nanos,
    /// The zone's own lines, once a hold, when another CPU had its lock last.
    pub zone_lines: Nanos,
    /// A page fault, clearing the page and unmapping it, but for the allocator's part.
    pub touch: Nanos,
    /// From one task's sending to another's waking on another CPU.
    pub wake: Nanos,
}

/// A price that is none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CostError {
    /// Not NAME=NUMBER; write it so.
    #[error("{text:?} is no price: write NAME=NUMBER, as in zone_page=40")]
    NotAPrice {
        /// What was written.
        text: String,
    },
    /// There is no such price; the message names those there are.
    #[error("no price is called {name:?}: there are {}", known.join(", "))]
    UnknownName {
        /// What was written.
        name: String,
        /// What it could have been.
        known: &'static [&'static str],
    },
    /// A thousand million is the most a price may be: a second, where it is a time.
    #[error("{name}={number} is more than a price may be, {LARGEST}")]
    TooLarge {
        /// The price's name.
        name: String,
        /// What was written.
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
    /// Measured on the machine this was written on: a virtual machine with 2 CPUs of an AMD EPYC
    /// (family 26), Linux 6.18, while its two CPUs were two cores. Its host at times makes them two
    /// threads of one core, between which nothing costs much; a machine of 56 programs on 56 cores
    /// is never like that. Prices by name are of `cargo bench -p pagetide --bench lock`, medians:
    ///
    /// - `list_hit`: half of `pagetide bench alloc`'s fault loop with `refill`, 128 MiB at a time
    ///   and nothing through the zone, 23.8 ns. A single pair, 10.6 ns, finds its frame's word in
    ///   the nearest cache, as only the smallest of the workloads would;
    /// - `acquire` 4.9, `line_transfer` 88, `hand_off` 176 (22 between threads of a core). Between
    ///   cores of one socket others publish 47 to 51 (Intel, 24 and 32 cores), between groups of
    ///   cores 107 and 115 (AMD), between sockets 108 to 197 (N. Viennot, "core-to-core latency");
    /// - `zone_page` 20.2, `zone_lines` 1138: two threads by turns, each playing 28 programs that
    ///   take and return 128 MiB, so that a hold finds the zone in the other CPU's caches and half
    ///   of its frames' words in none: 2501 ns for 63 frames, 41,919 for 2016. With one thread
    ///   and the same few frames again and again it is 10 ns a frame and nothing else, which is the
    ///   price of a machine with one CPU;
    /// - `touch`: page_fault1's loop with one process (`mmap`, a write to each page, `munmap`, 128
    ///   MiB, no huge pages) takes 1876 ns a page here, the median of seven runs of 1738 to 2721;
    ///   less the 94 ns that Linux's allocator is published to take for a pair;
    /// - `wake`: the fastest wake-up across its CPUs.
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

    /// Each price with its name.
    pub fn named(&self) -> [(&'static str, Nanos); 8] {
        let Costs { list_hit, acquire, hand_off, line_transfer, .. } = *self;
        let Costs { zone_page, zone_lines, touch, wake, .. } = *self;
        let prices =
            [list_hit, acquire, hand_off, line_transfer, zone_page, zone_lines, touch, wake];
        std::array::from_fn(|at| (NAMES[at], prices[at]))
    }

    /// The same prices, but for one.
    ///
    /// # Errors
    /// [`CostError::UnknownName`], if these prices have none of that name.
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

/// One price, as people write it: `zone_page=40`. What it is a price of is found out by the table
/// of prices it is set in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Price {
    name: String,
    /// In the unit of its table: nanoseconds, mostly.
    pub number: u64,
}

impl Price {
    /// Which of `names` it is.
    ///
    /// # Errors
    /// [`CostError::UnknownName`], if it is none of them.
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
