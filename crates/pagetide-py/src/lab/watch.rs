//! Long work on other threads, while the caller's thread checks for Ctrl-C.

use crate::call::detached;
use pagetide_sweep::Watch;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The interval of checks for Ctrl-C.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Shared state of the work and the waiting thread.
#[derive(Default)]
pub(super) struct Watched {
    is_stopped: AtomicBool,
    nr_done: AtomicU64,
    nr_parts: AtomicU64,
    is_over: Mutex<bool>,
    over: Condvar,
}

impl Watch for Watched {
    fn keep_on(&self) -> bool {
        !self.is_stopped.load(Relaxed)
    }

    fn progress(&self, nr_done: u64, nr_parts: u64) {
        self.nr_done.fetch_max(nr_done, Relaxed);
        self.nr_parts.store(nr_parts, Relaxed);
    }
}

/// Ends the wait, even after a panic.
struct AtEnd<'a>(&'a Watched);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        *self.0.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.over.notify_all();
    }
}

impl Watched {
    /// Waits for the end, for a while. Returns true at the end.
    fn wait(&self) -> bool {
        let over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.over.wait_timeout_while(over, LOOK_EVERY, |over| !*over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Runs `work` beside the interpreter. Calls `said` with the parts done and all parts.
///
/// # Errors
/// Fails with the exception of a signal handler (`KeyboardInterrupt`) or of `said`, after stopping
/// the work. Fails with `RuntimeError` if the work panics.
pub(super) fn watched<T: Send>(
    py: Python<'_>,
    said: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Watched) -> T + Send,
) -> PyResult<T> {
    let watched = Watched::default();
    let look = || -> PyResult<()> {
        py.check_signals()?;
        let numbers = (watched.nr_done.load(Relaxed), watched.nr_parts.load(Relaxed));
        said.map_or(Ok(()), |said| said.call1(numbers).map(drop))
    };
    let (done, looked) = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let _at_end = AtEnd(&watched);
            work(&watched)
        });
        let mut looked = Ok(());
        while !py.detach(|| watched.wait()) {
            if looked.is_ok() {
                looked = look();
                watched.is_stopped.store(looked.is_err(), Relaxed);
            }
        }
        let join = || match worker.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        (detached(py, join), looked)
    });
    looked.and(done)
}
