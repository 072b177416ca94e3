//! Two lists per type: the kernel's classic LRU and its designs of refault detection.
//!
//! Problem: exact LRU costs a list operation per access, and one scan of a large file evicts
//! everything. Protected pages must still go when the working set changes.
//!
//! Idea: new pages start on an inactive list, and a second access there activates them. A page that
//! refaults within the length of the active list
//! ([`refault_distance`](crate::lru::refault_distance)) becomes active at once, and permits
//! deactivating the oldest active folios. This is today's design. `design` has the earlier ones.
//!
//! ```text
//!    new, or returned too late         returned within W
//!             |                                |
//!             v  head                 tail     |
//!   inactive [ . . . . . . . . . . . . . ] ----|---> evicted, leaves a shadow
//!             ^       |  second access, or     |
//!             |       |  young twice           |
//!             |       v                        v
//!   active   [ . . . . . . . . . . . . . ] <---+
//!             |                       tail
//!             +--- deactivated (WORKINGSET): inactive list low, or a refault was activated
//! ```
//!
//! | file | content |
//! |---|---|
//! | `scan` | fate of one folio at an inactive or active tail |
//! | `balance` | inactive list low, shares of the types |
//! | `cost` | recent costs of the types (by event, or in 7.3 by counter) |
//! | `round` | order and size of the work pieces at one priority |
//! | `design` | shadows, refaults, permission to deactivate |
//! | `lists` | the four lists |
//! | `capability` | optional interfaces |
//! | `statistics` | live or folded statistics |
//! | `shrink` | execution of a work piece on a list, with its account |
//!
//! Data and invariants: a listed folio is on the list named by its ACTIVE and ANON flags. In
//! today's design the nonresident age advances at each eviction, activation, and return of an
//! active folio from isolation. [`Statistics`](crate::lru::Statistics) are live by default, as in a
//! kernel with constant readers. Against such a kernel (6.18.15, ten traces and sizes), hit ratios
//! are off by 0.4 points on average and 1.6 at most.
//!
//! Young bits are in the world's page tables. A young inactive victim comes back refused. The world
//! looks at active folios ([`Progress::Look`]) before their fate is decided.
//!
//! Ignored: large folios, several zones, write-back by reclaim (dirty folios wait on the active
//! list for the flusher and return to the inactive tail once clean), and few free pages of the
//! machine.
//!
//! Sources: Linux 6.18's page reclaim and workingset detection, described at the head of
//! `mm/workingset.c`.

mod balance;
mod capability;
mod cost;
mod design;
mod lists;
mod round;
mod scan;
mod shrink;
mod statistics;
#[cfg(test)]
mod tests;

pub use balance::{
    ModeInputs, ScanMode, active_is_longer, fractions, inactive_is_low, inactive_ratio,
    scan_targets,
};
pub use cost::ReclaimCost;
pub use design::{
    Challenge, DeactivationCheck, Design, FileDebts, FirstMerged, FolioState, RefaultVerdict,
    ShadowShrinker, Today, Vanilla,
};
pub use lists::{Activity, ListId};
pub use round::{Round, Work};
pub use scan::{InactiveFate, after_look, after_trial, inactive_fate};

use crate::folio::{Flags, Folios};
use crate::ids::{FrameId, PageType};
use crate::lru::{
    AccessPath, AccessRule, Context, LruConfig, LruPolicy, Mechanism, PassPlan, Progress, PutBack,
    RECLAIM_BATCH, ReclaimKind, Refusal, Scan, ShadowEntry, Switches, Victims,
};
use crate::vmstat::Counter;
use lists::FourLists;
use shrink::{Piece, protecting};

/// The two-list policy of one lruvec, in one of its designs.
#[derive(Debug)]
pub struct TwoLists<D> {
    lists: FourLists,
    cost: ReclaimCost,
    design: D,
    switches: Switches,
    swappiness: u8,
    can_swap: bool,
}

/// As of Linux 6.18.
pub type ActiveInactive = TwoLists<Today>;
/// As merged in v3.15.
pub type ActiveInactive315 = TwoLists<FirstMerged>;
/// As proposed in 2013.
pub type ActiveInactive2013 = TwoLists<Challenge>;
/// Without refault detection.
pub type ActiveInactiveVanilla = TwoLists<Vanilla>;

/// The state of a pass at one priority: its round, and the piece under trial.
#[derive(Debug, Default)]
pub struct TwoListsCursor {
    round: Option<Round>,
    piece: Option<Piece>,
}

impl ActiveInactive {
    /// Models a machine with `frames_stand_for` frames per frame.
    pub(in crate::lru) fn scaled(config: &LruConfig, frames_stand_for: u32) -> ActiveInactive {
        TwoLists { design: Today::scaled(config, frames_stand_for), ..TwoLists::new(config) }
    }
}

impl<D: Design> LruPolicy for TwoLists<D> {
    type Cursor = TwoListsCursor;

    const ACCESS: AccessRule = AccessRule::TwoTouches;

    fn new(config: &LruConfig) -> TwoLists<D> {
        TwoLists {
            lists: FourLists::default(),
            cost: D::costs(config),
            design: D::new(config),
            switches: config.switches,
            swappiness: config.swappiness,
            can_swap: config.can_swap,
        }
    }

