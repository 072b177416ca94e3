//! What an access of slow memory, or of an armed page, comes to: the wait, the judgement, the move.
//!
//! ```text
//!   access --slow?--> wait --armed?--> core: stay | arm again | move --> lock, frame, copy, lists
//! ```
//!
//! Problem: the access is over in nanoseconds, and most are of fast memory. Idea: those pay one
//! comparison; all others come here. A page that cannot be moved at once is served where it is.
//!
//! Ignored: moving pages without an access, other than down, which reclaim does.

use crate::engine::frame_source::FrameSource;
use crate::engine::tiering::Tiering;
use crate::memory::locks::lock;
use pagetide_core::folio::Flags;
use pagetide_core::ids::{CpuId, FrameId};
use pagetide_core::lru::AccessPath;
use pagetide_core::page_alloc::WatermarkLevel;
use pagetide_core::tiering::{HintFaultAction, Migration};
use pagetide_core::units::Millis;
use pagetide_sys::{ClaimedFrame, Lock, PageHandle, PageRef, read_monotonic_ns};

impl FrameSource {
    /// An access met a page for which [`Pages::is_slow`](crate::engine::pages::Pages::is_slow) says
    /// so: pays for slow memory, and judges the fault if the page was armed. Returns the frame the
    /// page is in when that is done.
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
            self.promote(cpu, &mut lock, frame);
        }
        // Room that was made for it may have been its own.
        page.load().frame()
    }

    /// As [`FrameSource::note_slow_access`], of a resident page that the caller has locked.
    pub(crate) fn note_locked_access<H: PageHandle>(&self, cpu: CpuId, page: &mut Lock<H>) {
        let Some(frame) = page.frame() else { return };
        let has_hint = page.page().load().is_hint();
        if !self.pages.is_slow(frame, has_hint) {
            return;
        }
        if self.judge_access(cpu, page.page(), frame, has_hint) == Some(HintFaultAction::Move) {
            self.promote(cpu, page, frame);
        }
    }

    /// Pays for the access, and has the fault judged if the page was armed; it is armed again where
    /// core says so. `None`: there was no fault, or another thread has it.
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
        let action = self.judge_fault(cpu, frame);
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

    /// Judges the fault on an armed page, whose hint the caller took.
    fn judge_fault(&self, cpu: CpuId, frame: FrameId) -> HintFaultAction {
        let Some(tiering) = &self.tiering else { return HintFaultAction::Stay };
        let is_fast = self.pages.nodes.index_of(frame) == 0;
        let (now, folio) = (self.fine_now(tiering), &self.pages.folios[frame]);
        let room = || self.pages.nodes.first().frames.room();
        let judged = lock(&tiering.promotion).judge_fault(now, folio, is_fast, room);
        if judged.wakes_reclaim {
            self.wake_background(cpu);
        }
        judged.action
    }

    /// The time of a hint fault: with worker threads what the clock says, as latencies may be
    /// shorter than a tick; without, what the last tick said, so that runs can be repeated.
    fn fine_now(&self, tiering: &Tiering) -> Millis {
        if self.has_workers {
            tiering.set_now(Millis(read_monotonic_ns() / 1_000_000));
        }
        tiering.now()
    }

    /// Moves the locked page from `frame` to the fast node, if it is there still and free to move.
    fn promote<H: PageHandle>(&self, cpu: CpuId, page: &mut Lock<H>, frame: FrameId) {
        let fast = self.pages.nodes.first();
        if page.frame() != Some(frame) || self.pages.folios[frame].flags().any(Flags::WRITEBACK) {
            return;
        }
        let Some(target) = fast.frames.alloc(cpu, Some(WatermarkLevel::High)) else { return };
        let source = self.pages.nodes.of(frame);
        if !source.lock_lists().whole_mut().withdraw(frame) {
            // A reclaim pass has it: that decides first.
            let unused = self.pages.arena.release(target);
            return fast.frames.free(cpu, [unused]);
        }
        // It came by a fault, of sorts.
        let left = self.move_page(page, target, self.pages.rule.flags_on_fill(AccessPath::Table));
        source.frames.free(cpu, [self.pages.arena.release(left)]);
        self.list_moved(cpu, page, Migration::Promotion);
        if let Some(tiering) = &self.tiering {
            lock(&tiering.promotion).count_promoted(1);
        }
        // Before the next finds none.
        if fast.frames.room().is_short() {
            self.wake_background(cpu);
        }
    }

    /// Moves a locked page and what is known of it to another frame, whose folio gets `flags`
    /// beside; returns the claim on the one it left. The folio is on no list afterwards.
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

    /// Hands the folio of a page that was moved to the lists of its node, and arms the page if core
    /// wants to know how soon it is touched there.
    pub(crate) fn list_moved<H: PageHandle>(
        &self,
        cpu: CpuId,
        page: &Lock<H>,
        migration: Migration,
    ) {
        let frame = page.frame().expect("a page that moved is resident");
        let node = self.pages.nodes.of(frame);
        node.lock_lists().whole_mut().moved_in(frame);
        node.log_add(cpu, &self.pages.folios, frame);
        if let Some(recorder) = &self.pages.recorder {
            recorder.record(self.pages.folios[frame].page(), migration.into());
        }
        let Some(tiering) = &self.tiering else { return };
        let folio = &self.pages.folios[frame];
        if lock(&tiering.promotion).arms_moved(tiering.now(), folio, migration) {
            page.set_hint();
        }
    }

    /// A frame of a node that pages are demoted to, without reclaim.
    pub(crate) fn alloc_demoted(&self, cpu: CpuId, nth: usize) -> Option<ClaimedFrame> {
        let demotion = self.tiering.as_ref()?.demotion_from(nth)?;
        demotion.find_frame(|node, level| {
            self.pages.nodes.at(node.index()).frames.alloc(cpu, Some(level))
        })
    }
}
