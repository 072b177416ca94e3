//! Two lists per type: the kernel's classic LRU, and its designs of refault detection.
//!
//! Problem: exact LRU costs a list operation per access and lets one scan over a large file flush
//! everything. But protecting what was used twice is not enough either: when the working set
//! changes, the protected pages must go although nothing presses on them.
//!
//! Idea: new pages have to prove themselves on an inactive list; a second access there makes them
//! active, where a scan cannot reach them. Evicted pages leave a shadow, and a page that returns
//! sooner than the active list is long ([`refault_distance`](crate::lru::refault_distance)) is made
//! active at once; each such refault also permits deactivating the oldest active folios, so the two
//! sets compete. That is today's design; what was different in earlier ones is in `design`, and the
//! picture is the same.
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
//! The parts, each small and pure but for the policy itself and its design:
//!
//! | file | decides |
//! |---|---|
//! | `scan` | one folio at an inactive or active tail |
//! | `balance` | inactive list low, permission to deactivate, shares of the types |
//! | `cost` | what the types have cost lately (by event, or in 7.3 by counter) |
//! | `round` | the order and the size of the pieces of work at one priority |
//! | `design` | history: what eviction leaves, what a return means, what may be deactivated |
//! | `lists` | nothing: the four lists |
//! | `capability` | nothing: what is offered beyond the base |
//! | `statistics` | nothing: what is read, and how old it is |
//! | `shrink` | nothing: does a piece of work on a list and keeps its account |
//!
//! Data and invariants: a listed folio is on the list its ACTIVE and ANON flags name. The
//! nonresident age moves on by one at each eviction, activation by access, activation by refault,
//! and return of an active folio from isolation (in today's design). Statistics are live unless the
//! lruvec is told otherwise: the kernel reads list sizes and refault counts from sums that are
//! folded every two seconds, which makes its decisions depend on a clock and a phase
//! ([`Statistics`](crate::lru::Statistics), file `statistics`). Live ones correspond to a kernel
//! whose statistics are read, and thereby folded, all the time. Measured against such a kernel
//! (6.18.15, hit ratios of ten pairs of a block or key-value trace and a size) they are 0.4 points
//! off on average and 1.6 at the worst; folding at every sixth pass instead, tried once, gave 0.1
//! and 0.4.
//!
//! Young bits are in the page tables, which are the world's: inactive victims that are young come
//! back refused, active folios are shown to the world ([`Progress::Look`]) before they are judged.
//! A page table reports one bit, so a folio is never young in more than one of them.
//!
//! Ignored: large folios, several zones, write-back by
//! reclaim (the flusher writes; dirty folios wait on the active list and return to the inactive
//! tail once clean), and how few free pages the machine has (the file type is never "tiny" here,
//! since a cache has a limit of its own and is reclaimed as a memory group is).
//!
//! Sources: the kernel's documented page reclaim and workingset design, as of 6.18; the classic LRU
//! specification, sections 1 to 7 and 10.

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
/// As first merged.
pub type ActiveInactive315 = TwoLists<FirstMerged>;
/// As first proposed.
pub type ActiveInactive2013 = TwoLists<Challenge>;
/// As it was before.
pub type ActiveInactiveVanilla = TwoLists<Vanilla>;

/// What a pass remembers at one priority: its round, and the piece that is out for trial.
#[derive(Debug, Default)]
pub struct TwoListsCursor {
    round: Option<Round>,
    piece: Option<Piece>,
}

impl ActiveInactive {
    /// The policy in a model of a machine with so many frames for each of those here.
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

    /// The second access of an inactive folio: [`AccessRule::mark`] has cleared REFERENCED.
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

    /// A direct pass that freed nothing while an active list was skipped is repeated with force, in
    /// designs that do so.
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
    /// Does what the return of a page means.
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
