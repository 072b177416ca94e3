//! Reads a whole trace into memory, for many replays.

use crate::room::read_memory_available;
use pagetide_lab::trace::{DenseTrace, Facts, Format, ReadaheadUse, Trace, TraceError};
use std::path::Path;

/// Entries between two checks for a stop.
const LOOK_EVERY: usize = 1 << 18;
/// Traces up to this size are read without checking the available memory.
const BYTES_UNASKED: u64 = 256 << 20;

/// Options for reading traces.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// The format. `None` detects it by each file's name and first bytes.
    pub format: Option<Format>,
    /// Skips malformed lines, and uses the complete part of a truncated record.
    pub is_lenient: bool,
    /// Gives policies the recorded readahead. Otherwise it is removed.
    pub has_readahead: bool,
}

impl Reading {
    /// Returns the settings that answers depend on, as a key of the journal.
    pub fn settings(&self) -> String {
        let format = self.format.map_or("detected", Format::as_str);
        let readahead = if self.has_readahead { "recorded" } else { "without" };
        let malformed = if self.is_lenient { "skipped" } else { "refused" };
        format!("format {format}, readahead {readahead}, malformed lines {malformed}")
    }
}

/// The reason why a trace was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadTraceError {
    /// The trace is damaged, or cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace exceeds the memory. Use a part of it, or a larger machine.
    #[error(
        "the trace does not fit into memory: its first {entries} entries take {held} bytes, and \
         {available} are available"
    )]
    NoRoom {
        /// Entries read so far.
        entries: u64,
        /// Bytes taken by these entries.
        held: u64,
        /// Bytes available besides.
        available: u64,
    },
    /// The caller stopped the work.
    #[error("stopped")]
    Stopped,
}

impl ReadTraceError {
    /// Returns the message, with the messages of its causes.
    pub fn describe(&self) -> String {
        let mut said = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            said = format!("{said}: {error}");
            cause = error.source();
        }
        said
    }
}

/// Reads the trace at `path`. Calls `keep_on` now and then with the bytes held.
///
/// # Errors
/// Fails with [`ReadTraceError`]: the trace's first error, or a lack of memory.
pub fn read_whole(
    path: &Path,
    reading: &Reading,
    mut keep_on: impl FnMut(u64) -> bool,
) -> Result<(DenseTrace, Facts, ReadaheadUse), ReadTraceError> {
    let mut trace = Trace::open(path, reading.format)?;
    if reading.is_lenient {
        trace.skip_malformed();
    }
    let mut dense = read_entries(&mut trace, |read| keep_on(read.bytes_held()))?;
    let facts = Facts::at_end(&trace, dense.nr_accesses())?;
    dense.push_notes(&facts.notes);
    let readahead_use = match reading.has_readahead {
        true => ReadaheadUse::of(&dense),
        false => ReadaheadUse::take_from(&mut dense),
    };
    Ok((dense, facts, readahead_use))
}

/// Reads all entries of an open trace. Calls `keep_on` now and then with the trace so far.
///
/// # Errors
/// As [`read_whole`].
pub fn read_entries(
    trace: &mut Trace,
    mut keep_on: impl FnMut(&DenseTrace) -> bool,
) -> Result<DenseTrace, ReadTraceError> {
    let (mut dense, mut bytes_checked) = (DenseTrace::default(), BYTES_UNASKED);
    while dense.read_some(trace, LOOK_EVERY)? > 0 {
        if !keep_on(&dense) {
            return Err(ReadTraceError::Stopped);
        }
        let held = dense.bytes_held();
        if held > bytes_checked {
            bytes_checked = held.saturating_mul(2);
            check_room(&dense)?;
        }
    }
    Ok(dense)
}

/// Refuses to continue if the memory may not hold as much again.
fn check_room(trace: &DenseTrace) -> Result<(), ReadTraceError> {
    let (held, entries) = (trace.bytes_held(), trace.nr_entries());
    match read_memory_available() {
        Some(available) if available.0 < held => {
            Err(ReadTraceError::NoRoom { entries, held, available: available.0 })
        }
        _ => Ok(()),
    }
}
