//! libCacheSim's "oracleGeneral" format: packed little-endian records.
//!
//! ```text
//!   u32 time | u64 object | u32 size | i64 position of the next access (-1: none)      24 bytes
//! ```
//!
//! An object is a page. Sizes are ignored. Times are in seconds.
//!
//! Source: libCacheSim, "oracleGeneral" trace format description.

use super::input::Input;
use super::{AccessKind, Micros, Request, Source, TraceError};

pub(super) const RECORD_BYTES: usize = 24;

pub(super) struct OracleGeneral {
    input: Input,
}

impl OracleGeneral {
    pub(super) fn new(input: Input) -> OracleGeneral {
        OracleGeneral { input }
    }
}

impl Source for OracleGeneral {
    fn next_request(&mut self) -> Result<Option<Request>, TraceError> {
        let record = self.input.read_record::<RECORD_BYTES>()?;
        Ok(record.map(|record| {
            let (secs, ..) = marks(&record);
            let object = u64::from_le_bytes(part(&record, 4));
            Request::page(object, AccessKind::Read).at(Some(Micros::from_secs(secs.into())))
        }))
    }
}

/// Returns time, size and position of the next access, the fields used to detect the format.
pub(super) fn marks(record: &[u8; RECORD_BYTES]) -> (u32, u32, i64) {
    let time = u32::from_le_bytes(part(record, 0));
    let size_bytes = u32::from_le_bytes(part(record, 12));
    (time, size_bytes, i64::from_le_bytes(part(record, 16)))
}

fn part<const N: usize>(record: &[u8; RECORD_BYTES], at: usize) -> [u8; N] {
    *record[at..].first_chunk().expect("field offsets are constants inside the record")
}
