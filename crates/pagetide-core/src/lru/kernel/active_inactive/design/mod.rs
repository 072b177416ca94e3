//! What differs between four designs of the two lists, a file for each.
//!
//! Problem: the kernel had refault detection never, then proposed in one form, merged in another,
//! and refined since. To see what each step brought they have to run side by side, on the same
//! lists, scans and rounds, without a test of the year in each of them.
//!
//! Idea: the engine asks its [`Design`] at seven places, and knows nothing else about it.
//!
//! ```text
//!   eviction ----------> evicted          what is left, and how the clock moves
//!   return ------------> refault          what that says about the lists
//!   second access -----> activated
//!   back from trial ---> put_back_active
//!   before a scan -----> may_deactivate   (read: the sizes it goes by)
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
//! Alike in all, though not in their times: the costs of the types (today's), the ratio for
//! anonymous lists, and what becomes of a scanned folio. Only today's repeats a pass with force.
//! Source: the classic LRU specification, section 10.

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

/// When [`Design::may_deactivate`] is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeactivationCheck {
    /// When the work of a priority begins.
    EachRound,
    /// Before each piece of it, with the lists as the last piece left them.
    EachPiece,
}

/// A folio's page, and what it was to the lists when it was evicted or came back.
#[derive(Clone, Copy, Debug)]
pub struct FolioState {
    /// The file.
    pub mapping: MappingId,
    /// The folio's flags.
    pub flags: Flags,
}

/// What a return means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefaultVerdict {
    /// The shadow is gone: nothing is known of the page.
    Forgotten,
    /// It would not have fitted, or stays inactive for other reasons.
    Stays,
    /// It would have fitted: to the active list.
    Activates,
    /// The same, and it was active before.
    Restores,
}

/// The part of the two-list policy that changed over the years.
pub trait Design: fmt::Debug {
    /// When [`Design::may_deactivate`] is asked.
    const DEACTIVATION_CHECK: DeactivationCheck;
    /// Whether a direct pass that freed nothing while an active list was skipped is repeated with
    /// force.
    const FORCES: bool;

    /// The design for one lruvec.
    fn new(config: &LruConfig) -> Self;

    /// How costs are kept, none so far.
    fn costs(config: &LruConfig) -> ReclaimCost {
        let _ = config;
        ReclaimCost::default()
    }

    /// A folio was evicted: what it leaves.
    fn evicted(&mut self, subject: FolioState) -> Option<ShadowEntry>;

    /// A page came back that had left `shadow`, in this lruvec or another; `sizes` are the lists'
    /// lengths now. If it is to be activated, that is counted here as one.
    fn refault(
        &mut self,
        cx: &mut Context<'_>,
        subject: FolioState,
        shadow: ShadowEntry,
        sizes: ListPages,
    ) -> RefaultVerdict;

    /// The same, where the clock that the page was evicted by, perhaps another lruvec's, has judged
    /// it. Only asked of designs that answer [`Design::is_recent`].
    fn refault_judged(&mut self, shadow: ShadowEntry, is_recent: bool) -> RefaultVerdict {
        let _ = (shadow, is_recent);
        RefaultVerdict::Stays
    }

    /// Whether a page that left `shadow` by this clock would have fitted among lists of `sizes`.
    /// `None`: the design judges returns to its own lruvec only.
    fn is_recent(
        &self,
        shadow: ShadowEntry,
        page_type: PageType,
        sizes: &ListPages,
    ) -> Option<bool> {
        let _ = (shadow, page_type, sizes);
        None
    }

    /// The clock that a group's ancestors share; none in designs older than they are.
    fn clock(&self) -> Option<NonresidentAge> {
        None
    }

    /// The same, to move on.
    fn clock_mut(&mut self) -> Option<&mut NonresidentAge> {
        None
    }

    /// A second access made a folio active.
    fn activated(&mut self, page_type: PageType);

    /// A folio went from isolation to the active list.
    fn put_back_active(&mut self) {}

    /// The lengths that decisions about balance go by.
    fn read(&self, cx: &Context<'_>, sizes: ListPages) -> ListPages {
        let _ = cx;
        sizes
    }

    /// Sums up what [`Design::read`] gives, if it is read late.
    fn fold(&mut self, cx: &Context<'_>, sizes: ListPages) {
        let _ = (cx, sizes);
    }

    /// Whether the inactive list of a type is too short; `read` is from [`Design::read`].
    fn is_low(&self, read: &ListPages, page_type: PageType) -> bool;

    /// Whether active folios of a type may be deactivated.
    fn may_deactivate(&self, cx: &Context<'_>, read: &ListPages, page_type: PageType) -> bool {
        let _ = cx;
        self.is_low(read, page_type)
    }

    /// So many folios of an active list were looked at.
    fn shrank_active(&mut self, page_type: PageType, nr: u64) {
        let _ = (page_type, nr);
    }

    /// A pass is over.
    fn pass_ended(&mut self, cx: &Context<'_>, sizes: ListPages) {
        let _ = (cx, sizes);
    }
}

/// The rule before v4.7: half of the file pages may be active; of the anonymous ones, more in large
/// memories.
fn is_low_before_ratio(read: &ListPages, page_type: PageType) -> bool {
    let (inactive, active) = (read.inactive[page_type.index()], read.active[page_type.index()]);
    match page_type {
        PageType::Anon => inactive_is_low(inactive, active),
        PageType::File => active_is_longer(inactive, active),
    }
}
