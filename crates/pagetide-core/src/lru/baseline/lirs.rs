//! LIRS and LIRS2: keep pages with a short distance between their last accesses.
//!
//! Problem: LRU fails on a loop slightly longer than memory. The distance between a page's last two
//! accesses predicts better, and the sum of the last two distances also if accesses go to and fro.
//!
//! ```text
//!   stack S, accesses:     top  H h L L H h h L ... L  bottom (always L)      L: LIR, 99 %
//!   queue Q, residents:    newest H . . . H oldest --> victim                 H: HIR, 1 %
//!                                                                             h: HIR, evicted
//!   accessed again with the last access in S (LIRS2: the last two): becomes L, and the L at the
//!   bottom becomes an H
//! ```
//!
//! Reading of the first paper and the abstract of the second: HIR pages have 1 % of held memory
//! ([`Held`]). While there is room for LIR pages, an accessed page becomes LIR. As in the authors'
//! later code, S holds at most twice as many accesses as memory has pages (LIRS2: four times). A
//! frame has 48 bytes, LIRS2's 120.
//!
//! Invariants: the bottom of S belongs to a LIR page, or S is empty. [`Flags::LINK`] is the kind of
//! a resident folio. LIR folios are in S only, HIR folios in Q and possibly S. A ghost stands in S
//! for an isolated folio, and for a refaulted one not listed yet.
//!
//! Weak if the working set shifts, and on hot pages accessed only through guards. Source: Jiang and
//! Zhang, "LIRS: an efficient low inter-reference recency set replacement policy to improve buffer
//! cache performance", SIGMETRICS 2002; Zhong, Zhao and Jiang, "LIRS2: an improved LIRS replacement
//! algorithm", SYSTOR 2021.

use super::access_stack::AccessStack;
use super::held::Held;
use super::queue::must_stay;
use crate::folio::{Flags, Folios};
use crate::ids::FrameId;
use crate::list::FolioList;
use crate::lru::capability::Capabilities;
use crate::lru::{
    AccessPath, AccessRule, Context, LruConfig, LruPolicy, LruvecId, Progress, PutBack, Refusal,
    Scan, ShadowEntry, TOKEN_MASK, Victims,
};
use alloc::boxed::Box;
use alloc::vec;

/// The stack's length per distance, and the number of evictions remembered, in memories.
const STACK_MEMORIES: u32 = 2;

/// The kind of a folio, in [`Flags::LINK`].
const HIR: u32 = 0;
const LIR: u32 = 1;
/// A refaulted page with a ghost in the stack.
const RETURNED: u32 = 2;

const NO_GHOST: u64 = u64::MAX;

/// Remaining looks in this pass, HIR and LIR. Set at its first batch.
#[derive(Debug, Default)]
pub struct LirsCursor {
    budget: Option<[u64; 2]>,
}

/// LIRS by the distance between two accesses.
pub type Lirs = LirsBy<1>;
/// LIRS by the sum of the last two distances.
pub type Lirs2 = LirsBy<2>;

/// LIRS by the sum of `DISTANCES` distances. Evicts one page per miss.
#[derive(Debug)]
pub struct LirsBy<const DISTANCES: usize> {
    id: LruvecId,
    first_frame: FrameId,
    nr_frames: u32,
    held: Held,
    nr_lir: u32,
    /// Frames by their place, then the ghosts' slots.
    stack: AccessStack<DISTANCES>,
    /// Resident HIR folios, the next victim at the old end.
    queue: FolioList,
    /// By slot: eviction number of the ghost in the stack, or [`NO_GHOST`].
    ghosts: Box<[u64]>,
    /// `oldest`: the first eviction with a ghost possibly in the stack.
    oldest: u64,
    next: u64,
    /// By place, for isolated folios: the ghost's number, or [`NO_GHOST`].
    stand_ins: Box<[u64]>,
}

impl<const DISTANCES: usize> LirsBy<DISTANCES> {
    /// Accesses on the stack and remembered evictions, per page of memory.
    const HISTORY: u32 = STACK_MEMORIES * DISTANCES as u32;

    fn kind(folios: &Folios, frame: FrameId) -> u32 {
        folios[frame].flags().link()
    }

    fn set_kind(folios: &Folios, frame: FrameId, kind: u32) {
        folios[frame].update(|flags| Some(flags.with_link(kind)));
    }

