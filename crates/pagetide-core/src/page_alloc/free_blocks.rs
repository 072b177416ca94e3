//! Free blocks per order and migrate type: what fragmentation looks like from outside.
//!
//! **Problem.** "64 MiB are free" does not say whether 2 MiB can be had in one piece.
//!
//! **Idea.** A count for each free list, kept beside the lists: `/proc/pagetypeinfo` as a value.
//!
//! ```text
//!  free blocks   4K   8K  16K ...  4M
//!  unmovable      5    0    1       0
//!  movable       12    7    3     201      frames = sum of count << order
//! ```
//!
//! **Data and invariants.** Each count is the length of one list of the buddy allocator, which its
//! `validate` proves.
//!
//! **Deliberately ignored.** Frames on per-CPU lists: they are not free.
//!
//! Source: the page allocator specification, section 2.

use alloc::string::ToString;
use core::fmt;

use super::migrate::MigrateType;
use crate::ids::Order;
use crate::units::Bytes;

/// Orders the buddy allocator keeps lists for.
pub(super) const ORDERS: usize = Order::MAX.0 as usize + 1;

/// The number of free blocks of each order and type.
///
/// Shape: `[order 0..=10][migrate type]`, in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FreeBlocks {
    counts: [[u32; MigrateType::COUNT]; ORDERS],
}

impl FreeBlocks {
    /// Free blocks of exactly this order and type.
    pub const fn nr_blocks(&self, order: Order, migrate: MigrateType) -> u32 {
        self.counts[order.0 as usize][migrate.index()]
    }

    /// Free blocks of exactly this order, of any type.
    pub fn nr_blocks_of(&self, order: Order) -> u32 {
        self.counts[order.0 as usize].iter().sum()
    }

    /// Whether a block of at least this order is free on the type's own lists.
    pub fn has(&self, order: Order, migrate: MigrateType) -> bool {
        self.counts[order.0 as usize..].iter().any(|counts| counts[migrate.index()] > 0)
    }

    /// The order of the largest free block of any type; `None` when nothing is free.
    pub fn largest(&self) -> Option<Order> {
        (0..=Order::MAX.0).rev().map(Order).find(|&order| self.nr_blocks_of(order) > 0)
    }

    /// Frames in the free blocks of one type.
    pub fn nr_frames(&self, migrate: MigrateType) -> u64 {
        let frames = |(order, counts): (usize, &[u32; MigrateType::COUNT])| {
            u64::from(counts[migrate.index()]) << order
        };
        self.counts.iter().enumerate().map(frames).sum()
    }

    /// The share of free frames that lie in pieces too small for this order, in thousandths: 0 when
    /// none does, or nothing is free.
    ///
    /// # Source
    ///
    /// Linux, `unusable_index`.
    pub fn unusable_index(&self, order: Order) -> u32 {
        let nr_free: u64 = MigrateType::ALL.iter().map(|&migrate| self.nr_frames(migrate)).sum();
        let nr_usable: u64 =
            (order.0..=Order::MAX.0).map(|o| u64::from(self.nr_blocks_of(Order(o))) << o).sum();
        ((nr_free - nr_usable) * 1000).checked_div(nr_free).unwrap_or(0) as u32
    }

    pub(super) fn add(&mut self, order: Order, migrate: MigrateType) {
        self.counts[order.0 as usize][migrate.index()] += 1;
    }

    pub(super) fn subtract(&mut self, order: Order, migrate: MigrateType) {
        self.counts[order.0 as usize][migrate.index()] -= 1;
    }
}

/// A table for people: a column for each length of blocks, a row for each type that has any free.
impl fmt::Display for FreeBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<11}", "free blocks")?;
        for order in (0..=Order::MAX.0).map(Order) {
            write!(f, " {:>6}", Bytes::from_pages(order.nr_frames().into()).to_string())?;
        }
        for migrate in MigrateType::ALL {
            if self.nr_frames(migrate) > 0 {
                write!(f, "\n{:<11}", migrate.as_str())?;
                let counts = self.counts.iter().map(|counts| counts[migrate.index()]);
                counts.into_iter().try_for_each(|count| write!(f, " {count:>6}"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn the_table_has_a_row_for_each_type_with_free_blocks() {
        let mut blocks = FreeBlocks::default();
        (0..12).for_each(|_| blocks.add(Order(0), MigrateType::Movable));
        blocks.add(Order(10), MigrateType::Movable);
        blocks.add(Order(1), MigrateType::Unmovable);
        let expected = "\
free blocks     4K     8K    16K    32K    64K   128K   256K   512K     1M     2M     4M
unmovable        0      1      0      0      0      0      0      0      0      0      0
movable         12      0      0      0      0      0      0      0      0      0      1";
        assert_eq!(format!("{blocks}"), expected);
    }

    #[test]
    fn frames_in_pieces_too_small_are_told() {
        let mut blocks = FreeBlocks::default();
        assert_eq!(blocks.unusable_index(Order(3)), 0);
        (0..100).for_each(|_| blocks.add(Order(0), MigrateType::Movable));
        assert_eq!(blocks.unusable_index(Order(3)), 1000);
        let mut blocks = FreeBlocks::default();
        blocks.add(Order(2), MigrateType::Unmovable);
        blocks.add(Order(3), MigrateType::Movable);
        assert_eq!(blocks.unusable_index(Order(3)), 333);
    }

    #[test]
    fn counts_tell_frames_and_the_largest_block() {
        let mut blocks = FreeBlocks::default();
        blocks.add(Order(0), MigrateType::Movable);
        blocks.add(Order(4), MigrateType::Movable);
        blocks.add(Order(4), MigrateType::Unmovable);
        assert_eq!(blocks.nr_frames(MigrateType::Movable), 17);
        assert_eq!(blocks.nr_blocks_of(Order(4)), 2);
        assert_eq!(blocks.largest(), Some(Order(4)));
        assert_eq!(FreeBlocks::default().largest(), None);
        assert!(blocks.has(Order(3), MigrateType::Movable));
        assert!(!blocks.has(Order(5), MigrateType::Movable));
        blocks.subtract(Order(4), MigrateType::Movable);
        assert!(!blocks.has(Order(1), MigrateType::Movable));
    }
}
