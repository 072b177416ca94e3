//! A whole trace, read into memory for many replays.

use crate::room::read_memory_available;
use pagetide_lab::trace::{DenseTrace, Facts, Format, ReadaheadUse, Trace, TraceError};
use std::path::Path;

/// Entries between two looks at whether to go on.
const LOOK_EVERY: usize = 1 << 18;
/// A trace that takes no more is read without asking how much memory there is.
const BYTES_UNASKED: u64 = 256 << 20;

/// How traces are read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// Their format; without, it is told by each file's name and first bytes.
    pub format: Option<Format>,
    /// Whether malformed lines are skipped, and a record that was cut off is used so far.
    pub is_lenient: bool,
    /// Whether policies get the readahead that a run recorded; without, it is taken away.
    pub has_readahead: bool,
}

impl Reading {
    /// All of it that an answer depends on, as a key of the journal has it.
    pub fn settings(&self) -> String {
        let format = self.format.map_or("detected", Format::as_str);
        let readahead = if self.has_readahead { "recorded" } else { "without" };
        let malformed = if self.is_lenient { "skipped" } else { "refused" };
        format!("format {format}, readahead {readahead}, malformed lines {malformed}")
    }
}

/// Why a trace was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadTraceError {
    /// The trace is damaged, or cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// It takes more memory than there is; use a part of it, or a larger machine.
    #[error(
        "the trace does not fit into memory: its first {entries} entries take {held} bytes, and \
         {available} are available"
    )]
    NoRoom {
        /// Entries read so far.
        entries: u64,
        /// What they take, in bytes.
        held: u64,
        /// What there is besides, in bytes.
        available: u64,
    },
    /// The caller said so.
    #[error("stopped")]
    Stopped,
}

impl ReadTraceError {
    /// The sentence, with those of its causes.
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

/// Reads the trace at `path`; `keep_on` is given now and then how many bytes are held.
///
/// # Errors
/// [`ReadTraceError`]: the trace's first error, or no memory for it.
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

/// Reads all entries of an open trace; `keep_on` is given now and then what there is so far.
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

/// Refuses to read on where there may be no memory for as much again.
fn check_room(trace: &DenseTrace) -> Result<(), ReadTraceError> {
    let (held, entries) = (trace.bytes_held(), trace.nr_entries());
    match read_memory_available() {
        Some(available) if available.0 < held => {
            Err(ReadTraceError::NoRoom { entries, held, available: available.0 })
        }
        _ => Ok(()),
    }
}
