//! Starts the program, forwards signals, and returns the exit code.
//!
//! ```text
//!   LD_PRELOAD    our library, in front of the inherited value
//!   PAGETIDE_RUN  version, flags, the server's name
//!   signals       all catchable signals --> the program, which starts with the signal mask and the
//!                 ignored signals that this process inherited
//!   status        the program's exit code, 128 + signal, 127 not found, 126 not executable
//! ```
//!
//! Only SIGKILL and a fault of the server itself can end the server before its programs.
//!
//! Signals to the whole group, from a terminal or kill(1), reach the program directly and are not
//! forwarded. The kernel's SIGXCPU and SIGXFSZ are not forwarded, because their limits are per
//! process.

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

/// Starts the program with `variable`, the server's address, in its environment.
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
    // `descendants` waits for all children.
    Ok(Pid::from_child(&child))
}

pub(crate) fn code_of(status: WaitStatus) -> u8 {
    exit_code(ExitStatus::from_raw(status.as_raw()))
}

/// Returns a shell's exit code for a program that cannot be started.
pub fn exit_code_of(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
}

/// Returns a shell's exit code for an ended program.
pub fn exit_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128_u8.saturating_add(signal as u8),
        (None, None) => 1,
    }
}

/// The action for each caught signal.
pub type Deliver = Box<dyn Fn(Arrival) + Send>;

/// A thread that forwards signals until dropped. The drop restores default actions.
#[derive(Debug)]
pub struct Forwarder {
    deliver: Sender<Deliver>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    /// Catches all catchable signals and starts the forwarding thread. Called before the program
    /// starts, so that neither a signal nor a failure leaves a program behind.
    ///
    /// # Errors
    /// Fails with the system's error if the signal pipe or the thread cannot be made.
    pub fn new() -> io::Result<Forwarder> {
        let signals = CaughtSignals::catch()?;
        let (deliver, begun) = channel::<Deliver>();
        let thread =
            std::thread::Builder::new().name("pagetide-signal".into()).spawn(move || {
                // Dropped before a program started.
                let Ok(deliver) = begun.recv() else { return };
                std::iter::from_fn(|| signals.next()).for_each(deliver);
            })?;
        Ok(Forwarder { deliver, thread: Some(thread) })
    }

    /// Passes all queued and future signals to `deliver`.
    pub fn begin(&self, deliver: impl Fn(Arrival) + Send + 'static) {
        // The thread lives until `drop`, so the send cannot fail.
        let _ = self.deliver.send(Box::new(deliver));
    }
}

/// Returns a function that forwards signals to `child`, except signals that `child` received as a
/// member of this process's group.
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

/// Returns true if `signal` asks this process to end and is not ignored.
pub(crate) fn ends(signal: i32) -> bool {
    [SIGINT, SIGTERM, SIGHUP, SIGQUIT].contains(&signal) && !inherited::is_ignored(signal)
}

/// Returns true if a received `signal` went to the whole group.
pub(crate) fn came_to_all(signal: i32, sentinel: Option<&Sentinel>) -> bool {
    match sentinel {
        Some(sentinel) => sentinel.has(signal),
        None => [SIGINT, SIGQUIT, SIGTSTP, SIGTTOU].contains(&signal) && is_in_foreground(),
    }
}

pub(crate) fn is_in_our_group(child: Pid) -> bool {
    rustix::process::getpgid(Some(child)) == Ok(rustix::process::getpgrp())
}

/// Starts a process that reports signals to the whole group. The caller must be the only thread.
/// Returns `None` if the system refuses. Then only terminal keys are recognised.
pub fn start_sentinel() -> Option<Arc<Sentinel>> {
    Sentinel::start().ok().map(Arc::new)
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        caught::end_waiting();
        // A thread without a `deliver` function yet ends now.
        self.deliver = channel().0;
        if let Some(thread) = self.thread.take() {
            // The thread already printed its panic.
            let _ = thread.join();
        }
    }
}

fn is_in_foreground() -> bool {
    let Ok(terminal) = File::open("/dev/tty") else { return false };
    rustix::termios::tcgetpgrp(&terminal).is_ok_and(|group| group == rustix::process::getpgrp())
}
