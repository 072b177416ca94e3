//! `pagetide record --filemap`: records a program's file accesses on the kernel's page cache.
//!
//! Idea: kernel tracepoints report the accessed pages of each file. The result is a record for
//! `replay`, `mrc` and `ablate`.
//!
//! ```text
//!   pagetide --starts--> pagetide record-held: stops itself
//!      | traces that process and its children in a private trace instance
//!      +--continues it--> becomes the program ...................... ends
//!      trace_pipe --> lines.rs --> reader of perf-script --> record
//! ```
//!
//! Ignored: accesses of children after the program's end, and accesses without tracepoints (hits of
//! mapped pages, and writes). See [`NOTICE`].

mod lines;
mod tracefs;

use crate::failure::Failure;
use crate::machine;
use crate::output;
use crate::run::cannot_run;
use crate::terminal;
use lines::{EventCounts, EventLines};
use pagetide_core::record::Encoder;
use pagetide_core::units::PAGE_SHIFT;
use pagetide_lab::trace::{ConvertError, Converted, Format, Header, Trace, TraceError, convert};
use pagetide_run::launch::{Forwarder, exit_code, pass_to};
use pagetide_run::program;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_parent_process_death_signal, waitpid,
};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::thread::JoinHandle;
use tracefs::Instance;

const NOTES: &str =
    "Needs root, and a kernel with tracepoints (tracefs). What is recorded: each page
that read(2) and its kin ask for, hit or miss, and each page fault on a mapped file. What the kernel
does not tell, and so is not recorded: hits of pages that are mapped already, pages that it maps
around a fault, and writes. The trace is of the program and its children, until the program ends.

Exit code: the program's, as `pagetide run`.

Examples:
  pagetide record --filemap -o db.ptt -- sqlite3 big.db 'select count(*) from t'
  pagetide mrc db.ptt";

/// A note on accesses missing from the kernel's trace.
const NOTICE: &str =
    "hits of mapped pages and writes are not seen by the kernel's tracepoints, and not recorded";

pub(crate) const HELD: &str = "record-held";

/// Record a program's file accesses on the kernel's own page cache, for `pagetide replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct RecordArgs {
    /// By the kernel's filemap tracepoints; the only way there is. (`pagetide run --record` records
    /// a program on our page cache.)
    #[arg(long, required = true)]
    filemap: bool,
    /// The record to write.
    #[arg(long, short, value_name = "FILE", default_value = "filemap.ptt")]
    output: PathBuf,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The arguments of the held process, which becomes the program when the tracing is ready.
#[derive(Debug, clap::Args)]
pub(crate) struct HeldArgs {
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Stops this process, then becomes the program. Returns only on failure.
pub(crate) fn become_program(args: &HeldArgs) -> ExitCode {
    // A stopped process without a parent would never continue. The program may outlive its parent.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let _ = kill_process(getpid(), Signal::STOP);
    let _ = set_parent_process_death_signal(None);
    let error = Command::new(&args.command[0]).args(&args.command[1..]).exec();
    cannot_run(Path::new(&args.command[0]), &error)
}

/// Returns the program's exit code.
pub(crate) fn run(args: &RecordArgs) -> Result<ExitCode, Failure> {
    let program = Path::new(&args.command[0]);
    if program::find(program).is_none() {
        return Ok(cannot_run(program, &rustix::io::Errno::NOENT.into()));
    }
    let instance = Instance::create()?;
    output::check("the record", [&args.output])?;
    let out = File::create(&args.output)
        .map_err(|error| Failure::on_path("write the record", &args.output, &error))?;
    let mut child = start_held(&args.command)?;
    let recorded = record(args, &instance, &mut child, out);
    if recorded.is_err() {
        // A child without a recorder is killed, stopped or not.
        let _ = child.kill();
        let _ = child.wait();
    }
    recorded
}

fn record(
    args: &RecordArgs,
    instance: &Instance,
    child: &mut Child,
    out: File,
) -> Result<ExitCode, Failure> {
    instance.follow(child.id())?;
    let tally = Arc::new(EventCounts::default());
    let lines = EventLines::new(instance.open_pipe()?, Arc::clone(&tally));
    let writer = start_writer(lines, out)?;
    let forwarder = Forwarder::new().map_err(|error| Failure::on("watch for signals", &error))?;
    forwarder.begin(pass_to(Pid::from_child(child), None));
    terminal::note(&format!("pagetide: {NOTICE}"));
    kill_process(Pid::from_child(child), Signal::CONT)
        .map_err(|error| Failure::on("start the program", &error))?;
    let status = child.wait().map_err(|error| Failure::on("wait for the program", &error));
    drop(forwarder);
    instance.stop();
    tally.end();
    let written = writer.join().map_err(|_| Failure::Refused("the writer panicked".to_owned()))?;
    let done = written.map_err(|error| match error {
        ConvertError::Write { source } => {
            Failure::on_path("write the record", &args.output, &source)
        }
        other => Failure::on("record the program", &other),
    })?;
    say(args, &done, &tally);
    Ok(ExitCode::from(exit_code(status?)))
}

fn say(args: &RecordArgs, done: &Converted, tally: &EventCounts) {
    let (added, removed, lost) = tally.counts();
    let file = args.output.display();
    terminal::note(&format!(
        "pagetide: {file}: {} accesses; the kernel brought in {added} pages meanwhile, and dropped \
         {removed}",
        done.accesses
    ));
    if lost > 0 {
        terminal::note(&format!(
            "pagetide: {lost} events were lost: the program was faster than they could be written"
        ));
    }
}

/// Returns once the child has stopped itself.
fn start_held(command: &[OsString]) -> Result<Child, Failure> {
    let own = machine::own_executable()?;
    let child = Command::new(own)
        .arg(HELD)
        .arg("--")
        .args(command)
        .spawn()
        .map_err(|error| Failure::on("start the program", &error))?;
    match waitpid(Some(Pid::from_child(&child)), WaitOptions::UNTRACED) {
        Ok(Some((_, status))) if status.stopped() => Ok(child),
        _ => Err(Failure::Refused("the program could not be held until it is traced".to_owned())),
    }
}

type Writer = JoinHandle<Result<Converted, ConvertError>>;

fn start_writer(lines: EventLines, out: File) -> Result<Writer, Failure> {
    let thread = std::thread::Builder::new().name("pagetide-record".into());
    let writer = thread.spawn(move || {
        let mut out = BufWriter::new(out);
        let done = write(lines, &mut out)?;
        out.flush().map_err(|source| ConvertError::Write { source })?;
        Ok(done)
    });
    writer.map_err(|error| Failure::on("start the writer", &error))
}

fn write(lines: EventLines, out: &mut impl Write) -> Result<Converted, ConvertError> {
    match Trace::from_reader(lines, "trace_pipe", Some(Format::PerfScript)) {
        Ok(mut trace) => {
            let done = convert(&mut trace, out, |_| true)?;
            Ok(done.expect("nothing stops it"))
        }
        Err(TraceError::Empty) => write_empty(out).map_err(|source| ConvertError::Write { source }),
        Err(error) => Err(error.into()),
    }
}

fn write_empty(out: &mut impl Write) -> io::Result<Converted> {
    let mut bytes = Vec::new();
    Header::of_trace(1 << PAGE_SHIFT).append_to(&mut bytes);
    Encoder::new().finish(&mut bytes);
    out.write_all(&bytes)?;
    Ok(Converted { entries: 0, accesses: 0, bytes: bytes.len() as u64 })
}
