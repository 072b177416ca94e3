//! What a trace said besides its entries, once it was read to its end.
//!
//! A record cut off inside an entry is an error, unless malformed lines are skipped, too; one that
//! stops between two entries (its program was killed, or still runs) is good to use.

use super::{DenseTrace, Ending, Format, Header, Note, Trace, TraceError};
use serde::Serialize;

/// What a trace said besides its entries.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Its format, named or detected.
    pub format: Format,
    /// The recorded run, in the one format that has any.
    pub header: Option<Header>,
    /// Malformed lines and cut-off records skipped.
    pub nr_skipped: u64,
    /// What a record noted after its last entry.
    pub notes: Vec<Note>,
    /// Whether a record stopped between two entries: its program was killed, or still runs.
    pub is_unfinished: bool,
}

impl Facts {
    /// Judges a trace read to its end, which had `nr_accesses`.
    ///
    /// # Errors
    /// [`TraceError::NoAccesses`]; [`TraceError::CutOff`], unless it skips what is malformed.
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

/// What all replays of a trace answer about the readahead in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadaheadUse {
    /// The trace has accesses alone, and always had.
    None,
    /// The readahead in it was taken away.
    Without,
    /// The readahead in it is every policy's.
    Recorded,
}

impl ReadaheadUse {
    /// What replays of the trace as it is answer.
    pub fn of(trace: &DenseTrace) -> ReadaheadUse {
        if trace.has_readahead() { ReadaheadUse::Recorded } else { ReadaheadUse::None }
    }

    /// As rows have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            ReadaheadUse::None => "none",
            ReadaheadUse::Without => "without",
            ReadaheadUse::Recorded => "recorded",
        }
    }

    /// Takes the readahead out of the trace, and says whether there was any.
    pub fn take_from(trace: &mut DenseTrace) -> ReadaheadUse {
        if !trace.has_readahead() {
            return ReadaheadUse::None;
        }
        trace.drop_readahead();
        ReadaheadUse::Without
    }
}
