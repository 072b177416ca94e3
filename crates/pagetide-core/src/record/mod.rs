//! The access record: the input of the page cache, in about two bytes an access.
//!
//! **Problem.** The lab must repeat a real run page for page. The record needs every access in
//! order, and other events that change decisions: readahead, write-back, guards, truncation, and
//! with memory tiers time and file lengths. It must be cheap to append, and readable after a kill.
//!
//! **Idea.** Accesses repeat the mapping, the thread and nearby pages. An entry holds the changes.
//!
//! ```text
//!   header: magic, version, page length, memory, machine, policy, tiers, switches   once
//!   entry:  [ delta:2 | mapping? | thread? | kind:4 ]  [thread] [mapping] [delta]
//!             |                                         varint   varint    zigzag varint
//!             +-- 0..=2: the page delta itself, zigzag.  3: the delta follows
//!           kind = 14: another byte holds a rarer kind, or a note
//!   note:   [ kind = 14 ] [ which ] [numbers]                 without a page: a tick, a group
//!   end:    [ kind = 15 ] [number of entries]                 written by a complete run
//! ```
//!
//! A sequential read costs one byte, a random read in a few gigabytes three or four. Example:
//! thread 0 reads pages 3 and 4 of mapping 0, then thread 1 writes page 1000 of mapping 2 through a
//! guard:
//!
//! ```text
//!   c0 06           kind 0, delta 6 (zigzag of 3)
//!   80              kind 0, delta 2 (zigzag of 1)
//!   f6 01 02 d0 0f  kind 6, thread 1, mapping 2, delta 2000 (zigzag of 1000)
//!   0f 03           end, three entries
//! ```
//!
//! **Data and invariants.** Encoder and decoder share the context (last mapping, last thread, last
//! index in each of 16 mapping slots). Numbers are LEB128, at most ten bytes. The decoder never
//! panics. The sequence number of an entry is its position, notes included. Evictions and moves are
//! results: a replay skips them and is judged by them.
//!
//! **Ignored.** Access times, offsets within a page, contents, resizes of the cache. There are no
//! checksums: a torn tail is detected, silent corruption only if an entry or the final count is
//! impossible.
//!
//! **Sources.** LEB128 and zigzag as in DWARF and Protocol Buffers.

use crate::ids::{MappingId, PageId};
use crate::tiering::{Migration, ScannedMapping};
use crate::units::Millis;

mod decode;
mod encode;
mod groups;
mod header;
mod numbers;
mod switches;
mod tiers;

pub use decode::{Decoded, Decoder, Entries};
pub use encode::Encoder;
pub use groups::GroupNote;
pub use header::{HEADER_FIXED_BYTES, Header, MAGIC, POLICY_NAME_BYTES_MAX, Reclaimer, VERSION};
pub use tiers::{RecordedNode, RecordedNodes, RecordedTiers};

/// Longest entry, bytes: tag, code, two groups, three numbers.
pub const ENTRY_BYTES_MAX: usize = 2 + 2 * 3 + 3 * VARINT_BYTES_MAX;

const VARINT_BYTES_MAX: usize = 10;
const NR_SLOTS: usize = 16;
const KIND_MASK: u8 = 0b0000_1111;
/// A second byte holds a rarer kind or a note.
const KIND_MORE: u8 = 14;
const KIND_END: u8 = 15;
/// First note code after [`KIND_MORE`]. Lower codes are kinds.
const NOTE_TICK: u8 = 64;
const NOTE_MAPPING: u8 = 65;
const THREAD_FOLLOWS: u8 = 1 << 4;
const MAPPING_FOLLOWS: u8 = 1 << 5;
const DELTA_SHIFT: u32 = 6;
const DELTA_FOLLOWS: u64 = 3;

/// Event of a page: an access or an action of the cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AccessKind {
    /// Read through a descriptor. Counts as a reference.
    Read = 0,
    /// Read through a descriptor, in the page where the handle's last call ended. Not a reference.
    ReadAgain = 1,
    /// Written through a descriptor.
    Write = 2,
    /// Read by a guard. Makes the page young. Pinned until [`AccessKind::Unpin`].
    Table = 3,
    /// Read ahead, not accessed.
    Readahead = 4,
    /// Dropped by truncation, advice or close.
    Discard = 5,
    /// Taken by a mutable guard, otherwise as [`AccessKind::Table`].
    TableWrite = 6,
    /// Missed, to be filled with its neighbours by a call that accesses it next.
    Fill = 7,
    /// Became dirty.
    Dirty = 8,
    /// Written back.
    Clean = 9,
    /// A guard was dropped.
    Unpin = 10,
    /// Evicted. A result.
    Evict = 11,
    /// The thread's [`AccessKind::Fill`] and [`AccessKind::Readahead`] pages are filled.
    Filled = 12,
    /// Read past the cache, or failed, after an [`AccessKind::Fill`] without a frame or contents.
    Bypass = 13,
    /// Moved to slower memory. A result.
    Demote = 14,
    /// Moved to the fast memory. A result.
    Promote = 15,
    /// Read around a missed page. Not accessed or awaited.
    Around = 16,
}

