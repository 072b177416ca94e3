//! `pagetide run`: runs an unmodified program with file I/O through a page cache.
//!
//! The server is in the crate `pagetide-run`.

pub(crate) mod library;
mod limit;
mod report;
mod steering;
mod summary;
mod watch;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use crate::settings::{self, Setting};
use crate::terminal;
use limit::MemoryLimit;
use pagetide::{BuildError, PageCache, ResidentSet};
use pagetide_core::lru::PolicyName;
use pagetide_run::{Ended, Filter, Mappings, Prepared, Program, RunError, launch};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use steering::{MetricsPlace, Steering};
use watch::Watcher;

/// The deadline for an orderly exit after a signal.
const TIME_TO_END: Duration = Duration::from_secs(1);

const NOTES: &str = "What is managed: regular files, opened by the program or its children, except
those under /proc /sys /dev /usr /lib /lib64 /bin /sbin /etc, and programs and libraries.
--include replaces this rule, --exclude goes before it. A pattern without a slash is
matched against the file's name, one with a slash against the whole path; * stops at a
slash, ** does not.

What is left to the kernel, coherently, while it is open: files that are mapped (but for
those that --mmap auto or cache serves), read or written as wide characters (fgetws),
opened outside or by a program that makes its own system calls, used as standard input,
output or error, or inherited by a program that is linked statically or runs with another
user's rights; files of another user's and of network file systems, which have no lease;
short files that are only read, and new files while they are short. The summary says how
many. Unless they are mapped or a static program's, their pages in the kernel's cache are
written back and dropped, or are in memory that the page cache lends to short files.
Programs that ask for io_uring or kernel AIO are refused it.

Beside the limit, a run takes at most 160 bytes a page of it, 16 bytes a page of the files
it touches and 7 KiB a file of which pages are in memory (110 KiB if longer than 64 MiB),
392 KiB for each thread that does file I/O, 12 MiB, 8 MiB for programs that write much, and
of the kernel's page cache 4 MiB, and 1.7 MiB for each process with many small files.

A run lasts as long as the last process of the program's; a signal that comes after the program
itself has ended is for those.

Exit code: the program's; 128 + the signal that ended it; 127 where there is no such
program, 126 where it cannot be executed; 2 where the command line cannot be meant; 1, with a
sentence, where the run cannot begin, or what the program wrote could not be written back.

Examples:
  pagetide run --memory 512M -- sqlite3 big.db 'select count(*) from t'
  pagetide run --memory 64M --policy active-inactive --record t.ptt -- grep -rc x src
  pagetide run --memory 512M --metrics 127.0.0.1:9464 -- ./server
  pagetide run --memory 512M --report r.html -- fio job.fio
  pagetide run --memory auto:64M-2G -- ./server
  pagetide run --memory 1G --include '*.db' --json out.json -- ./server";

/// Run a program with its file I/O through a page cache of a limited size.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct RunArgs {
    /// The limit of the page cache, for the program and all its children together; or auto, or
    /// auto:LEAST-MOST: as much as more hits are to be had with and the container, or the machine,
    /// can spare.
    #[arg(long)]
    memory: MemoryLimit,
    /// The replacement policy; see `pagetide policies`.
    #[arg(long, default_value_t)]
    policy: PolicyName,
    /// Manage only files that match; may be repeated.
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Never manage files that match; may be repeated.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// The server of mapped files: the kernel, outside the limit, the page cache, within the limit,
    /// or auto: the page cache, except for writable shared mappings.
    #[arg(long, value_enum, default_value_t = MmapBy::Auto)]
    mmap: MmapBy,
    /// Say nothing but errors: no summary at the end, nothing about what is not served.
    #[arg(long, short)]
    quiet: bool,
    /// Write every access to this record, for `pagetide replay`. Where the disk fills up the record
    /// ends, with a sentence, and the program goes on.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Write how it went to this HTML file: hit ratio, memory, device, other sizes.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the summary to this file, as one JSON document.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// At the end, write to this file which pages of files are in memory, for `--warm`.
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
    /// Write it every so often as well, as in 60s: a run that is killed leaves the last one.
    #[arg(long, value_name = "TIME", requires = "dump", value_parser = steering::parse_every)]
    dump_every: Option<Duration>,
    /// Bring in what a run with `--dump` has written to this file, beside the program: of each file
    /// that it opens and that has not changed since, the hottest pages first, until memory is full.
    /// A file that does not exist brings in nothing.
    #[arg(long, value_name = "FILE")]
    warm: Option<PathBuf>,
    /// Serve metrics to Prometheus at this address, by HTTP at /metrics (of this machine alone
    /// where only a port is given), or write them to this file every 5 s.
    #[arg(long, value_name = "ADDRESS|FILE")]
    metrics: Option<MetricsPlace>,
    /// A knob of the page cache, as in readahead_max=0 (docs/config.md); may be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<Setting>,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The server of mapped files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum MmapBy {
    Auto,
    Kernel,
    Cache,
}

impl MmapBy {
    fn mappings(self) -> Mappings {
        match self {
            MmapBy::Auto => Mappings::NotShared,
            MmapBy::Kernel => Mappings::None,
            MmapBy::Cache => Mappings::All,
        }
    }
}

