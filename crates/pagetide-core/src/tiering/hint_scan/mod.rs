//! The hint scan: arms page words, so that the next access says when it came.
//!
//! **Problem.** Nothing tells which pages of slow memory are used. Arming all page words at once
//! would tell, and make all accesses fault at the same time.
//!
//! **Idea.** Arm a piece now and then, going round and round through the address space. One *run*
//! has two budgets: pages of pieces in which it changed something, and eight times as many of any
//! kind, so that holes cost little and do not go on for ever.
//!
//! ```text
//!   address space   |mapping 0 ....|mapping 1 ...............|mapping 2 ......|
//!   run n                 >--------|------->                       offset saved
//!   run n+1                                 >------------------|-->
//!   run n+2         >---->  (sequence + 1)                         >----------| end
//! ```
//!
//! The world arms the pages of each piece, as only it knows its tables
//! ([`HintScan::run`](super::HintScan::run)).
//!
//! **Data and invariants.** A run visits no page twice. The sequence number counts how often the
//! scan began at the start again.
//!
//! **Deliberately ignored.** What the kernel skips whole mappings for: mapped read-only from a file
//! (there, mostly shared code; here, what the memory is for), not touched by this task of late.
//!
//! Source: the tiering specification, section 2 (Linux 6.18).

use super::TieringKnobs;
use crate::folio::Flags;
use crate::ids::{MappingId, PageId, PageIndex};
use crate::units::Millis;
use core::ops::Range;

/// Pages of address space in a run for each resident page it may arm.
const VIRTUAL_FACTOR: u64 = 8;
/// Pieces end where a huge page could.
const CHUNK_ALIGN: u64 = 512;
/// Above all mappings that a scan visits.
const MAPPING_END: MappingId = MappingId(u32::MAX);

/// What hint faults are for: one bit of the kernel's `numa_balancing`. The other brings pages to
/// the node that uses them, among fast ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum BalancingMode {
    /// Nothing: no scan runs.
    #[default]
    Off = 0,
    /// To promote hot pages of slow nodes.
    Tiering = 2,
}

/// What a scan sees of a resident page. An absent page has no word to arm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryFacts {
    /// Its folio's flags.
    pub flags: Flags,
    /// Its word is armed already.
    pub is_armed: bool,
    /// A pin holds it where it is.
    pub is_pinned: bool,
    /// Its node is in the top tiers.
    pub is_top_tier: bool,
}

impl EntryFacts {
    /// Whether a scan arms the word, so that the page may be promoted.
    pub fn wants_hint(&self) -> bool {
        !(self.is_top_tier || self.is_armed || self.is_pinned || self.flags.is_dirty_file())
    }
}

/// A piece of a mapping, to be armed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScanChunk {
    /// The mapping.
    pub mapping: MappingId,
    /// The indices of its pages.
    pub pages: Range<u64>,
}

/// A mapping, as a run wants to know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScannedMapping {
    /// Its id; runs go in order of ids.
    pub id: MappingId,
    /// Its length.
    pub nr_pages: u64,
    /// When it was made.
    pub created: Millis,
}

#[derive(Clone, Debug)]
pub(super) struct ScanRun {
    next: PageId,
    sequence: u64,
    now: Millis,
    scan_delay: Millis,
    nr_pages_left: u64,
    nr_virtual_left: u64,
    /// The length of the piece that is out.
    nr_out: u64,
    nr_armed: u64,
    /// The end was met: a run goes on from the start only when it began there.
    is_over: bool,
    has_begun: bool,
}

impl ScanRun {
    /// The next piece to arm; `None` ends the run. `first_from` names the mapping with the lowest
    /// id at or above the one it is given, among those that hold pages to be scanned.
    ///
    /// # Panics
    /// When the last piece was not reported ([`ScanRun::scanned`]).
    pub(super) fn next_chunk(
        &mut self,
        mut first_from: impl FnMut(MappingId) -> Option<ScannedMapping>,
    ) -> Option<ScanChunk> {
        assert!(self.nr_out == 0, "a piece of {} pages was not reported", self.nr_out);
        let mut from_start = self.next == PageId::default();
        while !self.is_over {
            let mapping = first_from(self.next.mapping);
            let Some(mapping) = mapping.filter(|found| found.id < MAPPING_END) else {
                self.wrap(from_start);
                from_start = true;
                continue;
            };
            let start = if mapping.id == self.next.mapping { self.next.index.0 } else { 0 };
            let old_enough = mapping.created.0.saturating_add(self.scan_delay.0);
            let is_new = self.sequence > 0 && self.now.0 < old_enough;
            if start < mapping.nr_pages && !is_new {
                return Some(self.cut(&mapping, start));
            }
            self.next = PageId { mapping: MappingId(mapping.id.0 + 1), index: PageIndex(0) };
        }
        None
    }