impl AccessKind {
    /// All kinds, in code order.
    pub const ALL: [AccessKind; 17] = [
        AccessKind::Read,
        AccessKind::ReadAgain,
        AccessKind::Write,
        AccessKind::Table,
        AccessKind::Readahead,
        AccessKind::Discard,
        AccessKind::TableWrite,
        AccessKind::Fill,
        AccessKind::Dirty,
        AccessKind::Clean,
        AccessKind::Unpin,
        AccessKind::Evict,
        AccessKind::Filled,
        AccessKind::Bypass,
        AccessKind::Demote,
        AccessKind::Promote,
        AccessKind::Around,
    ];

    /// Returns true if the page was used.
    pub const fn is_access(self) -> bool {
        matches!(
            self,
            AccessKind::Read
                | AccessKind::ReadAgain
                | AccessKind::Write
                | AccessKind::Table
                | AccessKind::TableWrite
                | AccessKind::Bypass
        )
    }

    /// Returns true if fetched before any access.
    pub const fn is_unasked(self) -> bool {
        matches!(self, AccessKind::Readahead | AccessKind::Around)
    }

    /// Returns true for a decision.
    pub const fn is_result(self) -> bool {
        matches!(self, AccessKind::Evict | AccessKind::Demote | AccessKind::Promote)
    }

    /// Returns true for a write access.
    pub const fn is_write(self) -> bool {
        matches!(self, AccessKind::Write | AccessKind::TableWrite)
    }
}

impl From<Migration> for AccessKind {
    fn from(migration: Migration) -> AccessKind {
        match migration {
            Migration::Promotion => AccessKind::Promote,
            Migration::Demotion => AccessKind::Demote,
        }
    }
}

/// One event of a page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// The page.
    pub page: PageId,
    /// Event.
    pub kind: AccessKind,
    /// Thread number, from 0 in order of first access.
    pub thread: u32,
}

/// An event without a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// Time on the run's clock, ms.
    Tick(Millis),
    /// Length of a mapping for hint scans, in pages. 0 forgets it.
    Mapping(ScannedMapping),
    /// Memory groups. These notes come first.
    Group(GroupNote),
}

/// An access or a note.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// An event of a page.
    Access(Access),
    /// Another event.
    Note(Note),
}

/// A decoding error. Offsets are bytes from the record's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The header is cut off. Pass at least this many bytes.
    #[error("the record's header is cut off: {needed_bytes} bytes needed")]
    HeaderShort {
        /// Bytes of the header, as far as known.
        needed_bytes: usize,
    },
    /// The file is something else. Name its format.
    #[error("not a pagetide record: the first eight bytes are others")]
    BadMagic,
    /// Written by another version. Read it with that one.
    #[error("record version {found} is not {VERSION}")]
    UnknownVersion {
        /// Found version.
        found: u16,
    },
    /// Policy name too long or not UTF-8: damage.
    #[error("the policy name in the record's header is damaged")]
    BadPolicyName,
    /// Unknown reclaimer: damage, or a newer record.
    #[error("unknown reclaimer, {found}, in the record's header")]
    UnknownReclaimer {
        /// Found code.
        found: u8,
    },
    /// Unknown list tuning: damage, or a newer record.
    #[error("unknown tuning of the per-CPU lists, {found}, in the record's header")]
    UnknownTuning {
        /// Found code.
        found: u8,
    },
    /// Impossible tiers: damage, or a newer record.
    #[error("the tiers in the record's header make no sense")]
    BadTiers,
    /// Unknown mechanisms: damage, or a newer record.
    #[error("the record's header names a mechanism that no policy has")]
    UnknownMechanism,
    /// Unknown entry: damage, or a newer record.
    #[error("unknown kind of entry, {kind}, at byte {offset}")]
    UnknownKind {
        /// Found code.
        kind: u8,
        /// Start of the entry.
        offset: u64,
    },
    /// A number exceeds its type: damage from here on.
    #[error("number out of range in the entry at byte {offset}")]
    NumberTooLarge {
        /// Start of the entry.
        offset: u64,
    },
    /// The stated number of entries is wrong.
    #[error("the record ends after {found} entries, but says it has {stated}")]
    WrongCount {
        /// Entries stated at the end.
        stated: u64,
        /// Entries decoded.
        found: u64,
    },
    /// Bytes follow the end: two records, or damage.
    #[error("bytes after the record's end, at byte {offset}")]
    AfterEnd {
        /// Start of these bytes.
        offset: u64,
    },
}

/// State of a record's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Complete: the run closed the record.
    Complete,
    /// Stops between entries: the process was killed, or still runs.
    Unfinished,
    /// Stops inside an entry, which is lost.
    Torn,
}

/// State shared by encoder and decoder between entries.
#[derive(Clone, Debug, Default)]
struct Context {
    mapping: MappingId,
    thread: u32,
    tick: Millis,
    /// Last page index by the mapping's low bits.
    last_index: [u64; NR_SLOTS],
}

impl Context {
    fn last_index(&self, mapping: MappingId) -> u64 {
        self.last_index[mapping.0 as usize % NR_SLOTS]
    }

    fn update(&mut self, access: &Access) {
        self.mapping = access.page.mapping;
        self.thread = access.thread;
        self.last_index[access.page.mapping.0 as usize % NR_SLOTS] = access.page.index.0;
    }
}

const _: () = assert!(AccessKind::ALL.len() - KIND_MORE as usize <= NOTE_TICK as usize);

#[cfg(test)]
mod tests;
