//! Converts any trace to the compact access record, which is smaller and faster to read.
//!
//! Problem: reading a text trace costs more than the replay. Idea: write our own record once, one
//! buffer at a time. A record keeps its header. Other formats get a header without a run.
//!
//! Ignored: times, object sizes, file names.

use super::{Header, Trace, TraceError};
use pagetide_core::record::Encoder;
use pagetide_core::units::PAGE_SHIFT;
use std::io::{self, Write};

const BUFFER_BYTES: usize = 64 << 10;
const STRETCH: u64 = 1 << 16;

/// An error of a conversion.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The trace cannot be read further.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The record cannot be written.
    #[error("cannot write the record")]
    Write {
        /// The error of the operating system.
        source: io::Error,
    },
}

/// Counts of a conversion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Converted {
    /// Entries.
    pub entries: u64,
    /// Entries that are accesses.
    pub accesses: u64,
    /// Bytes passed to the writer.
    pub bytes: u64,
}

/// Writes the rest of `trace` to `out` as a complete record.
///
/// `keep_on` gets the number of entries since its last call, and ends the conversion with `None`
/// and an unfinished record by returning `false`.
///
/// # Errors
/// Fails with [`ConvertError::Trace`] or [`ConvertError::Write`], and leaves an unfinished record.
pub fn convert(
    trace: &mut Trace,
    out: &mut impl Write,
    mut keep_on: impl FnMut(u64) -> bool,
) -> Result<Option<Converted>, ConvertError> {
    convert_entries(trace, out, &mut keep_on)
}

fn convert_entries(
    trace: &mut Trace,
    out: &mut dyn Write,
    keep_on: &mut dyn FnMut(u64) -> bool,
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
