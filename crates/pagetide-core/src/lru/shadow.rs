//! Shadow entries, left in the page word of an evicted page.
//!
//! ```text
//!   59                    23 22        7 6      1  0
//!   +-----------------------+-----------+--------+---+
//!   | token (37 bits)       | group     | node   | w |
//!   +-----------------------+-----------+--------+---+
//! ```
//!
//! The token is the policy's clock at eviction (a generation and references, or the nonresident
//! age), cut to 37 bits. `w` marks a page of the working set. The page word has 60 bits for the
//! entry, so the token is three bits shorter than the kernel's.
//!
//! Source: Linux 6.18, `mm/workingset.c`.

/// Bits of the token. Clocks are compared modulo `2^TOKEN_BITS`.
pub const TOKEN_BITS: u32 = 37;
/// The mask of the token.
pub const TOKEN_MASK: u64 = (1 << TOKEN_BITS) - 1;

const NODE_BITS: u32 = 6;
const GROUP_BITS: u32 = 16;
const NODE_SHIFT: u32 = 1;
const GROUP_SHIFT: u32 = NODE_SHIFT + NODE_BITS;
const TOKEN_SHIFT: u32 = GROUP_SHIFT + GROUP_BITS;

/// Bits of an entry in the page word.
pub const SHADOW_BITS: u32 = 60;

const _: () = assert!(TOKEN_SHIFT + TOKEN_BITS == SHADOW_BITS);

/// A memory group and node.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LruvecId {
    /// Memory group, 0 for the root.
    pub group: u16,
    /// Node, below 64.
    pub node: u8,
}

/// A shadow entry of at most 60 bits. See the module for the layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShadowEntry(u64);

impl ShadowEntry {
    /// Packs a shadow. `token` is masked to [`TOKEN_BITS`].
    pub fn new(token: u64, lruvec: LruvecId, workingset: bool) -> ShadowEntry {
        debug_assert!(lruvec.node < 1 << NODE_BITS);
        ShadowEntry(
            (token & TOKEN_MASK) << TOKEN_SHIFT
                | u64::from(lruvec.group) << GROUP_SHIFT
                | u64::from(lruvec.node) << NODE_SHIFT
                | u64::from(workingset),
        )
    }

    /// Restores an entry from [`ShadowEntry::bits`]. Any 60 bits are valid.
    pub const fn from_bits(bits: u64) -> ShadowEntry {
        ShadowEntry(bits & ((1 << SHADOW_BITS) - 1))
    }

    /// Returns the entry as stored in the page word.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the policy's clock at eviction, modulo `2^TOKEN_BITS`.
    pub const fn token(self) -> u64 {
        self.0 >> TOKEN_SHIFT
    }

    /// Returns the lruvec of the eviction.
    pub const fn lruvec(self) -> LruvecId {
        LruvecId {
            group: (self.0 >> GROUP_SHIFT) as u16,
            node: (self.0 >> NODE_SHIFT) as u8 & ((1 << NODE_BITS) - 1),
        }
    }

    /// Returns true if the page was in the working set.
    pub const fn workingset(self) -> bool {
        self.0 & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LRUVEC: LruvecId = LruvecId { group: 5, node: 1 };

    /// Packs `min_seq` 9, group 5, node 1 with six node bits.
    #[test]
    fn layout_matches_linux_6_1() {
        let shadow =
            |refs: u64, w| ShadowEntry::new((9 << 2) | (refs.max(1) - 1), LRUVEC, w).bits();
        assert_eq!(shadow(0, false), 0x1200_0282);
        assert_eq!(shadow(1, true), 0x1200_0283);
        assert_eq!(shadow(3, true), 0x1300_0283);
        assert_eq!(shadow(4, true), 0x1380_0283);
    }

    #[test]
    fn fields_come_back() {
        let shadow = ShadowEntry::new(u64::MAX, LruvecId { group: 0xffff, node: 63 }, true);
        assert_eq!(shadow.token(), TOKEN_MASK);
        assert_eq!(shadow.lruvec(), LruvecId { group: 0xffff, node: 63 });
        assert!(shadow.workingset());
        assert_eq!(ShadowEntry::from_bits(shadow.bits()), shadow);
    }
}
