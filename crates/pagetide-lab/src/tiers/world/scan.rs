//! The hint scan over the program's memory, in steps that fit the model.
//!
//! ```text
//!   pages    [ 8 | 8 | 8 | 8 | 8 | ... ]      a mapping each, to core
//!   runs       >---  >---  >---               one a period, from where the last ended
//! ```
//!
//! **Problem.** Core scans in chunks of 512 pages, but a small model has a few pages a run.
//! **Idea.** Many mappings of one run each end the chunks.
//!
//! **Data and invariants.** Only slow pages are armed, with a time stamp in their folios.
//!
//! **Deliberately ignored.** A run does not delay its thread's next run, as there are tens of
//! threads. Source: Linux 6.18's NUMA balancing.

use super::{World, WorldConfig};
use crate::tiers::access_loop::Node;
use crate::tiers::prices::Item;
use pagetide_core::ids::{MappingId, PageIndex};
use pagetide_core::tiering::{EntryFacts, HintScan, ScanChunk, ScannedMapping, scattered};
use pagetide_core::units::Millis;

#[derive(Debug)]
pub(super) struct Scan {
    scan: HintScan,
    /// Pages per run, the length of a mapping.
    run_pages: u32,
    /// `u64::MAX` without a scan.
    due_ns: u64,
}

impl Scan {
    pub(super) fn new(config: &WorldConfig) -> Scan {
        Scan {
            scan: HintScan::new(&config.knobs, Millis(0), config.nr_pages.into()),
            run_pages: u32::try_from(config.knobs.scan_pages).unwrap_or(u32::MAX),
            due_ns: if config.switches.is_some() { 0 } else { u64::MAX },
        }
    }

    pub(super) fn due_ns(&self) -> u64 {
        self.due_ns
    }
}

impl World {
    /// Runs the scan, if core finds it due.
    pub(super) fn scan_some(&mut self, now_ns: u64) {
        let now = self.now();
        // Without knobs, core derives the period from the cost.
        let worth = self.promotion.run_period(self.nr_slow_pages());
        let mut scan = self.scan.scan.clone();
        self.scan.due_ns = now_ns + worth.unwrap_or(scan.period()).0 * 1_000_000;
        let (run_pages, nr_pages) = (self.scan.run_pages, self.access_loop.nr_pages());
        let nr_runs = nr_pages.div_ceil(run_pages);
        let mapping_from = |id: MappingId| {
            let nr_pages = u64::from(run_pages);
            (id.0 < nr_runs).then_some(ScannedMapping { id, nr_pages, created: Millis(0) })
        };
        let arm_chunk = |chunk: &ScanChunk| {
            let first = self.first_page(chunk.mapping, nr_runs);
            let pages = chunk.pages.clone();
            pages.filter(|index| self.arm_if_wanted(first + *index as u32, now)).count() as u64
        };
        let nr_armed = scan.run((now, now_ns), worth, nr_pages.into(), mapping_from, arm_chunk);
        self.scan.scan = scan;
        if let Some(nr_armed) = nr_armed {
            self.promotion.count_armed(nr_armed);
            self.access_loop.charge(Item::Arm, nr_armed);
        }
    }

    /// Returns the first page of a mapping. Without knobs the mappings are scattered.
    fn first_page(&self, mapping: MappingId, nr_runs: u32) -> u32 {
        let leaps = self.promotion.auto().is_some();
        let nth = if leaps { scattered(mapping.0, nr_runs) } else { mapping.0 };
        nth * self.scan.run_pages
    }

    fn arm_if_wanted(&mut self, page: u32, now: Millis) -> bool {
        if page >= self.access_loop.nr_pages() {
            return false;
        }
        let word = self.access_loop.word(page);
        if !word.is_resident() {
            return false;
        }
        let folio = &self.folios[word.frame()];
        let facts = EntryFacts {
            flags: folio.flags(),
            is_armed: word.is_armed(),
            is_pinned: false,
            is_top_tier: word.node() == Node::Fast,
        };
        let is_armed = self.promotion.arms(now, PageIndex(page.into()), folio, &facts);
        if is_armed {
            self.access_loop.arm(page);
        }
        is_armed
    }
}
