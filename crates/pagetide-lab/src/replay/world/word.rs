//! What the real world knows of a page, in eight bytes.
//!
//! A replay reads a page word at every access, of pages all over the trace: what it costs is how
//! much of the table of pages the processor's cache holds. As the real world does, the word keeps
//! what it says in its upper bits and which of the three it is in the lowest two.
//!
//! ```text
//!   [ shadow's 60 bits           | backing | 01 shadow ]
//!   [ held armed ahead filling awaited young | frame, 32 bits | backing | 10 resident ]
//!   [ 0                          | backing | 00 absent ]
//! ```
//!
//! Most accesses meet a file's page without a mark, and one comparison says so
//! ([`Page::plain_frame`]). Invariant: only resident pages have marks.

use pagetide_core::ids::FrameId;
use pagetide_core::lru::ShadowEntry;

const TAG_MASK: u64 = 0b11;
const SHADOW: u64 = 1;
const RESIDENT: u64 = 2;
const BACKING_SHIFT: u32 = 2;
const BACKING_MASK: u64 = 0b11 << BACKING_SHIFT;
const PAYLOAD_SHIFT: u32 = 4;
const PLAIN_MASK: u64 = !((u32::MAX as u64) << PAYLOAD_SHIFT);

/// Where a page's contents are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Word {
    Absent,
    Shadow(ShadowEntry),
    Resident(FrameId),
}

/// Where the contents are that are not in a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Backing {
    /// In a file, or nowhere yet: the page can be evicted without ado.
    File = 0,
    /// Nowhere: anonymous, and evicted only onto the swap device.
    Nothing = 1,
    /// On the swap device.
    Swap = 2,
}

/// Something to know of a resident page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mark {
    /// Accessed through the table since the last look.
    Young = 36,
    /// Brought in for a call that has yet to access it: that access is the one that missed.
    Awaited = 37,
    /// Locked until its group has its contents.
    Filling = 38,
    /// Read ahead, and not used since.
    Ahead = 39,
    /// Armed by a hint scan: the next access says how soon it came.
    Armed = 40,
    /// Locked by a guard for writing, until that is dropped.
    Held = 41,
}

/// A [`Word`], its [`Backing`] and its [`Mark`]s, packed; absent and a file's by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Page(u64);

impl Page {
    #[inline]
    pub(super) fn word(self) -> Word {
        let payload = self.0 >> PAYLOAD_SHIFT;
        match self.0 & TAG_MASK {
            SHADOW => Word::Shadow(ShadowEntry::from_bits(payload)),
            RESIDENT => Word::Resident(FrameId(payload as u32)),
            _ => Word::Absent,
        }
    }

    /// Changes the word; no mark is left.
    #[inline]
    pub(super) fn set_word(&mut self, word: Word) {
        let (payload, tag) = match word {
            Word::Absent => (0, 0),
            // A shadow has at most 60 bits: none is lost.
            Word::Shadow(shadow) => (shadow.bits(), SHADOW),
            Word::Resident(frame) => (u64::from(frame.0), RESIDENT),
        };
        self.0 = payload << PAYLOAD_SHIFT | self.0 & BACKING_MASK | tag;
    }

    /// A resident page moves to another frame, with its marks; but it is not armed any more.
    pub(super) fn move_to(&mut self, frame: FrameId) {
        debug_assert!(self.is_resident());
        let marks = self.0 & PLAIN_MASK & !(1 << Mark::Armed as u32);
        self.0 = marks | u64::from(frame.0) << PAYLOAD_SHIFT;
    }

    /// A file's page without marks.
    #[inline]
    pub(super) fn of_file(word: Word) -> Page {
        let mut page = Page::default();
        page.set_word(word);
        page
    }

    /// Whether it is a file's page that is absent.
    #[inline]
    pub(super) fn is_plainly_absent(self) -> bool {
        self.0 & (BACKING_MASK | RESIDENT) == 0
    }

    /// The frame of a file's page without marks.
    #[inline]
    pub(super) fn plain_frame(self) -> Option<FrameId> {
        (self.0 & PLAIN_MASK == RESIDENT).then_some(FrameId((self.0 >> PAYLOAD_SHIFT) as u32))
    }

