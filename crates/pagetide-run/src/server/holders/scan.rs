//! The scan thread: ends closed descriptions without holders.
//!
//! A child forked before the parent's close still has the descriptor. The server sees the child's
//! close only if the child has sent a request. Otherwise, only a search of the processes shows the
//! close.
//!
//! ```text
//!   last close --> a scan, then a pause of 19 times the scan time: about 5 % of a CPU
//!                    ^-- held: again after twice the pause (up to 1 s; up to 50 ms for a real
//!                        descriptor). Longer where scans are slow
//!   disk full ---> one scan at once, before the write fails
//! ```

use super::Closing;
use crate::server::Server;
use crate::server::identity::lock;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Ratio of the pause to the scan before. Limits short scans to 5 % of a CPU.
const PAUSE_FACTOR: u32 = 19;
/// Longest pause between two short scans. A held description is scanned again, because a process
/// announces a close before the close. The pause doubles with each scan.
const PAUSE_MAX: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// Longest pause between two short scans while the server keeps a real descriptor, which may hold
/// a lock.
const PAUSE_OF_REAL: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(super) struct Scan {
    is_due: Mutex<bool>,
    changed: Condvar,
    /// Held during a scan. A scan releases descriptors at the end, and no other scan may end
    /// earlier.
    turn: Mutex<()>,
}

impl Scan {
    /// Wakes the scan thread: a last holder may be gone, or the server stops.
    pub(super) fn call(&self) {
        *lock(&self.is_due) = true;
        self.changed.notify_one();
    }

    /// Waits for a call, at most `most`. Returns true if the thread was called.
    fn wait(&self, most: Duration) -> bool {
        let is_due = lock(&self.is_due);
        let due = self.changed.wait_timeout_while(is_due, most, |is_due| !*is_due);
        std::mem::take(&mut *due.unwrap_or_else(PoisonError::into_inner).0)
    }
}

/// Runs the scan thread until the server stops. Scans when called, and again while closed
/// descriptions are left.
pub(in crate::server) fn run(server: &Server) {
    let mut pause = Duration::MAX;
    loop {
        let is_called = server.holders.scan.wait(pause);
        if server.is_stopping() {
            return;
        }
        let began = Instant::now();
        let pause_max = server.end_all_unheld();
        let own = began.elapsed() * PAUSE_FACTOR;
        let next = if is_called { PAUSE_MIN } else { pause * 2 };
        pause = pause_max.map_or(Duration::MAX, |most| next.clamp(own, most.max(own)));
        std::thread::sleep(own.min(PAUSE_MAX));
    }
}

impl Server {
    /// Ends all descriptions without holders. Returns the longest pause before the next scan, if
    /// closed descriptions are left.
    pub(in crate::server) fn end_all_unheld(&self) -> Option<Duration> {
        let _turn = lock(&self.holders.scan.turn);
        let left = self.end_unheld(self.holders.unheld(), Closing::Nothing);
        let has_real = left.iter().any(|(one, _)| one.has_real());
        (!left.is_empty()).then_some(if has_real { PAUSE_OF_REAL } else { PAUSE_MAX })
    }
}
