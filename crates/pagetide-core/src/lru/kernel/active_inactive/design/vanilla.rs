//! The design without refault detection: at most half of the file pages are active.
//!
//! Pages used once only compete for the inactive half, so an established working set is safe. A new
//! working set larger than half of memory never becomes active.
//!
//! Ignored: see [`Design`]. Source: the lists of Linux before 3.15.

use super::{DeactivationCheck, Design, FolioState, RefaultVerdict, is_low_before_ratio};
use crate::ids::PageType;
use crate::lru::refault_distance::ListPages;
use crate::lru::{Context, LruConfig, ShadowEntry};

/// Two lists without history.
#[derive(Debug)]
pub struct Vanilla;

impl Design for Vanilla {
    const DEACTIVATION_CHECK: DeactivationCheck = DeactivationCheck::EachPiece;
    const FORCES: bool = false;

    fn new(_config: &LruConfig) -> Vanilla {
        Vanilla
    }

    fn evicted(&mut self, _subject: FolioState) -> Option<ShadowEntry> {
        None
    }

    fn refault(
        &mut self,
        _cx: &mut Context<'_>,
        _subject: FolioState,
        _shadow: ShadowEntry,
        _sizes: ListPages,
    ) -> RefaultVerdict {
        RefaultVerdict::Forgotten
    }

    fn activated(&mut self, _page_type: PageType) {}

    fn is_low(&self, read: &ListPages, page_type: PageType) -> bool {
        is_low_before_ratio(read, page_type)
    }
}
