//! A trace renumbered: pages become ranks 0, 1, 2, ... in order of first appearance.
//!
//! **Problem.** Replays and judges look pages up at every access. With ranks a look-up is an array
//! index, and a trace of twelve million accesses fits 60 MB.
//!
//! **Idea.**
//!
//! ```text
//!   accesses:  Px70  Px9  Px70  Px3        ranks:  0  1  0  2
//!                                          pages:  [Px70, Px9, Px3]
//! ```
//!
//! **Data and invariants.** `ranks` and `kinds` are as long as each other; `times` too, unless it
//! is empty, because none are known. Times never go back. What a record notes between its entries
//! stands beside them, with the number of entries before it.
//!
//! **Ignored.** Threads, and what lies below a millisecond or beyond 49 days. At most 2^32 - 1
//! distinct pages.

use super::page_ranks::PageRanks;
use super::{Access, AccessKind, Note, Trace, TraceError};
use pagetide_core::ids::{MappingId, PageId, PageType};
use pagetide_core::units::Millis;
use std::mem::take;
use std::sync::mpsc::sync_channel;
use std::thread;

/// Entries whose pages are looked up together.
const BATCH: usize = 4096;
/// Batches that wait to be looked up, at the most.
const BATCHES_READY: usize = 4;

/// Keeps the items whose place says so.
fn retain<T>(items: &mut Vec<T>, is_kept: &[bool]) {
    let mut places = is_kept.iter();
    items.retain(|_| *places.next().expect("a place for each item"));
}

/// A whole trace in memory, renumbered. Shape: one rank and one kind per entry, and one time where
/// the trace has times.
#[derive(Clone, Debug, Default)]
pub struct DenseTrace {
    ranks: Vec<u32>,
    kinds: Vec<AccessKind>,
    /// Milliseconds since the first entry.
    times: Vec<u32>,
    /// With how many entries are before each, ascending.
    notes: Vec<(u64, Note)>,
    /// The mappings whose pages are anonymous, ascending.
    anonymous: Vec<MappingId>,
    pages: PageRanks,
    nr_accesses: u64,
}

impl DenseTrace {
    /// Reads all of `accesses`.
    ///
    /// # Errors
    /// The first error of `accesses`.
    ///
    /// # Cost
    /// Five bytes an entry, plus [`PageRanks`].
    pub fn collect<E>(
        accesses: impl IntoIterator<Item = Result<Access, E>>,
    ) -> Result<DenseTrace, E> {
        let mut trace = DenseTrace::default();
        for access in accesses {
            trace.push(access?);
        }
        Ok(trace)
    }

    /// Reads all of `trace`, with its times and its kind of pages where it has them.
    ///
    /// # Errors
    /// The trace's first error.
    ///
    /// # Cost
    /// Five bytes an entry, nine with times, plus [`PageRanks`].
    pub fn read(trace: &mut Trace) -> Result<DenseTrace, TraceError> {
        let mut dense = DenseTrace::default();
        while dense.read_some(trace, usize::MAX)? > 0 {}
        dense.push_notes(trace.notes());
        Ok(dense)
    }

    /// Reads up to `nr_max` entries more and returns how many; fewer only at the end. What the
    /// trace notes after its last entry is left to the caller.
    ///
    /// # Errors
    /// The trace's first error; what came before it is there.
    ///
    /// # Cost
    /// As [`DenseTrace::read`]. Where there are many pages it is a third less than to push the
    /// entries one by one, as pages are looked up many at a time; and a second thread does that.
    pub fn read_some(&mut self, trace: &mut Trace, nr_max: usize) -> Result<usize, TraceError> {
        let (mut ranks, mut known) = (take(&mut self.ranks), take(&mut self.pages));
        let read = thread::scope(|scope| {
            let (found, batches) = sync_channel::<Vec<PageId>>(BATCHES_READY);
            scope.spawn(|| {
                batches.into_iter().for_each(|pages| known.append_ranks(&pages, &mut ranks));
            });
            let mut nr_read = 0;
            while nr_read < nr_max {
                let wanted = BATCH.min(nr_max - nr_read);
                let mut pages = Vec::with_capacity(wanted);
                let read = self.read_batch(trace, wanted, &mut pages);
                let nr_pages = pages.len();
                found.send(pages).expect("it takes all there are");
                nr_read += nr_pages;
                read?;
                if nr_pages < wanted {
                    break;
                }
            }
            Ok(nr_read)
        });
        (self.ranks, self.pages) = (ranks, known);
        read
    }

