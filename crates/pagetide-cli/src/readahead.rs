//! Use of recorded readahead in comparisons of policies.
//!
//! Problem: policies with and without the record's readahead are not comparable. Idea: apply one
//! choice to the trace before any replay.
//!
//! ```text
//!   trace --without--> accesses alone              compares page replacement only
//!         --recorded-> accesses and readahead      the same, with the recorded readahead
//!                        `--> replay, replay, opt
//! ```
//!
//! Only demand accesses count as misses.
//!
//! Ignored: the readahead of a policy at another size.

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
    pub(crate) fn is_recorded(&self) -> bool {
        self.readahead == Choice::Recorded
    }

    pub(crate) fn apply(&self, trace: &mut DenseTrace) -> ReadaheadUse {
        match self.readahead {
            Choice::Without => ReadaheadUse::take_from(trace),
            Choice::Recorded => ReadaheadUse::of(trace),
        }
    }
}

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
