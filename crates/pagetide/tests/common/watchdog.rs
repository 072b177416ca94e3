//! A watchdog: a test that hangs dies with a sentence instead.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// What a test may take beside the time it is meant to run: more than on the slowest machine, and
/// less than a whole check has.
const PATIENCE: Duration = Duration::from_secs(300);

/// Ends the process unless it is dropped within its time.
pub(crate) struct Watchdog {
    _alive: Sender<()>,
}

impl Watchdog {
    pub(crate) fn new() -> Watchdog {
        Watchdog::of_a_run(Duration::ZERO)
    }

    /// Of something that runs for so long, whatever the machine.
    pub(crate) fn of_a_run(length: Duration) -> Watchdog {
        let (alive, dropped): (Sender<()>, Receiver<()>) = channel();
        let patience = PATIENCE + length;
        // Threads of tests are named after them.
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        std::thread::spawn(move || {
            if dropped.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                eprintln!("{test}: no end after {patience:?}: a deadlock, or nothing ever happens");
                std::process::abort();
            }
        });
        Watchdog { _alive: alive }
    }
}