    /// Returns the frame's index in the stack, counted from the first frame.
    fn place(&self, frame: FrameId) -> u32 {
        frame.0 - self.first_frame.0
    }

    fn frame_at(&self, place: u32) -> FrameId {
        FrameId(self.first_frame.0 + place)
    }

    fn stand_in(&mut self, frame: FrameId) -> &mut u64 {
        let place = self.place(frame);
        &mut self.stand_ins[place as usize]
    }

    fn take_stand_in(&mut self, frame: FrameId) -> Option<u64> {
        let eviction = core::mem::replace(self.stand_in(frame), NO_GHOST);
        self.is_remembered(eviction).then_some(eviction)
    }

    fn follow_held(&mut self, folios: &Folios) {
        self.limit_lir(folios);
        self.limit_stack();
    }

    fn slot(&self, eviction: u64) -> usize {
        (eviction % self.ghosts.len() as u64) as usize
    }

    fn ghost_number(&self, eviction: u64) -> u32 {
        self.nr_frames + self.slot(eviction) as u32
    }

    fn is_remembered(&self, eviction: u64) -> bool {
        eviction != NO_GHOST && self.ghosts[self.slot(eviction)] == eviction
    }

    /// Returns the number of the new ghost.
    fn leave_ghost(&mut self, frame: FrameId) -> u64 {
        if self.next - self.oldest == self.ghosts.len() as u64 {
            self.forget_oldest();
        }
        let eviction = self.next;
        self.next += 1;
        let slot = self.slot(eviction);
        self.ghosts[slot] = eviction;
        self.stack.rename(self.place(frame), self.ghost_number(eviction));
        eviction
    }

    fn forget_oldest(&mut self) {
        let eviction = self.oldest;
        self.oldest += 1;
        if self.is_remembered(eviction) {
            self.forget(eviction);
        }
    }

    fn forget(&mut self, eviction: u64) {
        self.stack.remove(self.ghost_number(eviction));
        let slot = self.slot(eviction);
        self.ghosts[slot] = NO_GHOST;
    }

    /// Limits the stack's length. Residents alone never exceed it.
    fn limit_stack(&mut self) {
        while self.stack.len() > Self::HISTORY * self.held.now() && self.oldest < self.next {
            self.forget_oldest();
        }
    }

    fn prune(&mut self, folios: &Folios) {
        while let Some(bottom) = self.stack.bottom() {
            let is_ghost = bottom >= self.nr_frames;
            if !is_ghost && Self::kind(folios, self.frame_at(bottom)) == LIR {
                return;
            }
            self.stack.pop_bottom();
            if is_ghost && !self.stack.holds(bottom) {
                self.ghosts[(bottom - self.nr_frames) as usize] = NO_GHOST;
            }
        }
    }

    fn enter(&mut self, folios: &Folios, frame: FrameId, is_lir: bool) {
        self.stack.push(self.place(frame));
        Self::set_kind(folios, frame, if is_lir { LIR } else { HIR });
        if is_lir {
            self.nr_lir += 1;
            self.limit_lir(folios);
        } else {
            self.queue.push_head(folios, frame);
        }
        self.prune(folios);
    }

    /// Returns all but 1 %.
    fn lir_max(&self) -> u32 {
        self.held.now() - (self.held.now() / 100).max(1)
    }

    fn limit_lir(&mut self, folios: &Folios) {
        while self.nr_lir > self.lir_max()
            && let Some(bottom) = self.take_bottom(folios)
        {
            self.queue.push_head(folios, bottom);
        }
    }

    /// Unlists the LIR folio at the bottom of the stack, as HIR.
    fn take_bottom(&mut self, folios: &Folios) -> Option<FrameId> {
        let frame = self.frame_at(self.stack.bottom()?);
        debug_assert_eq!(Self::kind(folios, frame), LIR, "the bottom is a LIR page");
        self.cease_lir(folios, frame);
        Some(frame)
    }

    fn cease_lir(&mut self, folios: &Folios, frame: FrameId) {
        Self::set_kind(folios, frame, HIR);
        self.nr_lir -= 1;
        self.prune(folios);
    }

    /// Returns the next candidate, unlinked except from the stack.
    fn next(&mut self, folios: &Folios, budget: &mut [u64; 2]) -> Option<FrameId> {
        let [hir, lir] = budget;
        if *hir > 0
            && let Some(frame) = self.queue.pop_tail(folios)
        {
            *hir -= 1;
            return Some(frame);
        }
        *lir = lir.checked_sub(1)?;
        self.take_bottom(folios)
    }

