//! The library's own counters, per thread.
//!
//! Core's counters (refaults, scans, evictions) live with the lruvec; these are what core cannot
//! see: hits, device requests, time. Each thread counts in cells of its own, so that a hit adds
//! with a plain store: a locked instruction would keep the processor from starting the next copy
//! early.
//!
//! ```text
//!   thread:    LAST ------> cells: owner, thread, counts      the cells it counted in last
//!   Counters:  id, cells by thread                            owner = id: these are its cells
//! ```
//!
//! A thread that counts for the same `Counters` as the last time finds its cells in one step. Cells
//! are never freed, so that a thread may keep their address. The cells of dropped `Counters` are
//! used again.

use crate::memory::locks::lock;
use crossbeam_utils::CachePadded;
use pagetide_sys::is_serving_fault;
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
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

/// One thread's counts for one [`Counters`]. Written by that thread alone.
#[repr(C, align(128))]
struct Cells {
    /// The [`Counters::id`] of the owner; 0 if there is none.
    owner: AtomicU64,
    /// The address of `LAST` of the thread that writes the counts.
    thread: AtomicUsize,
    counts: [AtomicU64; NR_EVENTS],
}

/// The cells of a thread that has counted nothing.
static NO_CELLS: Cells = Cells::new();
/// Cells without an owner, all zero.
static UNUSED: Mutex<Vec<&Cells>> = Mutex::new(Vec::new());

thread_local! {
    /// The cells in which this thread has counted last.
    static LAST: Cell<&'static Cells> = const { Cell::new(&NO_CELLS) };
}

impl Cells {
    const fn new() -> Cells {
        Cells {
            owner: AtomicU64::new(0),
            thread: AtomicUsize::new(0),
            counts: [const { AtomicU64::new(0) }; NR_EVENTS],
        }
    }

    /// Returns true if the thread with this `LAST` counts here for the owner.
    #[inline]
    fn are_of(&self, owner: u64, last: &Cell<&'static Cells>) -> bool {
        // Acquire: the thread is at least as new as the owner.
        let is_owner = self.owner.load(Acquire) == owner;
        is_owner && self.thread.load(Relaxed) == std::ptr::from_ref(last).addr()
    }

    #[inline]
    fn add(&self, event: Event, nr: u64) {
        let count = &self.counts[event as usize];
        count.store(count.load(Relaxed) + nr, Relaxed);
    }
}

/// Event counts of all threads.
pub(crate) struct Counters {
    /// Distinguishes these counters from all others. Never used again.
    id: u64,
    cells: ThreadLocal<&'static Cells>,
    /// Of threads without cells, while they serve a fault: to make some would allocate.
    of_faults: CachePadded<[AtomicU64; NR_EVENTS]>,
}

impl Default for Counters {
    fn default() -> Counters {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        Counters {
            id: LAST_ID.fetch_add(1, Relaxed) + 1,
            cells: ThreadLocal::new(),
            of_faults: CachePadded::new([const { AtomicU64::new(0) }; NR_EVENTS]),
        }
    }
}

impl Counters {
    #[inline]
    pub(crate) fn count(&self, event: Event) {
        self.add(event, 1);
    }

    #[inline]
    pub(crate) fn add(&self, event: Event, nr: u64) {
        LAST.with(|last| {
            let cells = last.get();
            if cells.are_of(self.id, last) {
                cells.add(event, nr);
            } else {
                self.add_elsewhere(last, event, nr);
            }
        });
    }

    /// Adds to the thread's cells for these counters, which become its last.
    #[cold]
    fn add_elsewhere(&self, last: &Cell<&'static Cells>, event: Event, nr: u64) {
        let cells = match self.cells.get() {
            Some(cells) => *cells,
            None if is_serving_fault() => {
                self.of_faults[event as usize].fetch_add(nr, Relaxed);
                return;
            }
            None => *self.cells.get_or(|| {
                let unused = lock(&UNUSED).pop();
                unused.unwrap_or_else(|| Box::leak(Box::new(Cells::new())))
            }),
        };
        // The cells may be those of a thread that has ended.
        if !cells.are_of(self.id, last) {
            cells.thread.store(std::ptr::from_ref(last).addr(), Relaxed);
            // Release: the thread is seen by all that see the owner.
            cells.owner.store(self.id, Release);
        }
        last.set(cells);
        cells.add(event, nr);
    }

    pub(crate) fn collect(&self, event: Event) -> u64 {
        let of_threads: u64 =
            self.cells.iter().map(|cells| cells.counts[event as usize].load(Relaxed)).sum();
        of_threads + self.of_faults[event as usize].load(Relaxed)
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        let unused = self.cells.iter().copied().inspect(|cells| {
            cells.owner.store(0, Relaxed);
            cells.thread.store(0, Relaxed);
            cells.counts.iter().for_each(|count| count.store(0, Relaxed));
        });
        lock(&UNUSED).extend(unused);
    }
}
