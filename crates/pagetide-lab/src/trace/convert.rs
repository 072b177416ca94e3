//! Any trace as the compact access record: smaller than a text, and read many times faster.
//!
//! Problem: a text trace costs more to read than to replay, each time. Idea: write its accesses
//! once as our own record, a buffer at a time. A record keeps its own header; a trace from
//! elsewhere gets one that says it is of no run.
//!
//! Ignored: what the other formats know beyond pages (times, sizes of objects, names of files).

use super::{Header, Trace, TraceError};
use pagetide_core::record::Encoder;
use pagetide_core::units::PAGE_SHIFT;
use std::io::{self, Write};

/// Bytes collected before they are written.
const BUFFER_BYTES: usize = 64 << 10;
/// Entries between two calls of `keep_on`.
const STRETCH: u64 = 1 << 16;

/// Why a trace could not be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The trace cannot be read on.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The record cannot be written; the operating system says why.
    #[error("cannot write the record")]
    Write {
        /// What the operating system said.
        source: io::Error,
    },
}

/// What was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Converted {
    /// Entries.
    pub entries: u64,
    /// Those of them that are accesses.
    pub accesses: u64,
    /// Bytes handed to the writer.
    pub bytes: u64,
}

/// Writes the rest of `trace` to `out` as a complete record.
///
/// `keep_on` is given now and then how many entries came since it was asked last; its `false` ends
/// the conversion with `None` and an unfinished record.
///
/// # Errors
/// [`ConvertError::Trace`] and [`ConvertError::Write`]; the record is unfinished then.
pub fn convert(
    trace: &mut Trace,
    out: &mut impl Write,
    mut keep_on: impl FnMut(u64) -> bool,
) -> Result<Option<Converted>, ConvertError> {
    let header = trace.header().cloned().unwrap_or_else(|| Header::of_trace(1 << PAGE_SHIFT));
    let mut done = Converted { entries: 0, accesses: 0, bytes: 0 };
    let mut buffer = Vec::with_capacity(BUFFER_BYTES + 64);
    let mut write = |buffer: &mut Vec<u8>| {
        let written = out.write_all(buffer).map_err(|source| ConvertError::Write { source });
        let nr_bytes = buffer.len() as u64;
        buffer.clear();
        written.map(|()| nr_bytes)
    };
    header.append_to(&mut buffer);
    let mut encoder = Encoder::new();
    while let Some(access) = trace.next() {
        let access = access?;
        trace.notes().iter().for_each(|note| encoder.append_note(note, &mut buffer));
        encoder.append(&access, &mut buffer);
        done.accesses += u64::from(access.kind.is_access());
        done.entries += 1;
        if buffer.len() >= BUFFER_BYTES {
            done.bytes += write(&mut buffer)?;
        }
        if done.entries.is_multiple_of(STRETCH) && !keep_on(STRETCH) {
            return Ok(None);
        }
    }
    trace.notes().iter().for_each(|note| encoder.append_note(note, &mut buffer));
    encoder.finish(&mut buffer);
    done.bytes += write(&mut buffer)?;
    Ok(keep_on(done.entries % STRETCH).then_some(done))
}
