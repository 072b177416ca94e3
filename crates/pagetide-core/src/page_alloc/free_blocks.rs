//! Free blocks per order: a measure of fragmentation.
//!
//! **Problem.** "64 MiB are free" does not tell if 2 MiB are contiguous.
//!
//! **Idea.** A count per free list, like `/proc/pagetypeinfo`.
//!
//! ```text
//!  free blocks   4K   8K  16K ...  4M
//!                12    7    3     201      frames = sum of count << order
//! ```
//!
//! **Data and invariants.** Each count is the length of a buddy list, as its `validate` checks.
//!
//! **Ignored.** Frames on per-CPU lists.
//!
//! **Source.** Linux 6.18's buddy allocator.

use alloc::string::ToString;
use core::fmt;

use crate::ids::Order;
use crate::units::Bytes;

pub(super) const ORDERS: usize = Order::MAX.0 as usize + 1;

/// Number of free blocks per order.
///
/// Shape: `[order 0..=10]`, in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FreeBlocks {
    counts: [u32; ORDERS],
}

impl FreeBlocks {
    /// Returns the free blocks of exactly this order.
    pub const fn nr_blocks(&self, order: Order) -> u32 {
        self.counts[order.0 as usize]
    }

    /// Returns true if a block of at least this order is free.
    pub fn has(&self, order: Order) -> bool {
        self.largest().is_some_and(|largest| largest >= order)
    }

    /// Returns the order of the largest free block.
    pub fn largest(&self) -> Option<Order> {
        (0..=Order::MAX.0).rev().map(Order).find(|&order| self.nr_blocks(order) > 0)
    }

    /// Returns the share of free frames in blocks below this order, per mille. 0 if nothing is
    /// free.
    ///
    /// # Source
    /// Linux, `unusable_index`.
    pub fn unusable_index(&self, order: Order) -> u32 {
        let nr_free = self.nr_frames_from(Order::BASE);
        let nr_usable = self.nr_frames_from(order);
        ((nr_free - nr_usable) * 1000).checked_div(nr_free).unwrap_or(0) as u32
    }

    fn nr_frames_from(&self, order: Order) -> u64 {
        (order.0..=Order::MAX.0).map(|order| u64::from(self.nr_blocks(Order(order))) << order).sum()
    }

    pub(super) fn add(&mut self, order: Order) {
        self.counts[order.0 as usize] += 1;
    }

    pub(super) fn subtract(&mut self, order: Order) {
        self.counts[order.0 as usize] -= 1;
    }
}

impl fmt::Display for FreeBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<11}", "free blocks")?;
        for order in (0..=Order::MAX.0).map(Order) {
            write!(f, " {:>6}", Bytes::from_pages(order.nr_frames().into()).to_string())?;
        }
        write!(f, "\n{:<11}", "")?;
        self.counts.iter().try_for_each(|count| write!(f, " {count:>6}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn the_table_has_a_column_for_each_order() {
        let mut blocks = FreeBlocks::default();
        (0..12).for_each(|_| blocks.add(Order(0)));
        blocks.add(Order(10));
        let expected = "\
free blocks     4K     8K    16K    32K    64K   128K   256K   512K     1M     2M     4M
                12      0      0      0      0      0      0      0      0      0      1";
        assert_eq!(format!("{blocks}"), expected);
    }

    #[test]
    fn frames_in_pieces_too_small_are_told() {
        let mut blocks = FreeBlocks::default();
        assert_eq!(blocks.unusable_index(Order(3)), 0);
        (0..100).for_each(|_| blocks.add(Order(0)));
        assert_eq!(blocks.unusable_index(Order(3)), 1000);
        let mut blocks = FreeBlocks::default();
        blocks.add(Order(2));
        blocks.add(Order(3));
        assert_eq!(blocks.unusable_index(Order(3)), 333);
    }

    #[test]
    fn counts_tell_the_largest_block() {
        let mut blocks = FreeBlocks::default();
        blocks.add(Order(0));
        blocks.add(Order(4));
        blocks.add(Order(4));
        assert_eq!(blocks.nr_blocks(Order(4)), 2);
        assert_eq!(blocks.largest(), Some(Order(4)));
        assert_eq!(FreeBlocks::default().largest(), None);
        assert!(blocks.has(Order(3)));
        assert!(!blocks.has(Order(5)));
        (0..2).for_each(|_| blocks.subtract(Order(4)));
        assert!(!blocks.has(Order(1)));
    }
}
