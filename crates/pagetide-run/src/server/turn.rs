//! A turn: what one call has at a time, also over several packets.
//!
//! The kernel holds a position, or a file's growth, for as long as one call takes. A call of
//! several packets does too, here; its turn ends with its last packet, or with its socket.
//!
//! **Ignored.** Fairness: a turn that is free goes to the first thread that asks.

use super::identity::lock;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Taken by one call at a time.
#[derive(Default)]
pub(super) struct Turn {
    is_taken: Mutex<bool>,
    freed: Condvar,
}

/// The turn, until dropped.
pub(super) struct HeldTurn(Arc<Turn>);

impl Turn {
    /// Waits until the turn is free, and takes it. The caller holds no lock of a file.
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
