//! A renumbered trace: pages become ranks 0, 1, 2, ... in order of first appearance.
//!
//! **Problem.** Replays look up a page at every access. **Idea.** With ranks a look-up is an array
//! index, and twelve million accesses fit in 60 MB.
//!
//! ```text
//!   accesses:  Px70  Px9  Px70  Px3        ranks:  0  1  0  2
//!                                          pages:  [Px70, Px9, Px3]
//! ```
//!
//! **Data and invariants.** `ranks`, `kinds` and `times` have the same length, but `times` is empty
//! without times. Times never go back. Each note has the number of entries before.
//!
//! **Ignored.** Threads, fractions of a millisecond, and times beyond 49 days. At most 2^32 - 1
//! distinct pages.

use super::page_ranks::PageRanks;
use super::{Access, AccessKind, Note, Trace, TraceError};
use pagetide_core::ids::{MappingId, PageId, PageType};
use pagetide_core::units::Millis;
use std::mem::take;
use std::sync::mpsc::sync_channel;
use std::thread;

const BATCH: usize = 4096;
/// Maximum batches waiting for the look-up thread.
const BATCHES_READY: usize = 4;

fn retain<T>(items: &mut Vec<T>, is_kept: &[bool]) {
    let mut places = is_kept.iter();
    items.retain(|_| *places.next().expect("a place for each item"));
}

/// A whole trace in memory, renumbered. Shape: one rank, one kind, and (with times) one time per
/// entry.
#[derive(Clone, Debug, Default)]
pub struct DenseTrace {
    ranks: Vec<u32>,
    kinds: Vec<AccessKind>,
    /// Milliseconds since the first entry.
    times: Vec<u32>,
    /// Notes with the number of entries before each, ascending.
    notes: Vec<(u64, Note)>,
    /// Mappings with anonymous pages, ascending.
    anonymous: Vec<MappingId>,
    pages: PageRanks,
    nr_accesses: u64,
}

impl DenseTrace {
    /// Reads all of `accesses`.
    ///
    /// # Errors
    /// Fails with the first error of `accesses`.
    ///
    /// # Cost
    /// Five bytes per entry, plus [`PageRanks`].
    pub fn collect<E>(
        accesses: impl IntoIterator<Item = Result<Access, E>>,
    ) -> Result<DenseTrace, E> {
        let mut trace = DenseTrace::default();
        for access in accesses {
            trace.push(access?);
        }
        Ok(trace)
    }

    /// Reads all of `trace`, including its times and its page types if known.
    ///
    /// # Errors
    /// Fails with the first error of the trace.
    ///
    /// # Cost
    /// Five bytes per entry (nine with times), plus [`PageRanks`].
    pub fn read(trace: &mut Trace) -> Result<DenseTrace, TraceError> {
        let mut dense = DenseTrace::default();
        while dense.read_some(trace, usize::MAX)? > 0 {}
        dense.push_notes(trace.notes());
        Ok(dense)
    }

    /// Reads up to `nr_max` more entries. Returns the number read, smaller only at the end. Notes
    /// after the last entry are not read.
    ///
    /// # Errors
    /// Fails with the first error of the trace. The entries before the error are kept.
    ///
    /// # Cost
    /// As [`DenseTrace::read`]. A second thread for look-ups saves a third of the time with many
    /// distinct pages.
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

    /// Reads one batch into `pages`, without looking up the ranks.
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

    /// Appends the entry last returned by `trace`, with its time, page type and notes.
    pub fn push_from(&mut self, trace: &Trace, access: Access) {
        self.note_from(trace, access.page.mapping, access.kind, 1);
        self.ranks.push(self.pages.rank_of(access.page));
    }

    /// Appends the time, page type and notes of `nr_pages` entries, without their ranks.
    #[inline]
    fn note_from(&mut self, trace: &Trace, mapping: MappingId, kind: AccessKind, nr_pages: usize) {
        self.push_notes(trace.notes());
        if trace.page_type() == PageType::Anon {
            self.mark_anonymous(mapping);
        }
        self.note(kind, nr_pages, trace.time());
    }

    /// Appends notes after the last entry so far.
    pub fn push_notes(&mut self, notes: &[Note]) {
        let nr_before = self.nr_entries();
        self.notes.extend(notes.iter().map(|note| (nr_before, *note)));
    }

