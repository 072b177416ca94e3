//! Playing a trace: entry after entry, with a look at what comes next.
//!
//! Problem: the pages of a trace lie scattered in tables larger than the processor's cache, and the
//! entry at hand cannot go on before its page word is there. Idea: the trace knows the future, so
//! the words of the next entries are read together, before the first of them is played. A read
//! must wait; where the caller knows how to ask without waiting ([`World::play_fetching`]), folios
//! are asked for, and the words of the entries after these.
//!
//! ```text
//!   look ahead   64 page words and their folios, none waits for another
//!   apply        64 entries, each finds its word in the cache
//!
//!   ask ahead    [ folios of these 64 ][ words of the next 64 ]
//!   apply        64 entries
//! ```
//!
//! Where a recorded run is repeated, what it noted between its entries is heard there.
//!
//! Ignored: looking ahead from one millisecond into the next where the trace has times, and where
//! notes are heard.

use super::World;
use crate::trace::{AccessKind, Note};
use pagetide_core::ids::{FrameId, PageId};
use pagetide_core::units::Millis;
use std::hint::{black_box, select_unpredictable};

/// Entries played between two looks at whether to go on.
const STRETCH: usize = 1 << 16;
/// Entries whose pages are looked up together.
const AHEAD: usize = 64;

impl<Evicted: FnMut(PageId)> World<'_, Evicted> {
    /// Plays the whole trace. `keep_on` hears how many entries were played since it was asked last,
    /// some ten thousands; its `false` ends the play, which then returns `false`.
    pub fn play(&mut self, mut keep_on: impl FnMut(u64) -> bool) -> bool {
        self.play_by(STRETCH, |_, entries| keep_on(entries))
    }

    /// As [`World::play`], where the machine knows how to ask for memory ahead of its use, which is
    /// unsafe code: `fetch` starts bringing the line with this address into the processor's cache.
    /// A hint, for any address: it may do nothing, and changes nothing but time.
    pub fn play_fetching(
        &mut self,
        fetch: impl Fn(*const u8),
        mut keep_on: impl FnMut(u64) -> bool,
    ) -> bool {
        let ahead = |world: &Self, ranks: &[u32], later: &[u32]| {
            world.ask_ahead(ranks, later, &fetch);
        };
        self.play_stretches(STRETCH, ahead, |_, entries| keep_on(entries))
    }

    /// As [`World::play`], in stretches of at most `len` entries, after each of which `look` sees
    /// the world.
    ///
    /// # Panics
    /// When `len` is 0.
    pub fn play_by(&mut self, len: usize, look: impl FnMut(&Self, u64) -> bool) -> bool {
        self.play_stretches(len, |world, ranks, _| world.look_ahead(ranks), look)
    }

    /// `ahead` hears which ranks come next, and which after them.
    fn play_stretches(
        &mut self,
        len: usize,
        ahead: impl Fn(&Self, &[u32], &[u32]),
        mut look: impl FnMut(&Self, u64) -> bool,
    ) -> bool {
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
                self.play_at_once(ranks, kinds, &ahead);
            } else {
                self.play_timed(ranks, kinds, now, &ahead);
            }
            nr_played += ranks.len() as u64;
            if !look(self, ranks.len() as u64) {
                return false;
            }
        }
        notes.iter().for_each(|(_, note)| self.hear(note));
        true
    }

    /// Plays entries of which the first has `nr_before` before it, and those of the notes that
    /// stand before them.
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
                self.hear(note);
                *notes = rest;
            }
            self.apply(rank, kind);
        }
    }

    fn play_at_once(
        &mut self,
        ranks: &[u32],
        kinds: &[AccessKind],
        ahead: impl Fn(&Self, &[u32], &[u32]),
    ) {
        let mut later = ranks.chunks(AHEAD).skip(1);
        for (ranks, kinds) in ranks.chunks(AHEAD).zip(kinds.chunks(AHEAD)) {
            ahead(self, ranks, later.next().unwrap_or(&[]));
            self.play_entries(ranks, kinds);
        }
    }

    /// Reads what the entries of these ranks are going to read, many at a time, so that each finds
    /// it in the processor's cache: the page word, then the folio of a page that is there, and of
    /// an absent page its name.
    ///
    /// Whether a page is absent is what a branch cannot guess: there is none here.
    fn look_ahead(&self, ranks: &[u32]) {
        let (pages, folios, trace) = (&self.pages[..], &*self.folios, self.trace);
        let mut read = 0;
        for &rank in ranks {
            let page = pages[rank as usize];
            let is_here = page.is_resident();
            let absent = select_unpredictable(is_here, ranks[0], rank);
            let frame = select_unpredictable(is_here, page.payload(), 0);
            read ^= trace.page(absent).index.0 ^ folios[FrameId(frame)].flags().0;
        }
        black_box(read);
    }

    /// As [`World::look_ahead`], where the caller can ask without waiting for the answer.
    /// What to ask for is said by the words of these entries: so those of later ones are asked for,
    /// too.
    fn ask_ahead(&self, ranks: &[u32], later: &[u32], fetch: impl Fn(*const u8)) {
        let (words, names) = (self.pages.as_ptr(), self.trace.pages().as_ptr());
        let folios = self.folios.as_slice().as_ptr();
        for &rank in ranks {
            let page = self.pages[rank as usize];
            let folio = folios.wrapping_add(page.payload() as usize).cast();
            let name = names.wrapping_add(rank as usize).cast();
            fetch(select_unpredictable(page.is_resident(), folio, name));
        }
        for &rank in later {
            fetch(words.wrapping_add(rank as usize).cast());
        }
    }

    /// Plays entries that happened at these times, in groups that happened in the same millisecond.
    fn play_timed(
        &mut self,
        mut ranks: &[u32],
        mut kinds: &[AccessKind],
        times: &[u32],
        ahead: impl Fn(&Self, &[u32], &[u32]),
    ) {
        for group in times.chunk_by(|one, next| one == next) {
            self.advance_to(Millis(group[0].into()));
            let (ranks_now, kinds_now);
            (ranks_now, ranks) = ranks.split_at(group.len());
            (kinds_now, kinds) = kinds.split_at(group.len());
            self.play_at_once(ranks_now, kinds_now, &ahead);
        }
    }
}
