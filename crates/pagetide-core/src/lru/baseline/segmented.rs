//! What policies of several lists and ghosts share; each is a [`SegmentRule`].
//!
//! Problem: 2Q, ARC, S3-FIFO and W-TinyLFU differ in which list gives up its oldest page, and in
//! what a hit and a return mean. Everything else (dirty, refused and unevictable folios, bounds,
//! shadow entries) is the same, and easy to get wrong.
//!
//! ```text
//!                  +--------- Segments (up to 3 lists) --------+
//!   admit --push-->| head ....................... tail         |-- victim_from --> spares? --+
//!                  | head ........... tail                     |                      |      |
//!                  +-------------------------------------------+ <--- to which list --+      |
//!   recall <------------- shadow: token and one class bit <--------------- leave <-----------+
//! ```
//!
//! Invariants: a listed folio's [`Flags::LINK`] is the number of its list. A ghost is recalled
//! once: when a pass makes room for its page, or else at the page's refault.
//!
//! The papers judge the page that comes in before they choose a victim. A pass that knows that
//! page ([`Scan::incoming`]) does so too; one that does not chooses as for a page never seen.
//!
//! Ignored: page types; every folio competes with every other. Source: the policies' own.

use super::queue::must_stay;
use crate::folio::{Flags, Folios};
use crate::ids::FrameId;
use crate::list::FolioList;
use crate::lru::capability::{AgesByTables, Capabilities, MovesBetweenNodes};
use crate::lru::{
    AccessPath, AccessRule, Context, LruConfig, LruPolicy, LruvecId, Marked, Progress, PutBack,
    Refusal, Scan, ShadowEntry, Victims,
};
use core::fmt;

/// The most lists a rule can have.
pub const SEGMENTS_MAX: usize = 3;

/// The lists, by number.
#[derive(Debug, Default)]
pub struct Segments {
    lists: [FolioList; SEGMENTS_MAX],
}

impl Segments {
    /// Folios on one list.
    pub fn len(&self, segment: usize) -> u64 {
        u64::from(self.lists[segment].len())
    }

    /// Folios on all of them.
    pub fn total(&self) -> u64 {
        (0..SEGMENTS_MAX).map(|segment| self.len(segment)).sum()
    }

    /// The oldest folio of a list.
    pub fn tail(&self, segment: usize) -> Option<FrameId> {
        self.lists[segment].tail()
    }

    /// Which list a folio is on, or was on before it was isolated.
    pub fn of(folios: &Folios, frame: FrameId) -> usize {
        folios[frame].flags().link() as usize
    }

    /// Adds a folio that is on no list at a list's young end.
    pub fn push(&mut self, folios: &Folios, segment: usize, frame: FrameId) {
        folios[frame].update(|flags| Some(flags.with_link(segment as u32)));
        self.lists[segment].push_head(folios, frame);
    }

    /// Moves a listed folio to the young end of a list.
    pub fn shift(&mut self, folios: &Folios, segment: usize, frame: FrameId) {
        self.unlink(folios, frame);
        self.push(folios, segment, frame);
    }

    fn unlink(&mut self, folios: &Folios, frame: FrameId) {
        self.lists[Segments::of(folios, frame)].remove(folios, frame);
    }
}

/// What an evicted page leaves: a token of its rule's, and one of two classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ghost {
    /// Less than `2^TOKEN_BITS`.
    pub token: u64,
    /// What the second class is, the rule says.
    pub is_second: bool,
}

/// What makes one segmented policy different from another.
pub trait SegmentRule: fmt::Debug {
    /// How accesses are noted.
    const ACCESS: AccessRule;
    /// How many looks a folio may need until it is a victim.
    const TURNS: u64;

    /// The rule for a memory of so many frames, at least one.
    fn new(nr_frames: u64) -> Self;

    /// Puts a new folio on a list. `is_recalled`: [`SegmentRule::recall`] said so of its ghost.
    fn admit(
        &mut self,
        segments: &mut Segments,
        folios: &Folios,
        frame: FrameId,
        is_recalled: bool,
    );

    /// A logged access to a listed folio.
    fn touch(&mut self, segments: &mut Segments, folios: &Folios, frame: FrameId) {
        let _ = (segments, folios, frame);
    }

