//! LIRS: pages whose last two accesses lie close together stay, whatever came since.
//!
//! Problem: LRU asks when a page was last seen; a loop just longer than memory beats it. The
//! distance between the last two accesses (the inter-reference recency) says more.
//!
//! ```text
//!   stack S, by recency:   top  H h L L H h h L ... L  bottom (always L)      L: LIR, 99 %
//!   queue Q, residents:    newest H . . . H oldest --> victim                 H: HIR, 1 %
//!                                                                             h: HIR, evicted
//!   seen again in S: it becomes L, and the L at the bottom becomes an H outside S
//! ```
//!
//! Reading of the paper: HIR pages have 1 % of what memory holds ([`Held`]). Until there are as
//! many LIR pages as there may be, a page that comes in, or is seen again, becomes one. S holds at
//! most twice as many pages as memory, as later versions of its authors' code bound it; the page
//! evicted longest ago leaves first. The stack and its evicted pages are in arrays of this policy's
//! own, see [`RecencyStack`]: 48 bytes a frame.
//!
//! Frames are numbered from the lruvec's first, then come the ghosts' slots.
//!
//! Invariants: the bottom of S is a LIR page, or S is empty. [`Flags::LINK`] says what a resident
//! folio is; LIR folios are in S only, HIR folios in Q and perhaps in S. While a folio is isolated
//! its place in S is its ghost's: if its page is dropped meanwhile, only a ghost is left over.
//!
//! Do not use it where the working set shifts: LIR pages not needed any more leave only as fast
//! as others are seen twice while in S. Nor with hot pages seen only through guards, of which it
//! learns when it tries to evict them.
//! Source: Jiang and Zhang, "LIRS: an efficient low inter-reference recency set replacement policy
//! to improve buffer cache performance", SIGMETRICS 2002.

use super::held::Held;
use super::queue::must_stay;
use super::recency_stack::RecencyStack;
use crate::folio::{Flags, Folios};
use crate::ids::FrameId;
use crate::list::FolioList;
use crate::lru::capability::{AgesByTables, Capabilities, MovesBetweenNodes};
use crate::lru::{
    AccessPath, AccessRule, Context, LruConfig, LruPolicy, LruvecId, Progress, PutBack, Refusal,
    Scan, ShadowEntry, TOKEN_MASK, Victims,
};
use alloc::boxed::Box;
use alloc::vec;

/// HIR pages' share of memory, in percent.
const HIR_PERCENT: u32 = 1;
/// The stack's length, in memories; also for how many evictions ghosts are remembered.
const STACK_MEMORIES: u32 = 2;

/// What a resident folio is, in [`Flags::LINK`].
const HIR: u32 = 0;
/// A HIR folio that is in the stack too.
const HIR_STACKED: u32 = 1;
const LIR: u32 = 2;

/// No eviction has this number: a slot that holds it is not in the stack.
const NO_GHOST: u64 = u64::MAX;

/// Folios still to look at in this pass, HIR and LIR; set at its first batch.
#[derive(Debug, Default)]
pub struct LirsCursor {
    budget: Option<[u64; 2]>,
}

/// LIRS. Evicts one page a miss.
#[derive(Debug)]
pub struct Lirs {
    id: LruvecId,
    first_frame: FrameId,
    nr_frames: u32,
    held: Held,
    lir_max: u32,
    nr_lir: u32,
    /// Frames by their place; then the ghosts' slots.
    stack: RecencyStack,
    /// Resident HIR folios, the next victim at the old end.
    queue: FolioList,
    /// By slot: the number of the eviction whose ghost is in the stack, or [`NO_GHOST`].
    ghosts: Box<[u64]>,
    /// The oldest eviction whose ghost may still be in the stack, and the next one's number.
    oldest: u64,
    next: u64,
    /// By place, while it is isolated: its ghost's number, or [`NO_GHOST`].
    stand_ins: Box<[u64]>,
}

/// LIR pages that a memory of so many may have.
const fn lir_max_of(held: u32) -> u32 {
    let hir = held / 100 * HIR_PERCENT;
    held - if hir > 1 { hir } else { 1 }
}

impl Lirs {
    fn kind(folios: &Folios, frame: FrameId) -> u32 {
        folios[frame].flags().link()
    }

    fn set_kind(folios: &Folios, frame: FrameId, kind: u32) {
        folios[frame].update(|flags| Some(flags.with_link(kind)));
    }

    /// How many places after the first the frame is: its number in the stack.
    fn place(&self, frame: FrameId) -> u32 {
        frame.0 - self.first_frame.0
    }

    fn frame_at(&self, place: u32) -> FrameId {
        FrameId(self.first_frame.0 + place)
    }

    /// The number of the eviction whose ghost stands in for the isolated folio.
    fn stand_in(&mut self, frame: FrameId) -> &mut u64 {
        let place = self.place(frame);
        &mut self.stand_ins[place as usize]
    }

