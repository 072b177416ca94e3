//! The library's own counters, per thread.
//!
//! Core counts refaults, scans and evictions with the lruvec. These counters are for hits, device
//! requests and times. Each thread has its own cells, so that a hit adds with a plain store. A
//! locked instruction would delay the next copy.
//!
//! ```text
//!   thread:    LAST ------> cells: owner, thread, counts      the thread's latest cells
//!   Counters:  id, cells by thread                            owner = id: owned by this `Counters`
//! ```
//!
//! A thread that counts for the same `Counters` again finds its cells in one step. Cells are never
//! freed, so that threads may keep addresses. Cells of dropped `Counters` are reused.

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
        /// A counted event.
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Event {
            $($(#[doc = $doc])+ $variant,)+
        }

        const NR_EVENTS: usize = [$(Event::$variant,)+].len();
    };
}

events! {
    /// A wanted page was resident.
    Hit,
    /// A page had to be filled.
    Miss,
    /// A page was read past the cache, because no frame was free.
    BypassRead,
    /// A page was written past the cache, because no frame was free.
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
    /// Pages read around missed pages while memory was ample.
    Around,
    /// Pages read around and evicted unread.
    AroundWasted,
    /// Readahead requests that went through contiguous memory, because their frames were scattered.
    StagedRead,
    /// Logged accesses dropped because the lruvec was busy.
    TouchLost,
    /// CPU time of reclaim passes, ns.
    ReclaimCpuNs,
    /// Reclaim passes by threads that needed a frame.
    DirectPass,
    /// Reclaim passes by the background thread.
    BackgroundPass,
    /// Faults of regions on absent pages.
    RegionMissing,
    /// Faults of regions on resident, unmapped pages.
    RegionMinor,
    /// Stores of regions' users to pages mapped read-only.
    RegionWriteProtect,
    /// Faults of regions on unavailable pages.
    RegionFailed,
}

/// One thread's counts for one [`Counters`], written by this thread only.
#[repr(C, align(128))]
struct Cells {
    /// The [`Counters::id`] of the owner, or 0.
    owner: AtomicU64,
    /// The address of the writing thread's `LAST`.
    thread: AtomicUsize,
    counts: [AtomicU64; NR_EVENTS],
}

/// The cells of a thread without counts.
static NO_CELLS: Cells = Cells::new();
/// Cells without an owner, all zero.
static UNUSED: Mutex<Vec<&Cells>> = Mutex::new(Vec::new());

thread_local! {
    /// This thread's latest cells.
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

    /// Returns true if the cells belong to `owner` and the thread with this `LAST`.
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

pub(crate) struct Counters {
    /// Unique among all counters, never reused.
    id: u64,
    cells: ThreadLocal<&'static Cells>,
    /// Counts of threads without cells during a fault, where allocation is forbidden.
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

    /// Adds to the thread's cells for these counters, and stores them in `LAST`.
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
        // The cells may belong to an ended thread.
        if !cells.are_of(self.id, last) {
            cells.thread.store(std::ptr::from_ref(last).addr(), Relaxed);
            // Release: if the owner is visible, so is the thread.
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