    /// Whether the ghost is remembered; it no longer is.
    fn recall(&mut self, ghost: Ghost) -> bool {
        let _ = ghost;
        false
    }

    /// A pass begins, with so many folios on the lists.
    fn begin_pass(&mut self, nr_folios: u64) {
        let _ = nr_folios;
    }

    /// A pass ends, with so many left.
    fn end_pass(&mut self, nr_folios: u64) {
        let _ = nr_folios;
    }

    /// The page that comes in left no ghost, or is not known.
    fn expect_stranger(&mut self) {}

    /// Which list gives up its oldest folio. Where it has none to give, any other does.
    fn victim_from(&mut self, segments: &mut Segments, folios: &Folios) -> usize;

    /// The list to which a folio, just taken from an old end, goes instead of being a victim.
    fn spares(&mut self, folios: &Folios, frame: FrameId) -> Option<usize> {
        let _ = (folios, frame);
        None
    }

    /// A folio of this list, no longer counted in it, was evicted: what does it leave?
    fn leave(&mut self, segments: &Segments, from: usize) -> Option<Ghost> {
        let _ = (segments, from);
        None
    }

    /// A folio went to another node's memory: this one is full.
    fn demoted(&mut self) {}

    /// Panics where an invariant of the rule's own is broken.
    fn validate(&self, segments: &Segments) {
        let _ = segments;
    }
}

/// Looks left in this pass, list by list; set at its first batch.
#[derive(Debug, Default)]
pub struct SegmentedCursor {
    budget: Option<[u64; SEGMENTS_MAX]>,
}

/// A policy that is a few lists and a rule. Evicts one page a miss, as the papers define it.
#[derive(Debug)]
pub struct Segmented<R> {
    segments: Segments,
    rule: R,
    id: LruvecId,
    /// The shadow last recalled ahead of its refault, and what came of it.
    recalled: Option<(ShadowEntry, bool)>,
}

impl<R: SegmentRule> Segmented<R> {
    fn recall(&mut self, shadow: ShadowEntry) -> bool {
        self.rule.recall(Ghost { token: shadow.token(), is_second: shadow.workingset() })
    }

    /// Judges the page a pass makes room for, once, before a victim is chosen.
    fn expect(&mut self, incoming: Option<ShadowEntry>) {
        match incoming {
            None => self.rule.expect_stranger(),
            Some(shadow) => {
                if self.recalled.is_none_or(|(other, _)| other != shadow) {
                    self.recalled = Some((shadow, self.recall(shadow)));
                }
            }
        }
    }

    /// Takes the folio to look at next off its list, or `None` when all looks are used up.
    fn next(&mut self, folios: &Folios, budget: &mut [u64; SEGMENTS_MAX]) -> Option<FrameId> {
        let preferred = self.rule.victim_from(&mut self.segments, folios);
        let from = core::iter::once(preferred)
            .chain(0..SEGMENTS_MAX)
            .find(|segment| budget[*segment] > 0 && self.segments.len(*segment) > 0)?;
        budget[from] -= 1;
        self.segments.lists[from].pop_tail(folios)
    }

    /// A folio on the lists turned out to have been accessed.
    fn mark(&mut self, folios: &Folios, frame: FrameId) {
        if R::ACCESS.mark(folios, frame) == Marked::Log {
            self.rule.touch(&mut self.segments, folios, frame);
        }
    }
}

impl<R: SegmentRule> LruPolicy for Segmented<R> {
    type Cursor = SegmentedCursor;

    const ACCESS: AccessRule = R::ACCESS;

    fn new(config: &LruConfig) -> Segmented<R> {
        let rule = R::new(u64::from(config.nr_frames.max(1)));
        Segmented { segments: Segments::default(), rule, id: config.id, recalled: None }
    }

    fn add(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        let is_recalled = cx.folios[frame].clear(Flags::ACTIVE).any(Flags::ACTIVE);
        self.rule.admit(&mut self.segments, cx.folios, frame, is_recalled);
    }

    fn touch(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.rule.touch(&mut self.segments, cx.folios, frame);
    }

