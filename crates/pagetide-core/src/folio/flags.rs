//! The flags word of a folio, as a value.

use crate::ids::PageType;
use core::fmt;

/// A snapshot of a folio's flags, or a mask.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u64);

impl Flags {
    /// Generation index plus one, or 0. Four bits.
    pub const GEN: Flags = Flags(0xf);
    /// References beyond the first, 0 to 3. Two bits.
    pub const REFS: Flags = Flags(0x3 << 4);
    /// Accessed since the flag was last cleared.
    pub const REFERENCED: Flags = Flags(1 << 8);
    /// Once active, or with saturated references.
    pub const WORKINGSET: Flags = Flags(1 << 9);
    /// On, or bound for, the active list or youngest generation.
    pub const ACTIVE: Flags = Flags(1 << 10);
    /// Locked in memory. Log a touch after clearing the flag, so that the folio is listed again.
    pub const UNEVICTABLE: Flags = Flags(1 << 11);
    /// Newer than the store. The flusher clears the flag before a write.
    pub const DIRTY: Flags = Flags(1 << 12);
    /// Under write-back. The frame may not be taken.
    pub const WRITEBACK: Flags = Flags(1 << 13);
    /// Dirty or under write-back at reclaim: rotate to the old end once clean.
    pub const RECLAIM: Flags = Flags(1 << 14);
    /// Backed by swap, not a file.
    pub const ANON: Flags = Flags(1 << 15);
    /// Mapped executable.
    pub const EXEC: Flags = Flags(1 << 16);
    /// On a list of the lruvec.
    pub const ON_LIST: Flags = Flags(1 << 17);
    /// Off the lists, owned by a reclaim pass until settled. Seen by the holder of the lists' lock
    /// only, except in virtual time.
    pub const ISOLATED: Flags = Flags(1 << 18);
    /// In an access log, to be listed.
    pub const PENDING: Flags = Flags(1 << 19);
    /// Marker: starts the next readahead.
    pub const READAHEAD: Flags = Flags(1 << 21);
    /// Read ahead, not accessed since.
    pub const PREFETCHED: Flags = Flags(1 << 22);
    /// On the file lists, backed by private swap. May move while dirty.
    pub const SWAP_BACKED: Flags = Flags(1 << 23);
    /// Sampled by [`sizing`](crate::sizing). Tested with the readahead flags.
    pub const SAMPLED: Flags = Flags(1 << 29);
    /// List number, for policies with several lists. Free while isolated. Four bits.
    pub const LINK: Flags = Flags(0xf << 24);
    /// Read with other pages by one device read. Never cleared.
    pub const STREAMED: Flags = Flags(1 << 28);
    /// Accessed by page table. Reclaim tests young before dirty, to save write-back.
    pub const MAPPED: Flags = Flags(1 << 30);
    /// Flags that move with a page. List state stays behind.
    pub const KEPT_ON_MOVE: Flags = Flags(
        Self::REFERENCED.0
            | Self::WORKINGSET.0
            | Self::UNEVICTABLE.0
            | Self::DIRTY.0
            | Self::EXEC.0
            | Self::READAHEAD.0
            | Self::PREFETCHED.0
            | Self::STREAMED.0
            | Self::SWAP_BACKED.0
            | Self::SAMPLED.0
            | Self::MAPPED.0,
    );
    /// No flag.
    pub const NONE: Flags = Flags(0);

    const GEN_SHIFT: u32 = 0;
    const REFS_SHIFT: u32 = 4;
    const LINK_SHIFT: u32 = 24;
    /// Maximum of [`Flags::refs`].
    pub const REFS_MAX: u32 = 3;

    /// Returns true if any flag of `mask` is set.
    pub const fn any(self, mask: Flags) -> bool {
        self.0 & mask.0 != 0
    }

    /// Returns true if all flags of `mask` are set.
    pub const fn all(self, mask: Flags) -> bool {
        self.0 & mask.0 == mask.0
    }

    /// Returns the union.
    pub const fn with(self, mask: Flags) -> Flags {
        Flags(self.0 | mask.0)
    }

    /// Returns the difference.
    pub const fn without(self, mask: Flags) -> Flags {
        Flags(self.0 & !mask.0)
    }

    /// Returns the generation index (sequence modulo the number of generations), if any.
    pub const fn generation(self) -> Option<u32> {
        match ((self.0 & Self::GEN.0) >> Self::GEN_SHIFT) as u32 {
            0 => None,
            index_plus_one => Some(index_plus_one - 1),
        }
    }

    /// Returns the flags with this generation index.
    pub const fn with_generation(self, index: Option<u32>) -> Flags {
        let field = match index {
            None => 0,
            Some(index) => index as u64 + 1,
        };
        Flags(self.0 & !Self::GEN.0 | field << Self::GEN_SHIFT)
    }

    /// Returns the reference count, 0 to [`Flags::REFS_MAX`].
    pub const fn refs(self) -> u32 {
        ((self.0 & Self::REFS.0) >> Self::REFS_SHIFT) as u32
    }

    /// Returns the flags with this reference count.
    pub const fn with_refs(self, refs: u32) -> Flags {
        Flags(self.0 & !Self::REFS.0 | (refs as u64) << Self::REFS_SHIFT)
    }

    /// Returns the list number in [`Flags::LINK`], 0 to 15.
    pub const fn link(self) -> u32 {
        ((self.0 & Self::LINK.0) >> Self::LINK_SHIFT) as u32
    }

    /// Returns the flags with this list number.
    pub const fn with_link(self, link: u32) -> Flags {
        Flags(self.0 & !Self::LINK.0 | (link as u64) << Self::LINK_SHIFT)
    }

    /// Returns the page type.
    pub const fn page_type(self) -> PageType {
        if self.any(Self::ANON) { PageType::Anon } else { PageType::File }
    }

    /// Returns true if newer than a shared file, so that a move must wait for write-back.
    pub const fn is_dirty_file(self) -> bool {
        self.any(Self::DIRTY) && !self.any(Flags(Self::ANON.0 | Self::SWAP_BACKED.0))
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(&str, Flags); 18] = [
            ("referenced", Flags::REFERENCED),
            ("workingset", Flags::WORKINGSET),
            ("active", Flags::ACTIVE),
            ("unevictable", Flags::UNEVICTABLE),
            ("dirty", Flags::DIRTY),
            ("writeback", Flags::WRITEBACK),
            ("reclaim", Flags::RECLAIM),
            ("anon", Flags::ANON),
            ("exec", Flags::EXEC),
            ("on-list", Flags::ON_LIST),
            ("isolated", Flags::ISOLATED),
            ("pending", Flags::PENDING),
            ("readahead", Flags::READAHEAD),
            ("prefetched", Flags::PREFETCHED),
            ("streamed", Flags::STREAMED),
            ("swap-backed", Flags::SWAP_BACKED),
            ("sampled", Flags::SAMPLED),
            ("mapped", Flags::MAPPED),
        ];
        write!(f, "gen {:?} refs {}", self.generation(), self.refs())?;
        NAMES
            .iter()
            .filter(|(_, flag)| self.any(*flag))
            .try_for_each(|(name, _)| write!(f, " {name}"))
    }
}
