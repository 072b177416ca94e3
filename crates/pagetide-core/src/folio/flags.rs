//! The flags word of a folio, as a value.

use crate::ids::PageType;
use core::fmt;

/// A snapshot of a folio's flags word, or a mask of such flags.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u64);

impl Flags {
    /// The generation index plus one; zero when on no generation's list. Four bits.
    pub const GEN: Flags = Flags(0xf);
    /// References counted beyond the first, 0 to 3. Two bits.
    pub const REFS: Flags = Flags(0x3 << 4);
    /// Accessed at least once since the flag was last cleared.
    pub const REFERENCED: Flags = Flags(1 << 8);
    /// Once part of the working set: was active, or saturated its references.
    pub const WORKINGSET: Flags = Flags(1 << 9);
    /// On, or on its way to, the active list or the youngest generation.
    pub const ACTIVE: Flags = Flags(1 << 10);
    /// Must not be reclaimed (locked in memory by its owner). The thread that clears it logs a
    /// touch, so that a policy which keeps such folios apart takes it back.
    pub const UNEVICTABLE: Flags = Flags(1 << 11);
    /// Newer than the store; set by a writer, cleared by the flusher before it writes.
    pub const DIRTY: Flags = Flags(1 << 12);
    /// Being written back; its frame may not be taken until the store acknowledged.
    pub const WRITEBACK: Flags = Flags(1 << 13);
    /// Reclaim met it dirty or under write-back: rotate it to the old end once clean.
    pub const RECLAIM: Flags = Flags(1 << 14);
    /// Backed by swap rather than a file.
    pub const ANON: Flags = Flags(1 << 15);
    /// Mapped executable.
    pub const EXEC: Flags = Flags(1 << 16);
    /// On one of the lruvec's lists.
    pub const ON_LIST: Flags = Flags(1 << 17);
    /// Taken off the lists by a reclaim pass, which owns it until it is settled.
    pub const ISOLATED: Flags = Flags(1 << 18);
    /// Waiting in an access log to be put on a list.
    pub const PENDING: Flags = Flags(1 << 19);
    /// Its page was dropped while it was isolated: the pass frees the frame.
    pub const ORPHAN: Flags = Flags(1 << 20);
    /// Reaching this page starts the next readahead.
    pub const READAHEAD: Flags = Flags(1 << 21);
    /// Brought in by readahead and not accessed since.
    pub const PREFETCHED: Flags = Flags(1 << 22);
    /// On the lists of files, though its store is swap, private to it: it moves between
    /// nodes while it is dirty, as a page of anonymous memory does.
    pub const SWAP_BACKED: Flags = Flags(1 << 23);
    /// Its page is one of the few whose uses are followed, to tell what other sizes of memory would
    /// do: see [`sizing`](crate::sizing). A hit tests it beside the flags of readahead.
    pub const SAMPLED: Flags = Flags(1 << 29);
    /// Which of its policy's lists the folio is linked on, where there are several; the policy's to
    /// use otherwise while the folio is isolated. Four bits.
    pub const LINK: Flags = Flags(0xf << 24);
    /// Brought in with others by one read of the device: by readahead, or by a call for several
    /// pages. It stays so.
    pub const STREAMED: Flags = Flags(1 << 28);
    /// In a mapping whose users touch it unseen: whether it is young is asked before whether it is
    /// dirty, as the write-back of a page that is in use would be for nothing.
    pub const MAPPED: Flags = Flags(1 << 30);
    /// What a page takes along when it is moved to another frame. What its lists made of it stays
    /// behind: it enters those of the other node afresh.
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
    /// The most [`Flags::refs`] can say.
    pub const REFS_MAX: u32 = 3;

    /// Whether any flag of `mask` is set.
    pub const fn any(self, mask: Flags) -> bool {
        self.0 & mask.0 != 0
    }

    /// Whether all flags of `mask` are set.
    pub const fn all(self, mask: Flags) -> bool {
        self.0 & mask.0 == mask.0
    }

    /// Both sets together.
    pub const fn with(self, mask: Flags) -> Flags {
        Flags(self.0 | mask.0)
    }

    /// This set less `mask`.
    pub const fn without(self, mask: Flags) -> Flags {
        Flags(self.0 & !mask.0)
    }

    /// The generation index (sequence modulo the number of generations), if on a generation's list.
    pub const fn generation(self) -> Option<u32> {
        match ((self.0 & Self::GEN.0) >> Self::GEN_SHIFT) as u32 {
            0 => None,
            index_plus_one => Some(index_plus_one - 1),
        }
    }

    /// The same flags with the generation index set.
    pub const fn with_generation(self, index: Option<u32>) -> Flags {
        let field = match index {
            None => 0,
            Some(index) => index as u64 + 1,
        };
        Flags(self.0 & !Self::GEN.0 | field << Self::GEN_SHIFT)
    }

    /// The reference count field, 0 to [`Flags::REFS_MAX`].
    pub const fn refs(self) -> u32 {
        ((self.0 & Self::REFS.0) >> Self::REFS_SHIFT) as u32
    }

    /// The same flags with the reference count field set.
    pub const fn with_refs(self, refs: u32) -> Flags {
        Flags(self.0 & !Self::REFS.0 | (refs as u64) << Self::REFS_SHIFT)
    }

    /// The list number in [`Flags::LINK`], 0 to 15.
    pub const fn link(self) -> u32 {
        ((self.0 & Self::LINK.0) >> Self::LINK_SHIFT) as u32
    }

    /// The same flags with the list number set.
    pub const fn with_link(self, link: u32) -> Flags {
        Flags(self.0 & !Self::LINK.0 | (link as u64) << Self::LINK_SHIFT)
    }

    /// The folio's type.
    pub const fn page_type(self) -> PageType {
        if self.any(Self::ANON) { PageType::Anon } else { PageType::File }
    }

    /// Whether it is newer than a file that others read: such a page is written before it moves.
    pub const fn is_dirty_file(self) -> bool {
        self.any(Self::DIRTY) && !self.any(Flags(Self::ANON.0 | Self::SWAP_BACKED.0))
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(&str, Flags); 19] = [
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
            ("orphan", Flags::ORPHAN),
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
