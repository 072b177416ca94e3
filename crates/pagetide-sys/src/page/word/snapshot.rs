//! The layout of a page word, and accessors of a loaded word. See `word` for the diagram and rules.

use std::fmt;

use pagetide_core::ids::FrameId;

use crate::memory::arena::{NR_FRAMES_MAX, VERSION_MASK};

pub(super) const STATE: u64 = 0b11;
pub(super) const ABSENT: u64 = 0b00;
pub(super) const SHADOW: u64 = 0b01;
pub(super) const RESIDENT: u64 = 0b10;
pub(super) const LOCK: u64 = 1 << 2;
pub(super) const WAITERS: u64 = 1 << 3;
pub(super) const YOUNG: u64 = 1 << 4;
pub(super) const HINT: u64 = 1 << 5;
pub(super) const ASK: u64 = 1 << 6;
pub(super) const PINS_SHIFT: u32 = 7;
pub(super) const PIN_ONE: u64 = 1 << PINS_SHIFT;
pub(super) const PINS: u64 = PINS_MAX as u64 * PIN_ONE;
pub(super) const FRAME_SHIFT: u32 = 18;
pub(super) const FRAME: u64 = (NR_FRAMES_MAX as u64 - 1) << FRAME_SHIFT;
pub(super) const VERSION_SHIFT: u32 = 46;
pub(super) const VERSION_ONE: u64 = 1 << VERSION_SHIFT;
pub(super) const VERSION: u64 = !0 << VERSION_SHIFT;
pub(super) const PAYLOAD_SHIFT: u32 = 4;
/// The bits that a ticket checks. Pins are left out, like the bits that any thread may change.
pub(super) const IDENTITY: u64 = STATE | LOCK | FRAME | VERSION;

/// Maximum number of pins of one page.
pub const PINS_MAX: u32 = (1 << 11) - 1;
/// Size of a shadow entry in bits.
pub const PAYLOAD_BITS: u32 = 60;

const _: () = assert!(PINS & FRAME == 0 && FRAME & VERSION == 0 && PINS & (ASK | HINT) == 0);
const _: () = assert!(FRAME | VERSION | PINS | ASK | HINT | YOUNG | WAITERS | LOCK | STATE == !0);
const _: () = assert!(VERSION >> VERSION_SHIFT == VERSION_MASK as u64);
const _: () = assert!(PAYLOAD_BITS + PAYLOAD_SHIFT == u64::BITS);

/// The value of a page word at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Snapshot(pub(super) u64);

impl Snapshot {
    /// Returns true if the word has neither a frame nor a shadow entry.
    pub fn is_absent(self) -> bool {
        self.0 & STATE == ABSENT
    }

    /// Returns true if a frame holds the page, or, while locked, is being filled.
    #[inline]
    pub fn is_resident(self) -> bool {
        self.0 & STATE == RESIDENT
    }

    /// Returns true if a thread fills, writes or evicts the page.
    pub fn is_locked(self) -> bool {
        self.0 & LOCK != 0
    }

    /// Returns true if the page is resident and was accessed since the last aging.
    #[inline]
    pub fn is_young(self) -> bool {
        self.is_resident() && self.0 & YOUNG != 0
    }

    /// Returns true if the page is resident and marked by
    /// [`PageRef::set_hint`](crate::PageRef::set_hint).
    pub fn is_hint(self) -> bool {
        self.is_resident() && self.0 & HINT != 0
    }

    /// Returns true if the page is resident and an access may need more than a pin.
    pub fn asks(self) -> bool {
        self.is_resident() && self.0 & ASK != 0
    }

    /// Returns the number of pins.
    pub fn pins(self) -> u32 {
        if self.is_resident() { ((self.0 & PINS) >> PINS_SHIFT) as u32 } else { 0 }
    }

    /// Returns the frame that holds the page.
    pub fn frame(self) -> Option<FrameId> {
        self.is_resident().then_some(FrameId(((self.0 & FRAME) >> FRAME_SHIFT) as u32))
    }

    /// Returns the frame of a word known to be resident.
    #[inline]
    pub(crate) fn resident_frame(self) -> FrameId {
        debug_assert!(self.is_resident(), "S4: {self:?}");
        FrameId(((self.0 & FRAME) >> FRAME_SHIFT) as u32)
    }

    /// Returns the shadow entry, less than `1 << PAYLOAD_BITS`.
    pub fn shadow(self) -> Option<u64> {
        (self.0 & STATE == SHADOW).then_some(self.0 >> PAYLOAD_SHIFT)
    }

    /// Returns true if the word is neither locked nor pinned, so that a lock would succeed.
    pub(crate) fn is_free(self) -> bool {
        !self.is_locked() && self.pins() == 0
    }

    /// Returns the frame version of a resident word.
    pub(crate) fn version(self) -> u32 {
        (self.0 >> VERSION_SHIFT) as u32
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.frame(), self.shadow()) {
            (Some(frame), _) => write!(f, "{frame} v{} pins {}", self.version(), self.pins())?,
            (None, Some(payload)) => write!(f, "shadow {payload:x}")?,
            (None, None) => write!(f, "absent")?,
        }
        for (is_set, name) in [
            (self.is_locked(), " locked"),
            (self.0 & WAITERS != 0, " waiters"),
            (self.is_young(), " young"),
            (self.is_hint(), " hint"),
            (self.asks(), " ask"),
        ] {
            write!(f, "{}", if is_set { name } else { "" })?;
        }
        Ok(())
    }
}