    fn plan_pass(&self, _kind: ReclaimKind, target: Option<u64>) -> PassPlan {
        PassPlan::by_priority(target)
    }

    fn add(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.lists.push_head(cx.folios, frame);
    }

    /// Activates an inactive folio at its second access. [`AccessRule::mark`] has cleared
    /// REFERENCED.
    fn touch(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        let flags = cx.flags(frame);
        if !self.switches.has(Mechanism::Activation)
            || flags.any(Flags::ACTIVE.with(Flags::UNEVICTABLE))
        {
            return;
        }
        self.lists.remove(cx.folios, frame);
        cx.folios[frame].set(Flags::ACTIVE);
        self.lists.push_head(cx.folios, frame);
        self.design.activated(flags.page_type());
        cx.vmstat.count(Counter::Pgactivate);
    }

    fn rotate(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.lists.remove(cx.folios, frame);
        cx.folios[frame].clear(Flags::ACTIVE);
        self.lists.push_tail(cx.folios, frame);
    }

    fn remove(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.lists.remove(cx.folios, frame);
    }

    fn refault(
        &mut self,
        cx: &mut Context<'_>,
        frame: FrameId,
        shadow: ShadowEntry,
        _kind: AccessPath,
    ) {
        let subject = subject(cx, frame);
        let verdict = if self.switches.has(Mechanism::RefaultDistance) {
            self.design.refault(cx, subject, shadow, self.lists.sizes())
        } else {
            RefaultVerdict::Stays
        };
        self.react(cx, frame, verdict);
    }

    fn isolate(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut TwoListsCursor,
        victims: &mut Victims,
    ) -> Progress {
        loop {
            self.end_piece(scan, cursor);
            let round = cursor.round.get_or_insert_with(|| self.begin_round(cx, scan));
            if D::DEACTIVATION_CHECK == DeactivationCheck::EachPiece {
                round.permit(self.permission(cx, scan));
            }
            let piece = match round.next_work(scan) {
                Work::Scan(list, nr) => (list, nr),
                Work::AgeAnon if self.can_swap && self.is_anon_low(cx) => {
                    (ListId::new(PageType::Anon, Activity::Active), RECLAIM_BATCH)
                }
                Work::AgeAnon => continue,
                Work::Nothing => return Progress::Exhausted,
            };
            cursor.piece = Some(self.begin_piece(cx, scan, piece, victims));
            if !victims.is_empty() {
                return match piece.0.activity {
                    Activity::Inactive => Progress::Isolated,
                    Activity::Active => Progress::Look,
                };
            }
        }
    }

    fn evicted(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        _cursor: &mut TwoListsCursor,
        frame: FrameId,
    ) -> Option<ShadowEntry> {
        match (&mut scan.group.clock, self.design.clock()) {
            (Some(clock), Some(_)) => Some(clock.evict(cx.flags(frame).any(Flags::WORKINGSET))),
            _ => self.design.evicted(subject(cx, frame)),
        }
    }

    fn put_back(
        &mut self,
        cx: &mut Context<'_>,
        _scan: &mut Scan,
        cursor: &mut TwoListsCursor,
        frame: FrameId,
        refusal: Refusal,
    ) -> PutBack {
        if cx.flags(frame).any(Flags::ACTIVE) {
            let is_young = refusal == Refusal::Young;
            let judge = protecting(self.switches, |flags| after_look(flags, is_young));
            self.list_with(cx, frame, judge);
            if let Some(piece) = &mut cursor.piece {
                piece.nr_rotated += u64::from(cx.flags(frame).any(Flags::ACTIVE));
            }
        } else {
            let judge = protecting(self.switches, |flags| after_trial(flags, refusal));
            self.list_with(cx, frame, judge);
        }
        PutBack::Listed
    }

    /// Repeats a direct pass with force, in designs that do, if it freed nothing and skipped an
    /// active list.
    fn end_pass(
        &mut self,
        cx: &mut Context<'_>,
        scan: &Scan,
        _cursor: &mut TwoListsCursor,
    ) -> bool {
        self.design.pass_ended(cx, self.lists.sizes());
        D::FORCES && scan.kind == ReclaimKind::Direct && scan.reclaimed == 0 && scan.skipped
    }

    fn nr_folios(&self) -> u64 {
        self.sizes().total()
    }

    fn validate(&self, folios: &Folios) {
        self.lists.validate(folios);
    }
}

impl<D: Design> TwoLists<D> {
    fn react(&mut self, cx: &mut Context<'_>, frame: FrameId, verdict: RefaultVerdict) {
        if verdict == RefaultVerdict::Forgotten {
            return;
        }
        let page_type = cx.flags(frame).page_type();
        cx.count_refault(page_type);
        if verdict == RefaultVerdict::Stays {
            return;
        }
        cx.count_activation(page_type);
        cx.folios[frame].set(Flags::ACTIVE);
        if verdict == RefaultVerdict::Restores {
            cx.folios[frame].set(Flags::WORKINGSET);
            cx.count_restore(page_type);
            self.charge(page_type, 1, 0);
        }
    }
}

fn subject(cx: &Context<'_>, frame: FrameId) -> FolioState {
    FolioState { mapping: cx.folios[frame].page().mapping, flags: cx.flags(frame) }
}
