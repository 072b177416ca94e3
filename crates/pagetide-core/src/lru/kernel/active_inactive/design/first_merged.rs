//! The design merged in v3.15: a refault within the active list's length activates.
//!
//! ```text
//!   evicted:  clock += 1, shadow = clock        (so an immediate refault is 0 places away)
//!   refault:  D <= active file   -->  active at once
//! ```
//!
//! Refaults make the active list longer than the inactive one, and ordinary aging then removes
//! stale pages. Nothing else permits deactivation.
//!
//! Ignored: anonymous pages (also ignored by the original) and several zones. Source:
//! `mm/workingset.c` of Linux 3.15, commit a528910e12ec.

use super::{DeactivationCheck, Design, FolioState, RefaultVerdict, is_low_before_ratio};
use crate::ids::PageType;
use crate::lru::refault_distance::{ListPages, NonresidentAge};
use crate::lru::{Context, LruConfig, LruvecId, ShadowEntry};

/// Refault distance as merged in v3.15.
#[derive(Debug)]
pub struct FirstMerged {
    id: LruvecId,
    clock: NonresidentAge,
}

impl Design for FirstMerged {
    const DEACTIVATION_CHECK: DeactivationCheck = DeactivationCheck::EachPiece;
    const FORCES: bool = false;

    fn new(config: &LruConfig) -> FirstMerged {
        FirstMerged { id: config.id, clock: NonresidentAge::default() }
    }

    fn evicted(&mut self, subject: FolioState) -> Option<ShadowEntry> {
        (subject.flags.page_type() == PageType::File).then(|| {
            self.clock.advance(1);
            self.clock.shadow(self.id, false)
        })
    }

    fn refault(
        &mut self,
        _cx: &mut Context<'_>,
        _subject: FolioState,
        shadow: ShadowEntry,
        sizes: ListPages,
    ) -> RefaultVerdict {
        let active_file = sizes.active[PageType::File.index()];
        if shadow.lruvec() != self.id || !self.clock.is_recent(shadow, active_file) {
            return RefaultVerdict::Stays;
        }
        self.clock.advance(1);
        RefaultVerdict::Activates
    }

    fn activated(&mut self, page_type: PageType) {
        if page_type == PageType::File {
            self.clock.advance(1);
        }
    }

    fn is_low(&self, read: &ListPages, page_type: PageType) -> bool {
        is_low_before_ratio(read, page_type)
    }
}