    /// Shares memory by what is held now; LIR pages over their share become HIR.
    fn follow_held(&mut self, folios: &Folios) {
        self.lir_max = lir_max_of(self.held.now());
        while self.nr_lir > self.lir_max
            && let Some(bottom) = self.take_bottom(folios)
        {
            self.queue.push_head(folios, bottom);
        }
        self.limit_stack();
    }

    fn slot(&self, eviction: u64) -> usize {
        (eviction % self.ghosts.len() as u64) as usize
    }

    /// The eviction's number in the stack.
    fn ghost_number(&self, eviction: u64) -> u32 {
        self.nr_frames + self.slot(eviction) as u32
    }

    fn is_remembered(&self, eviction: u64) -> bool {
        eviction != NO_GHOST && self.ghosts[self.slot(eviction)] == eviction
    }

    /// A new ghost takes the place in the stack of a folio that leaves. Returns its number.
    fn leave_ghost(&mut self, frame: FrameId) -> u64 {
        if self.next - self.oldest == self.ghosts.len() as u64 {
            self.forget_oldest();
        }
        let eviction = self.next;
        self.next += 1;
        let slot = self.slot(eviction);
        self.ghosts[slot] = eviction;
        self.stack.replace(self.place(frame), self.ghost_number(eviction));
        eviction
    }

    fn forget_oldest(&mut self) {
        let eviction = self.oldest;
        self.oldest += 1;
        if self.is_remembered(eviction) {
            self.forget(eviction);
        }
    }

    /// Takes a ghost that is remembered out of the stack.
    fn forget(&mut self, eviction: u64) {
        self.stack.remove(self.ghost_number(eviction));
        let slot = self.slot(eviction);
        self.ghosts[slot] = NO_GHOST;
    }

    /// Keeps the stack within its length. Residents alone never exceed it.
    fn limit_stack(&mut self) {
        while self.stack.len() > STACK_MEMORIES * self.held.now() && self.oldest < self.next {
            self.forget_oldest();
        }
    }

    /// Removes what lies below the lowest LIR page.
    fn prune(&mut self, folios: &Folios) {
        while let Some(bottom) = self.stack.bottom() {
            if bottom >= self.nr_frames {
                self.ghosts[(bottom - self.nr_frames) as usize] = NO_GHOST;
            } else if Lirs::kind(folios, self.frame_at(bottom)) == LIR {
                return;
            } else {
                Lirs::set_kind(folios, self.frame_at(bottom), HIR);
            }
            self.stack.remove(bottom);
        }
    }

    /// Puts a folio that is nowhere on the top of the stack as LIR, in exchange for the bottom one
    /// if there are enough.
    fn enter_lir(&mut self, folios: &Folios, frame: FrameId) {
        Lirs::set_kind(folios, frame, LIR);
        self.stack.push(self.place(frame));
        self.nr_lir += 1;
        if self.nr_lir > self.lir_max
            && let Some(bottom) = self.take_bottom(folios)
        {
            self.queue.push_head(folios, bottom);
        }
        self.prune(folios);
    }

    /// Takes the LIR folio that was seen longest ago out of the stack; it is nowhere then, and HIR.
    fn take_bottom(&mut self, folios: &Folios) -> Option<FrameId> {
        let frame = self.frame_at(self.stack.bottom()?);
        debug_assert_eq!(Lirs::kind(folios, frame), LIR, "the bottom is a LIR page");
        self.unlink(folios, frame);
        Lirs::set_kind(folios, frame, HIR);
        Some(frame)
    }

    /// Takes a listed folio off everything.
    fn unlink(&mut self, folios: &Folios, frame: FrameId) {
        let kind = Lirs::kind(folios, frame);
        if kind != HIR {
            self.stack.remove(self.place(frame));
        }
        if kind == LIR {
            self.nr_lir -= 1;
            self.prune(folios);
        } else {
            self.queue.remove(folios, frame);
        }
    }

    /// The next folio to look at, off everything but, if it is HIR, the stack.
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

    /// Gives a folio that comes back its place in the stack, if its ghost still has it.
    fn readmit(&mut self, folios: &Folios, frame: FrameId) {
        let eviction = core::mem::replace(self.stand_in(frame), NO_GHOST);
        let is_stacked = self.is_remembered(eviction);
        if is_stacked {
            self.stack.replace(self.ghost_number(eviction), self.place(frame));
            let slot = self.slot(eviction);
            self.ghosts[slot] = NO_GHOST;
        }
        Lirs::set_kind(folios, frame, if is_stacked { HIR_STACKED } else { HIR });
        self.queue.push_head(folios, frame);
    }
}

impl LruPolicy for Lirs {
    type Cursor = LirsCursor;

    const ACCESS: AccessRule = AccessRule::LogEach;

