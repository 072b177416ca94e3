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

use pagetide_lab::trace::{DenseTrace, ReadaheadUse};

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

impl ReadaheadArgs {
    /// Whether every policy gets what the run had.
    pub(crate) fn is_recorded(&self) -> bool {
        self.readahead == Choice::Recorded
    }

    /// Makes the trace what was asked for.
    pub(crate) fn apply(&self, trace: &mut DenseTrace) -> ReadaheadUse {
        match self.readahead {
            Choice::Without => ReadaheadUse::take_from(trace),
            Choice::Recorded => ReadaheadUse::of(trace),
        }
    }
}

/// What a table answers, in words.
pub(crate) const fn describe(readahead_use: ReadaheadUse) -> &'static str {
    match readahead_use {
        ReadaheadUse::None => "misses of demand, in each column; the trace has no readahead",
        ReadaheadUse::Without => {
            "misses of demand, in each column without the recorded readahead (--readahead recorded \
             gives it to each)"
        }
        ReadaheadUse::Recorded => {
            "misses of demand, in each column with what the recorded run read ahead at its own \
             size of memory"
        }
    }
}
