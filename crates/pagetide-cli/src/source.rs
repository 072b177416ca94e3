//! The trace argument of a command: opening, reading and final checks.
//!
//! ```text
//!   FILE --format --lenient --> open --> entry, entry, ... --> ending ok? --> Facts
//! ```
//!
//! A record that ends inside an entry is rejected, or cut with `--lenient`. A record that ends
//! between entries (the program was killed, or still runs) gives only a note.
//!
//! `-` is standard input. A trace is read once, and its first bytes reveal its format.

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine;
use crate::terminal::{self, Meter};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use pagetide_lab::trace::{Access, DenseTrace, Facts, Format, Trace, TraceError};
use pagetide_sweep::{ReadTraceError, Reading, read_entries};
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// Entries between checks of Ctrl-C.
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
    pub(crate) fn reading(&self) -> Reading {
        Reading { format: self.format, is_lenient: self.lenient, has_readahead: false }
    }
}

/// Names the formats in help and errors.
fn named_format() -> impl TypedValueParser<Value = Format> {
    let names = PossibleValuesParser::new(Format::ALL.map(Format::as_str));
    names.map(|name| name.parse().expect("invariant: one of the names"))
}

impl SourceArgs {
    pub(crate) fn name(&self) -> String {
        self.file.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

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

    /// Prints notes on an unfinished trace. Fails without accesses, or if the trace ends inside an
    /// entry.
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

    /// Calls `take` with the trace, for the entry's time.
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

    /// Fails if the trace does not fit in memory.
    pub(crate) fn read_dense(&self, interrupt: &Interrupt) -> Result<(DenseTrace, Facts), Failure> {
        // Replays reuse the memory freed by the reader.
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
