//! What is counted of a folio's hits, as a value.

use core::hint::select_unpredictable;

/// What a policy to which not each hit is logged keeps of them.
///
/// ```text
///   31 30   bit 16    15 ... 0
///   count   watched   tick of the access logged last; 0: none since the folio was bound
/// ```
///
/// The count is at the top, so that one too many is an overflow.
///
/// It is read and written apart, without a locked instruction, which would hold up what the reader
/// of a page does next; so of two hits at once one may not count.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Hits(pub(super) u32);

impl Hits {
    const COUNT_SHIFT: u32 = 30;
    const WATCHED: u32 = 1 << 16;
    const TICK: u32 = u16::MAX as u32;
    /// The most [`Hits::count`] can say.
    pub const COUNT_MAX: u32 = 3;

    /// All that is counted, in this tick: another hit changes nothing, unless it is watched.
    #[inline]
    pub const fn quiet(tick: u16) -> Hits {
        Hits(Hits::COUNT_MAX << Hits::COUNT_SHIFT | tick as u32)
    }

    /// Hits counted, 0 to [`Hits::COUNT_MAX`].
    #[inline]
    pub const fn count(self) -> u32 {
        self.0 >> Hits::COUNT_SHIFT
    }

    /// One hit more, as far as they are counted. How far that is no branch can guess.
    #[inline]
    pub fn with_another(self) -> Hits {
        let (more, is_too_many) = self.0.overflowing_add(1 << Hits::COUNT_SHIFT);
        Hits(select_unpredictable(is_too_many, self.0, more))
    }

    /// The same with another count.
    #[inline]
    pub const fn with_count(self, count: u32) -> Hits {
        Hits(self.0 & !(Hits::COUNT_MAX << Hits::COUNT_SHIFT) | count << Hits::COUNT_SHIFT)
    }

    /// The tick in which an access was logged last.
    #[inline]
    pub const fn tick(self) -> u16 {
        self.0 as u16
    }

    /// The same with another tick.
    #[inline]
    pub const fn with_tick(self, tick: u16) -> Hits {
        Hits(self.0 & !Hits::TICK | tick as u32)
    }

    /// Whether an access in this tick is to be logged: the first, or any if the policy watches.
    #[inline]
    pub const fn wants_log(self, tick: u16) -> bool {
        (self.0 ^ tick as u32) & (Hits::WATCHED | Hits::TICK) != 0
    }

    /// Whether each access is to be logged, which policies want of few folios.
    #[inline]
    pub const fn is_watched(self) -> bool {
        self.0 & Hits::WATCHED != 0
    }

    /// The same, watched or not.
    #[inline]
    pub const fn with_watched(self, is_watched: bool) -> Hits {
        Hits(if is_watched { self.0 | Hits::WATCHED } else { self.0 & !Hits::WATCHED })
    }
}
