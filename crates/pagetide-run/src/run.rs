//! One run, from before the first thread to the end of the last process.

use crate::descendants::{self, Ended as Waited};
use crate::filter::Filter;
use crate::job_control;
use crate::launch::{self, Forwarder};
use crate::limits::{self, Kept};
use crate::program;
use crate::server::{self, Listener, Say, Server};
use crate::wire::{VARIABLE, VERSION, variable};
use pagetide::{PageCache, SyncError};
use pagetide_sys::sentinel::Sentinel;
use rustix::process::Pid;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::time::Duration;

/// Wait before the message about remaining processes. Most end sooner.
const SILENCE: Duration = Duration::from_secs(1);

/// The program to run, with options.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The preload library's path: see [`find_library`](crate::find_library).
    pub library: PathBuf,
    /// Patterns of the managed files.
    pub filter: Filter,
    /// True to suppress messages about unmanaged files and programs.
    pub is_quiet: bool,
    /// The mappings of files that the page cache serves if possible.
    pub mappings: Mappings,
}

/// The mappings of files that the page cache serves if possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mappings {
    /// The kernel serves all mappings.
    None,
    /// All mappings except the writable shared ones, in which programs may keep locks.
    NotShared,
    /// All mappings.
    All,
}

/// The reason for a run's failure.
#[derive(Debug)]
pub enum RunError {
    /// This process is itself under a run.
    Nested,
    /// The program could not be started.
    Start {
        /// The program as named by the caller.
        program: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system refused a needed resource.
    System {
        /// The refused action, as in "make a socket".
        act: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Nested => write!(
                f,
                "this process is itself under a run ({VARIABLE} is set, and its server answers): \
                 two page caches would serve the same files; start the inner run outside, or \
                 without that variable and LD_PRELOAD"
            ),
            RunError::Start { program, source } => {
                write!(f, "cannot run {}: {source}", program.display())
            }
            RunError::System { act, source } => write!(f, "cannot {act}: {source}"),
        }
    }
}

impl std::error::Error for RunError {}

fn on(act: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |source| RunError::System { act, source }
}

/// The preparations before this process has the page cache.
#[derive(Debug)]
pub struct Prepared {
    sentinel: Option<Arc<Sentinel>>,
    kept: Kept,
}

/// The result of a run.
pub struct Ended {
    /// The program's exit code.
    pub exit_code: u8,
    /// The server with its counters.
    pub server: Arc<Server>,
    /// The result of writing back all dirty pages.
    pub written_back: Result<(), SyncError>,
    /// True after a signal to end this process. Only its own work remains.
    pub interrupt: Arc<AtomicBool>,
    /// Keeps signals caught until dropped.
    _forwarder: Forwarder,
}

impl Prepared {
    /// Prepares signals and limits for a server.
    ///
    /// # Errors
    /// Fails with [`RunError::Nested`] under a run, and with [`RunError::System`] if the system
    /// refuses a step.
    pub fn new() -> Result<Prepared, RunError> {
        if server_of_this_process().is_some_and(|name| server::answers(&name)) {
            return Err(RunError::Nested);
        }
        let kept = limits::raise_own().map_err(on("watch for a signal"))?;
        descendants::adopt_orphans().map_err(on("have orphans for children"))?;
        let sentinel = launch::start_sentinel();
        if let Some(sentinel) = &sentinel {
            descendants::leave_out(sentinel.pid());
        }
        Ok(Prepared { sentinel, kept })
    }

    /// Runs the program with `cache`, a shared page cache, until the run's last process has ended.
    /// Messages for the user go to `say`.
    ///
    /// # Errors
    /// Fails if the run cannot begin, or if waiting fails.
    pub fn run(self, cache: PageCache, program: &Program, say: Say) -> Result<Ended, RunError> {
        let say = if program.is_quiet { |_: &str| {} } else { say };
        warn_of_unserved(&program.command[0], say);
        let server = Server::new(cache, program.filter.clone(), say);
        let server = Arc::new(server.map_err(on("make memory for file positions"))?);
        let listener = Listener::new().map_err(on("make a socket for the program"))?;
        let variable = variable_of(&listener, program);
        let serving = server.start(listener).map_err(on("start the server"))?;
        let forwarder = Forwarder::new().map_err(on("watch for signals"))?;
        self.kept.give_back();
        let started = launch::start(&program.command, &program.library, &variable);
        limits::raise_all();
        let child = started.map_err(|source| RunError::Start {
            program: PathBuf::from(&program.command[0]),
            source,
        })?;
        let stage = Arc::new(Stage::default());
        stage.take_signals(&forwarder, child, self.sentinel.clone());
        let exit_code = wait_for_all(child, &stage, self.sentinel.as_deref(), say)?;
        serving.stop();
        let written_back = server.finish();
        stage.set(OVER);
        let interrupt = Arc::clone(&stage.interrupt);
        Ok(Ended { exit_code, written_back, server, interrupt, _forwarder: forwarder })
    }
}

