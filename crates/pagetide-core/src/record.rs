//! The compact access record: what a run asked of the page cache, in about two bytes an access.
//!
//! # Problem
//!
//! A run in the real world must be repeatable in the lab, page for page. That needs every access in
//! order, on a machine that is busy serving them: the record has to be small, cheap to append, and
//! readable up to the last whole entry when the process is killed. Accesses alone do not do: what
//! else could make reclaim decide differently (readahead, write-back, guards, truncation, and with
//! tiers of memory the time and the files' lengths) is there too, in the order in which it
//! happened.
//!
//! # Idea
//!
//! Accesses repeat themselves: same mapping, same thread, a page near the last one. An entry says
//! only what changed since the previous one.
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
//!
//! # Data and invariants
//!
//! Encoder and decoder hold the same small context (last mapping, last thread, and the last index
//! seen in each of 16 mapping slots), and update it by the same function. Numbers are LEB128, at
//! most ten bytes. The decoder never panics and never reads past its slice, whatever the bytes are.
//! The sequence number of an entry is its position; notes count. Evictions and moves between tiers
//! are in it as well: they are results, which a replay skips, and by which it is judged.
//!
//! # What it deliberately ignores
//!
//! Times of accesses, byte offsets within a page, contents, and checksums: a torn tail is noticed,
//! silent corruption of the middle is not, unless it makes an impossible entry or a wrong final
//! count. Resizing the page cache, and which thread a background thread worked for.
//!
//! # Sources
//!
//! LEB128 and zigzag as in DWARF and Protocol Buffers. The byte table is in `docs/formats.md`.

use crate::ids::{MappingId, PageId};
use crate::lru::Switches;
use crate::page_alloc::PcpTuning;
use crate::tiering::ScannedMapping;
use crate::units::Millis;
use alloc::string::String;
use alloc::vec::Vec;
use core::str;

mod decode;
mod encode;
mod groups;
mod switches;
mod tiers;

pub use decode::{Decoder, Entries, Step};
pub use encode::Encoder;
pub use groups::GroupNote;
pub use tiers::{RecordedNode, RecordedNodes, RecordedTiers};

/// The first eight bytes of a record; the control characters catch text-mode damage.
pub const MAGIC: [u8; 8] = *b"PTREC\r\n\x1a";
/// The version this module writes. It reads those before, too: 1 had no tiers and no notes, 2 said
/// neither which mechanisms were switched nor how far tiers may grow nor who reclaimed, 3 had no
/// [`AccessKind::Around`].
pub const VERSION: u16 = 4;
/// Bytes of the header before the policy's name.
pub const HEADER_FIXED_BYTES: usize = 40;
/// The longest policy name a header may carry, in bytes.
pub const POLICY_NAME_BYTES_MAX: usize = 64;
/// The longest entry, in bytes: tag, which, two groups, three numbers.
pub const ENTRY_BYTES_MAX: usize = 2 + 2 * 3 + 3 * VARINT_BYTES_MAX;

/// The tunings by their codes. Records from before there was a choice say 0.
const TUNINGS: [PcpTuning; 4] =
    [PcpTuning::Refill, PcpTuning::Fixed, PcpTuning::Depth, PcpTuning::Adaptive];

/// Who reclaimed, by codes from 1 on; 0 is not known.
const RECLAIMERS: [Reclaimer; 2] = [Reclaimer::Accesses, Reclaimer::Background];

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
    /// Evicted. A result: whoever replays the record arrives at it alone.
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

    /// Whether somebody used the page.
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

    /// Whether it says what was decided, which a replay arrives at by itself.
    pub const fn is_result(self) -> bool {
        matches!(self, AccessKind::Evict | AccessKind::Demote | AccessKind::Promote)
    }

    /// Whether it is an access for writing.
    pub const fn is_write(self) -> bool {
        matches!(self, AccessKind::Write | AccessKind::TableWrite)
    }
}

/// One entry: a page, what happened to it, and by whom.
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

/// Who made room in a recorded run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reclaimer {
    /// The accesses that needed it.
    Accesses,
    /// A thread beside them, as long as it kept up.
    Background,
}

impl Reclaimer {
    /// As people read it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reclaimer::Accesses => "accesses",
            Reclaimer::Background => "background",
        }
    }
}

/// What is known about the recorded run before its first entry.
///
/// A record may also hold a trace from elsewhere, converted: it is of no run, and its header says
/// so by a memory of no frame ([`Header::of_trace`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Bytes in a page of the recorded run.
    pub page_bytes: u32,
    /// The memory it had, in frames.
    pub memory_frames: u64,
    /// The memory it could have grown to, in frames: what its tables were made for.
    pub memory_frames_max: u64,
    /// CPUs it had per-CPU lists for.
    pub nr_cpus: u32,
    /// How willing it was to evict anonymous pages, 0 to 200.
    pub swappiness: u8,
    /// How its per-CPU lists found their length.
    pub pcp_tuning: PcpTuning,
    /// Its knob `percpu_pagelist_high_fraction`.
    pub pcp_high_fraction: u16,
    /// Who made room in it, where that is known.
    pub reclaimer: Option<Reclaimer>,
    /// The policy's name as people type it, at most [`POLICY_NAME_BYTES_MAX`] bytes.
    pub policy: String,
    /// What its memory was made of, if it was of several kinds.
    pub tiers: Option<RecordedTiers>,
    /// Which mechanisms of its policy were on.
    pub switches: Switches,
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
    #[error("record version {found} is not one of 1 to {VERSION}")]
    UnknownVersion {
        /// The version found.
        found: u16,
    },
    /// The policy's name is too long or not UTF-8: the header is damaged.
    #[error("the policy name in the record's header is damaged")]
    BadPolicyName,
    /// Whoever reclaimed is nobody this version knows: damage, or a newer program's record.
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

