//! `pagetide trace convert`: converts any trace to a compact record, which reads much faster.
//!
//! The record replaces its target only when complete.

use crate::document::Document;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine;
use crate::output::NewFile;
use crate::source::SourceArgs;
use crate::terminal::{self, JsonArgs, Meter};
use pagetide_lab::trace::{ConvertError, Converted, Trace, convert};
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

/// Convert a trace to the compact record format.
#[derive(Debug, clap::Args)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// The record to write; compressed with zstd if its name ends in .zst.
    out: PathBuf,
    #[command(flatten)]
    json: JsonArgs,
}

#[derive(Serialize)]
struct Done {
    entries: u64,
    len_bytes: u64,
}

pub(crate) fn run(args: &ConvertArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let out = &args.out;
    let is_same = out
        .canonicalize()
        .is_ok_and(|target| args.source.file.canonicalize().is_ok_and(|source| source == target));
    if is_same {
        return Err(Failure::Usage(format!(
            "{} is the trace itself: name another file",
            out.display()
        )));
    }
    let mut trace = args.source.open()?;
    let refuse = |error: &io::Error| Failure::on_path("write the record", out, error);
    let mut file = NewFile::create("the record", out)?;
    let entries = if out.extension().is_some_and(|extension| extension == "zst") {
        let mut packed =
            zstd::Encoder::new(BufWriter::new(&mut file), 0).map_err(|error| refuse(&error))?;
        let done = write(args, &mut trace, &mut packed, interrupt)?;
        let ended = packed.finish().and_then(|mut file| file.flush());
        ended.map_err(|error| refuse(&error))?;
        done.entries
    } else {
        write(args, &mut trace, &mut file, interrupt)?.entries
    };
    let len_bytes = file.finish()?;
    let size = machine::rounded(len_bytes);
    if out.as_os_str() == "-" {
        terminal::note(&format!("{entries} entries"));
        return Ok(());
    }
    let line = || format!("{}: {entries} entries, {size}\n", out.display());
    let rows = [Done { entries, len_bytes }];
    args.json.print(&Document::new("pagetide.trace.convert/1", rows), line)
}

fn write(
    args: &ConvertArgs,
    trace: &mut Trace,
    out: &mut impl Write,
    interrupt: &Interrupt,
) -> Result<Converted, Failure> {
    let meter = Meter::new("converting".to_owned(), None);
    let done = convert(trace, out, |entries| {
        meter.add(entries);
        !interrupt.is_set()
    });
    drop(meter);
    let done = done.map_err(|error| match &error {
        ConvertError::Trace(error) => args.source.refuse(error),
        ConvertError::Write { source } => Failure::on_path("write the record", &args.out, source),
        other => Failure::on(&format!("convert to {}", args.out.display()), other),
    })?;
    let done = done.ok_or(Failure::Interrupted)?;
    args.source.finish(trace, done.accesses)?;
    Ok(done)
}