fn variable_of(listener: &Listener, program: &Program) -> String {
    let mut flags = 0;
    if program.filter.include.is_empty() {
        flags |= variable::SYSTEM_FOLDERS;
    }
    if program.is_quiet {
        flags |= variable::QUIET;
    }
    flags |= match program.mappings {
        Mappings::None => 0,
        Mappings::NotShared => variable::MAPS,
        Mappings::All => variable::MAPS | variable::WRITTEN_MAPS,
    };
    format!("{VERSION}:{flags}:{}", listener.name())
}

fn server_of_this_process() -> Option<String> {
    let value = std::env::var(VARIABLE).ok()?;
    value.split(':').nth(2).map(str::to_owned)
}

fn warn_of_unserved(command: &OsStr, say: Say) {
    let Some(path) = program::find(Path::new(command)) else { return };
    let Ok(file) = File::open(&path) else { return };
    if let Some(sentence) = program::sentence(&file, &path) {
        say(&sentence);
    }
}

/// The program runs and gets the signals.
const RUNS: u8 = 0;
/// The program has ended, and its remaining processes get the signals.
const LEFT: u8 = 1;
/// All writes are in the files, and this process gets the signals.
const OVER: u8 = 2;

/// The stage of a run, which decides the target of signals.
#[derive(Default)]
struct Stage {
    now: AtomicU8,
    interrupt: Arc<AtomicBool>,
    stops: AtomicBool,
}

impl Stage {
    fn set(&self, stage: u8) {
        self.now.store(stage, Relaxed);
    }

    fn take_signals(
        self: &Arc<Stage>,
        forwarder: &Forwarder,
        child: Pid,
        sentinel: Option<Arc<Sentinel>>,
    ) {
        let to_child = launch::pass_to(child, sentinel);
        let stage = Arc::clone(self);
        forwarder.begin(move |arrival| {
            let signal = arrival.signal;
            let stops = job_control::stops(signal);
            match stage.now.load(Relaxed) {
                RUNS => {
                    to_child(arrival);
                    // Only now may this process stop: the SIGCONT that continues the job makes the
                    // sentinel forget the stop signal.
                    stage.stops.fetch_or(stops, Relaxed);
                }
                now => {
                    if now == LEFT {
                        descendants::pass_on(signal);
                    } else if launch::ends(signal) {
                        stage.interrupt.store(true, Relaxed);
                    }
                    if stops {
                        job_control::stop();
                    }
                }
            }
        });
    }
}

/// Waits for the program and all descendants. Returns the program's exit code.
fn wait_for_all(
    child: Pid,
    stage: &Stage,
    sentinel: Option<&Sentinel>,
    say: Say,
) -> Result<u8, RunError> {
    let (mut exit_code, mut has_ended) = (1, false);
    loop {
        match descendants::wait_for_next().map_err(on("wait for the program"))? {
            Waited::Child(pid, status) if pid == child => {
                exit_code = launch::code_of(status);
                has_ended = true;
                stage.set(LEFT);
                say_later_that_processes_are_left(say);
            }
            Waited::Stopped(pid, signal) if pid == child => {
                job_control::follow(child, signal, &stage.stops, sentinel);
            }
            Waited::Child(..) | Waited::Stopped(..) => {}
            Waited::All => return Ok(exit_code),
        }
        if has_ended && descendants::has_none() {
            return Ok(exit_code);
        }
    }
}

/// Prints the reason for the delay if processes remain after [`SILENCE`].
fn say_later_that_processes_are_left(say: Say) {
    let thread = std::thread::Builder::new().name("pagetide-patience".into());
    // Without the thread only this message is missing.
    let _ = thread.spawn(move || {
        std::thread::sleep(SILENCE);
        let nr_left = descendants::processes_below_us().len();
        if nr_left > 0 {
            say(&format!(
                "pagetide: the program has ended, and {nr_left} of its processes not yet: waiting \
                 for them (a signal to this process ends them)"
            ));
        }
    });
}
