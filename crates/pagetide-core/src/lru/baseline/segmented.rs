//! Several lists and ghosts, shared by 2Q, ARC, S3-FIFO, Clock2Q+ and W-TinyLFU.
//!
//! Problem: dirty, refused and unevictable folios, bounds and shadow entries are the same in all.
//! Idea: a [`SegmentRule`] has only the differences.
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
//! once: when a pass makes room for its page ([`Scan::incoming`]), or else at the refault.
//!
//! Ignored: page types. Source: the policies' own.

use super::queue::must_stay;
use crate::folio::{Flags, Folios};
use crate::ids::FrameId;
use crate::list::FolioList;
use crate::lru::capability::Capabilities;
use crate::lru::{
    AccessPath, AccessRule, Context, LruConfig, LruPolicy, LruvecId, Marked, Progress, PutBack,
    Refusal, Scan, ShadowEntry, Victims,
};
use core::fmt;

/// Maximum number of lists.
pub const SEGMENTS_MAX: usize = 3;

/// The lists, by number.
#[derive(Debug, Default)]
pub struct Segments {
    lists: [FolioList; SEGMENTS_MAX],
}

impl Segments {
    /// Counts the folios on one list.
    pub fn len(&self, segment: usize) -> u64 {
        u64::from(self.lists[segment].len())
    }

    /// Counts the folios on all lists.
    pub fn total(&self) -> u64 {
        (0..SEGMENTS_MAX).map(|segment| self.len(segment)).sum()
    }

    /// Returns the oldest folio of a list.
    pub fn tail(&self, segment: usize) -> Option<FrameId> {
        self.lists[segment].tail()
    }

    /// Returns the list of a folio, also of an isolated one.
    pub fn of(folios: &Folios, frame: FrameId) -> usize {
        folios[frame].flags().link() as usize
    }

    /// Adds an unlisted folio at a list's young end.
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

/// The trace of an evicted page: a token of the rule, and one of two classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ghost {
    /// Less than `2^TOKEN_BITS`.
    pub token: u64,
    /// The second class, with a meaning defined by the rule.
    pub is_second: bool,
}

/// The rule of a segmented policy.
pub trait SegmentRule: fmt::Debug {
    /// The way accesses are recorded.
    const ACCESS: AccessRule;
    /// Maximum number of looks at a folio until it is a victim.
    const TURNS: u64;

    /// Creates the rule for a memory of `nr_frames` frames, at least one.
    fn new(nr_frames: u64) -> Self;

    /// Lists a new folio. `is_recalled` is the answer of [`SegmentRule::recall`] for its ghost.
    fn admit(
        &mut self,
        segments: &mut Segments,
        folios: &Folios,
        frame: FrameId,
        is_recalled: bool,
    );

    /// Handles a logged access to a listed folio.
    fn touch(&mut self, segments: &mut Segments, folios: &Folios, frame: FrameId) {
        let _ = (segments, folios, frame);
    }

    /// Removes the ghost. Returns true if it was remembered.
    fn recall(&mut self, ghost: Ghost) -> bool {
        let _ = ghost;
        false
    }

    /// Handles the start of a pass with `nr_folios` listed.
    fn begin_pass(&mut self, nr_folios: u64) {
        let _ = nr_folios;
    }

    /// Handles the end of a pass with `nr_folios` listed.
    fn end_pass(&mut self, nr_folios: u64) {
        let _ = nr_folios;
    }

    /// Handles an incoming page without a ghost, or not known.
    fn expect_stranger(&mut self) {}

    /// Returns the list to evict from. If it is exhausted, any other is used.
    fn victim_from(&mut self, segments: &mut Segments, folios: &Folios) -> usize;

    /// Returns the list that an unlinked candidate moves to instead of being a victim.
    fn spares(&mut self, folios: &Folios, frame: FrameId) -> Option<usize> {
        let _ = (folios, frame);
        None
    }

    /// Returns the ghost of an evicted folio of list `from`, if any. The folio is no longer counted
    /// in the list.
    fn leave(&mut self, segments: &Segments, from: usize) -> Option<Ghost> {
        let _ = (segments, from);
        None
    }

    /// Handles a demotion: memory is full.
    fn demoted(&mut self) {}

    /// Panics if an invariant of the rule is broken.
    fn validate(&self, segments: &Segments) {
        let _ = segments;
    }
}

/// Remaining looks in this pass, by list. Set at its first batch.
#[derive(Debug, Default)]
pub struct SegmentedCursor {
    budget: Option<[u64; SEGMENTS_MAX]>,
}

/// A policy of several lists and a rule. Evicts one page per miss, as in the papers.
#[derive(Debug)]
pub struct Segmented<R> {
    segments: Segments,
    rule: R,
    id: LruvecId,
    /// The shadow last recalled ahead of its refault, and the result.
    recalled: Option<(ShadowEntry, bool)>,
}

impl<R: SegmentRule> Segmented<R> {
    fn recall(&mut self, shadow: ShadowEntry) -> bool {
        self.rule.recall(Ghost { token: shadow.token(), is_second: shadow.workingset() })
    }

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

    /// Returns `None` when all looks are used up.
    fn next(&mut self, folios: &Folios, budget: &mut [u64; SEGMENTS_MAX]) -> Option<FrameId> {
        let preferred = self.rule.victim_from(&mut self.segments, folios);
        let from = core::iter::once(preferred)
            .chain(0..SEGMENTS_MAX)
            .find(|segment| budget[*segment] > 0 && self.segments.len(*segment) > 0)?;
        budget[from] -= 1;
        self.segments.lists[from].pop_tail(folios)
    }

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
    fn young(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.mark(cx.folios, frame);
    }

    fn demoted(&mut self, _cx: &mut Context<'_>, _frame: FrameId) {
        self.rule.demoted();
    }
}
