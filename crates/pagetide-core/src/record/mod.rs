//! The access record: the input of the page cache, in about two bytes an access.
//!
//! **Problem.** The lab must repeat a real run page for page. The record needs every access in
//! order. It must be small, cheap to append, and readable up to the last whole entry after a kill.
//! The record also needs, in order, whatever else changes decisions: readahead, write-back, guards,
//! truncation, and with memory tiers the time and file lengths.
//!
//! **Idea.** Accesses repeat the mapping, the thread and the neighbourhood of the page. An entry
//! holds only the changes.
//!
//!
//! ```text
//!   header: magic, version, page length, memory, machine, policy, tiers, switches   once
//!   entry:  [ delta:2 | mapping? | thread? | kind:4 ]  [thread] [mapping] [delta]
//!             |                                         varint   varint    zigzag varint
//!             +-- 0..=2: the page delta itself, zigzag;  3: the delta follows
//!           kind = 14: another byte says which of the rarer kinds, or which note
//!   note:   [ kind = 14 ] [ which ] [numbers]                 of no page: a tick, a group
//!   end:    [ kind = 15 ] [number of entries]                 written by a run that ended itself
//! ```
//!
//! A sequential read costs one byte. A random read in a file of a few gigabytes costs three or
//! four. Example: thread 0 reads pages 3 and 4 of mapping 0, then thread 1 writes page 1000 of
//! mapping 2 through a guard:
//!
//! ```text
//!   c0 06           kind 0, delta 6 (zigzag of 3)
//!   80              kind 0, delta 2 (zigzag of 1)
//!   f6 01 02 d0 0f  kind 6, thread 1, mapping 2, delta 2000 (zigzag of 1000)
//!   0f 03           end, three entries
//! ```
//!
//! **Data and invariants.** Encoder and decoder hold the same context (last mapping, last thread,
//! last index in each of 16 mapping slots) and share the update function. Numbers are LEB128, at
//! most ten bytes. The decoder never panics or reads past the slice. The sequence number of an
//! entry is its position, notes included. Evictions and moves between tiers are results: a replay
//! skips them and is judged by them.
//!
//! **Ignored.** Access times, byte offsets within a page, contents, resizes of the cache, and the
//! thread served by a background thread. There are no checksums: a torn tail is detected, silent
//! corruption only if an entry or the final count is impossible.
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

/// An access to a page, or an action of the page cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AccessKind {
    /// Read through a descriptor. Counts as a reference.
    Read = 0,
    /// Read through a descriptor, of the page where the handle's last call ended. Not a reference.
    ReadAgain = 1,
    /// Written through a descriptor.
    Write = 2,
    /// Read through the page table, by a guard. Makes the page young. Pinned until
    /// [`AccessKind::Unpin`].
    Table = 3,
    /// Read ahead, not accessed.
    Readahead = 4,
    /// Dropped by truncation, advice or close, without a shadow entry.
    Discard = 5,
    /// Taken for writing by a mutable guard, otherwise as [`AccessKind::Table`].
    TableWrite = 6,
    /// Missed and to be filled together with its neighbours, for a call that accesses it next. A
    /// one-page call needs no such entry.
    Fill = 7,
    /// Became dirty.
    Dirty = 8,
    /// Written back.
    Clean = 9,
    /// A guard was dropped.
    Unpin = 10,
    /// Evicted. A result.
    Evict = 11,
    /// The thread's [`AccessKind::Fill`] and [`AccessKind::Readahead`] pages are filled and
    /// unlocked.
    Filled = 12,
    /// Read past the page cache, or failed: the [`AccessKind::Fill`] before found no frame or could
    /// not be read.
    Bypass = 13,
    /// Moved to slower memory. A result.
    Demote = 14,
    /// Moved to the fast memory. A result.
    Promote = 15,
    /// Read around a missed page while memory was ample. Not accessed or awaited.
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

    /// Returns true if the page was fetched before any access.
    pub const fn is_unasked(self) -> bool {
        matches!(self, AccessKind::Readahead | AccessKind::Around)
    }

    /// Returns true for a decision, which a replay reproduces.
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
    /// Number of the thread, from 0 in order of first access.
    pub thread: u32,
}

/// An event without a page that affects later decisions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// Time in milliseconds of the run's clock. Due work was done.
    Tick(Millis),
    /// Length of a mapping for hint scans, in pages. 0 forgets the mapping.
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

/// A decoding error. Offsets count bytes from the record's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The header is cut off. Pass at least this many bytes.
    #[error("the record's header is cut off: {needed_bytes} bytes needed")]
    HeaderShort {
        /// Bytes of a complete header, as far as known.
        needed_bytes: usize,
    },
    /// The file is something else. Name its format.
    #[error("not a pagetide record: the first eight bytes are others")]
    BadMagic,
    /// Another version of this program wrote the record. Read it with that version.
    #[error("record version {found} is not {VERSION}")]
    UnknownVersion {
        /// Found version.
        found: u16,
    },
    /// The policy name is too long or not UTF-8: damage.
    #[error("the policy name in the record's header is damaged")]
    BadPolicyName,
    /// Unknown reclaimer: damage, or a newer record.
    #[error("unknown reclaimer, {found}, in the record's header")]
    UnknownReclaimer {
        /// Found code.
        found: u8,
    },
    /// Unknown per-CPU list tuning: damage, or a newer record.
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
    /// Unknown kind of entry: damage, or a newer record.
    #[error("unknown kind of entry, {kind}, at byte {offset}")]
    UnknownKind {
        /// Found code.
        kind: u8,
        /// Start of the entry.
        offset: u64,
    },
    /// A number exceeds its type: this entry and all later ones are damaged.
    #[error("number out of range in the entry at byte {offset}")]
    NumberTooLarge {
        /// Start of the entry.
        offset: u64,
    },
    /// The number of entries differs from the stated one.
    #[error("the record ends after {found} entries, but says it has {stated}")]
    WrongCount {
        /// Entries stated at the end.
        stated: u64,
        /// Entries decoded.
        found: u64,
    },
    /// Bytes follow the end: two records in one file, or damage.
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
    /// Stops between two entries: the process was killed, or still runs.
    Unfinished,
    /// Stops inside an entry, which is lost.
    Torn,
}

/// State shared by encoder and decoder between entries.
#[derive(Clone, Debug, Default)]
struct Context {
    mapping: MappingId,
    thread: u32,
    /// Last tick.
    tick: Millis,
    /// Last page index by the low bits of the mapping. Sharing a slot costs bytes only.
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
