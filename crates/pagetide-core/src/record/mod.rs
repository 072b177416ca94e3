//! The compact access record: what a run asked of the page cache, in about two bytes an access.
//!
//! **Problem.** A run in the real world must be repeatable in the lab, page for page. That needs
//! every access in order, on a machine that is busy serving them: the record has to be small, cheap
//! to append, and readable up to the last whole entry when the process is killed. Accesses alone do
//! not do: what else could make reclaim decide differently (readahead, write-back, guards,
//! truncation, and with tiers of memory the time and the files' lengths) is there too, in the order
//! in which it happened.
//!
//! **Idea.** Accesses repeat themselves: same mapping, same thread, a page near the last one. An
//! entry says only what changed since the previous one.
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
//! A sequential read costs one byte, a random one in a file of a few gigabytes three or four.
//! Thread 0 reads pages 3 and 4 of mapping 0, and thread 1 writes page 1000 of mapping 2 through a
//! guard:
//!
//! ```text
//!   c0 06           kind 0, delta 6 (zigzag of 3)
//!   80              kind 0, delta 2 (zigzag of 1)
//!   f6 01 02 d0 0f  kind 6, thread 1, mapping 2, delta 2000 (zigzag of 1000)
//!   0f 03           end, three entries
//! ```
//!
//! **Data and invariants.** Encoder and decoder hold the same small context (last mapping, last
//! thread, and the last index seen in each of 16 mapping slots), and update it by the same
//! function. Numbers are LEB128, at most ten bytes. The decoder never panics and never reads past
//! its slice, whatever the bytes are. The sequence number of an entry is its position; notes count.
//! Evictions and moves between tiers are in it as well: they are results, which a replay skips, and
//! by which it is judged.
//!
//! **Ignored.** Times of accesses, byte offsets within a page, contents, and checksums: a torn tail
//! is noticed, silent corruption of the middle is not, unless it makes an impossible entry or a
//! wrong final count. Resizing the page cache, and which thread a background thread worked for.
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

/// The longest entry, in bytes: tag, which, two groups, three numbers.
pub const ENTRY_BYTES_MAX: usize = 2 + 2 * 3 + 3 * VARINT_BYTES_MAX;

const VARINT_BYTES_MAX: usize = 10;
const NR_SLOTS: usize = 16;
const KIND_MASK: u8 = 0b0000_1111;
/// Another byte follows, with a kind from this one on, or a note.
const KIND_MORE: u8 = 14;
const KIND_END: u8 = 15;
/// The byte after [`KIND_MORE`]: from 0 on, kinds.
const NOTE_TICK: u8 = 64;
const NOTE_MAPPING: u8 = 65;
const THREAD_FOLLOWS: u8 = 1 << 4;
const MAPPING_FOLLOWS: u8 = 1 << 5;
const DELTA_SHIFT: u32 = 6;
const DELTA_FOLLOWS: u64 = 3;

/// What an entry says happened to its page.
///
/// Some are accesses, which hit or miss; the others are what the page cache did around them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AccessKind {
    /// Read through a descriptor; counts as a reference.
    Read = 0,
    /// Read through a descriptor, of the page in which the same handle's previous call ended; does
    /// not count as a reference.
    ReadAgain = 1,
    /// Written through a descriptor.
    Write = 2,
    /// Read through the page table (a guard): makes the page young. Its guard pins it until
    /// [`AccessKind::Unpin`].
    Table = 3,
    /// Brought in by readahead, not accessed.
    Readahead = 4,
    /// Dropped by truncation, advice or close: no eviction, no trace left.
    Discard = 5,
    /// Taken for writing through the page table (a mutable guard): as [`AccessKind::Table`].
    TableWrite = 6,
    /// To be brought in together with its neighbours for a call that goes on to access it: the
    /// miss is here, the access follows. A call of one page needs no such entry.
    Fill = 7,
    /// Clean until now; its contents are not in the store any more.
    Dirty = 8,
    /// Its write-back was acknowledged.
    Clean = 9,
    /// A guard of it was dropped.
    Unpin = 10,
    /// Evicted. A result, which a replay arrives at by itself.
    Evict = 11,
    /// The pages this thread brought in by [`AccessKind::Fill`] and [`AccessKind::Readahead`] have
    /// their contents; until here they were locked.
    Filled = 12,
    /// Read past the page cache, or not at all: the [`AccessKind::Fill`] before it found no frame,
    /// or could not be read.
    Bypass = 13,
    /// Moved to slower memory. A result, as [`AccessKind::Evict`] is.
    Demote = 14,
    /// Moved to the fast memory. A result.
    Promote = 15,
    /// Brought in beside a neighbour that was missed, while memory was ample; not accessed. No
    /// thread waits for it.
    Around = 16,
}

