//! Ctrl-C as a flag for loops to check.
//!
//! Problem: a run creates files, cgroups, child processes and mounts. A signal that kills the
//! process leaves all of these behind. Idea: the handler only sets a flag. Every loop checks the
//! flag often and returns an ordinary error. Guards then remove the created resources.
//!
//! ```text
//!   SIGINT, SIGTERM, SIGHUP --> flag --> loops return Failure::Interrupted --> Drop guards
//! ```
//!
//! Data: one atomic flag for the process, set once, never cleared. Ignored: SIGKILL, which cannot
//! be caught. A child asks the kernel to die with its parent, so at least no process keeps running.

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Time between two looks at the flag.
const TICK: Duration = Duration::from_millis(50);

/// The flag of this process.
static CURRENT: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Returns true if the command should stop. For code without access to the command's flag.
pub(crate) fn is_set() -> bool {
    CURRENT.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// A flag that becomes true when the command should stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Sets the flag on SIGINT, SIGTERM and SIGHUP from here on.
    ///
    /// # Errors
    /// Fails if the kernel refuses a handler.
    pub(crate) fn watch() -> io::Result<Interrupt> {
        let flag = Arc::clone(CURRENT.get_or_init(Arc::default));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
        }
        Ok(Interrupt::follow(flag))
    }

    /// Makes `flag`, set by other code, the flag of this process, unless the process has one
    /// already.
    pub(crate) fn follow(flag: Arc<AtomicBool>) -> Interrupt {
        Interrupt(Arc::clone(CURRENT.get_or_init(|| flag)))
    }

    /// Returns true if the command should stop.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Exits the process `limit` after a signal, unless the command has ended by then. For commands
    /// with writes that may never return. `last` is called before the exit.
    ///
    /// # Errors
    /// Fails if the system refuses a thread.
    pub(crate) fn end_in_time(self, limit: Duration, last: fn()) -> io::Result<()> {
        let thread = std::thread::Builder::new().name("pagetide-end".into());
        let watch = move || {
            while !self.is_set() {
                std::thread::sleep(TICK);
            }
            std::thread::sleep(limit);
            last();
            std::process::exit(i32::from(Failure::Interrupted.exit_code()));
        };
        thread.spawn(watch).map(drop)
    }

    /// Returns `Err(Failure::Interrupted)` if the command should stop, for `?` in loops.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.is_set() { Err(Failure::Interrupted) } else { Ok(()) }
    }
}

#[cfg(test)]
impl Interrupt {
    /// Returns a flag that is set, as after Ctrl-C.
    pub(crate) fn already_set() -> Interrupt {
        Interrupt(Arc::new(AtomicBool::new(true)))
    }
}
