//! Shorthands for tokens of a page.

use super::{Claim, Lock, Pin};
use crate::page::table::{PageRef, WordRef};
use crate::page::word::{LockRefused, PinRefused, Touch};

impl<'a> PageRef<'a> {
    /// Calls [`Pin::try_new`].
    ///
    /// # Errors
    /// Fails with [`PinRefused`] and changes nothing. Never waits.
    #[inline]
    pub fn try_pin(self, touch: Touch) -> Result<Pin<PageRef<'a>>, PinRefused> {
        Pin::try_new(self, touch)
    }

    /// Calls [`Lock::try_new`].
    ///
    /// # Errors
    /// Fails with [`LockRefused`] and changes nothing. Never waits.
    pub fn try_lock(self) -> Result<Lock<PageRef<'a>>, LockRefused> {
        Lock::try_new(self)
    }

    /// Calls [`Lock::new`]. Waits until the page is neither locked nor pinned.
    pub fn lock(self) -> Lock<PageRef<'a>> {
        Lock::new(self)
    }

    /// Calls [`Lock::try_claim`].
    pub fn try_claim(self) -> Claim<PageRef<'a>> {
        Lock::try_claim(self)
    }
}

impl WordRef {
    /// Calls [`Pin::try_new`].
    ///
    /// # Errors
    /// Fails with [`PinRefused`] and changes nothing. Never waits.
    pub fn try_pin(self, touch: Touch) -> Result<Pin<WordRef>, PinRefused> {
        Pin::try_new(self, touch)
    }

    /// Calls [`Lock::try_new`].
    ///
    /// # Errors
    /// Fails with [`LockRefused`] and changes nothing. Never waits.
    pub fn try_lock(self) -> Result<Lock<WordRef>, LockRefused> {
        Lock::try_new(self)
    }

    /// Calls [`Lock::new`]. Waits until the page is neither locked nor pinned.
    pub fn lock(self) -> Lock<WordRef> {
        Lock::new(self)
    }

    /// Calls [`Lock::try_claim`].
    pub fn try_claim(self) -> Claim<WordRef> {
        Lock::try_claim(self)
    }
}
