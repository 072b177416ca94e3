//! A call lock (turn): held by one call, even over several packets.
//!
//! The kernel locks a position, or a file's growth, for one call. The server keeps the lock of a
//! call with several packets until the last packet, or until the socket closes.
//!
//! **Ignored.** Fairness: a free lock goes to the first thread that asks.

use super::identity::lock;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A lock that one call holds at a time.
#[derive(Default)]
pub(super) struct Turn {
    is_taken: Mutex<bool>,
    freed: Condvar,
}

/// The held lock. Dropping the value releases the lock.
pub(super) struct HeldTurn(Arc<Turn>);

impl Turn {
    /// Waits until the lock is free, and takes the lock. The caller holds no lock of a file.
    pub(super) fn take(self: &Arc<Turn>) -> HeldTurn {
        let is_taken = lock(&self.is_taken);
        let waited = self.freed.wait_while(is_taken, |is_taken| *is_taken);
        *waited.unwrap_or_else(PoisonError::into_inner) = true;
        HeldTurn(Arc::clone(self))
    }
}

impl Drop for HeldTurn {
    fn drop(&mut self) {
        *lock(&self.0.is_taken) = false;
        self.0.freed.notify_one();
    }
}
