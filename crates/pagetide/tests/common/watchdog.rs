//! A watchdog: a hanging test ends with a message.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Time limit of a test beyond its planned run: enough for the slowest machine, and less than a
/// whole check.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) struct Watchdog {
    _alive: Sender<()>,
}

impl Watchdog {
    pub(crate) fn new() -> Watchdog {
        Watchdog::of_a_run(Duration::ZERO)
    }

    /// For a test with a fixed run time.
    pub(crate) fn of_a_run(length: Duration) -> Watchdog {
        let (alive, dropped): (Sender<()>, Receiver<()>) = channel();
        let patience = PATIENCE + length;
        // Test threads are named after their test.
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
