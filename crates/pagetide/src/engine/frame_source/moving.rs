//! Accesses of slow memory or of armed pages: latency, judgement, and promotion.
//!
//! ```text
//!   access --slow?--> wait --armed?--> core: stay | arm again | move --> lock, frame, copy, lists
//! ```
//!
//! Problem: most accesses hit fast memory. Idea: they pay one comparison. A page that cannot be
//! moved at once is served in place.
//!
//! Ignored: promotion without an access.

use crate::engine::frame_source::FrameSource;
use crate::engine::frame_source::reclaim::Reclaimer;
use crate::memory::locks::lock;
use pagetide_core::driver::{self, MovesPages, Tiered};
use pagetide_core::folio::{Flags, Folio};
use pagetide_core::ids::{CpuId, FrameId, NodeId};
use pagetide_core::lru::AccessPath;
use pagetide_core::tiering::{Headroom, HintFaultAction, Migration, Promotion};
use pagetide_core::units::Millis;
use pagetide_sys::{ClaimedFrame, Lock, PageHandle, PageRef, read_monotonic_ns};

impl FrameSource {
    /// Handles an access selected by [`Pages::is_slow`](crate::engine::pages::Pages::is_slow).
    /// Returns the frame of the page afterwards.
    #[cold]
    pub(crate) fn note_slow_access(
        &self,
        cpu: CpuId,
        page: PageRef<'_>,
        frame: FrameId,
        has_hint: bool,
    ) -> Option<FrameId> {
        let Some(action) = self.judge_access(cpu, page, frame, has_hint) else {
            return Some(frame);
        };
        if action == HintFaultAction::Move
            && let Ok(mut lock) = page.try_lock()
        {
            driver::promote(&mut self.reclaimer(cpu), &mut lock, frame);
        }
        // Reclaim for the move may have evicted the page itself.
        page.load().frame()
    }

    pub(crate) fn note_locked_access<H: PageHandle>(&self, cpu: CpuId, page: &mut Lock<H>) {
        let Some(frame) = page.frame() else { return };
        let has_hint = page.page().load().is_hint();
        if !self.pages.is_slow(frame, has_hint) {
            return;
        }
        if self.judge_access(cpu, page.page(), frame, has_hint) == Some(HintFaultAction::Move) {
            driver::promote(&mut self.reclaimer(cpu), page, frame);
        }
    }

    /// Adds the latency, judges the hint fault of an armed page, and arms it again if core decides
    /// so. Returns `None` without a fault, or if another thread handles it.
    fn judge_access(
        &self,
        cpu: CpuId,
        page: PageRef<'_>,
        frame: FrameId,
        has_hint: bool,
    ) -> Option<HintFaultAction> {
        self.pay_for_access(frame);
        if !has_hint || !page.test_and_clear_hint() {
            return None;
        }
        if let (true, Some(tiering)) = (self.has_workers, &self.tiering) {
            // Latencies may be shorter than a tick. Without worker threads time is the last tick,
            // so that runs are repeatable.
            tiering.set_now(Millis(read_monotonic_ns() / 1_000_000));
        }
        let action = driver::judge_fault(&mut self.reclaimer(cpu), frame);
        if action == HintFaultAction::Arm {
            page.set_hint();
        }
        Some(action)
    }

    fn pay_for_access(&self, frame: FrameId) {
        let Some(tiering) = &self.tiering else { return };
        let nth = self.pages.nodes.index_of(frame);
        if nth > 0 {
            tiering.count_served(nth);
        }
        tiering.wait_for(nth);
    }

    /// Moves a locked page and its state to another frame, and adds `flags` to the folio. Returns
    /// the claim on the old frame. The folio is then on no list.
    pub(crate) fn move_page<H: PageHandle>(
        &self,
        page: &mut Lock<H>,
        target: ClaimedFrame,
        flags: Flags,
    ) -> ClaimedFrame {
        let source = page.frame().expect("a page that moves is resident");
        let (from, to) = (&self.pages.folios[source], &self.pages.folios[target.frame()]);
        to.bind_moved(from, flags);
        if let Some(tiering) = &self.tiering {
            tiering.wait_for(self.pages.nodes.index_of(source));
            tiering.wait_for(self.pages.nodes.index_of(target.frame()));
        }
        page.relocate(target)
    }

    pub(super) fn free_claimed(&self, cpu: CpuId, claimed: ClaimedFrame) {
        let frame = self.pages.arena.release(claimed);
        self.pages.nodes.of(frame).frames.free(cpu, [frame]);
    }

    /// Allocates a frame on the demotion target, without reclaim.
    pub(crate) fn alloc_demoted(&self, cpu: CpuId, nth: usize) -> Option<ClaimedFrame> {
        let demotion = self.tiering.as_ref()?.demotion_from(nth)?;
        demotion.find_frame(|node, level| {
            self.pages.nodes.at(node.index()).frames.alloc(cpu, Some(level))
        })
    }
}

impl Tiered for Reclaimer<'_> {
    fn node_with(&self, frame: FrameId) -> NodeId {
        NodeId(self.source.pages.nodes.index_of(frame) as u8)
    }

    fn room(&self) -> Headroom {
        self.source.pages.nodes.first().frames.room()
    }

    fn lend_promotion<T>(
        &mut self,
        frame: FrameId,
        use_promotion: impl FnOnce(&mut Promotion, Millis, &Folio) -> T,
    ) -> Option<T> {
        let tiering = self.source.tiering.as_ref()?;
        let folio = &self.source.pages.folios[frame];
        Some(use_promotion(&mut lock(&tiering.promotion), tiering.now(), folio))
    }
}

impl<H: PageHandle> MovesPages<Lock<H>> for Reclaimer<'_> {
    fn frame_of(&self, page: &Lock<H>) -> Option<FrameId> {
        page.frame()
    }

    fn move_up(&mut self, page: &mut Lock<H>, target: ClaimedFrame) {
        let flags = self.source.pages.rule.flags_on_fill(AccessPath::Table);
        let left = self.source.move_page(page, target, flags);
        self.source.free_claimed(self.cpu, left);
    }

    fn note_moved(&mut self, _page: &Lock<H>, frame: FrameId, migration: Migration) {
        let pages = &self.source.pages;
        pages.nodes.of(frame).log_add(self.cpu, &pages.folios, frame);
        if let Some(recorder) = &pages.recorder {
            recorder.record(pages.folios[frame].page(), migration.into());
        }
    }

    fn arm(&mut self, page: &Lock<H>) {
        page.set_hint();
    }
}
