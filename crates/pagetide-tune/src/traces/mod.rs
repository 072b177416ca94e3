//! Where a row's accesses come from: a file, or a habit, pattern, program or service made up.
//!
//! ```text
//!   file       a published trace
//!   habit      what policies are argued with, in pure form      pagetide_lab::made
//!   pattern    habits that the constants were not chosen by     patterns
//!   program    what programs do to files and memory             programs
//!   service    what services are asked for                      services
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

/// Where a row's accesses come from.
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
    /// The name of the trace's file; none, where the trace is made.
    pub(crate) fn file(&self) -> Option<&'static str> {
        match self {
            Source::File(name) => Some(name),
            _ => None,
        }
    }

    /// The trace: read from `folder`, or made.
    ///
    /// # Errors
    /// A file that is not there, or not sound.
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
