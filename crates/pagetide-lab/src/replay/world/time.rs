//! The world's time, and the due work at each check of the clock.
//!
//! ```text
//!   look:  tell the policy; fold if due; flush if due; let the background work; set the next look
//! ```

use super::{Counted, World, clock};
use crate::background::{self, Background, HasBackground};
use pagetide_core::folio::Flags;
use pagetide_core::units::Millis;

impl World<'_> {
    /// Returns the time since the start.
    pub fn now(&self) -> Millis {
        clock::millis(self.now_ns())
    }

    /// Advances the time to `now`, if later, without accesses. Due work and background reclaim run.
    ///
    /// In a recorded run's memory time stands still.
    pub fn advance_to(&mut self, now: Millis) {
        let has_time = !self.memory.repeats_the_run();
        if has_time && self.clock.advance(self.counted(), clock::nanos(now)) {
            self.look_at_the_clock();
        }
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.clock.now_ns(self.counted())
    }

    fn counted(&self) -> Counted {
        Counted { accesses: self.accesses, misses: self.misses }
    }

    #[cold]
    pub(super) fn look_at_the_clock(&mut self) {
        let now_ns = self.now_ns();
        self.nodes[0].lists.tell_time(clock::millis(now_ns));
        if self.clock.takes_fold(self.counted(), now_ns) {
            self.nodes[0].lists.fold_statistics();
        }
        if self.clock.takes_flush(now_ns) {
            self.flush();
        }
        background::run(self, now_ns);
        self.look_at = match self.background.is_awake() {
            true => self.accesses + 1,
            false => self.clock.next_look(self.counted()),
        };
    }

    pub(super) fn wake_background_thread(&mut self) {
        let now_ns = self.now_ns();
        if self.memory.has_background() && background::wake(self, now_ns) {
            self.look_at = self.look_at.min(self.accesses);
        }
    }

    /// Dirties the page of this rank until the flusher runs.
    pub(super) fn write(&mut self, rank: u32) {
        let Some(frame) = self.frame_of(rank) else { return };
        if !self.folios[frame].flags().any(Flags::DIRTY) {
            self.folios[frame].set(Flags::DIRTY);
            self.dirty.push(rank);
        }
    }

    fn flush(&mut self) {
        for at in 0..self.dirty.len() {
            let rank = self.dirty[at];
            self.make_clean(rank);
        }
        self.dirty.clear();
    }

    /// Runs the flusher before the next access, after reclaim met more dirty than clean pages.
    pub(super) fn flush_soon(&mut self) {
        let now_ns = self.now_ns();
        self.clock.wake_flusher(now_ns);
        self.look_at = self.look_at.min(self.accesses);
    }
}

impl HasBackground for World<'_> {
    fn background(&mut self) -> &mut Background {
        &mut self.background
    }
}
