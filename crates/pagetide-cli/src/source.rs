//! The trace a command was given: opened, read to its end, and judged.
//!
//! Problem: every command that takes a trace must refuse the same bad ones in the same words, stop
//! at Ctrl-C, and show how far it is. Idea: the arguments and the loop live here.
//!
//! ```text
//!   FILE --format --lenient --> open --> entry, entry, ... --> how did it end? --> Facts
//! ```
//!
//! A record cut off inside an entry is refused, unless `--lenient` takes what is before the cut;
//! one that stops between two entries (its program was killed, or still runs) is only remarked on.
//!
//! `-` is standard input: a trace is read once, and its format found by looking at the front.

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine;
use crate::terminal::{self, Meter};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use pagetide_lab::trace::{Access, DenseTrace, Facts, Format, Trace, TraceError};
use pagetide_sweep::{ReadTraceError, Reading, read_entries};
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// Entries read between looks for Ctrl-C.
const CHECK_EVERY: u64 = 1 << 16;

/// The arguments of all commands that read a trace.
#[derive(Debug, clap::Args)]
pub(crate) struct SourceArgs {
    /// The record, or a trace in another known format (also compressed by zstd, gzip or xz); `-`
    /// for standard input.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    format: FormatArgs,
}

/// How traces are read.
#[derive(Debug, clap::Args)]
pub(crate) struct FormatArgs {
    /// The trace's format, where neither its name nor its first bytes tell; docs/formats.md says
    /// what each is.
    #[arg(long, value_parser = named_format())]
    format: Option<Format>,
    /// Skip and count malformed lines, and take a record that was cut off as far as it goes.
    #[arg(long)]
    lenient: bool,
}

impl FormatArgs {
    /// The same for a sweep.
    pub(crate) fn reading(&self) -> Reading {
        Reading { format: self.format, is_lenient: self.lenient, has_readahead: false }
    }
}

/// Lists the names in help, and where another is typed.
fn named_format() -> impl TypedValueParser<Value = Format> {
    let names = PossibleValuesParser::new(Format::ALL.map(Format::as_str));
    names.map(|name| name.parse().expect("invariant: one of the names"))
}

impl SourceArgs {
    /// The trace's name, without its folder.
    pub(crate) fn name(&self) -> String {
        self.file.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Opens the trace.
    ///
    /// # Errors
    /// A file that cannot be read, or whose format cannot be found.
    pub(crate) fn open(&self) -> Result<Trace, Failure> {
        let format = self.format.format;
        let opened = match self.file.as_os_str() == "-" {
            true => Trace::from_reader(io::stdin(), "", format),
            false => Trace::open(&self.file, format),
        };
        let mut trace = opened.map_err(|error| self.refuse(&error))?;
        if self.format.lenient {
            trace.skip_malformed();
        }
        Ok(trace)
    }

    /// A sentence about a trace that cannot be read on.
    pub(crate) fn refuse(&self, error: &TraceError) -> Failure {
        let act = format!("read the trace {}", self.file.display());
        match (Failure::on(&act, error), error) {
            (Failure::Refused(said), TraceError::UnknownFormat) => {
                Failure::Refused(format!("{said}; name it with --format"))
            }
            (
                Failure::Refused(said),
                TraceError::Line { .. } | TraceError::Cut { .. } | TraceError::CutOff,
            ) => Failure::Refused(format!("{said} (--lenient skips such)")),
            (Failure::Refused(said), TraceError::Read { source, .. })
                if source.kind() == ErrorKind::UnexpectedEof =>
            {
                Failure::Refused(format!("{said}; the compressed file is cut off before its end"))
            }
            (failure, _) => failure,
        }
    }

    /// Judges a trace read to its end, which had `nr_accesses`.
    ///
    /// # Errors
    /// A trace without accesses, and one cut off inside an entry.
    pub(crate) fn finish(&self, trace: &Trace, nr_accesses: u64) -> Result<Facts, Failure> {
        let facts = Facts::at_end(trace, nr_accesses).map_err(|error| self.refuse(&error))?;
        let file = self.file.display();
        if facts.is_unfinished {
            terminal::note(&format!(
                "{file} has no end: the program was killed, or still runs; its entries so far are \
                 used"
            ));
        }
        if facts.nr_skipped > 0 {
            terminal::note(&format!(
                "{file}: {} malformed lines or records skipped",
                facts.nr_skipped
            ));
        }
        Ok(facts)
    }

    /// Reads the whole trace, entry by entry; the trace itself has the entry's time.
    ///
    /// # Errors
    /// As [`SourceArgs::open`] and [`SourceArgs::finish`]; a malformed trace; an interrupt; what
    /// `take` fails with.
    pub(crate) fn for_each(
        &self,
        interrupt: &Interrupt,
        mut take: impl FnMut(&Trace, Access) -> Result<(), Failure>,
    ) -> Result<Facts, Failure> {
        let mut trace = self.open()?;
        let meter = Meter::new("reading the trace".to_owned(), None);
        let (mut nr_read, mut nr_accesses) = (0_u64, 0);
        while let Some(access) = trace.next() {
            let access = access.map_err(|error| self.refuse(&error))?;
            nr_accesses += u64::from(access.kind.is_access());
            take(&trace, access)?;
            nr_read += 1;
            if nr_read.is_multiple_of(CHECK_EVERY) {
                interrupt.check()?;
                meter.add(CHECK_EVERY);
            }
        }
        drop(meter);
        self.finish(&trace, nr_accesses)
    }

    /// Reads the whole trace into memory.
    ///
    /// # Errors
    /// As [`SourceArgs::for_each`]; a trace that is too long for the machine's memory.
    pub(crate) fn read_dense(&self, interrupt: &Interrupt) -> Result<(DenseTrace, Facts), Failure> {
        // Replays take the memory that reading frees.
        pagetide_sys::keep_freed_memory();
        let mut trace = self.open()?;
        let meter = Meter::new("reading the trace".to_owned(), None);
        let mut nr_before = 0;
        let read = read_entries(&mut trace, |read| {
            meter.add(read.nr_entries() - nr_before);
            nr_before = read.nr_entries();
            !interrupt.is_set()
        });
        let mut dense = read.map_err(|error| self.refuse_whole(&error))?;
        drop(meter);
        let facts = self.finish(&trace, dense.nr_accesses())?;
        dense.push_notes(&facts.notes);
        Ok((dense, facts))
    }

    /// A sentence about a trace that is not in memory as a whole.
    fn refuse_whole(&self, error: &ReadTraceError) -> Failure {
        match error {
            ReadTraceError::Trace(error) => self.refuse(error),
            ReadTraceError::NoRoom { entries, held, available } => Failure::Refused(format!(
                "the trace {} does not fit into memory: its first {entries} entries take {}, and \
                 the machine has {} available; use a part of it, or mrc with --sample",
                self.file.display(),
                machine::rounded(*held),
                machine::rounded(*available),
            )),
            _ => Failure::Interrupted,
        }
    }
}
