//! A watchdog: a test that hangs dies with a sentence instead.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Ends the process unless it is dropped within its time.
pub(crate) struct Watchdog {
    _alive: Sender<()>,
}

impl Watchdog {
    pub(crate) fn new(test: &'static str, seconds: u64) -> Watchdog {
        let (alive, dropped): (Sender<()>, Receiver<()>) = channel();
        std::thread::spawn(move || {
            if dropped.recv_timeout(Duration::from_secs(seconds)) == Err(RecvTimeoutError::Timeout)
            {
                eprintln!("{test}: no end after {seconds} s: a deadlock, or a very slow machine");
                std::process::abort();
            }
        });
        Watchdog { _alive: alive }
    }
}
