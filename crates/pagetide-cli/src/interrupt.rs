//! Ctrl-C as a flag for loops to check.
//!
//! Idea: the signal handler only sets a flag. Loops check the flag and return an error, and guards
//! remove files, cgroups, children and mounts.
//!
//! ```text
//!   SIGINT, SIGTERM, SIGHUP --> flag --> loops return Failure::Interrupted --> Drop guards
//! ```
//!
//! Data: one atomic flag per process, never cleared. Ignored: SIGKILL. Children ask the kernel to
//! die with their parent.

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const TICK: Duration = Duration::from_millis(50);

static CURRENT: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Serves code without an [`Interrupt`].
pub(crate) fn is_set() -> bool {
    CURRENT.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Sets the flag on SIGINT, SIGTERM and SIGHUP.
    pub(crate) fn watch() -> io::Result<Interrupt> {
        let flag = Arc::clone(CURRENT.get_or_init(Arc::default));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
        }
        Ok(Interrupt::follow(flag))
    }

    /// Makes `flag` the flag of this process, unless there is one already.
    pub(crate) fn follow(flag: Arc<AtomicBool>) -> Interrupt {
        Interrupt(Arc::clone(CURRENT.get_or_init(|| flag)))
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Exits the process `limit` after a signal, if still running, because some writes never
    /// return. Calls `last` before the exit.
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

    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.is_set() { Err(Failure::Interrupted) } else { Ok(()) }
    }
}

#[cfg(test)]
impl Interrupt {
    pub(crate) fn already_set() -> Interrupt {
        Interrupt(Arc::new(AtomicBool::new(true)))
    }
}
