//! A call lock: held by one call, even over several packets.
//!
//! The kernel locks a position, or a file's growth, for one call. The server keeps the lock of a
//! call with several packets until the last packet, or until the socket closes.
//!
//! **Ignored.** Fairness: a free lock goes to the first thread that asks.

use super::identity::lock;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A lock that one call holds at a time.
#[derive(Default)]
pub(super) struct CallLock {
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    is_taken: bool,
    /// Number of waiting calls. A release with 0 skips the wake-up.
    nr_waiting: usize,
}

/// The held lock. Dropping the value releases the lock.
pub(super) struct HeldCallLock(Arc<CallLock>);

impl CallLock {
    /// Waits until the lock is free, and takes the lock. The caller holds no lock of a file.
    pub(super) fn take(self: &Arc<CallLock>) -> HeldCallLock {
        let mut state = lock(&self.state);
        state.nr_waiting += 1;
        let waited = self.freed.wait_while(state, |state| state.is_taken);
        state = waited.unwrap_or_else(PoisonError::into_inner);
        state.nr_waiting -= 1;
        state.is_taken = true;
        drop(state);
        HeldCallLock(Arc::clone(self))
    }
}

impl Drop for HeldCallLock {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.is_taken = false;
        if state.nr_waiting > 0 {
            self.0.freed.notify_one();
        }
    }
}