    #[inline]
    pub(super) fn backing(self) -> Backing {
        match (self.0 & BACKING_MASK) >> BACKING_SHIFT {
            0 => Backing::File,
            1 => Backing::Nothing,
            _ => Backing::Swap,
        }
    }

    pub(super) fn set_backing(&mut self, backing: Backing) {
        self.0 = self.0 & !BACKING_MASK | (backing as u64) << BACKING_SHIFT;
    }

    #[inline]
    pub(super) fn has(self, mark: Mark) -> bool {
        self.is_resident() && self.0 >> mark as u32 & 1 != 0
    }

    /// Marks a resident page; returns whether it was marked before.
    pub(super) fn set(&mut self, mark: Mark) -> bool {
        debug_assert!(self.is_resident());
        let before = self.has(mark);
        self.0 |= 1 << mark as u32;
        before
    }

    /// Clears a mark; returns whether it was there.
    #[inline]
    pub(super) fn take(&mut self, mark: Mark) -> bool {
        let before = self.has(mark);
        self.0 &= !(u64::from(before) << mark as u32);
        before
    }

    #[inline]
    pub(super) fn is_resident(self) -> bool {
        self.0 & RESIDENT != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: [Mark; 6] =
        [Mark::Young, Mark::Awaited, Mark::Filling, Mark::Ahead, Mark::Held, Mark::Armed];

    fn words() -> [Word; 6] {
        let shadow = ShadowEntry::from_bits((1 << 60) - 1);
        assert_eq!(shadow.bits(), (1 << 60) - 1, "the longest shadow there is");
        [
            Word::Absent,
            Word::Shadow(ShadowEntry::from_bits(0)),
            Word::Shadow(shadow),
            Word::Resident(FrameId(0)),
            Word::Resident(FrameId(u32::MAX)),
            Word::Absent,
        ]
    }

    #[test]
    fn words_and_backings_do_not_disturb_each_other() {
        let mut page = Page::default();
        assert_eq!((page.word(), page.backing()), (Word::Absent, Backing::File));
        for word in words() {
            let is_absent = !matches!(word, Word::Resident(_));
            assert_eq!(Page::of_file(word).is_plainly_absent(), is_absent);
            for backing in [Backing::Nothing, Backing::Swap, Backing::File] {
                page.set_backing(backing);
                page.set_word(word);
                assert_eq!((page.word(), page.backing()), (word, backing));
            }
        }
    }

    #[test]
    fn only_resident_pages_have_marks() {
        for word in words() {
            let mut page = Page::default();
            page.set_word(word);
            for mark in MARKS {
                assert!(!page.has(mark) && !page.take(mark));
            }
            assert_eq!(page.word(), word);
        }
        let mut page = Page::default();
        page.set_word(Word::Resident(FrameId(u32::MAX)));
        for mark in MARKS {
            assert_eq!(page.plain_frame(), Some(FrameId(u32::MAX)));
            assert!(!page.set(mark) && page.set(mark) && page.has(mark));
            assert_eq!(
                (page.plain_frame(), page.word()),
                (None, Word::Resident(FrameId(u32::MAX)))
            );
            assert!(page.take(mark) && !page.take(mark));
        }
        page.set_backing(Backing::Swap);
        MARKS.iter().for_each(|mark| assert!(!page.set(*mark)));
        page.move_to(FrameId(7));
        assert_eq!((page.word(), page.backing()), (Word::Resident(FrameId(7)), Backing::Swap));
        assert_eq!(MARKS.map(|mark| page.take(mark)), [true, true, true, true, true, false]);
        page.set_backing(Backing::File);
        page.set(Mark::Young);
        page.set_word(Word::Shadow(ShadowEntry::from_bits(5)));
        page.set_word(Word::Resident(FrameId(5)));
        assert_eq!(page.plain_frame(), Some(FrameId(5)));
        page.set_backing(Backing::Nothing);
        assert_eq!(page.plain_frame(), None);
    }
}
