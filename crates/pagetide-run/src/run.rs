//! One run, from before its first thread to the end of its last process.

use crate::descendants::{self, Ended as Waited};
use crate::filter::Filter;
use crate::job_control;
use crate::launch::{self, Caught, Forwarder};
use crate::limits::{self, Kept};
use crate::program;
use crate::server::{self, Listener, Say, Server};
use crate::wire::{VARIABLE, VERSION, variable};
use pagetide::{Bytes, PageCache, SyncError};
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

/// Most processes that are still there are about to end. After so long, a person wonders.
const SILENCE: Duration = Duration::from_secs(1);

/// What is run.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// What is loaded into it: see [`find_library`](crate::find_library).
    pub library: PathBuf,
    /// Which files are managed.
    pub filter: Filter,
    /// The limit of the page cache.
    pub memory: Bytes,
    /// Sentences about what is not served are not wanted.
    pub is_quiet: bool,
    /// Mapped files are served from the page cache, where that can be.
    pub serves_mappings: bool,
}

/// Why a run could not begin, or go on.
#[derive(Debug)]
pub enum RunError {
    /// The process is itself under a run.
    Nested,
    /// The program could not be started.
    Start {
        /// As it was named.
        program: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Something the server needs was refused.
    System {
        /// What it was about to do, as in "make a socket".
        act: &'static str,
        /// The system's reason.
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

/// What has to be done before the process has the page cache.
#[derive(Debug)]
pub struct Prepared {
    sentinel: Option<Arc<Sentinel>>,
    kept: Kept,
}

/// How a run ended.
pub struct Ended {
    /// The exit code of the program.
    pub exit_code: u8,
    /// The server, for what it has counted.
    pub server: Arc<Server>,
    /// Whether all that was written is in the files.
    pub written_back: Result<(), SyncError>,
    /// True once a signal asks this process to end; only its own work is left.
    pub interrupt: Arc<AtomicBool>,
    /// Catches signals until it is dropped.
    _forwarder: Forwarder,
}

impl Prepared {
    /// Takes signals and limits for this process: it is to be a server from now on.
    ///
    /// # Errors
    /// [`RunError::Nested`], and [`RunError::System`].
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

    /// Runs the program with `cache`, which was built to be shared, until its last process has
    /// ended; sentences for the user go to `say`.
    ///
    /// # Errors
    /// Where the run could not begin.
    pub fn run(self, cache: PageCache, program: &Program, say: Say) -> Result<Ended, RunError> {
        let say = if program.is_quiet { |_: &str| {} } else { say };
        warn_of_unserved(&program.command[0], say);
        let server = Server::new(cache, program.filter.clone(), say);
        let server = Arc::new(server.map_err(on("make memory for file positions"))?);
        let listener = Listener::new().map_err(on("make a socket for the program"))?;
        let variable = variable_of(&listener, program);
        let serving = server.start(listener).map_err(on("start the server"))?;
        let forwarder = Caught::new().and_then(Forwarder::new).map_err(on("watch for signals"))?;
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

/// What tells the program where its server is.
fn variable_of(listener: &Listener, program: &Program) -> String {
    let mut flags = 0;
    if program.filter.include.is_empty() {
        flags |= variable::SYSTEM_FOLDERS;
    }
    if program.is_quiet {
        flags |= variable::QUIET;
    }
    if program.serves_mappings {
        flags |= variable::MAPS;
    }
    format!("{VERSION}:{flags}:{}:{}", listener.name(), program.memory.0)
}

/// The name of the server that this process is under.
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

/// The program runs: signals are for it.
const RUNS: u8 = 0;
/// The program has ended, others of its processes have not: signals are for those.
const LEFT: u8 = 1;
/// All that was written is in the files: signals are for this process.
const OVER: u8 = 2;

/// How far a run has come, which says where signals go.
#[derive(Default)]
struct Stage {
    now: AtomicU8,
    interrupt: Arc<AtomicBool>,
    /// A signal came that stops a job.
    stops: AtomicBool,
}

impl Stage {
    fn set(&self, stage: u8) {
        self.now.store(stage, Relaxed);
    }

    /// Has signals go where this stage says.
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
                    stage.stops.fetch_or(stops, Relaxed);
                    to_child(arrival);
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

/// Waits for the program, and then for every other process below; returns the program's exit code.
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

/// Says why the command has not returned, after a moment.
fn say_later_that_processes_are_left(say: Say) {
    let thread = std::thread::Builder::new().name("pagetide-patience".into());
    // Without the thread there is no sentence, and nothing else is missing.
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
