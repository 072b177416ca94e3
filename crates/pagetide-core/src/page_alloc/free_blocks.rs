//! Free blocks per order and migrate type: what fragmentation looks like from outside.
//!
//! **Problem.** "64 MiB are free" does not say whether 2 MiB can be had in one piece.
//!
//! **Idea.** A count for each free list, kept beside the lists: `/proc/pagetypeinfo` as a value.
//!
//! ```text
//!              order 0   1   2 ...  10
//!  Unmovable        5   0   1        0
//!  Movable         12   7   3      201      frames = sum of count << order
//! ```
//!
//! **Data and invariants.** Each count is the length of one list of the buddy allocator, which its
//! `validate` proves.
//!
//! **Deliberately ignored.** Frames on per-CPU lists: they are not free.
//!
//! Source: the page allocator specification, section 2.

use super::migrate::MigrateType;
use crate::ids::Order;

/// Orders the buddy allocator keeps lists for.
pub(super) const ORDERS: usize = Order::MAX.0 as usize + 1;

/// The number of free blocks of each order and type.
///
/// Shape: `[order 0..=10][migrate type]`, in blocks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
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

    /// Frames in the free blocks of one type.
    pub fn nr_frames(&self, migrate: MigrateType) -> u64 {
        let frames = |(order, counts): (usize, &[u32; MigrateType::COUNT])| {
            u64::from(counts[migrate.index()]) << order
        };
        self.counts.iter().enumerate().map(frames).sum()
    }

    pub(super) fn add(&mut self, order: Order, migrate: MigrateType) {
        self.counts[order.0 as usize][migrate.index()] += 1;
    }

    pub(super) fn subtract(&mut self, order: Order, migrate: MigrateType) {
        self.counts[order.0 as usize][migrate.index()] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_tell_frames_and_the_largest_block() {
        let mut blocks = FreeBlocks::default();
        blocks.add(Order(0), MigrateType::Movable);
        blocks.add(Order(4), MigrateType::Movable);
        blocks.add(Order(4), MigrateType::Unmovable);
        assert_eq!(blocks.nr_frames(MigrateType::Movable), 17);
        assert_eq!(blocks.nr_blocks_of(Order(4)), 2);
        assert!(blocks.has(Order(3), MigrateType::Movable));
        assert!(!blocks.has(Order(5), MigrateType::Movable));
        blocks.subtract(Order(4), MigrateType::Movable);
        assert!(!blocks.has(Order(1), MigrateType::Movable));
    }
}
