//! Locking, and signals to worker threads.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Message for a poisoned lock: an assertion failed with core's state half changed, and continuing
/// could hand out wrong bytes.
pub(crate) const POISONED: &str = "an earlier panic left this state half changed";

#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect(POISONED)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wake {
    Work,
    Timeout,
    Stop,
}

#[derive(Default)]
struct SignalState {
    is_pending: bool,
    is_stopped: bool,
}

/// Wakes and stops a worker thread.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

impl Signal {
    /// Requests work. Pending requests are merged.
    pub(crate) fn notify(&self) {
        let mut state = lock(&self.state);
        if !state.is_pending {
            state.is_pending = true;
            self.changed.notify_all();
        }
    }

    pub(crate) fn stop(&self) {
        lock(&self.state).is_stopped = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        lock(&self.state).is_stopped
    }

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
