//! Counted hits of a folio.

use core::hint::select_unpredictable;

/// Hits that are not all logged.
///
/// ```text
///   31 30   bit 16    15 ... 0
///   count   watched   tick of the last logged access, 0 if none since bound
/// ```
///
/// The count is at the top, so that a carry is an overflow. One of two concurrent hits may be lost:
/// a locked instruction would delay the reader.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Hits(pub(super) u32);

impl Hits {
    const COUNT_SHIFT: u32 = 30;
    const WATCHED: u32 = 1 << 16;
    const TICK: u32 = u16::MAX as u32;
    /// Maximum of [`Hits::count`].
    pub const COUNT_MAX: u32 = 3;

    /// Returns the saturated count in this tick.
    #[inline]
    pub const fn quiet(tick: u16) -> Hits {
        Hits(Hits::COUNT_MAX << Hits::COUNT_SHIFT | tick as u32)
    }

    /// Returns the hits, 0 to [`Hits::COUNT_MAX`].
    #[inline]
    pub const fn count(self) -> u32 {
        self.0 >> Hits::COUNT_SHIFT
    }

    /// Adds a hit, saturating, without a branch.
    #[inline]
    pub fn with_another(self) -> Hits {
        let (more, is_too_many) = self.0.overflowing_add(1 << Hits::COUNT_SHIFT);
        Hits(select_unpredictable(is_too_many, self.0, more))
    }

    /// Returns the value with another count.
    #[inline]
    pub const fn with_count(self, count: u32) -> Hits {
        Hits(self.0 & !(Hits::COUNT_MAX << Hits::COUNT_SHIFT) | count << Hits::COUNT_SHIFT)
    }

    /// Returns the tick of the last logged access.
    #[inline]
    pub const fn tick(self) -> u16 {
        self.0 as u16
    }

    /// Returns the value with another tick.
    #[inline]
    pub const fn with_tick(self, tick: u16) -> Hits {
        Hits(self.0 & !Hits::TICK | tick as u32)
    }

    /// Returns true if an access in this tick is logged.
    #[inline]
    pub const fn wants_log(self, tick: u16) -> bool {
        (self.0 ^ tick as u32) & (Hits::WATCHED | Hits::TICK) != 0
    }

    /// Returns true if every access is logged.
    #[inline]
    pub const fn is_watched(self) -> bool {
        self.0 & Hits::WATCHED != 0
    }

    /// Returns the value, watched or not.
    #[inline]
    pub const fn with_watched(self, is_watched: bool) -> Hits {
        Hits(if is_watched { self.0 | Hits::WATCHED } else { self.0 & !Hits::WATCHED })
    }
}
