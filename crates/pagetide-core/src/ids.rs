//! Identifiers: one newtype per kind of number.
//!
//! Ids print with a prefix (`Fx1a` is a frame, `Px2b` a page). There is no arithmetic across kinds.

use core::fmt;
use core::ops::Range;

/// A slot of memory in the arena, one base page long.
///
/// Shape: an index below the arena's frame count, at most 2^28 frames (1 TiB).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u32);

/// Index of a page of *contents* in its mapping: byte offset / page length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PageIndex(pub u64);

impl PageIndex {
    /// All indices of a mapping.
    pub const ALL: Range<PageIndex> = PageIndex(0)..PageIndex(u64::MAX);
}

/// A managed file or region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MappingId(pub u32);

/// A page of contents: a mapping and an index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct PageId {
    /// Mapping.
    pub mapping: MappingId,
    /// Index in the mapping.
    pub index: PageIndex,
}

/// The caller's CPU, which selects a per-CPU list. May be stale.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CpuId(pub u32);

/// Order of a folio of `1 << order` frames.
///
/// Use [`Order::new`] for outside numbers. No block exceeds [`Order::MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Order(pub u8);

impl Order {
    /// One base page.
    pub const BASE: Order = Order(0);
    /// Largest order of the buddy allocator.
    pub const MAX: Order = Order(10);

    /// Checks the order.
    ///
    /// # Errors
    /// [`OrderTooLarge`] above [`Order::MAX`].
    pub const fn new(order: u8) -> Result<Order, OrderTooLarge> {
        if order > Order::MAX.0 { Err(OrderTooLarge { given: order }) } else { Ok(Order(order)) }
    }

    /// Returns the frames of a folio of this order, at most [`Order::MAX`].
    pub const fn nr_frames(self) -> u32 {
        1 << self.0
    }
}

/// No block is that large. Request smaller ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("order {given} is above {largest}, the largest of a block", largest = Order::MAX.0)]
pub struct OrderTooLarge {
    /// Requested order.
    pub given: u8,
}

/// A memory group, the tenant that pays for a frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupId(pub u16);

impl GroupId {
    /// The root of the tree.
    pub const ROOT: GroupId = GroupId(0);
}

/// A NUMA node: one zone, one lruvec per group, one speed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u8);

impl NodeId {
    /// Returns the index in arrays by node.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A class of memory by speed. The lowest is the fastest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TierId(pub u32);

/// Origin of a folio's contents. Reclaim balances between types.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PageType {
    /// Backed by swap only.
    Anon = 0,
    /// Backed by a file.
    File = 1,
}

impl PageType {
    /// Both types, in index order.
    pub const ALL: [PageType; 2] = [PageType::Anon, PageType::File];

    /// Returns the index in arrays by type.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the opposite type.
    pub const fn other(self) -> PageType {
        match self {
            PageType::Anon => PageType::File,
            PageType::File => PageType::Anon,
        }
    }
}

macro_rules! prefixed {
    ($id:ty, $prefix:literal, $radix:literal) => {
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, $radix), self.0)
            }
        }
        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

prefixed!(FrameId, "Fx", "{:x}");
prefixed!(PageIndex, "Px", "{:x}");
prefixed!(MappingId, "Mx", "{:x}");
prefixed!(CpuId, "cpu", "{}");
prefixed!(Order, "o", "{}");
prefixed!(GroupId, "Gx", "{:x}");
prefixed!(NodeId, "node", "{}");
prefixed!(TierId, "tier", "{}");

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.mapping, self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn ids_print_their_kind() {
        assert_eq!(format!("{}", FrameId(26)), "Fx1a");
        assert_eq!(format!("{}", PageIndex(43)), "Px2b");
        let page = PageId { mapping: MappingId(2), index: PageIndex(16) };
        assert_eq!(format!("{page}"), "Mx2:Px10");
        assert_eq!(format!("{:?}", CpuId(3)), "cpu3");
        assert_eq!(format!("{}", GroupId(18)), "Gx12");
        assert_eq!(format!("{} {:?}", NodeId(1), TierId(4)), "node1 tier4");
    }

    #[test]
    fn order_counts_frames() {
        assert_eq!(Order::BASE.nr_frames(), 1);
        assert_eq!(Order::MAX.nr_frames(), 1024);
    }

    #[test]
    fn orders_past_the_largest_are_refused_with_numbers() {
        assert_eq!(Order::new(10), Ok(Order::MAX));
        let error = Order::new(11).expect_err("no block is that large");
        assert_eq!(format!("{error}"), "order 11 is above 10, the largest of a block");
        assert!(Order::new(255).is_err());
    }
}
