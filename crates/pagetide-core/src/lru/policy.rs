//! The face every replacement policy has.
//!
//! A policy owns lists and counters, and answers one question, "which folios next?", in batches. It
//! never frees anything: [`LruPolicy::isolate`] takes folios off its lists, the world tries to take
//! their frames and hands back, folio by folio, [`LruPolicy::evicted`] or [`LruPolicy::put_back`].
//!
//! All methods run under the lruvec's lock and may take time proportional to the folios they look
//! at, which [`Scan`] bounds; none blocks, allocates per call, or looks at the clock.

use super::capability::Capabilities;
use super::pagetide::Tuning;
use super::{AccessPath, AccessRule, Context, LruvecId, ShadowEntry, Switches};
use crate::folio::Folios;
use crate::ids::FrameId;
use crate::reclaim::{ReclaimKind, Scan, Victims};
use crate::units::Millis;
use core::fmt;

/// How old the statistics are that a policy decides on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Statistics {
    /// As things are: a kernel whose statistics are read, and thereby summed up, all the time.
    #[default]
    Live,
    /// As they were at the last [`Lruvec::fold_statistics`](super::Lruvec::fold_statistics), zero
    /// before the first: a kernel left alone, which sums up every two seconds. Only the two lists
    /// of today read such sums; other policies decide the same either way.
    Folded,
}

/// What a policy is told when it is built.
#[derive(Clone, Copy, Debug)]
pub struct LruConfig {
    /// Frames the lruvec can hold at most.
    pub nr_frames: u32,
    /// The lowest number among them; they follow each other.
    pub first_frame: FrameId,
    /// The lruvec's identity, for shadow entries.
    pub id: LruvecId,
    /// 0 to 200: how willing to evict anonymous folios. At 200 they always go first; 201 means
    /// anonymous only.
    pub swappiness: u8,
    /// Whether anonymous folios have anywhere to go.
    pub can_swap: bool,
    /// How long the multi-gen LRU keeps a generation at least; 0 asks for nothing.
    pub min_ttl: Millis,
    /// Which of the policy's mechanisms are on.
    pub switches: Switches,
    /// How old the statistics are that it decides on.
    pub statistics: Statistics,
    /// What one policy alone is told.
    pub own: PolicyConfig,
}

/// What one policy alone is told when it is built; all others are built as they ship.
#[derive(Clone, Copy, Default, Debug)]
pub enum PolicyConfig {
    /// Every policy as it ships.
    #[default]
    Usual,
    /// The constants of `pagetide`.
    Pagetide(Tuning),
    /// How large the machine is that `active-inactive` models.
    ActiveInactive {
        /// Frames of the machine that each frame here stands for. How long its inactive lists must
        /// be depends on how much memory there is in bytes.
        frames_stand_for: u32,
    },
}

impl PolicyConfig {
    /// The constants of `pagetide`.
    pub(super) fn tuning(&self) -> Tuning {
        match self {
            PolicyConfig::Pagetide(tuning) => *tuning,
            _ => Tuning::default(),
        }
    }

    /// Frames of the machine that each frame of `active-inactive` stands for.
    pub(super) const fn frames_stand_for(&self) -> u32 {
        match self {
            PolicyConfig::ActiveInactive { frames_stand_for } => *frames_stand_for,
            _ => 1,
        }
    }
}

impl LruConfig {
    /// A file-only lruvec: no swap, the usual swappiness.
    pub fn file_only(nr_frames: u32) -> LruConfig {
        LruConfig {
            nr_frames,
            first_frame: FrameId(0),
            id: LruvecId::default(),
            swappiness: 60,
            can_swap: false,
            min_ttl: Millis::default(),
            switches: Switches::default(),
            statistics: Statistics::default(),
            own: PolicyConfig::Usual,
        }
    }
}

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

/// Why the world could not take a victim's frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Its page word was young: accessed through a table since the last look (now cleared).
    Young,
    /// Pinned or locked.
    Busy,
    /// Dirty or under write-back.
    Dirty,
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
        PassPlan { target, priority: crate::reclaim::DEF_PRIORITY, looks_around: false }
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
