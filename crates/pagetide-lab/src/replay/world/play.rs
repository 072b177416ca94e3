//! Plays a trace: entries, and the notes of a recorded run between entries.
//!
//! ```text
//!   stretch    [ entries ... ] look    [ entries ... ] look    ...
//!   timed      the same, in groups that happened in one millisecond
//!   noted      the same, one by one, with the notes that stand before each
//! ```

use super::World;
use crate::trace::{AccessKind, Note};
use pagetide_core::units::Millis;

/// Entries between two calls of `keep_on`.
const STRETCH: usize = 1 << 16;

impl World<'_> {
    /// Plays the whole trace. `keep_on` gets the number of entries since its last call, some ten
    /// thousands, and ends the play with `false` by returning `false`.
    pub fn play(&mut self, mut keep_on: impl FnMut(u64) -> bool) -> bool {
        self.play_by(STRETCH, |_, entries| keep_on(entries))
    }

    /// Plays like [`World::play`], and calls `look` with the world after at most `len` entries.
    pub fn play_by(&mut self, len: usize, mut look: impl FnMut(&Self, u64) -> bool) -> bool {
        self.play_stretches(len, &mut look)
    }

    /// Compiled once, in this crate. A generic function would be compiled again by each caller.
    fn play_stretches(&mut self, len: usize, look: &mut dyn FnMut(&Self, u64) -> bool) -> bool {
        let trace = self.trace;
        let mut notes = trace.notes();
        if !self.memory.repeats_the_run() {
            notes = &[];
        }
        let mut nr_played = 0;
        let mut times = trace.times().filter(|_| self.follows_trace).unwrap_or(&[]);
        for (ranks, kinds) in trace.stretches(len) {
            let (now, later) = times.split_at(times.len().min(ranks.len()));
            times = later;
            if !notes.is_empty() {
                self.play_noted(nr_played, ranks.iter().zip(kinds), &mut notes);
            } else if now.is_empty() {
                self.play_entries(ranks, kinds);
            } else {
                self.play_timed(ranks, kinds, now);
            }
            nr_played += ranks.len() as u64;
            if !look(self, ranks.len() as u64) {
                return false;
            }
        }
        notes.iter().for_each(|(_, note)| self.apply_note(note));
        true
    }

    fn play_noted<'e>(
        &mut self,
        nr_before: u64,
        entries: impl Iterator<Item = (&'e u32, &'e AccessKind)>,
        notes: &mut &[(u64, Note)],
    ) {
        for (at, (&rank, &kind)) in (nr_before..).zip(entries) {
            while let Some(((before, note), rest)) = notes.split_first()
                && *before <= at
            {
                self.apply_note(note);
                *notes = rest;
            }
            self.apply(rank, kind);
        }
    }

    fn play_timed(&mut self, mut ranks: &[u32], mut kinds: &[AccessKind], times: &[u32]) {
        for group in times.chunk_by(|one, next| one == next) {
            self.advance_to(Millis(group[0].into()));
            let (ranks_now, kinds_now);
            (ranks_now, ranks) = ranks.split_at(group.len());
            (kinds_now, kinds) = kinds.split_at(group.len());
            self.play_entries(ranks_now, kinds_now);
        }
    }
}
