//! A page handle that shares the table, for tokens that move between threads.

use std::fmt;
use std::sync::Arc;

use pagetide_core::ids::PageIndex;

use super::{PageRef, PageTable};

/// A page of a shared table, for tokens that move between threads.
#[derive(Clone)]
pub struct WordRef {
    pub(super) table: Arc<PageTable>,
    pub(super) index: PageIndex,
}

impl WordRef {
    /// Returns the page, borrowed from this handle.
    #[inline]
    pub fn page(&self) -> PageRef<'_> {
        self.table.page(self.index).expect("S6: a leaf once made lives as long as its table")
    }

    /// Returns the page's table.
    pub fn table(&self) -> &Arc<PageTable> {
        &self.table
    }
}

impl fmt::Debug for WordRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.page().fmt(f)
    }
}
