//! Where a page's contents are, in eight bytes.
//!
//! A replay reads a page word at every access, of pages all over the trace: what it costs is how
//! much of the table of pages the processor's cache holds. As the real world does, the word keeps
//! what it says in its upper bits and which of the three it is in the lowest two.
//!
//! ```text
//!   [ shadow's 60 bits, or frame | 00 absent, 01 shadow, 10 resident ]
//! ```

use pagetide_core::ids::FrameId;
use pagetide_core::lru::ShadowEntry;

const TAG_BITS: u32 = 2;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;
const SHADOW: u64 = 1;
const RESIDENT: u64 = 2;

/// Where a page's contents are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Word {
    Absent,
    Shadow(ShadowEntry),
    Resident(FrameId),
}

/// A [`Word`], packed; absent by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct PackedWord(u64);

impl Word {
    pub(super) fn pack(self) -> PackedWord {
        match self {
            Word::Absent => PackedWord(0),
            // A shadow has at most 60 bits: none is lost.
            Word::Shadow(shadow) => PackedWord(shadow.bits() << TAG_BITS | SHADOW),
            Word::Resident(frame) => PackedWord(u64::from(frame.0) << TAG_BITS | RESIDENT),
        }
    }
}

impl PackedWord {
    pub(super) fn unpack(self) -> Word {
        let payload = self.0 >> TAG_BITS;
        match self.0 & TAG_MASK {
            SHADOW => Word::Shadow(ShadowEntry::from_bits(payload)),
            RESIDENT => Word::Resident(FrameId(payload as u32)),
            _ => Word::Absent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_unpack_as_they_were() {
        let shadow = ShadowEntry::from_bits((1 << 60) - 1);
        assert_eq!(shadow.bits(), (1 << 60) - 1, "the longest shadow there is");
        for word in [
            Word::Absent,
            Word::Shadow(ShadowEntry::from_bits(0)),
            Word::Shadow(shadow),
            Word::Resident(FrameId(0)),
            Word::Resident(FrameId(u32::MAX)),
        ] {
            assert_eq!(word.pack().unpack(), word);
        }
        assert_eq!(PackedWord::default().unpack(), Word::Absent);
    }
}
