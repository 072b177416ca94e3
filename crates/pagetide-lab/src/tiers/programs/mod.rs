//! Programs that touch memory, for judging tiering.
//!
//! **Problem.** A tiering policy is as good as its test programs. **Idea.** One endless stream of
//! touches for each pattern of hot pages:
//!
//! ```text
//!   pmbench        /\     hot in the middle, cold at the edges, for ever    drawn.rs
//!   tier-oltp      |.|.   inner pages, the newest rows, and a long tail     oltp.rs
//!   tier-zipf      |.     a few very hot, scattered                         drawn.rs
//!   (a trace)             a recording, over and over                        recorded.rs
//! ```
//!
//! **Data and invariants.** Pages are 0 up to `nr_pages`. The same seed gives the same touches,
//! independent of memory speed.
//!
//! **Deliberately ignored.** Accesses that hit a CPU cache. Differences between threads.

mod alias;
mod drawn;
mod oltp;
mod recorded;

pub use drawn::DrawnPages;
pub use oltp::Oltp;
pub use recorded::Recorded;

use super::access_loop::TierAccess;

/// An endless stream of touches.
pub trait AccessStream: Send {
    /// Returns the number of pages, which count from 0.
    fn nr_pages(&self) -> u32;

    /// Appends the next `nr` touches.
    fn touch(&mut self, nr: usize, touches: &mut Vec<TierAccess>);
}

pagetide_core::named! {
    /// A program by name.
    pub enum TierWorkload or UnknownTierWorkload("no such workload") {
        Pmbench = "pmbench",
            "pages drawn from a bell curve over all memory (sigma 1/8 of it), a fifth written";
        Oltp = "tier-oltp",
            "transactions over 200 tables: three queries in four go to a hundredth of the rows";
        Zipf = "tier-zipf", "reads by Zipf's law (skew 0.99), pages scattered, a tenth written";
    }
}

impl TierWorkload {
    /// Returns the program over at most `nr_pages` pages.
    ///
    /// # Cost
    /// O(pages).
    pub fn program(self, nr_pages: u32, seed: u64) -> Box<dyn AccessStream> {
        assert!(nr_pages >= PAGES_MIN, "{nr_pages} pages are no program's memory");
        match self {
            TierWorkload::Pmbench => Box::new(DrawnPages::bell(nr_pages, seed)),
            TierWorkload::Oltp => Box::new(Oltp::new(nr_pages, seed)),
            TierWorkload::Zipf => Box::new(DrawnPages::zipf(nr_pages, 0.99, seed)),
        }
    }
}

/// Minimum pages of a program.
pub const PAGES_MIN: u32 = 256;

#[cfg(test)]
mod tests;
