//! Starting the program, passing signals on, and its end.
//!
//! ```text
//!   LD_PRELOAD    our library, before whatever was there
//!   PAGETIDE_RUN  version, flags, the server's name, the limit
//!   signals       all that can be caught --> the program, which begins with those ignored and
//!                 blocked that this process began with
//!   status        its exit code, 128 + signal, 127 not found, 126 cannot be executed
//! ```
//!
//! No signal but SIGKILL, and its own faults, ends the server before its programs.
//!
//! A terminal sends its Ctrl-C to the whole foreground group, the program included, and so may
//! kill(1): those signals are not forwarded a second time. Limits on CPU time and on the length of
//! files are each process's own: the kernel's SIGXCPU and SIGXFSZ are not forwarded.

use crate::wire::VARIABLE;
use pagetide_sys::caught::{self, Arrival, CaughtSignals};
use pagetide_sys::sentinel::Sentinel;
use pagetide_sys::{inherited, signals};
use rustix::process::{Pid, WaitStatus};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTOU, SIGXCPU, SIGXFSZ};
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
    let mut program = Command::new(&command[0]);
    program.args(&command[1..]).env("LD_PRELOAD", preload).env(VARIABLE, variable);
    let child = inherited::spawn(&mut program)?;
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

/// Signals that no longer end this process: from here on they wait for a program to be forwarded
/// to. Before the program is started, so that none can end the server and leave it behind.
#[derive(Debug)]
pub struct Caught(CaughtSignals);

impl Caught {
    /// Catches them.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> io::Result<Caught> {
        CaughtSignals::catch().map(Caught)
    }
}

/// What is done with a signal.
pub type Deliver = Box<dyn Fn(Arrival) + Send>;

/// Forwards signals until dropped; then they do what they do by default.
#[derive(Debug)]
pub struct Forwarder {
    deliver: Sender<Deliver>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    /// Starts the thread that is going to forward them, before there is a program that would be
    /// left behind if it were refused.
    ///
    /// # Errors
    /// What the system says of threads.
    pub fn new(caught: Caught) -> io::Result<Forwarder> {
        let Caught(signals) = caught;
        let (deliver, begun) = channel::<Deliver>();
        let thread =
            std::thread::Builder::new().name("pagetide-signal".into()).spawn(move || {
                // Without a program there is nothing to forward to.
                let Ok(deliver) = begun.recv() else { return };
                std::iter::from_fn(|| signals.next()).for_each(deliver);
            })?;
        Ok(Forwarder { deliver, thread: Some(thread) })
    }

    /// Hands to `deliver` the signals that have come since, and those that come.
    pub fn begin(&self, deliver: impl Fn(Arrival) + Send + 'static) {
        // The thread waits for it.
        let _ = self.deliver.send(Box::new(deliver));
    }
}

/// Forwards signals to `child`, but for those that it has itself, as a member of this process's
/// group: from a terminal's keys, or by kill(2) of the group.
pub fn pass_to(child: Pid, sentinel: Option<Arc<Sentinel>>) -> impl Fn(Arrival) + Send + 'static {
    move |arrival| {
        let Arrival { signal, is_from_kernel } = arrival;
        if is_from_kernel && [SIGXCPU, SIGXFSZ].contains(&signal) {
            return;
        }
        if !(came_to_all(signal, sentinel.as_deref()) && is_in_our_group(child)) {
            signals::send(child.as_raw_pid().cast_unsigned(), signal);
        }
    }
}

/// Returns true if `signal` asks this process to end; one that it was started to ignore does not.
pub(crate) fn ends(signal: i32) -> bool {
    [SIGINT, SIGTERM, SIGHUP, SIGQUIT].contains(&signal) && !inherited::is_ignored(signal)
}

/// Returns true if `signal`, which came here, came to the whole group.
pub(crate) fn came_to_all(signal: i32, sentinel: Option<&Sentinel>) -> bool {
    match sentinel {
        Some(sentinel) => sentinel.has(signal),
        None => [SIGINT, SIGQUIT, SIGTSTP, SIGTTOU].contains(&signal) && is_in_foreground(),
    }
}

pub(crate) fn is_in_our_group(child: Pid) -> bool {
    rustix::process::getpgid(Some(child)) == Ok(rustix::process::getpgrp())
}

/// A process that tells what came to our whole group. To be started before there is a second
/// thread; `None` where the system refuses it, and a terminal's keys are all that is told apart.
pub fn start_sentinel() -> Option<Arc<Sentinel>> {
    Sentinel::start().ok().map(Arc::new)
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        caught::end_waiting();
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