impl Header {
    /// The header of a trace that no page cache recorded: pages of `page_bytes`, and nothing else
    /// known.
    pub fn of_trace(page_bytes: u32) -> Header {
        Header {
            page_bytes,
            memory_frames: 0,
            memory_frames_max: 0,
            nr_cpus: 0,
            swappiness: 0,
            pcp_tuning: TUNINGS[0],
            pcp_high_fraction: 0,
            reclaimer: None,
            policy: String::new(),
            tiers: None,
            switches: Switches::default(),
        }
    }

    /// Whether a page cache recorded it: then it says what memory and policy that had.
    pub fn is_of_run(&self) -> bool {
        self.memory_frames > 0
    }

    /// Appends the header to `out`, which should be empty.
    ///
    /// # Panics
    /// When the policy's name is longer than [`POLICY_NAME_BYTES_MAX`], or there are more tiers
    /// than a topology has.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        assert!(self.policy.len() <= POLICY_NAME_BYTES_MAX, "policy name too long for a header");
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        let reclaimer = RECLAIMERS.iter().position(|one| Some(*one) == self.reclaimer);
        let reclaimer = reclaimer.map_or(0, |index| index as u8 + 1);
        out.extend_from_slice(&[self.policy.len() as u8, reclaimer]);
        out.extend_from_slice(&self.page_bytes.to_le_bytes());
        out.extend_from_slice(&self.memory_frames.to_le_bytes());
        out.extend_from_slice(&self.memory_frames_max.to_le_bytes());
        out.extend_from_slice(&self.nr_cpus.to_le_bytes());
        let tuning = TUNINGS.iter().position(|tuning| *tuning == self.pcp_tuning);
        out.extend_from_slice(&[self.swappiness, tuning.expect("every tuning has a code") as u8]);
        out.extend_from_slice(&self.pcp_high_fraction.to_le_bytes());
        out.extend_from_slice(self.policy.as_bytes());
        tiers::append(self.tiers.as_ref(), out);
        switches::append(self.switches, out);
    }

    /// Reads a header from the front of `bytes`; returns it and its length in bytes.
    ///
    /// # Errors
    /// [`RecordError::HeaderShort`] says how many bytes to come back with; the other header errors
    /// are final.
    pub fn decode(bytes: &[u8]) -> Result<(Header, usize), RecordError> {
        let short = RecordError::HeaderShort { needed_bytes: HEADER_FIXED_BYTES };
        let magic_bytes = bytes.len().min(MAGIC.len());
        if bytes[..magic_bytes] != MAGIC[..magic_bytes] {
            return Err(RecordError::BadMagic);
        }
        let fixed: &[u8; HEADER_FIXED_BYTES] = bytes.first_chunk().ok_or(short)?;
        let version = u16::from_le_bytes(field(fixed, 8));
        if !(1..=VERSION).contains(&version) {
            return Err(RecordError::UnknownVersion { found: version });
        }
        let name_bytes = usize::from(fixed[10]);
        // In older records the byte after it belongs to the length, and is zero.
        if name_bytes > POLICY_NAME_BYTES_MAX || (version < 3 && fixed[11] != 0) {
            return Err(RecordError::BadPolicyName);
        }
        let reclaimer = match fixed[11].checked_sub(1).map(usize::from) {
            None => None,
            Some(index) => {
                let unknown = RecordError::UnknownReclaimer { found: fixed[11] };
                Some(*RECLAIMERS.get(index).ok_or(unknown)?)
            }
        };
        let named_bytes = HEADER_FIXED_BYTES + name_bytes;
        let name = bytes
            .get(HEADER_FIXED_BYTES..named_bytes)
            .ok_or(RecordError::HeaderShort { needed_bytes: named_bytes })?;
        let (tiers, tiers_end) = match version {
            1 => (None, named_bytes),
            _ => tiers::decode(bytes, named_bytes, version)?,
        };
        let (switches, header_bytes) = match version {
            1 | 2 => (Switches::default(), tiers_end),
            _ => switches::decode(bytes, tiers_end)?,
        };
        let policy = str::from_utf8(name).map_err(|_| RecordError::BadPolicyName)?;
        let header = Header {
            page_bytes: u32::from_le_bytes(field(fixed, 12)),
            memory_frames: u64::from_le_bytes(field(fixed, 16)),
            memory_frames_max: u64::from_le_bytes(field(fixed, 24)),
            nr_cpus: u32::from_le_bytes(field(fixed, 32)),
            swappiness: fixed[36],
            pcp_tuning: *TUNINGS
                .get(usize::from(fixed[37]))
                .ok_or(RecordError::UnknownTuning { found: fixed[37] })?,
            pcp_high_fraction: u16::from_le_bytes(field(fixed, 38)),
            reclaimer,
            policy: String::from(policy),
            tiers,
            switches,
        };
        Ok((header, header_bytes))
    }
}

/// The `N` bytes at `at`.
fn field<const N: usize>(fixed: &[u8; HEADER_FIXED_BYTES], at: usize) -> [u8; N] {
    *fixed[at..].first_chunk().expect("every field lies within the fixed part")
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
