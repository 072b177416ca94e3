//! The source of a row's accesses: a file, or a synthetic habit, pattern, program or service.
//!
//! ```text
//!   file       a published trace
//!   habit      pure access patterns of the literature           pagetide_lab::made
//!   pattern    habits that the constants were not chosen by     patterns
//!   program    accesses of programs to files and memory         programs
//!   service    requests to services                             services
//! ```

mod patterns;
mod programs;
mod services;

pub(crate) use patterns::Pattern;
pub(crate) use programs::Program;
pub(crate) use services::Service;

use pagetide_lab::made::Made;
use pagetide_lab::trace::{DenseTrace, Trace, TraceError};
use std::path::Path;

/// The source of a row's accesses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Source {
    /// A file of this name in the folder of traces.
    File(&'static str),
    Habit(Made),
    Pattern(Pattern),
    Program(Program),
    Service(Service),
}

impl Source {
    /// Returns the name of the trace's file, `None` for a synthetic trace.
    pub(crate) fn file(&self) -> Option<&'static str> {
        match self {
            Source::File(name) => Some(name),
            _ => None,
        }
    }

    /// Reads the trace from `folder`, or generates it.
    ///
    /// # Errors
    /// Fails if the file is missing or damaged.
    pub(crate) fn load(&self, folder: &Path) -> Result<DenseTrace, TraceError> {
        Ok(match self {
            Source::File(name) => DenseTrace::read(&mut Trace::open(&folder.join(name), None)?)?,
            Source::Habit(habit) => habit.trace(),
            Source::Pattern(pattern) => DenseTrace::from_reads(pattern.reads()),
            Source::Program(program) => DenseTrace::from_reads(program.reads()),
            Source::Service(service) => DenseTrace::from_reads(service.reads()),
        })
    }
}
