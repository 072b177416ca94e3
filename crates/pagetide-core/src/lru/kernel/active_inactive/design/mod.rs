//! The four designs of the two lists, one per file.
//!
//! Problem: designs must be compared over the same lists, scans and rounds. Idea: the engine calls
//! its [`Design`] at seven events:
//!
//! ```text
//!   eviction ----------> evicted          returns the shadow, advances the clock
//!   refault -----------> refault
//!   second access -----> activated
//!   back from trial ---> put_back_active
//!   before a scan -----> may_deactivate   (uses the sizes of `read`)
//!   active list shrunk -> shrank_active
//!   end of a pass -----> pass_ended
//! ```
//!
//! | | `vanilla` | `challenge` (2013) | `first_merged` (3.15) | `today` |
//! |---|---|---|---|---|
//! | clock counts | - | file pages | file pages | all pages |
//! | also activations by | - | access | access, refault | access, refault, scan |
//! | shadow packed | - | after counting | after counting | before |
//! | recent if | - | D <= active file | D <= active file | D <= W |
//! | reaction | - | challenges an active one | activated | activated |
//! | list low if | 50 % rule | 50 % rule, or owed | 50 % rule | ratio, or refaults |
//! | checked | each piece | each piece | each piece | each round |
//! | history limited | - | by each file's debt | - | - |
//!
//! The same in all: the costs of the types (as of today), the ratio for anonymous lists, and the
//! fate of a scanned folio. Only today's design repeats a pass with force. Each file names its
//! source.

mod challenge;
mod file_debts;
mod first_merged;
mod today;
mod vanilla;

pub use challenge::Challenge;
pub use file_debts::{FileDebts, ShadowShrinker};
pub use first_merged::FirstMerged;
pub use today::Today;
pub use vanilla::Vanilla;

use super::balance::{active_is_longer, inactive_is_low};
use super::cost::ReclaimCost;
use crate::folio::Flags;
use crate::ids::{MappingId, PageType};
use crate::lru::refault_distance::{ListPages, NonresidentAge};
use crate::lru::{Context, LruConfig, ShadowEntry};
use core::fmt;

/// The times of [`Design::may_deactivate`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeactivationCheck {
    /// At the start of each priority.
    EachRound,
    /// Before each piece of work.
    EachPiece,
}

/// A folio's page and flags at eviction or refault.
#[derive(Clone, Copy, Debug)]
pub struct FolioState {
    /// The file.
    pub mapping: MappingId,
    /// The folio's flags.
    pub flags: Flags,
}

/// The result of a refault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefaultVerdict {
    /// The shadow was deleted.
    Forgotten,
    /// Stays inactive.
    Stays,
    /// Would have fitted: becomes active.
    Activates,
    /// Would have fitted, and was active before.
    Restores,
}

/// The part of the two-list policy that differs between designs.
pub trait Design: fmt::Debug {
    /// The times of [`Design::may_deactivate`].
    const DEACTIVATION_CHECK: DeactivationCheck;
    /// True to repeat with force a direct pass that freed nothing and skipped an active list.
    const FORCES: bool;

    /// Creates the design for one lruvec.
    fn new(config: &LruConfig) -> Self;

    /// Creates the cost account.
    fn costs(config: &LruConfig) -> ReclaimCost {
        let _ = config;
        ReclaimCost::default()
    }

    /// Handles an eviction. Returns the shadow, if any.
    fn evicted(&mut self, subject: FolioState) -> Option<ShadowEntry>;

    /// Handles a refault with a `shadow` of this lruvec or another. `sizes` are the current list
    /// lengths. Also advances the clock if the page is to be activated.
    fn refault(
        &mut self,
        cx: &mut Context<'_>,
        subject: FolioState,
        shadow: ShadowEntry,
        sizes: ListPages,
    ) -> RefaultVerdict;

    /// Handles a refault judged by the clock that evicted the page. Called only if
    /// [`Design::is_recent`] returns an answer.
    fn refault_judged(&mut self, shadow: ShadowEntry, is_recent: bool) -> RefaultVerdict {
        let _ = (shadow, is_recent);
        RefaultVerdict::Stays
    }

    /// Returns true if a page evicted by this clock would have fitted among lists of `sizes`.
    /// `None`: the design judges only its own refaults.
    fn is_recent(
        &self,
        shadow: ShadowEntry,
        page_type: PageType,
        sizes: &ListPages,
    ) -> Option<bool> {
        let _ = (shadow, page_type, sizes);
        None
    }

    /// Returns the clock shared with ancestors, if any.
    fn clock(&self) -> Option<NonresidentAge> {
        None
    }

    /// Returns the same clock, to advance.
    fn clock_mut(&mut self) -> Option<&mut NonresidentAge> {
        None
    }

    /// Handles an activation by a second access.
    fn activated(&mut self, page_type: PageType);

    /// Handles a folio that returns from isolation to the active list.
    fn put_back_active(&mut self) {}

    /// Returns the list lengths for decisions.
    fn read(&self, cx: &Context<'_>, sizes: ListPages) -> ListPages {
        let _ = cx;
        sizes
    }

    /// Folds the statistics behind [`Design::read`].
    fn fold(&mut self, cx: &Context<'_>, sizes: ListPages) {
        let _ = (cx, sizes);
    }

    /// Returns true if a type's inactive list is too short. `read` is from [`Design::read`].
    fn is_low(&self, read: &ListPages, page_type: PageType) -> bool;

    /// Returns true if active folios of a type may be deactivated.
    fn may_deactivate(&self, cx: &Context<'_>, read: &ListPages, page_type: PageType) -> bool {
        let _ = cx;
        self.is_low(read, page_type)
    }

    /// Counts `nr` scanned folios of an active list.
    fn shrank_active(&mut self, page_type: PageType, nr: u64) {
        let _ = (page_type, nr);
    }

    /// Handles the end of a pass.
    fn pass_ended(&mut self, cx: &Context<'_>, sizes: ListPages) {
        let _ = (cx, sizes);
    }
}

/// Applies the rule before v4.7: at most half of the file pages are active. Anonymous pages have
/// the ratio.
fn is_low_before_ratio(read: &ListPages, page_type: PageType) -> bool {
    let (inactive, active) = (read.inactive[page_type.index()], read.active[page_type.index()]);
    match page_type {
        PageType::Anon => inactive_is_low(inactive, active),
        PageType::File => active_is_longer(inactive, active),
    }
}
