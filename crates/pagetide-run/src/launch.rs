//! Starting the program, passing signals on, and its end.
//!
//! ```text
//!   LD_PRELOAD    our library, before whatever was there
//!   PAGETIDE_RUN  version, flags, the server's name, the limit
//!   signals       SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGINT, SIGQUIT --> the program
//!   status        its exit code, 128 + signal, 127 not found, 126 cannot be executed
//! ```
//!
//! A terminal sends its Ctrl-C to the whole foreground group, the program included, and so may
//! kill(1): those are not passed on a second time.

use crate::wire::VARIABLE;
use pagetide_sys::sentinel::Sentinel;
use rustix::process::{Pid, Signal, WaitStatus, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::{Handle, Signals};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Starts the program, which finds the server by `variable`.
pub(crate) fn start(
    command: &[OsString],
    library: &Path,
    variable: &str,
) -> Result<Pid, io::Error> {
    let mut preload = library.as_os_str().to_owned();
    if let Some(before) = std::env::var_os("LD_PRELOAD").filter(|before| !before.is_empty()) {
        preload.push(OsStr::new(":"));
        preload.push(before);
    }
    let child = Command::new(&command[0])
        .args(&command[1..])
        .env("LD_PRELOAD", preload)
        .env(VARIABLE, variable)
        .spawn()?;
    // It is waited for with all others.
    Ok(Pid::from_child(&child))
}

/// The exit code of the program, of what a wait has told.
pub(crate) fn code_of(status: WaitStatus) -> u8 {
    exit_code(ExitStatus::from_raw(status.as_raw()))
}

/// What a shell says of a program that could not be started.
pub fn exit_code_of(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
}

/// What a shell says of a program that has ended.
pub fn exit_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128_u8.saturating_add(signal as u8),
        (None, None) => 1,
    }
}

/// What is passed on.
const SIGNALS: [i32; 6] = [SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGINT, SIGQUIT];

/// Signals that are ours no more: from here on they wait for a program to be passed on to. Before
/// it is started, so that none can end us and leave it behind.
#[derive(Debug)]
pub struct Caught(Signals);

impl Caught {
    /// Catches them.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> io::Result<Caught> {
        Signals::new(SIGNALS).map(Caught)
    }
}

/// What is done with a signal.
pub type Deliver = Box<dyn Fn(Signal) + Send>;

/// Passes signals on until dropped.
#[derive(Debug)]
pub struct Forwarder {
    handle: Handle,
    deliver: Sender<Deliver>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    /// Has the thread that is going to pass them on, before there is a program that would be left
    /// behind if it were refused.
    ///
    /// # Errors
    /// What the system says of threads.
    pub fn new(caught: Caught) -> io::Result<Forwarder> {
        let Caught(mut signals) = caught;
        let handle = signals.handle();
        let (deliver, begun) = channel::<Deliver>();
        let thread =
            std::thread::Builder::new().name("pagetide-signal".into()).spawn(move || {
                // Without a program there is nothing to pass on.
                let Ok(deliver) = begun.recv() else { return };
                signals.forever().filter_map(Signal::from_named_raw).for_each(deliver);
            })?;
        Ok(Forwarder { handle, deliver, thread: Some(thread) })
    }

    /// Hands to `deliver` what has come since, and what comes.
    pub fn begin(&self, deliver: impl Fn(Signal) + Send + 'static) {
        // The thread waits for it.
        let _ = self.deliver.send(Box::new(deliver));
    }
}

/// Passes signals on to `child`, but for those that it has itself, as a member of our group: from
/// a terminal's keys, or by kill(2) of the group.
pub fn pass_to(child: Pid, sentinel: Option<Arc<Sentinel>>) -> impl Fn(Signal) + Send + 'static {
    move |signal| {
        let came_to_all = match &sentinel {
            Some(sentinel) => sentinel.has(signal.as_raw()),
            None => matches!(signal, Signal::INT | Signal::QUIT) && is_in_foreground(),
        };
        let is_in_group = rustix::process::getpgid(Some(child)) == Ok(rustix::process::getpgrp());
        if !(came_to_all && is_in_group) {
            // It may have ended already.
            let _ = kill_process(child, signal);
        }
    }
}

/// A process that tells what came to our whole group. To be started before there is a second
/// thread; `None` where the system refuses it, and a terminal's keys are all that is told apart.
pub fn start_sentinel() -> Option<Arc<Sentinel>> {
    Sentinel::start(&SIGNALS).ok().map(Arc::new)
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.handle.close();
        // A thread that still waits for what to do has nothing to wait for.
        self.deliver = channel().0;
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

/// Whether a terminal's keys reach us, and with us the program.
fn is_in_foreground() -> bool {
    let Ok(terminal) = File::open("/dev/tty") else { return false };
    rustix::termios::tcgetpgrp(&terminal).is_ok_and(|group| group == rustix::process::getpgrp())
}