    fn readmit(&mut self, frame: FrameId) {
        if let Some(eviction) = self.take_stand_in(frame) {
            self.stack.rename(self.ghost_number(eviction), self.place(frame));
            self.forget(eviction);
        }
    }
}

impl<const DISTANCES: usize> LruPolicy for LirsBy<DISTANCES> {
    type Cursor = LirsCursor;

    const ACCESS: AccessRule = AccessRule::LogEach;

    fn new(config: &LruConfig) -> Self {
        let nr_frames = config.nr_frames.max(1);
        let nr_ghosts = Self::HISTORY * nr_frames;
        LirsBy {
            id: config.id,
            first_frame: config.first_frame,
            nr_frames,
            held: Held::new(nr_frames),
            nr_lir: 0,
            stack: AccessStack::new(nr_frames + nr_ghosts),
            queue: FolioList::new(),
            ghosts: vec![NO_GHOST; nr_ghosts as usize].into(),
            oldest: 0,
            next: 0,
            stand_ins: vec![NO_GHOST; nr_frames as usize].into(),
        }
    }

    fn add(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        if Self::kind(cx.folios, frame) == RETURNED {
            self.readmit(frame);
        } else {
            *self.stand_in(frame) = NO_GHOST;
        }
        let is_recalled = cx.folios[frame].clear(Flags::ACTIVE).any(Flags::ACTIVE);
        let is_lir = self.nr_lir < self.lir_max() || is_recalled && self.lir_max() > 0;
        self.enter(cx.folios, frame, is_lir);
        self.limit_stack();
    }

    fn touch(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        let place = self.place(frame);
        if Self::kind(cx.folios, frame) == LIR {
            self.stack.push(place);
            self.prune(cx.folios);
        } else {
            self.queue.remove(cx.folios, frame);
            let is_lir = self.nr_lir < self.lir_max() || self.stack.holds_all(place);
            self.enter(cx.folios, frame, is_lir);
        }
        self.limit_stack();
    }

    /// Keeps a folio that became LIR meanwhile.
    fn rotate(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        if Self::kind(cx.folios, frame) != LIR {
            self.queue.remove(cx.folios, frame);
            self.queue.push_tail(cx.folios, frame);
        }
    }

    fn remove(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.stack.remove(self.place(frame));
        if Self::kind(cx.folios, frame) == LIR {
            self.cease_lir(cx.folios, frame);
        } else {
            self.queue.remove(cx.folios, frame);
        }
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
        let age = self.next.wrapping_sub(shadow.token()) & TOKEN_MASK;
        if age == 0 || age > self.next || !self.is_remembered(self.next - age) {
            return;
        }
        let eviction = self.next - age;
        let is_near = self.stack.holds_all(self.ghost_number(eviction));
        let place = frame.0.wrapping_sub(self.first_frame.0);
        if place < self.nr_frames {
            *self.stand_in(frame) = eviction;
            Self::set_kind(cx.folios, frame, RETURNED);
        } else {
            // The page refaulted into another node's memory.
            self.forget(eviction);
        }
        if is_near {
            cx.count_activation(page_type);
            cx.folios[frame].set(Flags::ACTIVE);
        }
    }

    fn isolate(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut LirsCursor,
        victims: &mut Victims,
    ) -> Progress {
        if cursor.budget.is_none() {
            self.held.begin(self.nr_folios());
            self.follow_held(cx.folios);
        }
        let lens = [u64::from(self.queue.len()), u64::from(self.nr_lir)];
        let budget = cursor.budget.get_or_insert(lens);
        let wanted = scan.nr_victims_wanted();
        while victims.len() < wanted {
            let Some(frame) = self.next(cx.folios, budget) else { break };
            scan.count_scanned(1);
            if must_stay(cx, scan, frame) {
                self.queue.push_head(cx.folios, frame);
                continue;
            }
            if self.stack.holds(self.place(frame)) {
                *self.stand_in(frame) = self.leave_ghost(frame);
            }
            victims.take(cx.folios, frame);
        }
        Progress::of_batch(victims)
    }

