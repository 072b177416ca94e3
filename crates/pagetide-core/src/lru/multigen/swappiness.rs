//! How willing to evict anonymous folios: which types reclaim may take, and their weights.
//!
//! ```text
//!   0            1 ........ 200             201
//!   file only    both, weighed by refaults  anonymous only
//! ```
//!
//! Nowhere to swap to means 0. At 1 the file type always goes first, at 200 the anonymous type; the
//! other is then taken only when the first yields nothing.
//! Source: the multi-gen LRU specification, sections 5 to 7.

use crate::ids::PageType;
use crate::lru::LruConfig;

/// A checked swappiness, 0 to 201.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Swappiness(u8);

impl Swappiness {
    /// The largest weight.
    pub(super) const MAX: u8 = 200;
    const ANON_ONLY: u8 = 201;

    /// What `config` asks for; more than 201 counts as 201.
    pub(super) fn new(config: &LruConfig) -> Swappiness {
        let wanted = if config.can_swap { config.swappiness } else { 0 };
        Swappiness(wanted.min(Swappiness::ANON_ONLY))
    }

    /// Whether reclaim may take folios of this type at all.
    pub(super) const fn evicts(self, page_type: PageType) -> bool {
        match page_type {
            PageType::Anon => self.0 > 0,
            PageType::File => self.0 <= Swappiness::MAX,
        }
    }

    /// Whether it may take both types.
    pub(super) const fn evicts_both(self) -> bool {
        self.evicts(PageType::Anon) && self.evicts(PageType::File)
    }

    /// The type that goes first whatever the refaults say, if there is one.
    pub(super) const fn forced_type(self) -> Option<PageType> {
        match self.0 {
            0 | 1 => Some(PageType::File),
            Swappiness::MAX.. => Some(PageType::Anon),
            _ => None,
        }
    }

    /// The type's weight in the controller: the two add up to 200.
    pub(super) const fn gain(self, page_type: PageType) -> u64 {
        match page_type {
            PageType::Anon => self.0 as u64,
            PageType::File => Swappiness::MAX.saturating_sub(self.0) as u64,
        }
    }
}

#[cfg(test)]
impl From<u8> for Swappiness {
    fn from(swappiness: u8) -> Swappiness {
        Swappiness::new(&LruConfig { swappiness, can_swap: true, ..LruConfig::file_only(1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_range_choose_without_refaults() {
        let forced = |swappiness: u8| Swappiness::from(swappiness).forced_type();
        assert_eq!([0, 1].map(forced), [Some(PageType::File); 2]);
        assert_eq!([2, 60, 199].map(forced), [None; 3]);
        assert_eq!([200, 201, 255].map(forced), [Some(PageType::Anon); 3]);
    }

    #[test]
    fn types_outside_the_range_are_never_taken() {
        let evicts = |swappiness: u8| PageType::ALL.map(|t| Swappiness::from(swappiness).evicts(t));
        assert_eq!(evicts(0), [false, true]);
        assert_eq!(evicts(1), [true, true]);
        assert_eq!(evicts(200), [true, true]);
        assert_eq!(evicts(201), [true, false]);
        let nowhere = LruConfig { can_swap: false, ..LruConfig::file_only(1) };
        assert!(!Swappiness::new(&nowhere).evicts(PageType::Anon));
    }
}
