//! CloudPhysics' traces of virtual SCSI disks, versions 1 and 2: little-endian records.
//!
//! ```text
//!   1   u32 serial | u32 bytes | u32 pieces | u16 command | u16 version | u64 block | u64 us
//!   2   u16 command | u16 version | u32 serial | u32 bytes | u32 pieces | u64 block | u64 us | u64
//! ```
//!
//! The upper byte of the version field holds the version. A block is 512 bytes. Commands other than
//! reads and writes are skipped.
//!
//! Sources: Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015, for the
//! traces. libCacheSim's documentation for the record layout. SCSI block commands for the command
//! codes.

use super::input::Input;
use super::{AccessKind, Micros, Request, Source, TraceError};
use pagetide_core::ids::MappingId;

const BLOCK_BYTES: u64 = 512;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    One,
    Two,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    command: u16,
    len_bytes: u32,
    block: u64,
    at: Micros,
}

pub(super) struct Vscsi {
    input: Input,
    version: Version,
}

impl Vscsi {
    /// Reads the version from the first record in `prefix`.
    ///
    /// # Errors
    /// Fails with [`TraceError::UnknownFormat`] if the first record is of neither version.
    pub(super) fn new(input: Input, prefix: &[u8]) -> Result<Vscsi, TraceError> {
        let version = version_of(prefix).ok_or(TraceError::UnknownFormat)?;
        Ok(Vscsi { input, version })
    }

    fn next_record(&mut self) -> Result<Option<(u64, Record)>, TraceError> {
        let offset = self.input.offset();
        let record = match self.version {
            Version::One => self.input.read_record::<32>()?.map(|bytes| record_one(&bytes)),
            Version::Two => self.input.read_record::<40>()?.map(|bytes| record_two(&bytes)),
        };
        Ok(record.map(|record| (offset, record)))
    }
}

impl Source for Vscsi {
    fn next_request(&mut self) -> Result<Option<Request>, TraceError> {
        while let Some((offset, record)) = self.next_record()? {
            let Some(kind) = kind_of(record.command) else { continue };
            let request = record.block.checked_mul(BLOCK_BYTES).and_then(|first| {
                Request::bytes(MappingId(0), first, record.len_bytes.into(), kind).ok()
            });
            let request = request.map(|request| request.at(Some(record.at)));
            return request.map(Some).ok_or(TraceError::Damaged { offset });
        }
        Ok(None)
    }
}

/// Returns true if the first one or two records have the same version and a read or write command.
pub(super) fn looks_right(prefix: &[u8]) -> bool {
    version_of(prefix).is_some_and(|version| {
        let (first, second) = match version {
            Version::One => (record_at(prefix, 0, 32), record_at(prefix, 32, 32)),
            Version::Two => (record_at(prefix, 0, 40), record_at(prefix, 40, 40)),
        };
        let is_same = |bytes: &[u8]| version_of(bytes) == Some(version);
        first.is_some_and(is_same) && second.is_none_or(is_same)
    })
}

/// Returns the first byte that fits neither version, and the expected contents.
pub(super) fn mismatch(prefix: &[u8]) -> Option<(usize, &'static str)> {
    if version_of(prefix).is_some() {
        return None;
    }
    if prefix.len() < 32 {
        return Some((prefix.len(), "records of 32 bytes (version 1) or 40 bytes (version 2)"));
    }
    let command = "a SCSI command that reads or writes: 08, 28, a8, 88, 0a, 2a, aa or 8a, then 00";
    Some(match (prefix[15], prefix[3]) {
        (1, _) => (12, command),
        (_, 2) => (0, command),
        _ => (3, "02 (version 2), or 01 in byte 15 (version 1)"),
    })
}

fn record_at(bytes: &[u8], at: usize, len: usize) -> Option<&[u8]> {
    bytes.get(at..at + len)
}

fn version_of(bytes: &[u8]) -> Option<Version> {
    let is = |at: usize, version: u8| {
        let command = bytes.get(at).copied().map(u16::from);
        bytes.len() >= 32
            && bytes[at + 1] == 0
            && bytes[at + 3] == version
            && command.is_some_and(|command| kind_of(command).is_some())
    };
    if is(12, 1) { Some(Version::One) } else { is(0, 2).then_some(Version::Two) }
}

/// Returns the access kind of a SCSI command: the group codes of 6, 10, 12 and 16 bytes.
fn kind_of(command: u16) -> Option<AccessKind> {
    match command {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(AccessKind::Read),
        0x0a | 0x2a | 0xaa | 0x8a => Some(AccessKind::Write),
        _ => None,
    }
}

fn record_one(bytes: &[u8; 32]) -> Record {
    Record {
        command: u16::from_le_bytes(part(bytes, 12)),
        len_bytes: u32::from_le_bytes(part(bytes, 4)),
        block: u64::from_le_bytes(part(bytes, 16)),
        at: Micros(u64::from_le_bytes(part(bytes, 24))),
    }
}

fn record_two(bytes: &[u8; 40]) -> Record {
    Record {
        command: u16::from_le_bytes(part(bytes, 0)),
        len_bytes: u32::from_le_bytes(part(bytes, 8)),
        block: u64::from_le_bytes(part(bytes, 16)),
        at: Micros(u64::from_le_bytes(part(bytes, 24))),
    }
}

fn part<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    *record[at..].first_chunk().expect("field offsets are constants inside the record")
}
