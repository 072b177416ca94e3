//! The hint scan: arms page words, so that the next access faults.
//!
//! **Problem.** Accesses to slow memory are invisible. Arming all words at once would make all
//! accesses fault together.
//!
//! **Idea.** Arm pieces of the address space in turn. A *run* has two budgets: pages in pieces with
//! changes, and eight times as many pages of any kind, which bounds the cost of holes.
//!
//! ```text
//!   address space   |mapping 0 ....|mapping 1 ...............|mapping 2 ......|
//!   run n                 >--------|------->                       offset saved
//!   run n+1                                 >------------------|-->
//!   run n+2         >---->  (sequence + 1)                         >----------| end
//! ```
//!
//! The world arms the pages of each piece ([`HintScan::run`](super::HintScan::run)).
//!
//! **Data and invariants.** A run visits no page twice. The sequence number counts wraps.
//!
//! **Ignored.** The kernel's skips of read-only file mappings, and of mappings not touched
//! recently.
//!
//! **Source.** Linux 6.18's NUMA balancing.

use super::TieringKnobs;
use crate::folio::Flags;
use crate::ids::{MappingId, PageId, PageIndex};
use crate::units::Millis;
use core::ops::Range;

/// Budget of address space per resident page.
const VIRTUAL_FACTOR: u64 = 8;
/// Alignment of pieces, pages per huge page.
const CHUNK_ALIGN: u64 = 512;
/// Exclusive bound of scanned mapping ids.
const MAPPING_END: MappingId = MappingId(u32::MAX);

/// Purpose of hint faults: one bit of the kernel's `numa_balancing`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum BalancingMode {
    /// No scan.
    #[default]
    Off = 0,
    /// Promotion of hot pages from slow nodes.
    Tiering = 2,
}

/// State of a resident page for a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryFacts {
    /// Flags of the folio.
    pub flags: Flags,
    /// True if already armed.
    pub is_armed: bool,
    /// True if pinned.
    pub is_pinned: bool,
    /// True if the node is in the top tiers.
    pub is_top_tier: bool,
}

impl EntryFacts {
    /// Returns true if a scan arms the word for promotion.
    pub fn wants_hint(&self) -> bool {
        !(self.is_top_tier || self.is_armed || self.is_pinned || self.flags.is_dirty_file())
    }
}

/// A piece of a mapping to arm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScanChunk {
    /// Mapping.
    pub mapping: MappingId,
    /// Page indices.
    pub pages: Range<u64>,
}

/// A mapping to scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScannedMapping {
    /// Id. Runs go in order of ids.
    pub id: MappingId,
    /// Length in pages.
    pub nr_pages: u64,
    /// Creation time.
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
    nr_out: u64,
    nr_armed: u64,
    /// True at the end. Only a run that began at the start wraps.
    is_over: bool,
    has_begun: bool,
}

impl ScanRun {
    /// Returns the next piece to arm, or `None` at the end. `first_from` returns the first
    /// scannable mapping from an id on.
    ///
    /// # Panics
    /// If the last piece was not reported ([`ScanRun::scanned`]).
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

    /// Reports the armed words of the last piece.
    pub(super) fn scanned(&mut self, nr_armed: u64) {
        let nr_pages = core::mem::take(&mut self.nr_out);
        if nr_armed > 0 {
            self.nr_pages_left = self.nr_pages_left.saturating_sub(nr_pages);
        }
        self.nr_virtual_left = self.nr_virtual_left.saturating_sub(nr_pages);
        self.nr_armed += nr_armed;
        self.is_over |= self.nr_pages_left == 0 || self.nr_virtual_left == 0;
    }

    pub(super) const fn nr_armed(&self) -> u64 {
        self.nr_armed
    }
}

/// Returns the position of the `nth` of `count` pieces in a scattered order, a permutation of
/// `0..count`.
pub const fn scattered(nth: u32, count: u32) -> u32 {
    if count < 4 {
        return nth;
    }
    // Golden section, or the next coprime number.
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

#[derive(Clone, Debug)]
pub(super) struct HintScanner {
    scan_pages: u64,
    scan_delay: Millis,
    next_run: Millis,
    next: PageId,
    sequence: u64,
}

impl HintScanner {
    /// Creates the scan of an address space. The first run is due after `scan_delay`.
    pub(super) fn new(knobs: &TieringKnobs, now: Millis) -> HintScanner {
        HintScanner {
            scan_pages: knobs.scan_pages,
            scan_delay: knobs.scan_delay,
            next_run: Millis(now.0 + knobs.scan_delay.0),
            next: PageId::default(),
            sequence: 0,
        }
    }

    /// Starts a run if due, and schedules the next after `period`.
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

    /// Saves the position. Returns true for a new sequence, which lengthens the period.
    pub(super) fn end_run(&mut self, run: &ScanRun) -> bool {
        let is_new_sequence = run.sequence > self.sequence;
        self.next = run.next;
        self.sequence = run.sequence;
        is_new_sequence
    }

    #[cfg(test)]
    const fn sequence(&self) -> u64 {
        self.sequence
    }
}

#[cfg(test)]
mod tests;