    /// The same, but for the ranks: the pages are the caller's to look up.
    fn read_batch(
        &mut self,
        trace: &mut Trace,
        wanted: usize,
        pages: &mut Vec<PageId>,
    ) -> Result<(), TraceError> {
        while pages.len() < wanted
            && let Some(request) = trace.next_pages((wanted - pages.len()) as u64)
        {
            let request = request?;
            self.note_from(trace, request.mapping, request.kind, request.nr_pages as usize);
            (0..request.nr_pages).for_each(|nth| pages.push(request.page_at(nth)));
        }
        Ok(())
    }

    /// Appends the entry that `trace` has just given, at its time and with its type of page, and
    /// the notes before it.
    pub fn push_from(&mut self, trace: &Trace, access: Access) {
        self.note_from(trace, access.page.mapping, access.kind, 1);
        self.ranks.push(self.pages.rank_of(access.page));
    }

    /// The same for some pages, but for their ranks.
    #[inline]
    fn note_from(&mut self, trace: &Trace, mapping: MappingId, kind: AccessKind, nr_pages: usize) {
        self.push_notes(trace.notes());
        if trace.page_type() == PageType::Anon {
            self.mark_anonymous(mapping);
        }
        self.note(kind, nr_pages, trace.time());
    }

    /// Appends notes, after the last entry so far.
    pub fn push_notes(&mut self, notes: &[Note]) {
        let nr_before = self.nr_entries();
        self.notes.extend(notes.iter().map(|note| (nr_before, *note)));
    }

    /// What a record notes between its entries, in order, each with the number of entries before
    /// it.
    pub fn notes(&self) -> &[(u64, Note)] {
        &self.notes
    }

    /// A trace of plain reads of pages 0, 1, ... of one mapping, for workloads made up on the spot.
    pub fn from_reads(indexes: impl IntoIterator<Item = u64>) -> DenseTrace {
        let mut trace = DenseTrace::default();
        for index in indexes {
            let page = PageId { index: pagetide_core::ids::PageIndex(index), ..PageId::default() };
            trace.push(Access { page, kind: AccessKind::Read, thread: 0 });
        }
        trace
    }

    /// Appends one entry.
    pub fn push(&mut self, access: Access) {
        self.note(access.kind, 1, None);
        self.ranks.push(self.pages.rank_of(access.page));
    }

    /// Appends so many entries, but for their ranks. Where their time is not known it is that of
    /// the entry before.
    #[inline]
    fn note(&mut self, kind: AccessKind, nr_entries: usize, time: Option<Millis>) {
        let nr_before = self.kinds.len();
        (0..nr_entries).for_each(|_| self.kinds.push(kind));
        self.nr_accesses += u64::from(kind.is_access()) * nr_entries as u64;
        if time.is_none() && self.times.is_empty() {
            return;
        }
        if self.times.len() < nr_before {
            self.times.resize(nr_before, 0);
        }
        let last = self.times.last().copied().unwrap_or(0);
        let time = time.map_or(last, |Millis(time)| u32::try_from(time).unwrap_or(u32::MAX));
        (0..nr_entries).for_each(|_| self.times.push(time.max(last)));
    }

    /// Appends one entry that happened at `time`. Entries before the first one with a time happened
    /// at 0; a time before the last one's counts as the last one's.
    pub fn push_at(&mut self, access: Access, time: Millis) {
        self.note(access.kind, 1, Some(time));
        self.ranks.push(self.pages.rank_of(access.page));
    }

    /// The entries' times, one each, ascending, in milliseconds; `None` when the trace has none.
    pub fn times(&self) -> Option<&[u32]> {
        (!self.times.is_empty()).then_some(&self.times)
    }

    /// From here on, and looking back, the pages of `mapping` are anonymous memory.
    pub fn mark_anonymous(&mut self, mapping: MappingId) {
        if let Err(at) = self.anonymous.binary_search(&mapping) {
            self.anonymous.insert(at, mapping);
        }
    }

    /// Whose page it is. A binary search over the anonymous mappings, of which most traces have
    /// none.
    pub fn page_type(&self, page: PageId) -> PageType {
        match self.anonymous.binary_search(&page.mapping) {
            Ok(_) => PageType::Anon,
            Err(_) => PageType::File,
        }
    }

