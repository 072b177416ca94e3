//! What is counted of a folio's hits, as a value.

/// What a policy that does not hear of each hit keeps of them.
///
/// ```text
///   bit 18    17 16   15 ... 0
///   watched   count   tick of the access logged last; 0: none since the folio was bound
/// ```
///
/// It is read and written apart, without a locked instruction, which would hold up what the reader
/// of a page does next; so of two hits at once one may not count.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Hits(pub(super) u32);

impl Hits {
    const COUNT_SHIFT: u32 = 16;
    const WATCHED: u32 = 1 << 18;
    /// The most [`Hits::count`] can say.
    pub const COUNT_MAX: u32 = 3;

    /// All that is counted, in this tick: another hit changes nothing, if nobody watches.
    #[inline]
    pub const fn quiet(tick: u16) -> Hits {
        Hits(Hits::COUNT_MAX << Hits::COUNT_SHIFT | tick as u32)
    }

    /// Hits counted, 0 to [`Hits::COUNT_MAX`].
    #[inline]
    pub const fn count(self) -> u32 {
        self.0 >> Hits::COUNT_SHIFT & Hits::COUNT_MAX
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
        Hits(self.0 & !(u16::MAX as u32) | tick as u32)
    }

    /// Whether its policy wants to hear of each access: of few folios.
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
