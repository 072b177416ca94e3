//! The interface of a replacement policy.
//!
//! A policy owns lists and counters, and chooses victims in batches. It never frees a frame.
//! [`LruPolicy::isolate`] takes folios off the lists, the world tries to take their frames, and
//! each folio comes back by [`LruPolicy::evicted`] or [`LruPolicy::put_back`], all under one lock.
//!
//! All methods run under the lruvec's lock. Their time is proportional to the folios scanned, which
//! [`Scan`] bounds. No method blocks, allocates per call, or reads a clock.

mod config;

pub use config::{LruConfig, Statistics};

use super::capability::Capabilities;
use super::{
    AccessPath, AccessRule, Context, DEF_PRIORITY, ReclaimKind, Refusal, Scan, ShadowEntry, Victims,
};
use crate::folio::Folios;
use crate::ids::FrameId;
use core::fmt;

/// The result of [`LruPolicy::isolate`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Progress {
    /// At least one victim to evict.
    Isolated,
    /// At least one victim to evict, and no more are needed if all are evicted.
    IsolatedAll,
    /// At least one victim, only to read its young bit. All come back as [`Refusal::Young`] or
    /// [`Refusal::Busy`].
    Look,
    /// Walk the page tables and report young pages first ([`Capabilities::start_walk`]).
    WalkTables,
    /// Nothing more at this priority.
    Exhausted,
}

impl Progress {
    /// Returns the result of a policy that takes all victims in one batch.
    pub fn of_batch(victims: &Victims) -> Progress {
        if victims.is_empty() { Progress::Exhausted } else { Progress::IsolatedAll }
    }
}

/// The fate of a refused victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum PutBack {
    /// Back on a list.
    Listed,
    /// Still isolated, to be tried once more at once.
    Retry,
}

/// The plan of a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PassPlan {
    /// Pages to free.
    pub target: u64,
    /// Start priority. Each next priority scans twice as much.
    pub priority: u8,
    /// True to read the pages around a young victim.
    pub looks_around: bool,
}

impl PassPlan {
    /// Plans as the kernel: 32 pages by default, from a part of the lists first.
    pub fn by_priority(target: Option<u64>) -> PassPlan {
        let target = target.unwrap_or(32);
        PassPlan { target, priority: DEF_PRIORITY, looks_around: false }
    }

    /// Plans as most papers: one page per miss by default, from the whole lists.
    pub fn page_by_page(target: Option<u64>) -> PassPlan {
        PassPlan { target: target.unwrap_or(1), priority: 0, looks_around: false }
    }
}

/// A replacement policy. The module states the contract, `conformance.rs` tests it, and
/// [`Capabilities`] has the optional methods.
pub trait LruPolicy: Capabilities {
    /// The state of a pass at one priority.
    type Cursor: Default + fmt::Debug;

    /// The way descriptor accesses are recorded.
    const ACCESS: AccessRule;

    /// Builds the policy with empty lists.
    fn new(config: &LruConfig) -> Self
    where
        Self: Sized;

    /// Plans a pass. `target` is the number of wanted pages, if known.
    fn plan_pass(&self, kind: ReclaimKind, target: Option<u64>) -> PassPlan {
        let _ = kind;
        PassPlan::page_by_page(target)
    }

    /// Puts a new folio on a list, by its current flags.
    fn add(&mut self, cx: &mut Context<'_>, frame: FrameId);

    /// Handles a logged access of a listed folio.
    fn touch(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        let _ = (cx, frame);
    }

    /// Moves a listed folio to the old end after its write-back.
    fn rotate(&mut self, cx: &mut Context<'_>, frame: FrameId);

    /// Removes a listed folio for good, without a shadow.
    fn remove(&mut self, cx: &mut Context<'_>, frame: FrameId);

    /// Handles the refault of an unlisted folio, with the `shadow` of its last eviction. Sets flags
    /// for [`LruPolicy::add`].
    fn refault(
        &mut self,
        cx: &mut Context<'_>,
        frame: FrameId,
        shadow: ShadowEntry,
        kind: AccessPath,
    ) {
        let _ = (cx, frame, shadow, kind);
    }

    /// Takes a bounded batch of victims off the lists ([`Victims::take`]). Must return
    /// [`Progress::Exhausted`] after finitely many calls at one priority.
    fn isolate(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut Self::Cursor,
        victims: &mut Victims,
    ) -> Progress;

    /// Handles an evicted victim. Returns its shadow, if any.
    fn evicted(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut Self::Cursor,
        frame: FrameId,
    ) -> Option<ShadowEntry> {
        let _ = (cx, scan, cursor, frame);
        None
    }

    /// Handles a refused victim. Returns `PutBack::Retry` at most once per victim.
    fn put_back(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut Self::Cursor,
        frame: FrameId,
        refusal: Refusal,
    ) -> PutBack;

    /// Ends the pass. `true` asks once for another round from the first priority with
    /// [`Scan::forced`] set.
    fn end_pass(&mut self, cx: &mut Context<'_>, scan: &Scan, cursor: &mut Self::Cursor) -> bool {
        let _ = (cx, scan, cursor);
        false
    }

    /// Counts the listed folios.
    fn nr_folios(&self) -> u64;

    /// Checks all invariants. Panics if one is broken. O(folios).
    fn validate(&self, folios: &Folios);
}