impl AccessKind {
    /// Every kind, in the order of their codes.
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

    /// Whether the page was used.
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

    /// Whether the page came, or was wished for, before any access to it.
    pub const fn is_unasked(self) -> bool {
        matches!(self, AccessKind::Readahead | AccessKind::Around)
    }

    /// Whether it says what was decided, which a replay arrives at by itself.
    pub const fn is_result(self) -> bool {
        matches!(self, AccessKind::Evict | AccessKind::Demote | AccessKind::Promote)
    }

    /// Whether it is an access for writing.
    pub const fn is_write(self) -> bool {
        matches!(self, AccessKind::Write | AccessKind::TableWrite)
    }
}

impl From<Migration> for AccessKind {
    /// What a record says of the move.
    fn from(migration: Migration) -> AccessKind {
        match migration {
            Migration::Promotion => AccessKind::Promote,
            Migration::Demotion => AccessKind::Demote,
        }
    }
}

/// One entry: a page, what happened to it, and the thread that did it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// The page.
    pub page: PageId,
    /// What happened to it.
    pub kind: AccessKind,
    /// A small number for the thread that did it, counted from 0 in order of first access.
    pub thread: u32,
}

/// What happened to no page in particular, and yet makes a difference to what is decided later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// The time was told, and what was due then was done. Milliseconds of the run's own clock.
    Tick(Millis),
    /// From now on the mapping has so many pages, as hint scans see it; none, and it is forgotten.
    Mapping(ScannedMapping),
    /// Memory groups, which stand before everything else where there are any.
    Group(GroupNote),
}

/// An entry, or a note between entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// Something happened to a page.
    Access(Access),
    /// Something else happened.
    Note(Note),
}

/// Why bytes could not be read as a record. Offsets count from the start of the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The header is cut off; pass at least this many bytes, if there are more.
    #[error("the record's header is cut off: {needed_bytes} bytes needed")]
    HeaderShort {
        /// The bytes a complete header has, as far as known.
        needed_bytes: usize,
    },
    /// The file is something else; choose its format by name.
    #[error("not a pagetide record: the first eight bytes are others")]
    BadMagic,
    /// Written by another version of this program; read it with that one.
    #[error("record version {found} is not {VERSION}")]
    UnknownVersion {
        /// The version found.
        found: u16,
    },
    /// The policy's name is too long or not UTF-8: the header is damaged.
    #[error("the policy name in the record's header is damaged")]
    BadPolicyName,
    /// A reclaimer that this version does not know: damage, or a newer program's record.
    #[error("unknown reclaimer, {found}, in the record's header")]
    UnknownReclaimer {
        /// The code found.
        found: u8,
    },
    /// A tuning of the per-CPU lists this version does not know: damage, or a newer program's
    /// record.
    #[error("unknown tuning of the per-CPU lists, {found}, in the record's header")]
    UnknownTuning {
        /// The tuning's code.
        found: u8,
    },
    /// Tiers that no page cache has: damage, or a newer program's record.
    #[error("the tiers in the record's header make no sense")]
    BadTiers,
    /// Mechanisms that no policy has: damage, or a newer program's record.
    #[error("the record's header names a mechanism that no policy has")]
    UnknownMechanism,
    /// An entry of a kind this version does not know: damage, or a newer program's record.
    #[error("unknown kind of entry, {kind}, at byte {offset}")]
    UnknownKind {
        /// The kind's code.
        kind: u8,
        /// Where the entry starts.
        offset: u64,
    },
    /// A number is longer than its type: the entry is damaged, and so is all that follows.
    #[error("number out of range in the entry at byte {offset}")]
    NumberTooLarge {
        /// Where the entry starts.
        offset: u64,
    },
    /// The run said at its end how many entries it wrote, and they are not as many.
    #[error("the record ends after {found} entries, but says it has {stated}")]
    WrongCount {
        /// Entries the end says there are.
        stated: u64,
        /// Entries decoded.
        found: u64,
    },
    /// Bytes after the end: two records in one file, or damage.
    #[error("bytes after the record's end, at byte {offset}")]
    AfterEnd {
        /// Where they start.
        offset: u64,
    },
}

/// How a record ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The run closed its record: every access is there.
    Complete,
    /// The bytes stop between two entries without an end: the process was killed, or is running.
    Unfinished,
    /// The bytes stop inside an entry, which is lost.
    Torn,
}

/// What both sides remember between entries.
#[derive(Clone, Debug, Default)]
struct Context {
    mapping: MappingId,
    thread: u32,
    /// When the last tick was.
    tick: Millis,
    /// Last page index by the mapping's low bits. Two mappings may share a slot; that costs bytes,
    /// not correctness.
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
