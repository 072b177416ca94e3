//! `pagetide run`: an unmodified program, its file I/O through a page cache with a hard limit.
//!
//! Problem: the programs people run cannot be changed, and their file I/O takes as much memory as
//! the kernel gives it. Idea: this process has the page cache and is the server; a library that is
//! loaded before the program's own sends it what would have been system calls.
//!
//! ```text
//!   program + libpagetide_preload.so --socket a thread--+
//!   its child                        --socket a thread--+--> server --> PageCache --> files
//!   its child's child                --socket a thread--+
//! ```
//!
//! What cannot be served this way is the kernel's, coherently: a file is written back, dropped from
//! the page cache, and the kernel's for the rest of the run. See `served_file`.
//!
//! Ignored: limits on what the kernel then caches; the summary says how many files those were.

mod course;
mod description;
mod errno;
mod filter;
pub(crate) mod launch;
mod limits;
mod position;
mod program;
mod rest;
mod served_file;
mod server;
mod sockets;
mod summary;
mod told;

pub(crate) use launch::find_library;

use crate::failure::Failure;
use crate::output;
use crate::report;
use crate::settings::{self, Setting};
use crate::terminal;
use course::Watcher;
use filter::Filter;
use pagetide::{BuildError, PageCache};
use pagetide_core::lru::PolicyName;
use pagetide_core::units::Bytes;
use pagetide_sys::shared::Positions;
use pagetide_sys::wire::DESCRIPTOR_BASE;
use rest::Tree;
use server::Server;
use sockets::Doorbell;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

const NOTES: &str = "What is managed: regular files, opened by the program or its children, except
those under /proc /sys /dev /usr /lib /lib64 /bin /sbin /etc, and programs and libraries.
--include replaces this rule, --exclude goes before it. A pattern without a slash is
matched against the file's name, one with a slash against the whole path; * stops at a
slash, ** does not.

What is left to the kernel, coherently, for the rest of the run: files that are mapped,
read or written as wide characters (fgetws), open outside, used as standard output or
error, or as standard input of a program that uses stdin, or inherited by a program that
is linked statically or runs with another user's rights. The summary says how many.
Programs that ask for io_uring or kernel AIO are refused it.

Beside the limit, a run takes at most 160 bytes a page of it, 16 bytes a page of the files
it touches and 7 KiB a file of which pages are in memory (110 KiB if longer than 64 MiB),
392 KiB for each thread that does file I/O, and 12 MiB.

A run lasts as long as the last process of the program's; a signal that comes after the program
itself has ended is for those.

Exit code: the program's; 128 + the signal that ended it; 127 where there is no such
program, 126 where it cannot be executed; 2 where the command line cannot be meant; 1, with a
sentence, where the run cannot begin, or what the program wrote could not be written back.

Examples:
  pagetide run --memory 512M -- sqlite3 big.db 'select count(*) from t'
  pagetide run --memory 64M --policy active-inactive --record t.ptt -- grep -rc x src
  pagetide run --memory 512M --report r.html -- fio job.fio
  pagetide run --memory 1G --include '*.db' --json out.json -- ./server";

/// Run a program with its file I/O through a page cache of a limited size.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct RunArgs {
    /// The limit of the page cache, for the program and all its children together.
    #[arg(long, value_parser = terminal::parse_size)]
    memory: Bytes,
    /// The replacement policy; see `pagetide policies`.
    #[arg(long, default_value_t)]
    policy: PolicyName,
    /// Manage only files that match; may be repeated.
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Never manage files that match; may be repeated.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
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
    /// A knob of the page cache, as in readahead_max=0 (docs/config.md); may be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<Setting>,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the command; the exit code is the program's.
///
/// # Errors
/// Where the page cache cannot be built, the library is not there, or something the program has
/// written could not be.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    output::check("the report", &args.report)?;
    output::check("the summary", &args.json)?;
    let library = find_library()?;
    // Before there are threads: to give out so high a number among several, the kernel waits until
    // all processors have passed by.
    let doorbell = Doorbell::new(DESCRIPTOR_BASE)
        .map_err(|error| Failure::on("make a socket for the program", &error))?;
    let kept =
        limits::allow_long_files().map_err(|error| Failure::on("watch for a signal", &error))?;
    let cache = build(args)?;
    let filter = Filter { include: args.include.clone(), exclude: args.exclude.clone() };
    let watcher = args.report.as_ref().map(|_| Watcher::start(&cache)).transpose()?;
    let positions =
        Positions::new().map_err(|error| Failure::on("make memory for file positions", &error))?;
    let server = Arc::new(Server::new(cache, filter, positions));
    warn_of_unserved(&args.command[0]);
    let caught = launch::Caught::new().map_err(|error| Failure::on("watch for signals", &error))?;
    let tree = Tree::of(&doorbell.far)
        .map_err(|error| Failure::on("look at the program's socket", &error))?;
    kept.give_back();
    let started = launch::start(&args.command, &library, &doorbell.far, &tree);
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            let name = Path::new(&args.command[0]).display();
            terminal::note(&format!("pagetide: cannot run {name}: {error}"));
            return Ok(ExitCode::from(launch::exit_code_of(&error)));
        }
    };
    drop(doorbell.far);
    limits::raise_all();
    let forwarder = launch::Forwarder::start(caught, launch::pass_to(&child))
        .map_err(|error| Failure::on("watch for signals", &error))?;
    let (sockets, served) = serve(&server, doorbell.near)?;
    let status = child.wait().map_err(|error| Failure::on("wait for the program", &error))?;
    drop(forwarder);
    rest::wait_for(&tree, &served)?;
    if sockets.join().is_err() {
        return Err(Failure::Refused("the server's thread panicked".to_owned()));
    }
    finish(args, &server, watcher, launch::exit_code(status))
}

fn build(args: &RunArgs) -> Result<PageCache, Failure> {
    let mut builder = PageCache::builder().memory(args.memory).policy(args.policy).shared(true);
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

fn warn_of_unserved(command: &OsString) {
    let Some(path) = program::find(Path::new(command)) else { return };
    let Ok(file) = File::open(&path) else { return };
    if let Some(unserved) = program::inspect(&file) {
        program::say(unserved, &path);
    }
}

/// A thread that serves, and what has a sender for as long.
fn serve(
    server: &Arc<Server>,
    near: std::os::fd::OwnedFd,
) -> Result<(JoinHandle<()>, Receiver<()>), Failure> {
    let server = Arc::clone(server);
    let (serving, served) = channel::<()>();
    let thread = std::thread::Builder::new().name("pagetide-doorbell".into());
    let thread = thread.spawn(move || {
        let _serving = serving;
        sockets::serve(&near, &server);
    });
    Ok((thread.map_err(|error| Failure::on("start the server", &error))?, served))
}

/// Writes back what is left, makes it durable, and says how it went.
fn finish(
    args: &RunArgs,
    server: &Server,
    watcher: Option<Watcher>,
    code: u8,
) -> Result<ExitCode, Failure> {
    let flushed = server.cache.flush_all();
    if server.cache.stats().device_writes > 0 {
        rustix::fs::sync();
    }
    let summary = summary::Summary::collect(server, code);
    terminal::note(&summary.to_string());
    if let (Some(path), Some(watcher)) = (&args.report, watcher) {
        let command: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
        let stats = server.cache.stats();
        report::write_run(path, &command.join(" "), &stats, &watcher.stop())?;
    }
    if let Some(path) = &args.json {
        summary.write(path)?;
    }
    flushed.map_err(|error| Failure::on("write back what the program wrote", &error))?;
    Ok(ExitCode::from(code))
}
