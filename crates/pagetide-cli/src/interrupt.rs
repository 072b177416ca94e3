//! Ctrl-C as a question that loops ask.
//!
//! Problem: a run makes files, cgroups, child processes and mounts; a signal that simply kills the
//! process leaves them behind. Idea: the handler only sets a flag, every loop asks for it a few
//! thousand times a second, and the unwinding of an ordinary error lets each guard remove what it
//! made.
//!
//! ```text
//!   SIGINT, SIGTERM, SIGHUP --> flag --> loops return Failure::Interrupted --> Drop guards
//! ```
//!
//! Data: one atomic flag of the process, set once, never cleared. Ignored: SIGKILL, which cannot be
//! caught (a child asks the kernel to die with its parent, so at least nothing keeps running).

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The flag of this process.
static CURRENT: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Returns true once the program is to stop; for code that no command hands its flag to.
pub(crate) fn is_set() -> bool {
    CURRENT.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// A flag that turns true when the program is to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches for SIGINT, SIGTERM and SIGHUP from here on.
    ///
    /// # Errors
    /// Where the kernel refuses the handler.
    pub(crate) fn watch() -> io::Result<Interrupt> {
        let flag = Arc::clone(CURRENT.get_or_init(Arc::default));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
        }
        Ok(Interrupt::follow(flag))
    }

    /// The flag that another sets, as this process's; the first one stays.
    pub(crate) fn follow(flag: Arc<AtomicBool>) -> Interrupt {
        Interrupt(Arc::clone(CURRENT.get_or_init(|| flag)))
    }

    /// Whether to stop.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// `Err(Failure::Interrupted)` once the program is to stop; for `?` in loops.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.is_set() { Err(Failure::Interrupted) } else { Ok(()) }
    }
}

#[cfg(test)]
impl Interrupt {
    /// As after Ctrl-C.
    pub(crate) fn already_set() -> Interrupt {
        Interrupt(Arc::new(AtomicBool::new(true)))
    }
}