    /// Forgets what comes after the first `nr_accesses` accesses. Their pages keep their ranks.
    pub fn truncate(&mut self, nr_accesses: u64) {
        let mut left = nr_accesses;
        let is_past = |kind: &AccessKind| {
            let is_past = left == 0;
            left -= u64::from(kind.is_access() && !is_past);
            is_past
        };
        if let Some(end) = self.kinds.iter().position(is_past) {
            self.ranks.truncate(end);
            self.kinds.truncate(end);
            self.times.truncate(end);
            self.notes.retain(|(nr_before, _)| *nr_before <= end as u64);
            self.nr_accesses = nr_accesses;
        }
    }

    /// Whether pages came before any access to them.
    pub fn has_readahead(&self) -> bool {
        self.kinds.iter().any(|kind| kind.is_unasked())
    }

    /// Forgets readahead, and what was read around misses: what is left is what was asked for. The
    /// pages keep their ranks.
    ///
    /// What a recorded run read ahead it read for its own misses. A replay in which it counts must
    /// give it to every policy alike, and one that asks which pages to keep gives it to none.
    pub fn drop_readahead(&mut self) {
        let is_kept: Vec<bool> = self.kinds.iter().map(|kind| !kind.is_unasked()).collect();
        let mut nr_kept_before = 0;
        let mut nr_seen = 0;
        for (nr_before, _) in &mut self.notes {
            let end = *nr_before as usize;
            nr_kept_before += is_kept[nr_seen..end].iter().filter(|kept| **kept).count() as u64;
            nr_seen = end;
            *nr_before = nr_kept_before;
        }
        retain(&mut self.ranks, &is_kept);
        retain(&mut self.kinds, &is_kept);
        retain(&mut self.times, &is_kept);
    }

    /// Every entry in order: the page's rank, and what happened to it.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = (u32, AccessKind)> + '_ {
        self.ranks.iter().copied().zip(self.kinds.iter().copied())
    }

    /// Every entry in order, in stretches of `len` (the last may be shorter): for callers that look
    /// up now and then.
    pub fn stretches(&self, len: usize) -> impl Iterator<Item = (&[u32], &[AccessKind])> {
        self.ranks.chunks(len).zip(self.kinds.chunks(len))
    }

    /// How many entries there are, accesses or not.
    pub fn nr_entries(&self) -> u64 {
        self.kinds.len() as u64
    }

    /// The entries that are accesses (readahead, fills, discards and the like left out), as ranks.
    pub fn access_ranks(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.entries().filter(|(_, kind)| kind.is_access()).map(|(rank, _)| rank)
    }

    /// The pages a recorded run evicted, in its order: what a replay of it should arrive at. Other
    /// traces have none.
    pub fn recorded_evictions(&self) -> impl Iterator<Item = PageId> + '_ {
        let evicted = self.entries().filter(|(_, kind)| *kind == AccessKind::Evict);
        evicted.map(|(rank, _)| self.page(rank))
    }

    /// The pages that a recorded run moved to slower memory (`Demote`) and to fast memory
    /// (`Promote`), in its order.
    pub fn recorded_moves(&self) -> impl Iterator<Item = (PageId, AccessKind)> + '_ {
        let is_move = |kind| matches!(kind, AccessKind::Demote | AccessKind::Promote);
        let moved = self.entries().filter(move |(_, kind)| is_move(*kind));
        moved.map(|(rank, kind)| (self.page(rank), kind))
    }

    /// The memory it takes now, in bytes.
    pub fn bytes_held(&self) -> u64 {
        let numbers = self.ranks.capacity() + self.times.capacity();
        let bytes = 4 * numbers
            + self.kinds.capacity()
            + self.pages.bytes_held()
            + self.notes.capacity() * size_of::<(u64, Note)>();
        bytes as u64
    }

    /// How many entries are accesses.
    pub fn nr_accesses(&self) -> u64 {
        self.nr_accesses
    }

    /// How many distinct pages there are; ranks are below it.
    pub fn nr_pages(&self) -> usize {
        self.pages.pages().len()
    }

    /// The page behind a rank.
    #[inline]
    pub fn page(&self, rank: u32) -> PageId {
        self.pages()[rank as usize]
    }

    /// The pages, by rank.
    pub(crate) fn pages(&self) -> &[PageId] {
        self.pages.pages()
    }
}