    fn rotate(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.segments.unlink(cx.folios, frame);
        self.segments.lists[Segments::of(cx.folios, frame)].push_tail(cx.folios, frame);
    }

    fn remove(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.segments.unlink(cx.folios, frame);
    }

    fn refault(
        &mut self,
        cx: &mut Context<'_>,
        frame: FrameId,
        shadow: ShadowEntry,
        _kind: AccessPath,
    ) {
        let page_type = cx.flags(frame).page_type();
        cx.count_refault(page_type);
        let is_recalled = match self.recalled.take() {
            Some((recalled, outcome)) if recalled == shadow => outcome,
            _ => self.recall(shadow),
        };
        if is_recalled {
            cx.count_activation(page_type);
            cx.folios[frame].set(Flags::ACTIVE);
        }
    }

    fn isolate(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut SegmentedCursor,
        victims: &mut Victims,
    ) -> Progress {
        if cursor.budget.is_none() {
            self.expect(scan.incoming);
            self.rule.begin_pass(self.segments.total());
        }
        let lens = core::array::from_fn(|segment| R::TURNS * self.segments.len(segment));
        let budget = cursor.budget.get_or_insert(lens);
        let wanted = scan.nr_victims_wanted();
        while victims.len() < wanted {
            let Some(frame) = self.next(cx.folios, budget) else { break };
            scan.count_scanned(1);
            let from = Segments::of(cx.folios, frame);
            if must_stay(cx, scan, frame) {
                self.segments.push(cx.folios, from, frame);
            } else if let Some(to) = self.rule.spares(cx.folios, frame) {
                budget[to] += if to == from { 0 } else { R::TURNS };
                self.segments.push(cx.folios, to, frame);
            } else {
                victims.take(cx.folios, frame);
            }
        }
        Progress::of_batch(victims)
    }

    fn evicted(
        &mut self,
        cx: &mut Context<'_>,
        _scan: &mut Scan,
        _cursor: &mut SegmentedCursor,
        frame: FrameId,
    ) -> Option<ShadowEntry> {
        let ghost = self.rule.leave(&self.segments, Segments::of(cx.folios, frame))?;
        Some(ShadowEntry::new(ghost.token, self.id, ghost.is_second))
    }

    fn put_back(
        &mut self,
        cx: &mut Context<'_>,
        _scan: &mut Scan,
        _cursor: &mut SegmentedCursor,
        frame: FrameId,
        refusal: Refusal,
    ) -> PutBack {
        self.segments.push(cx.folios, Segments::of(cx.folios, frame), frame);
        match refusal {
            Refusal::Young => self.mark(cx.folios, frame),
            Refusal::Dirty => {
                cx.folios[frame].set(Flags::RECLAIM);
            }
            Refusal::Busy => {}
        }
        PutBack::Listed
    }

    fn end_pass(
        &mut self,
        _cx: &mut Context<'_>,
        _scan: &Scan,
        _cursor: &mut SegmentedCursor,
    ) -> bool {
        self.rule.end_pass(self.segments.total());
        false
    }

    fn nr_folios(&self) -> u64 {
        self.segments.total()
    }

    fn validate(&self, folios: &Folios) {
        for (segment, list) in self.segments.lists.iter().enumerate() {
            list.validate(folios);
            for frame in list.iter(folios) {
                let flags = folios[frame].flags();
                assert!(flags.any(Flags::ON_LIST), "{frame} listed but not flagged");
                assert_eq!(flags.link() as usize, segment, "{frame} is on another list");
            }
        }
        self.rule.validate(&self.segments);
    }
}

impl<R: SegmentRule> Capabilities for Segmented<R> {
    fn tables(&mut self) -> Option<&mut dyn AgesByTables> {
        Some(self)
    }

    fn moves(&mut self) -> Option<&mut dyn MovesBetweenNodes> {
        Some(self)
    }
}

impl<R: SegmentRule> AgesByTables for Segmented<R> {
    /// A folio seen young by a walk counts as touched.
    fn young(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.mark(cx.folios, frame);
    }
}

impl<R: SegmentRule> MovesBetweenNodes for Segmented<R> {
    fn demoted(&mut self, _cx: &mut Context<'_>, _frame: FrameId) {
        self.rule.demoted();
    }
}