    /// Returns the notes in order, each with the number of entries before.
    pub fn notes(&self) -> &[(u64, Note)] {
        &self.notes
    }

    /// Returns plain reads of these page indexes in one mapping.
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

    /// Appends `nr_entries` entries without ranks. A missing time repeats the last one.
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

    /// Appends one entry at `time`. Earlier entries without a time get 0. A time that goes back is
    /// raised to the last one.
    pub fn push_at(&mut self, access: Access, time: Millis) {
        self.note(access.kind, 1, Some(time));
        self.ranks.push(self.pages.rank_of(access.page));
    }

    /// Returns the times in milliseconds, one per entry, ascending, or `None` if no time is known.
    pub fn times(&self) -> Option<&[u32]> {
        (!self.times.is_empty()).then_some(&self.times)
    }

    /// Marks the pages of `mapping` as anonymous in the whole trace.
    pub fn mark_anonymous(&mut self, mapping: MappingId) {
        if let Err(at) = self.anonymous.binary_search(&mapping) {
            self.anonymous.insert(at, mapping);
        }
    }

    /// Returns the type of the page. Costs a binary search over the anonymous mappings, mostly
    /// none.
    pub fn page_type(&self, page: PageId) -> PageType {
        match self.anonymous.binary_search(&page.mapping) {
            Ok(_) => PageType::Anon,
            Err(_) => PageType::File,
        }
    }

    /// Drops the entries after the first `nr_accesses` accesses. Their pages keep their ranks.
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

    /// Returns true if the trace has pages read without an access.
    pub fn has_readahead(&self) -> bool {
        self.kinds.iter().any(|kind| kind.is_unasked())
    }

    /// Drops readahead and the pages read around misses. The pages keep their ranks.
    ///
    /// A recorded run chose its readahead by its own misses. A replay must give this readahead to
    /// every policy alike, or to none.
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

    /// Returns every entry in order: the rank of the page and the access kind.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = (u32, AccessKind)> + '_ {
        self.ranks.iter().copied().zip(self.kinds.iter().copied())
    }

    /// Returns every entry in order, in slices of `len` (the last may be shorter).
    pub fn stretches(&self, len: usize) -> impl Iterator<Item = (&[u32], &[AccessKind])> {
        self.ranks.chunks(len).zip(self.kinds.chunks(len))
    }

    /// Returns the number of entries of all kinds.
    pub fn nr_entries(&self) -> u64 {
        self.kinds.len() as u64
    }

    /// Returns the ranks of the entries that are accesses.
    pub fn access_ranks(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.entries().filter(|(_, kind)| kind.is_access()).map(|(rank, _)| rank)
    }

    /// Returns the pages that a recorded run evicted, in order. A replay should evict the same.
    pub fn recorded_evictions(&self) -> impl Iterator<Item = PageId> + '_ {
        let evicted = self.entries().filter(|(_, kind)| *kind == AccessKind::Evict);
        evicted.map(|(rank, _)| self.page(rank))
    }

    /// Returns the pages that a recorded run moved to slower (`Demote`) and fast (`Promote`)
    /// memory, in order.
    pub fn recorded_moves(&self) -> impl Iterator<Item = (PageId, AccessKind)> + '_ {
        let is_move = |kind| matches!(kind, AccessKind::Demote | AccessKind::Promote);
        let moved = self.entries().filter(move |(_, kind)| is_move(*kind));
        moved.map(|(rank, kind)| (self.page(rank), kind))
    }

    /// Returns the memory in use, in bytes.
    pub fn bytes_held(&self) -> u64 {
        let numbers = self.ranks.capacity() + self.times.capacity();
        let bytes = 4 * numbers
            + self.kinds.capacity()
            + self.pages.bytes_held()
            + self.notes.capacity() * size_of::<(u64, Note)>();
        bytes as u64
    }

    /// Returns the number of entries that are accesses.
    pub fn nr_accesses(&self) -> u64 {
        self.nr_accesses
    }

    /// Returns the number of distinct pages, above every rank.
    pub fn nr_pages(&self) -> usize {
        self.pages.pages().len()
    }

    /// Returns the page of a rank.
    #[inline]
    pub fn page(&self, rank: u32) -> PageId {
        self.pages()[rank as usize]
    }

    pub(crate) fn pages(&self) -> &[PageId] {
        self.pages.pages()
    }
}
