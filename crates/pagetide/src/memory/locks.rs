//! Locking, in one word, and how worker threads are woken and stopped.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// What a lock says that an earlier holder's panic has poisoned: an assertion failed
/// while core's state was half changed, and going on could hand out wrong bytes.
pub(crate) const POISONED: &str = "an earlier panic left this state half changed";

/// Locks, and panics if an earlier holder did.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect(POISONED)
}

/// What a worker thread woke for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wake {
    /// There is work.
    Work,
    /// There was none for the whole timeout.
    Timeout,
    /// The cache is going away.
    Stop,
}

#[derive(Default)]
struct SignalState {
    is_pending: bool,
    is_stopped: bool,
}

/// How a worker thread is woken and stopped.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

impl Signal {
    /// Asks for work; many requests before the worker looks are one.
    pub(crate) fn notify(&self) {
        let mut state = lock(&self.state);
        if !state.is_pending {
            state.is_pending = true;
            self.changed.notify_all();
        }
    }

    /// Asks the worker to end.
    pub(crate) fn stop(&self) {
        lock(&self.state).is_stopped = true;
        self.changed.notify_all();
    }

    /// Whether the worker is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        lock(&self.state).is_stopped
    }

    /// Waits for a request, at most `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) -> Wake {
        let idle = |state: &mut SignalState| !state.is_pending && !state.is_stopped;
        let state = lock(&self.state);
        let (mut state, _) = self.changed.wait_timeout_while(state, timeout, idle).expect(POISONED);
        if state.is_stopped {
            Wake::Stop
        } else if std::mem::take(&mut state.is_pending) {
            Wake::Work
        } else {
            Wake::Timeout
        }
    }
}
