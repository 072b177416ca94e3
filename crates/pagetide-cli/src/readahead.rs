//! What a table asks of each policy, where the trace is of a run that read ahead.
//!
//! Problem: a record says what its run read ahead, at the run's own size of memory and for its own
//! misses. Counted in one column and not in another, it makes numbers that cannot be: LRU's curve
//! without it lies far above a FIFO that gets it for nothing. Idea: the trace is made what is asked
//! before the first column sees it, so that all of them answer the same question.
//!
//! ```text
//!   trace --without--> accesses alone              which pages to keep
//!         --recorded-> accesses and readahead      the same, with what that run read ahead
//!                        `--> replay, replay, opt
//! ```
//!
//! Misses are of demand in both: of pages that were asked for. What came unasked is among the bytes
//! that the store gave.
//!
//! Ignored: what a policy would have read ahead of its own misses at another size.

use pagetide_lab::trace::DenseTrace;
use serde::Serialize;

/// What is done with the readahead in a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Choice {
    /// It is taken away from every policy: which pages to keep is all that is asked.
    Without,
    /// Every policy gets it, opt included, as the run had it at its own size of memory.
    Recorded,
}

/// The argument of all commands that compare policies.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReadaheadArgs {
    /// What becomes of the readahead in the record of a run.
    #[arg(long, value_enum, default_value = "without")]
    readahead: Choice,
}

/// What all columns of a table answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ReadaheadUse {
    /// The trace has accesses alone, and always had.
    None,
    /// The readahead in it was taken away.
    Without,
    /// The readahead in it is every policy's.
    Recorded,
}

impl ReadaheadArgs {
    /// Makes the trace what was asked for.
    pub(crate) fn apply(&self, trace: &mut DenseTrace) -> ReadaheadUse {
        match (self.readahead, ReadaheadUse::of(trace)) {
            (Choice::Without, ReadaheadUse::Recorded) => {
                trace.drop_readahead();
                ReadaheadUse::Without
            }
            (_, readahead_use) => readahead_use,
        }
    }
}

impl ReadaheadUse {
    /// What replays of the trace as it is answer.
    pub(crate) fn of(trace: &DenseTrace) -> ReadaheadUse {
        if trace.has_readahead() { ReadaheadUse::Recorded } else { ReadaheadUse::None }
    }

    /// The same in words.
    pub(crate) const fn describe(self) -> &'static str {
        match self {
            ReadaheadUse::None => "misses of demand, in each column; the trace has no readahead",
            ReadaheadUse::Without => {
                "misses of demand, in each column without the recorded readahead (--readahead \
                 recorded gives it to each)"
            }
            ReadaheadUse::Recorded => {
                "misses of demand, in each column with what the recorded run read ahead at its own \
                 size of memory"
            }
        }
    }
}
