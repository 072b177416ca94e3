//! The face every replacement policy has.
//!
//! A policy owns lists and counters, and answers one question, "which folios next?", in batches. It
//! never frees anything: [`LruPolicy::isolate`] takes folios off its lists, the world tries to take
//! their frames and hands back, folio by folio, [`LruPolicy::evicted`] or [`LruPolicy::put_back`].
//!
//! All methods run under the lruvec's lock and may take time proportional to the folios they look
//! at, which [`Scan`] bounds; none blocks, allocates per call, or looks at the clock.

mod config;

pub use config::{LruConfig, Statistics};

use super::capability::Capabilities;
use super::{
    AccessPath, AccessRule, Context, DEF_PRIORITY, ReclaimKind, Refusal, Scan, ShadowEntry, Victims,
};
use crate::folio::Folios;
use crate::ids::FrameId;
use core::fmt;

/// What [`LruPolicy::isolate`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Progress {
    /// At least one victim is in the batch: try to evict them.
    Isolated,
    /// The same, and no other is looked for if all of them go.
    IsolatedAll,
    /// At least one victim is in the batch, only to learn whether it is young: all come back, as
    /// [`Refusal::Young`] or [`Refusal::Busy`].
    Look,
    /// Before going on, walk the page tables and report young pages
    /// ([`AgesByTables`](super::capability::AgesByTables)).
    WalkTables,
    /// Nothing more at this priority.
    Exhausted,
}

impl Progress {
    /// What a policy says that takes all victims it is going to in one batch.
    pub fn of_batch(victims: &Victims) -> Progress {
        if victims.is_empty() { Progress::Exhausted } else { Progress::IsolatedAll }
    }
}

/// What becomes of a refused victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum PutBack {
    /// It is on a list again.
    Listed,
    /// Try it once more, at once; it stays isolated.
    Retry,
}

/// How a pass goes about its work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PassPlan {
    /// Pages it should free.
    pub target: u64,
    /// The priority it starts at; each next one scans twice as much.
    pub priority: u8,
    /// Whether it looks at the pages beside a victim that was young.
    pub looks_around: bool,
}

impl PassPlan {
    /// As the kernel's: 32 pages unless another number is wanted, a part of the lists at first.
    pub fn by_priority(target: Option<u64>) -> PassPlan {
        let target = target.unwrap_or(32);
        PassPlan { target, priority: DEF_PRIORITY, looks_around: false }
    }

    /// As most papers have it: one page a miss unless another number is wanted, from all there are.
    pub fn page_by_page(target: Option<u64>) -> PassPlan {
        PassPlan { target: target.unwrap_or(1), priority: 0, looks_around: false }
    }
}

/// A replacement policy: what every one has. See the module for the contract, `conformance.rs` for
/// the test, and [`Capabilities`] for what some offer besides.
pub trait LruPolicy: Capabilities {
    /// What one reclaim pass remembers at one priority; a fresh one starts each priority.
    type Cursor: Default + fmt::Debug;

    /// How descriptor accesses are noted.
    const ACCESS: AccessRule;

    /// Builds the policy with empty lists.
    fn new(config: &LruConfig) -> Self
    where
        Self: Sized;

    /// How a pass of this kind begins; `target` is how many pages are wanted, if that is known.
    fn plan_pass(&self, kind: ReclaimKind, target: Option<u64>) -> PassPlan {
        let _ = kind;
        PassPlan::page_by_page(target)
    }

    /// Puts a new folio on a list, as its flags say now.
    fn add(&mut self, cx: &mut Context<'_>, frame: FrameId);

    /// A folio on its lists was accessed, says the log.
    fn touch(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        let _ = (cx, frame);
    }

    /// Moves a folio on its lists whose write-back ended to where it will be taken soon.
    fn rotate(&mut self, cx: &mut Context<'_>, frame: FrameId);

    /// Takes a folio off its lists for good; no shadow is left.
    fn remove(&mut self, cx: &mut Context<'_>, frame: FrameId);

    /// Judges a folio that returns: `shadow` is what its last eviction left. Sets flags that
    /// [`LruPolicy::add`] will see. The folio is on no list yet.
    fn refault(
        &mut self,
        cx: &mut Context<'_>,
        frame: FrameId,
        shadow: ShadowEntry,
        kind: AccessPath,
    ) {
        let _ = (cx, frame, shadow, kind);
    }

    /// Takes a bounded batch of victims off the lists ([`Victims::take`]), or says why not.
    /// Must end in [`Progress::Exhausted`] after finitely many calls at one priority.
    fn isolate(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut Self::Cursor,
        victims: &mut Victims,
    ) -> Progress;

    /// A victim's frame was taken: returns the shadow to leave in its place, if any.
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

    /// A victim's frame could not be taken. `PutBack::Retry` at most once a victim.
    fn put_back(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut Self::Cursor,
        frame: FrameId,
        refusal: Refusal,
    ) -> PutBack;

    /// The pass is over. `true` asks for one more round from the first priority with
    /// [`Scan::forced`] set; honoured once.
    fn end_pass(&mut self, cx: &mut Context<'_>, scan: &Scan, cursor: &mut Self::Cursor) -> bool {
        let _ = (cx, scan, cursor);
        false
    }

    /// Folios on the lists.
    fn nr_folios(&self) -> u64;

    /// Walks everything and panics where an invariant is broken. O(folios).
    fn validate(&self, folios: &Folios);
}
