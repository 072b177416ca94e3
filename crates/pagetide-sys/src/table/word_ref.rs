//! A handle of one page that shares the table, for tokens that travel.

use std::fmt;
use std::sync::Arc;

use pagetide_core::ids::PageIndex;

use super::{PageRef, PageTable};
use crate::token::{Claim, Lock, Pin};
use crate::word::{LockRefused, PinRefused, Touch};

/// A page of a shared table: what a token travels with to another thread.
#[derive(Clone)]
pub struct WordRef {
    pub(super) table: Arc<PageTable>,
    pub(super) index: PageIndex,
}

impl WordRef {
    /// The page, borrowed from this handle.
    #[inline]
    pub fn page(&self) -> PageRef<'_> {
        self.table.page(self.index).expect("S6: a leaf once made lives as long as its table")
    }

    /// The table the page belongs to.
    pub fn table(&self) -> &Arc<PageTable> {
        &self.table
    }

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

    /// [`Lock::new`]: waits until nobody else has the page locked or pinned.
    pub fn lock(self) -> Lock<WordRef> {
        Lock::new(self)
    }

    /// [`Lock::try_claim`].
    pub fn try_claim(self) -> Claim<WordRef> {
        Lock::try_claim(self)
    }
}

impl fmt::Debug for WordRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.page().fmt(f)
    }
}