/// Returns the program's exit code.
///
/// # Errors
/// Fails if the page cache cannot be built, the library is missing, or program data could not be
/// written.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    output::check("the report", &args.report)?;
    output::check("the summary", &args.json)?;
    output::check("the dump", &args.dump)?;
    output::check("the record", &args.record)?;
    if let Some(MetricsPlace::File(path)) = &args.metrics {
        output::check("the metrics", [path])?;
    }
    let warm = args.warm.as_deref().map(read_dump).transpose()?.flatten();
    let program = Program {
        command: args.command.clone(),
        library: library::find().map_err(Failure::Refused)?,
        filter: Filter { include: args.include.clone(), exclude: args.exclude.clone() },
        is_quiet: args.quiet,
        mappings: args.mmap.mappings(),
    };
    let prepared = Prepared::new().map_err(failure_of)?;
    let cache = build(args)?;
    if let Some(set) = warm {
        cache.warm(set).map_err(|error| Failure::on("bring in what is to be warm", &error))?;
    }
    let watcher = args.report.as_ref().map(|_| Watcher::start(&cache)).transpose()?;
    let steering = Steering::start(args, &cache)?;
    let ended = prepared.run(cache, &program, terminal::note);
    if let Ok(ended) = &ended {
        // A write to stderr or a record may block on a reader. All program data is in the files
        // already. This thread ends the process without waiting.
        let interrupt = Interrupt::follow(Arc::clone(&ended.interrupt));
        let _ = interrupt.end_in_time(TIME_TO_END, || {});
    }
    drop(steering);
    match ended {
        Ok(ended) => finish(args, ended, watcher),
        Err(RunError::Start { program, source }) => Ok(cannot_run(&program, &source)),
        Err(error) => Err(failure_of(error)),
    }
}

/// Returns a shell's exit code.
pub(crate) fn cannot_run(program: &Path, error: &io::Error) -> ExitCode {
    terminal::note(&format!("pagetide: cannot run {}: {error}", program.display()));
    ExitCode::from(launch::exit_code_of(error))
}

fn failure_of(error: RunError) -> Failure {
    match error {
        RunError::Nested => Failure::Usage(error.to_string()),
        error => Failure::Refused(error.to_string()),
    }
}

/// Reads a dump. Returns `None`, after a note, if there is no such file: the first of several runs
/// finds none.
fn read_dump(path: &Path) -> Result<Option<ResidentSet>, Failure> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let path = path.display();
            terminal::note(&format!("pagetide: {path} does not exist: nothing is warm at first"));
            return Ok(None);
        }
        Err(error) => return Err(Failure::on_path("read the dump", path, &error)),
    };
    let unusable = |error| format!("cannot use {} to warm: {error}", path.display());
    text.parse().map(Some).map_err(|error| Failure::Refused(unusable(error)))
}

fn build(args: &RunArgs) -> Result<PageCache, Failure> {
    let mut builder = args.memory.put(PageCache::builder()).policy(args.policy).shared(true);
    if let Some(path) = &args.record {
        builder = builder.record(path);
    }
    let builder =
        settings::apply(builder, &args.set).map_err(|error| Failure::Usage(error.to_string()))?;
    builder.build().map_err(|error| match error {
        BuildError::NoMemory => Failure::Usage("--memory is 0: at least 64K are needed".to_owned()),
        BuildError::TooSmall { .. } | BuildError::Knob { .. } => Failure::Usage(error.to_string()),
        error => Failure::on("build the page cache", &error),
    })
}

/// Syncs written data and reports the run.
fn finish(args: &RunArgs, ended: Ended, watcher: Option<Watcher>) -> Result<ExitCode, Failure> {
    let Ended { exit_code, server, written_back, .. } = &ended;
    let exit_code = *exit_code;
    if server.cache().stats().device_writes > 0 {
        rustix::fs::sync();
    }
    let written_back = written_back.as_ref().copied();
    let written_back =
        written_back.map_err(|error| Failure::on("write back what the program wrote", error));
    let summary = summary::Summary::collect(server, exit_code, args.warm.is_some());
    if !args.quiet {
        terminal::note(&summary.to_string());
    }
    // One failed output does not prevent the rest.
    let dumped = args
        .dump
        .as_ref()
        .map_or(Ok(()), |path| output::write("the dump", path, &server.cache().dump().to_string()));
    let reported = args.report.as_ref().zip(watcher).map_or(Ok(()), |(path, watcher)| {
        let command: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
        let stats = server.cache().stats();
        report::write(path, &command.join(" "), &stats, &watcher.stop())
    });
    let summed_up = args.json.as_ref().map_or(Ok(()), |path| summary.write(path));
    first_of([written_back, dumped, reported, summed_up])?;
    let nr_lost = server.nr_lost();
    if nr_lost > 0 {
        return Err(Failure::Refused(format!(
            "of {nr_lost} files, what the program wrote is not all there: see above"
        )));
    }
    Ok(ExitCode::from(exit_code))
}

/// Returns the first failure and prints the rest.
fn first_of<const N: usize>(results: [Result<(), Failure>; N]) -> Result<(), Failure> {
    let mut failures = results.into_iter().filter_map(Result::err);
    let Some(first) = failures.next() else { return Ok(()) };
    failures.for_each(|failure| terminal::note(&format!("pagetide: {failure}")));
    Err(first)
}
