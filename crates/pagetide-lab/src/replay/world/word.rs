//! The page word: the state of a page in eight bytes.
//!
//! A replay reads a random word at every access, so small words save cache misses. The upper bits
//! hold the payload, the lowest two the tag.
//!
//! ```text
//!   [ shadow's 60 bits           | backing | 01 shadow ]
//!   [ held armed ahead filling awaited young | frame, 32 bits | backing | 10 resident ]
//!   [ 0                          | backing | 00 absent ]
//! ```
//!
//! One comparison finds the common unmarked file page ([`Page::plain_frame`]). Invariant: only
//! resident pages have marks.

use pagetide_core::ids::FrameId;
use pagetide_core::lru::ShadowEntry;

const TAG_MASK: u64 = 0b11;
const SHADOW: u64 = 1;
const RESIDENT: u64 = 2;
const BACKING_SHIFT: u32 = 2;
const BACKING_MASK: u64 = 0b11 << BACKING_SHIFT;
const PAYLOAD_SHIFT: u32 = 4;
const PLAIN_MASK: u64 = !((u32::MAX as u64) << PAYLOAD_SHIFT);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Word {
    Absent,
    Shadow(ShadowEntry),
    Resident(FrameId),
}

/// Location of an absent page's contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Backing {
    /// A file, or nowhere yet: eviction needs no write.
    File = 0,
    /// Nowhere: an anonymous page, evicted only to the swap device.
    Nothing = 1,
    /// The swap device.
    Swap = 2,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mark {
    /// Accessed through the page table since the last scan.
    Young = 36,
    /// Brought in for a call that missed the page and has not accessed it yet.
    Awaited = 37,
    /// Locked until its group has its contents.
    Filling = 38,
    /// Read ahead and not used yet.
    Ahead = 39,
    /// Armed by a hint scan. The next access measures the latency.
    Armed = 40,
    /// Locked by a write guard.
    Held = 41,
}

/// A [`Word`], its [`Backing`] and its [`Mark`]s, packed. The default is an absent file page.
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

    /// Changes the word and clears all marks.
    #[inline]
    pub(super) fn set_word(&mut self, word: Word) {
        let (payload, tag) = match word {
            Word::Absent => (0, 0),
            // A shadow has at most 60 bits.
            Word::Shadow(shadow) => (shadow.bits(), SHADOW),
            Word::Resident(frame) => (u64::from(frame.0), RESIDENT),
        };
        self.0 = payload << PAYLOAD_SHIFT | self.0 & BACKING_MASK | tag;
    }

    /// Moves a resident page to another frame. Keeps the marks except armed.
    pub(super) fn move_to(&mut self, frame: FrameId) {
        debug_assert!(self.is_resident());
        let marks = self.0 & PLAIN_MASK & !(1 << Mark::Armed as u32);
        self.0 = marks | u64::from(frame.0) << PAYLOAD_SHIFT;
    }

    #[inline]
    pub(super) fn of_file(word: Word) -> Page {
        let mut page = Page::default();
        page.set_word(word);
        page
    }

    #[inline]
    pub(super) fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(super) fn is_plainly_absent(self) -> bool {
        self.0 & (BACKING_MASK | RESIDENT) == 0
    }

    /// Returns the frame of an unmarked file page.
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

    /// Marks a resident page. Returns the old mark.
    pub(super) fn set(&mut self, mark: Mark) -> bool {
        debug_assert!(self.is_resident());
        let before = self.has(mark);
        self.0 |= 1 << mark as u32;
        before
    }

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
