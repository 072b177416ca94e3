//! The tokens, asked of a page.

use super::{Claim, Lock, Pin};
use crate::page::table::{PageRef, WordRef};
use crate::page::word::{LockRefused, PinRefused, Touch};

impl<'a> PageRef<'a> {
    /// [`Pin::try_new`].
    ///
    /// # Errors
    /// [`PinRefused`]; nothing was changed. Never waits.
    #[inline]
    pub fn try_pin(self, touch: Touch) -> Result<Pin<PageRef<'a>>, PinRefused> {
        Pin::try_new(self, touch)
    }

    /// [`Lock::try_new`].
    ///
    /// # Errors
    /// [`LockRefused`]; nothing was changed. Never waits.
    pub fn try_lock(self) -> Result<Lock<PageRef<'a>>, LockRefused> {
        Lock::try_new(self)
    }

    /// [`Lock::new`]: waits until the page is neither locked nor pinned.
    pub fn lock(self) -> Lock<PageRef<'a>> {
        Lock::new(self)
    }

    /// [`Lock::try_claim`].
    pub fn try_claim(self) -> Claim<PageRef<'a>> {
        Lock::try_claim(self)
    }
}

impl WordRef {
    /// [`Pin::try_new`].
    ///
    /// # Errors
    /// [`PinRefused`]; nothing was changed. Never waits.
    pub fn try_pin(self, touch: Touch) -> Result<Pin<WordRef>, PinRefused> {
        Pin::try_new(self, touch)
    }

    /// [`Lock::try_new`].
    ///
    /// # Errors
    /// [`LockRefused`]; nothing was changed. Never waits.
    pub fn try_lock(self) -> Result<Lock<WordRef>, LockRefused> {
        Lock::try_new(self)
    }

    /// [`Lock::new`]: waits until the page is neither locked nor pinned.
    pub fn lock(self) -> Lock<WordRef> {
        Lock::new(self)
    }

    /// [`Lock::try_claim`].
    pub fn try_claim(self) -> Claim<WordRef> {
        Lock::try_claim(self)
    }
}
