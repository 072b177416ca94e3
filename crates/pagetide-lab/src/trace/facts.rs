//! Facts about a trace besides its entries, known at the end.
//!
//! A record that ends inside an entry is an error, unless malformed lines are skipped. A record
//! that ends between entries is usable: the program was killed, or still runs.

use super::{DenseTrace, Ending, Format, Header, Note, Trace, TraceError};
use serde::Serialize;

/// Facts about a trace besides its entries.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Named or detected format.
    pub format: Format,
    /// The header of the recorded run, if the format has one.
    pub header: Option<Header>,
    /// Malformed lines and cut-off records skipped.
    pub nr_skipped: u64,
    /// Notes of the record after its last entry.
    pub notes: Vec<Note>,
    /// True if the record ends between two entries.
    pub is_unfinished: bool,
}

impl Facts {
    /// Returns the facts of a fully read trace.
    ///
    /// # Errors
    /// Fails with [`TraceError::NoAccesses`] if `nr_accesses` is 0. Fails with
    /// [`TraceError::CutOff`] if the trace ends inside an entry and malformed parts are not
    /// skipped.
    pub fn at_end(trace: &Trace, nr_accesses: u64) -> Result<Facts, TraceError> {
        let ending = trace.ending();
        let is_cut = ending == Some(Ending::Torn);
        if is_cut && !trace.skips_malformed() {
            return Err(TraceError::CutOff);
        }
        if nr_accesses == 0 {
            return Err(TraceError::NoAccesses);
        }
        Ok(Facts {
            format: trace.format(),
            header: trace.header().cloned(),
            nr_skipped: trace.nr_skipped() + u64::from(is_cut),
            notes: trace.notes().to_vec(),
            is_unfinished: ending == Some(Ending::Unfinished),
        })
    }
}

/// The use of a trace's readahead in replays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadaheadUse {
    /// The trace has accesses only.
    None,
    /// The readahead was removed.
    Without,
    /// Every policy gets the recorded readahead.
    Recorded,
}

impl ReadaheadUse {
    /// Returns the use for the unchanged trace.
    pub fn of(trace: &DenseTrace) -> ReadaheadUse {
        if trace.has_readahead() { ReadaheadUse::Recorded } else { ReadaheadUse::None }
    }

    /// Returns the name in result rows.
    pub const fn as_str(self) -> &'static str {
        match self {
            ReadaheadUse::None => "none",
            ReadaheadUse::Without => "without",
            ReadaheadUse::Recorded => "recorded",
        }
    }

    /// Removes the readahead. Returns [`ReadaheadUse::None`] if there was none.
    pub fn take_from(trace: &mut DenseTrace) -> ReadaheadUse {
        if !trace.has_readahead() {
            return ReadaheadUse::None;
        }
        trace.drop_readahead();
        ReadaheadUse::Without
    }
}
