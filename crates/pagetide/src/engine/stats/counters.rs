//! The library's own counters, per thread.
//!
//! Core's counters (refaults, scans, evictions) live with the lruvec; these are what core cannot
//! see: hits, device requests, time. Each thread counts in cells of its own, so that a hit adds
//! with a plain store: a locked instruction would keep the processor from starting the next copy
//! early.

use crossbeam_utils::CachePadded;
use pagetide_sys::is_serving_fault;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use thread_local::ThreadLocal;

macro_rules! events {
    ($($(#[doc = $doc:literal])+ $variant:ident,)+) => {
        /// Something that is counted.
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Event {
            $($(#[doc = $doc])+ $variant,)+
        }

        const NR_EVENTS: usize = [$(Event::$variant,)+].len();
    };
}

events! {
    /// A page was resident when it was wanted.
    Hit,
    /// A page had to be filled.
    Miss,
    /// A page was read past the cache, because no frame could be had.
    BypassRead,
    /// A page was written past the cache, because no frame could be had.
    WriteThrough,
    /// A read request to the store.
    DeviceRead,
    /// Bytes read from the store.
    DeviceReadBytes,
    /// A write request to the store.
    DeviceWrite,
    /// Bytes written to the store.
    DeviceWriteBytes,
    /// Pages brought in by readahead.
    Readahead,
    /// Readahead pages evicted unread.
    ReadaheadWasted,
    /// Pages read around others that were missed, while memory was ample.
    Around,
    /// Those of them evicted unread.
    AroundWasted,
    /// Requests of readahead whose frames were scattered, and that went through memory in a row.
    StagedRead,
    /// Logged accesses dropped because the lruvec was busy.
    TouchLost,
    /// CPU time of reclaim passes, ns.
    ReclaimCpuNs,
    /// Reclaim passes by threads that needed a frame.
    DirectPass,
    /// Reclaim passes by the background thread.
    BackgroundPass,
    /// Faults of regions on pages that were not in memory.
    RegionMissing,
    /// Faults of regions on pages in memory that were not mapped.
    RegionMinor,
    /// Stores of regions' users to pages that were mapped for reading.
    RegionWriteProtect,
    /// Faults of regions on pages that could not be had.
    RegionFailed,
}

/// One thread's counts. Written by that thread alone.
type Cells = CachePadded<[AtomicU64; NR_EVENTS]>;

/// Event counts of all threads.
#[derive(Default)]
pub(crate) struct Counters {
    cells: ThreadLocal<Cells>,
    /// Of threads without cells, while they serve a fault: to make some would allocate.
    of_faults: Cells,
}

impl Counters {
    #[inline]
    pub(crate) fn count(&self, event: Event) {
        self.add(event, 1);
    }

    #[inline]
    pub(crate) fn add(&self, event: Event, nr: u64) {
        match self.cells.get() {
            Some(cells) => Counters::add_to(cells, event, nr),
            None => self.add_first(event, nr),
        }
    }

    #[inline]
    fn add_to(cells: &Cells, event: Event, nr: u64) {
        let cell = &cells[event as usize];
        cell.store(cell.load(Relaxed) + nr, Relaxed);
    }

    #[cold]
    fn add_first(&self, event: Event, nr: u64) {
        if is_serving_fault() {
            self.of_faults[event as usize].fetch_add(nr, Relaxed);
            return;
        }
        let cells =
            self.cells.get_or(|| CachePadded::new([const { AtomicU64::new(0) }; NR_EVENTS]));
        Counters::add_to(cells, event, nr);
    }

    pub(crate) fn collect(&self, event: Event) -> u64 {
        let all = self.cells.iter().chain([&self.of_faults]);
        all.map(|cells| cells[event as usize].load(Relaxed)).sum()
    }
}
