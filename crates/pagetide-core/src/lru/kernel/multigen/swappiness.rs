//! Swappiness: the evictable types and their weights.
//!
//! ```text
//!   0            1 ........ 200             201
//!   file only    both, weighed by refaults  anonymous only
//! ```
//!
//! Without a swap store the swappiness is 0. At 1 the file type always goes first, at 200 the
//! anonymous type. The second type is evicted only if the first yields nothing. The maximum of
//! Linux 6.1 is 200. Source: Linux 6.18's multi-gen LRU.

use crate::ids::PageType;

/// A checked swappiness, 0 to 201.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Swappiness(u8);

impl Swappiness {
    pub(super) const MAX: u8 = 200;
    pub(super) const ANON_ONLY: u8 = 201;

    /// Creates a swappiness of at most `max` (200 or 201), or 0 without a swap store.
    pub(super) fn new(can_swap: bool, asked: u8, max: u8) -> Swappiness {
        let wanted = if can_swap { asked } else { 0 };
        Swappiness(wanted.min(max))
    }

    /// Keeps 0 without a swap store.
    pub(super) const fn limited_to(self, asked: u8) -> Swappiness {
        if self.0 == 0 { self } else { Swappiness(asked) }
    }

    pub(super) const fn evicts(self, page_type: PageType) -> bool {
        match page_type {
            PageType::Anon => self.0 > 0,
            PageType::File => self.0 <= Swappiness::MAX,
        }
    }

    pub(super) const fn evicts_both(self) -> bool {
        self.evicts(PageType::Anon) && self.evicts(PageType::File)
    }

    /// Returns the type that goes first regardless of refaults.
    pub(super) const fn forced_type(self) -> Option<PageType> {
        match self.0 {
            0 | 1 => Some(PageType::File),
            Swappiness::MAX.. => Some(PageType::Anon),
            _ => None,
        }
    }

    /// Decides without refaults.
    pub(super) fn preferred_type(self) -> PageType {
        let is_anon_heavier = self.gain(PageType::Anon) > self.gain(PageType::File);
        let heavier = if is_anon_heavier { PageType::Anon } else { PageType::File };
        self.forced_type().unwrap_or(heavier)
    }

    /// Returns a weight. Both add up to 200.
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
        Swappiness::new(true, swappiness, Swappiness::ANON_ONLY)
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
    fn without_refaults_the_heavier_type_goes_first() {
        let preferred = |swappiness: u8| Swappiness::from(swappiness).preferred_type();
        assert_eq!([0, 60, 100].map(preferred), [PageType::File; 3]);
        assert_eq!([101, 200, 201].map(preferred), [PageType::Anon; 3]);
    }

    #[test]
    fn types_outside_the_range_are_never_taken() {
        let evicts = |swappiness: u8| PageType::ALL.map(|t| Swappiness::from(swappiness).evicts(t));
        assert_eq!(evicts(0), [false, true]);
        assert_eq!(evicts(1), [true, true]);
        assert_eq!(evicts(200), [true, true]);
        assert_eq!(evicts(201), [true, false]);
        assert!(!Swappiness::new(false, 60, 200).evicts(PageType::Anon));
        assert!(Swappiness::new(true, 201, 200).evicts(PageType::File), "6.1 knows no 201");
    }
}
