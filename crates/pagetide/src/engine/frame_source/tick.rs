//! Periodic work, including the hint scan. Core decides when to run and which pages to arm.
//!
//! Time is coarse: the last tick. Without worker threads the owner ticks, so that runs are
//! deterministic.

use crate::engine::frame_source::FrameSource;
use crate::engine::mapping::Mapping;
use crate::engine::registry::Slots;
use crate::engine::tiering::Tiering;
use crate::memory::locks::lock;
use pagetide_core::ids::{MappingId, PageIndex};
use pagetide_core::tiering::{BalancingMode, EntryFacts, ScanChunk, ScannedMapping, TieringKnobs};
use pagetide_core::units::Millis;
use pagetide_sys::read_thread_cpu_time_ns;
use std::time::Duration;

/// Maximum interval between ticks of a cache with tiers.
const GRAIN_MAX_MS: u64 = 100;
const NANOS_PER_MILLI: u64 = 1_000_000;

/// Returns the tick interval of the background thread: short enough to tell hot pages from cold
/// ones.
pub(crate) fn tick_interval(knobs: &TieringKnobs) -> Duration {
    let grain_ms = (knobs.hot_threshold.0 / 16).min(knobs.scan_period_min.0 / 8);
    Duration::from_millis(grain_ms.clamp(1, GRAIN_MAX_MS))
}

impl FrameSource {
    pub(crate) fn tick(&self, now: Millis) {
        if let Some(recorder) = &self.pages.recorder {
            // Records the mappings that a scan visits.
            let scanned = self.tiering.iter().flat_map(|_| self.mappings.snapshot());
            recorder.record_tick(now, scanned.map(|mapping| scanned_as(&mapping)));
        }
        self.pages.nodes.iter().for_each(|node| node.frames.tick(now));
        self.look_for_free();
        if let Some(tiering) = &self.tiering {
            tiering.set_now(now);
            self.unmap_rearmed();
            if tiering.mode() != BalancingMode::Off {
                self.report_costs(tiering);
                self.scan_hints(tiering);
            }
        }
    }

    /// Unmaps pages that were armed while they were being mapped.
    fn unmap_rearmed(&self) {
        for mapping in self.mappings.read().iter().filter(|mapping| mapping.is_region()) {
            let mut pages = std::mem::take(&mut *lock(&mapping.rearm));
            pages.sort_unstable();
            for index in pages {
                if let Some(page) = mapping.table.page(index) {
                    page.unmap_armed();
                }
            }
        }
    }

    fn report_costs(&self, tiering: &Tiering) {
        let nr_slow =
            self.pages.nodes.iter().skip(1).map(|node| node.frames.sample_resident()).sum();
        let room = self.pages.nodes.first().frames.room();
        let costs = tiering.costs(nr_slow);
        lock(&tiering.promotion).tell_costs(tiering.now(), &room, &costs);
    }

    fn scan_hints(&self, tiering: &Tiering) {
        let now = tiering.now();
        let mut scan = lock(&tiering.scan);
        let nr_in_use = self.pages.nodes.sample_resident();
        let worth = lock(&tiering.promotion).run_period(nr_in_use);
        let runtime_ns = (now.0 - tiering.began.0) * NANOS_PER_MILLI;
        let started_ns = read_thread_cpu_time_ns();
        let mappings = self.mappings.read();
        let nr_armed = scan.run(
            (now, runtime_ns),
            worth,
            nr_in_use,
            |from| first_from(&mappings, from),
            |chunk| self.arm(tiering, &mappings, chunk),
        );
        let Some(nr_armed) = nr_armed else { return };
        lock(&tiering.promotion).count_armed(nr_armed);
        if self.has_workers {
            scan.charge(read_thread_cpu_time_ns().saturating_sub(started_ns));
        }
    }

    fn arm(&self, tiering: &Tiering, mappings: &Slots, chunk: &ScanChunk) -> u64 {
        let Some(mapping) = mappings.get(chunk.mapping) else { return 0 };
        let (pages, now) = (&chunk.pages, tiering.now());
        let mut nr_armed = 0;
        let range = PageIndex(pages.start)..PageIndex(pages.end);
        mapping.table.for_each_present(range, |page, seen| {
            let Some(frame) = seen.frame().filter(|_| !seen.is_locked()) else { return };
            let folio = &self.pages.folios[frame];
            let facts = EntryFacts {
                flags: folio.flags(),
                is_armed: seen.is_hint(),
                is_pinned: seen.pins() > 0,
                is_top_tier: frame.0 < self.pages.slow_from,
            };
            // Not locked while the page is unmapped: reclaim waits for promotion with lists locked.
            let arms = lock(&tiering.promotion).arms(now, page.index(), folio, &facts);
            if arms {
                nr_armed += u64::from(page.set_hint());
            }
        });
        nr_armed
    }
}

fn first_from(mappings: &Slots, from: MappingId) -> Option<ScannedMapping> {
    mappings.first_from(from).map(|mapping| scanned_as(mapping))
}

fn scanned_as(mapping: &Mapping) -> ScannedMapping {
    ScannedMapping { id: mapping.id, nr_pages: mapping.nr_pages(), created: mapping.created }
}