    fn evicted(
        &mut self,
        _cx: &mut Context<'_>,
        _scan: &mut Scan,
        _cursor: &mut LirsCursor,
        frame: FrameId,
    ) -> Option<ShadowEntry> {
        self.take_stand_in(frame).map(|eviction| ShadowEntry::new(eviction, self.id, false))
    }

    fn put_back(
        &mut self,
        cx: &mut Context<'_>,
        _scan: &mut Scan,
        _cursor: &mut LirsCursor,
        frame: FrameId,
        refusal: Refusal,
    ) -> PutBack {
        self.readmit(frame);
        self.queue.push_head(cx.folios, frame);
        match refusal {
            Refusal::Young => self.touch(cx, frame),
            Refusal::Dirty => {
                cx.folios[frame].set(Flags::RECLAIM);
            }
            Refusal::Busy => {}
        }
        PutBack::Listed
    }

    fn end_pass(&mut self, cx: &mut Context<'_>, _scan: &Scan, _cursor: &mut LirsCursor) -> bool {
        self.held.end(self.nr_folios());
        self.follow_held(cx.folios);
        false
    }

    fn nr_folios(&self) -> u64 {
        u64::from(self.queue.len()) + u64::from(self.nr_lir)
    }

    fn validate(&self, folios: &Folios) {
        self.queue.validate(folios);
        self.stack.validate();
        let (frames, ghosts) = (0..self.nr_frames, self.nr_frames..);
        let is_lir = |number: u32| {
            number < self.nr_frames && Self::kind(folios, self.frame_at(number)) == LIR
        };
        assert!(self.stack.bottom().is_none_or(is_lir), "the bottom is not a LIR page's");
        let nr_lir = frames.filter(|number| self.stack.holds(*number) && is_lir(*number));
        assert_eq!(nr_lir.count(), self.nr_lir as usize, "LIR folios");
        assert!(self.queue.iter(folios).all(|frame| Self::kind(folios, frame) == HIR), "LIR in Q");
        for (number, eviction) in ghosts.zip(&self.ghosts) {
            let is_remembered = self.is_remembered(*eviction);
            assert_eq!(self.stack.holds(number), is_remembered, "ghost {number} of {eviction}");
        }
    }
}

impl<const DISTANCES: usize> Capabilities for LirsBy<DISTANCES> {
    fn young(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.touch(cx, frame);
    }

    /// Forgets the ghost: the page was not evicted.
    fn demoted(&mut self, _cx: &mut Context<'_>, frame: FrameId) {
        if let Some(eviction) = self.take_stand_in(frame) {
            self.forget(eviction);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{MappingId, PageId, PageIndex, PageType};
    use crate::lru::{AccessLog, Lruvec, Policy, PolicyName, ReclaimBatch, Verdict};
    use crate::reclaim::{ReclaimPass, Step};
    use alloc::sync::Arc;

    /// Returns the number of ghosts after one HIR page of ten left.
    fn nr_ghosts_after(verdict: Verdict) -> usize {
        let folios = Arc::new(Folios::new(10));
        let config = LruConfig::file_only(10);
        let mut lruvec = Lruvec::new(PolicyName::Lirs, &config, folios.clone());
        let mut log = AccessLog::new();
        for frame in (0..10).map(FrameId) {
            let page = PageId { mapping: MappingId(0), index: PageIndex(frame.0.into()) };
            folios[frame].bind(page, PageType::File, Flags::NONE);
            let _ = log.add(&folios, frame);
        }
        lruvec.drain(&mut log);
        let mut pass = ReclaimPass::background(&lruvec, 1);
        pass.scan.demotes = true;
        let mut batch = ReclaimBatch::new();
        while lruvec.isolate(&mut pass, &mut batch) != Step::Done {
            batch.victims_mut().iter_mut().for_each(|victim| victim.verdict = verdict);
            lruvec.settle(&mut pass, &mut batch);
        }
        assert_eq!(lruvec.nr_folios(), 9);
        lruvec.validate();
        let Policy::Lirs(lirs) = &lruvec.policy else { unreachable!("it was built as LIRS") };
        lirs.ghosts.iter().filter(|eviction| **eviction != NO_GHOST).count()
    }

    #[test]
    fn only_an_evicted_page_leaves_a_ghost() {
        assert_eq!(nr_ghosts_after(Verdict::Claimed), 1);
        assert_eq!(nr_ghosts_after(Verdict::Demoted), 0);
    }
}
