//! Migrate types: which blocks may sit next to which.
//!
//! **Problem.** One frame that can never move, in the middle of 2 MiB of frames that can, is enough
//! to make those 2 MiB useless for a large folio.
//!
//! **Idea.** Sort allocations by whether their contents can be moved or dropped, and give each kind
//! pageblocks (2 MiB) of its own. A kind that runs dry falls back on another kind's blocks, in a
//! fixed order, and rather claims a large piece than many small ones.
//!
//! ```text
//!  pageblock 0        pageblock 1        pageblock 2
//! [M M . M . . M M]  [U U . U . . . .]  [M . . . . . . .]    M movable  U unmovable  . free
//!  type Movable       type Unmovable     type Movable
//! ```
//!
//! **Data and invariants.** A pageblock has one type. A free block is on the list of its
//! pageblock's type, whatever it was used for before; allocated blocks of other types may live in
//! it.
//!
//! **Deliberately ignored.** Contiguous-memory areas (CMA) and isolation: nothing here needs a
//! physically contiguous range at a given place. The reserve for urgent requests above order 0:
//! there are none.
//!
//! Source: the page allocator specification, section 2 (Linux 6.18); the pageblock order is Linux's
//! on x86-64.

use crate::ids::Order;

/// The order of a pageblock: 2 MiB of frames share one migrate type.
pub const PAGEBLOCK_ORDER: Order = Order(9);

/// Frames in a pageblock.
pub const PAGEBLOCK_FRAMES: u32 = PAGEBLOCK_ORDER.nr_frames();

const _: () = assert!(PAGEBLOCK_ORDER.0 < Order::MAX.0);

/// Whether the contents of a block can be moved or given up; blocks of a kind are kept together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum MigrateType {
    /// Stays where it is until freed: descriptors, pinned buffers.
    Unmovable = 0,
    /// Can be copied elsewhere or evicted: a page cache's pages. Fresh zones are all of this type.
    #[default]
    Movable = 1,
    /// Stays where it is but can be given up on demand.
    Reclaimable = 2,
}

impl MigrateType {
    /// How many types there are.
    pub const COUNT: usize = 3;

    /// All types, in index order.
    pub const ALL: [MigrateType; MigrateType::COUNT] =
        [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable];

    /// Its name, as in the kernel's statistics but in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            MigrateType::Unmovable => "unmovable",
            MigrateType::Movable => "movable",
            MigrateType::Reclaimable => "reclaimable",
        }
    }

    /// The type's position in arrays indexed by type.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The type at `index`, as [`MigrateType::index`] numbers them.
    ///
    /// # Panics
    ///
    /// When `index` is not below [`MigrateType::COUNT`].
    #[inline]
    pub const fn from_index(index: usize) -> MigrateType {
        MigrateType::ALL[index]
    }

    /// Where to look when this type's own lists hold nothing large enough, best first.
    pub const fn fallbacks(self) -> &'static [MigrateType] {
        match self {
            MigrateType::Unmovable => &[MigrateType::Reclaimable, MigrateType::Movable],
            MigrateType::Movable => &[MigrateType::Reclaimable, MigrateType::Unmovable],
            MigrateType::Reclaimable => &[MigrateType::Unmovable, MigrateType::Movable],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_come_back_from_their_index() {
        for migrate in MigrateType::ALL {
            assert_eq!(MigrateType::from_index(migrate.index()), migrate);
        }
    }

    #[test]
    fn fallback_reaches_every_other_type() {
        use MigrateType::{Movable, Reclaimable, Unmovable};
        assert_eq!(Unmovable.fallbacks(), [Reclaimable, Movable]);
        assert_eq!(Movable.fallbacks(), [Reclaimable, Unmovable]);
        assert_eq!(Reclaimable.fallbacks(), [Unmovable, Movable]);
    }
}