    /// The end of the address space was met.
    fn wrap(&mut self, from_start: bool) {
        self.next = PageId::default();
        self.sequence += 1;
        self.is_over = from_start || self.has_begun;
    }

    fn cut(&mut self, mapping: &ScannedMapping, start: u64) -> ScanChunk {
        let aligned = (start + self.nr_pages_left).next_multiple_of(CHUNK_ALIGN);
        let end = aligned.min(mapping.nr_pages);
        self.nr_out = end - start;
        self.has_begun = true;
        self.next = PageId { mapping: mapping.id, index: PageIndex(end) };
        ScanChunk { mapping: mapping.id, pages: start..end }
    }

    /// Hears how many words of the piece that [`ScanRun::next_chunk`] named last were armed.
    pub(super) fn scanned(&mut self, nr_armed: u64) {
        let nr_pages = core::mem::take(&mut self.nr_out);
        if nr_armed > 0 {
            self.nr_pages_left = self.nr_pages_left.saturating_sub(nr_pages);
        }
        self.nr_virtual_left = self.nr_virtual_left.saturating_sub(nr_pages);
        self.nr_armed += nr_armed;
        self.is_over |= self.nr_pages_left == 0 || self.nr_virtual_left == 0;
    }

    /// Words armed so far.
    pub(super) const fn nr_armed(&self) -> u64 {
        self.nr_armed
    }
}

/// Where the `nth` of `count` pieces is, in an order that leaps about: what lies together is found
/// a little at a time, in each round. A permutation of `0..count`.
pub const fn scattered(nth: u32, count: u32) -> u32 {
    if count < 4 {
        return nth;
    }
    // The golden section of them, or the next that shares no factor with it.
    let mut stride = (count as u64 * 618 / 1000) as u32;
    while gcd(stride, count) != 1 {
        stride += 1;
    }
    (nth as u64 * stride as u64 % count as u64) as u32
}

const fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The hint scan of one address space.
#[derive(Clone, Debug)]
pub(super) struct HintScanner {
    scan_pages: u64,
    scan_delay: Millis,
    next_run: Millis,
    next: PageId,
    sequence: u64,
}

impl HintScanner {
    /// An address space that exists from `now` on; its first run is `scan_delay` later.
    pub(super) fn new(knobs: &TieringKnobs, now: Millis) -> HintScanner {
        HintScanner {
            scan_pages: knobs.scan_pages,
            scan_delay: knobs.scan_delay,
            next_run: Millis(now.0 + knobs.scan_delay.0),
            next: PageId::default(),
            sequence: 0,
        }
    }

    /// Begins a run, if it is time for one; the next is a period later at least. Of several tasks
    /// that are due, the first to ask makes the run.
    pub(super) fn start_run(&mut self, now: Millis, period: Millis) -> Option<ScanRun> {
        if now < self.next_run {
            return None;
        }
        self.next_run = Millis(now.0 + period.0);
        Some(ScanRun {
            next: self.next,
            sequence: self.sequence,
            now,
            scan_delay: self.scan_delay,
            nr_pages_left: self.scan_pages,
            nr_virtual_left: self.scan_pages * VIRTUAL_FACTOR,
            nr_out: 0,
            nr_armed: 0,
            is_over: false,
            has_begun: false,
        })
    }

    /// Remembers where a run got to. Returns whether a new sequence began, which is when the period
    /// is lengthened.
    pub(super) fn end_run(&mut self, run: &ScanRun) -> bool {
        let is_new_sequence = run.sequence > self.sequence;
        self.next = run.next;
        self.sequence = run.sequence;
        is_new_sequence
    }

    /// How often the scan has begun at the start again.
    #[cfg(test)]
    const fn sequence(&self) -> u64 {
        self.sequence
    }
}

#[cfg(test)]
mod tests;