    fn new(config: &LruConfig) -> Lirs {
        let nr_frames = config.nr_frames.max(1);
        let nr_ghosts = STACK_MEMORIES * nr_frames;
        Lirs {
            id: config.id,
            first_frame: config.first_frame,
            nr_frames,
            held: Held::new(nr_frames),
            lir_max: lir_max_of(nr_frames),
            nr_lir: 0,
            stack: RecencyStack::new(nr_frames + nr_ghosts),
            queue: FolioList::new(),
            ghosts: vec![NO_GHOST; nr_ghosts as usize].into(),
            oldest: 0,
            next: 0,
            stand_ins: vec![NO_GHOST; nr_frames as usize].into(),
        }
    }

    fn add(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        *self.stand_in(frame) = NO_GHOST;
        let is_recalled = cx.folios[frame].clear(Flags::ACTIVE).any(Flags::ACTIVE);
        if self.nr_lir < self.lir_max || is_recalled && self.lir_max > 0 {
            self.enter_lir(cx.folios, frame);
        } else {
            Lirs::set_kind(cx.folios, frame, HIR_STACKED);
            self.stack.push(self.place(frame));
            self.queue.push_head(cx.folios, frame);
            self.prune(cx.folios);
        }
        self.limit_stack();
    }

    fn touch(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        match Lirs::kind(cx.folios, frame) {
            LIR => {
                self.stack.remove(self.place(frame));
                self.stack.push(self.place(frame));
                self.prune(cx.folios);
            }
            HIR if self.nr_lir >= self.lir_max => {
                Lirs::set_kind(cx.folios, frame, HIR_STACKED);
                self.stack.push(self.place(frame));
                self.queue.move_to_head(cx.folios, frame);
                self.prune(cx.folios);
            }
            _ => {
                self.unlink(cx.folios, frame);
                self.enter_lir(cx.folios, frame);
            }
        }
        self.limit_stack();
    }

    /// A folio that became LIR since reclaim wanted it stays.
    fn rotate(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        if Lirs::kind(cx.folios, frame) != LIR {
            self.queue.remove(cx.folios, frame);
            self.queue.push_tail(cx.folios, frame);
        }
    }

    fn remove(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.unlink(cx.folios, frame);
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
        self.forget(self.next - age);
        cx.count_activation(page_type);
        cx.folios[frame].set(Flags::ACTIVE);
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
            if Lirs::kind(cx.folios, frame) == HIR_STACKED {
                *self.stand_in(frame) = self.leave_ghost(frame);
                Lirs::set_kind(cx.folios, frame, HIR);
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
        let eviction = core::mem::replace(self.stand_in(frame), NO_GHOST);
        self.is_remembered(eviction).then(|| ShadowEntry::new(eviction, self.id, false))
    }

    fn put_back(
        &mut self,
        cx: &mut Context<'_>,
        _scan: &mut Scan,
        _cursor: &mut LirsCursor,
        frame: FrameId,
        refusal: Refusal,
    ) -> PutBack {
        self.readmit(cx.folios, frame);
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
        let (mut nr_lir, mut nr_stacked, mut nr_ghosts) = (0, 0, 0);
        for number in self.stack.iter() {
            if number >= self.nr_frames {
                let eviction = self.ghosts[(number - self.nr_frames) as usize];
                assert!(self.is_remembered(eviction), "a ghost that is not in the stack");
                nr_ghosts += 1;
                continue;
            }
            match Lirs::kind(folios, self.frame_at(number)) {
                LIR => nr_lir += 1,
                kind => {
                    assert_eq!(kind, HIR_STACKED, "{} in the stack", self.frame_at(number));
                    assert!(nr_lir > 0, "the bottom of the stack is not a LIR page");
                    nr_stacked += 1;
                }
            }
        }
        assert_eq!(nr_lir, self.nr_lir, "LIR folios");
        let is_stacked = |frame: &FrameId| Lirs::kind(folios, *frame) == HIR_STACKED;
        assert_eq!(self.queue.iter(folios).filter(is_stacked).count(), nr_stacked, "HIR, stacked");
        let nr_remembered = self.ghosts.iter().filter(|eviction| **eviction != NO_GHOST).count();
        assert_eq!(nr_remembered, nr_ghosts, "ghosts remembered and stacked");
    }
}

impl Capabilities for Lirs {
    fn tables(&mut self) -> Option<&mut dyn AgesByTables> {
        Some(self)
    }

    fn moves(&mut self) -> Option<&mut dyn MovesBetweenNodes> {
        Some(self)
    }
}

impl AgesByTables for Lirs {
    /// A folio seen young by a walk counts as touched.
    fn young(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.touch(cx, frame);
    }
}

impl MovesBetweenNodes for Lirs {
    /// The page has not left memory: its ghost would stand for nothing.
    fn demoted(&mut self, _cx: &mut Context<'_>, frame: FrameId) {
        let eviction = core::mem::replace(self.stand_in(frame), NO_GHOST);
        if self.is_remembered(eviction) {
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

    /// The ghosts left after one page of ten, in the stack as HIR, was taken.
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
        while lruvec.reclaim(&mut pass, &mut batch) != Step::Done {
            batch.victims_mut().iter_mut().for_each(|victim| victim.verdict = verdict);
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
