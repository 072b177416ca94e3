//! Threads that serve the faults of a region.
//!
//! ```text
//!   accessing thread --> serves on the spot, without allocating: most faults
//!                 |  needs memory, or a wait for write-back
//!                 v
//!   helper        serves, and the accessing thread waits
//!
//!   handler threads   get messages: if configured, or if serving on the spot is not possible.
//!                     They map pages ahead before the accessing thread resumes
//!
//!   one more thread   serves no faults, and collapses huge pages: see `huge`
//! ```
//!
//! Problem: the accessing code may hold any lock. Idea: on the spot, a fault takes only the cache's
//! own locks and allocates nothing. The helper does the rest.
//!
//! Data and invariants: a thread that waits for the helper holds no lock.

use super::fault::{Faults, Noted};
use super::huge::Blocks;
use super::streams::Streams;
use crate::engine::Engine;
use crate::engine::mapping::Mapping;
use crate::engine::prefetch::Wish;
use crate::memory::locks::{POISONED, Signal, lock};
use pagetide_core::ids::PageIndex;
use pagetide_core::readahead::ReadaheadRun;
use pagetide_sys::{
    BLOCK_PAGES, Fault, FaultDelivery, FaultRegistration, RegionMemory, Served, UserAccess,
    serve_faults,
};
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

#[derive(Clone)]
pub(super) struct Serving {
    pub(super) engine: Arc<Engine>,
    pub(super) memory: Arc<RegionMemory>,
    pub(super) mapping: Arc<Mapping>,
    pub(super) faults: Arc<Faults>,
    /// `Some` with a readahead thread, unless a page may run other code.
    pub(super) streams: Option<Arc<Streams>>,
    /// Streams of stores. `Some` as for `streams`, if pages begin as zeros.
    pub(super) stores: Option<Arc<Streams>>,
    /// Streams of stores to pages that are mapped for loads.
    pub(super) upgrades: Option<Arc<Streams>>,
    pub(super) makes_huge: bool,
}

/// Pages with tables allocated ahead: 32 KiB of tables for 16 MiB.
const PREPARED: u64 = 8 * BLOCK_PAGES as u64;

pub(super) struct FaultService {
    serving: Serving,
    /// `Some` with signals.
    on_the_spot: Option<(FaultRegistration, Arc<HelperQueue>)>,
    huge: Arc<Signal>,
    threads: Vec<JoinHandle<()>>,
}

/// Returns true if a page may run code that allocates. `is_custom` means a store of the caller.
pub(super) fn runs_other_code(engine: &Engine, is_custom: bool) -> bool {
    is_custom
        || engine.source.tiering.is_some()
        || engine.source.groups.is_some()
        || engine.pages.pool.is_some()
        || engine.pages.recorder.is_some()
}

impl FaultService {
    pub(super) fn start(serving: Serving, nr_handlers: usize) -> io::Result<FaultService> {
        let (on_the_spot, huge, threads) = (None, Arc::default(), Vec::new());
        let mut service = FaultService { serving, on_the_spot, huge, threads };
        let started = match service.serving.memory.delivery() {
            FaultDelivery::Signal => service.start_on_the_spot(),
            FaultDelivery::Message => (0..nr_handlers).try_for_each(|_| service.start_handler()),
        };
        match started.and_then(|()| service.start_huge()) {
            Ok(()) => Ok(service),
            Err(error) => {
                service.stop();
                Err(error)
            }
        }
    }

    fn start_on_the_spot(&mut self) -> io::Result<()> {
        let queue = Arc::<HelperQueue>::default();
        let (serving, served) = (self.serving.clone(), Arc::clone(&queue));
        self.start_thread("pagetide-helper", move || {
            served.work(|fault| {
                let served = serving.serve(fault);
                serving.prepare_next(fault);
                served
            });
        })?;
        let (serving, helper) = (self.serving.clone(), Arc::clone(&queue));
        let serve = move |fault| {
            serving.serve_here(fault).unwrap_or_else(|| {
                serving.faults.nr_helped.fetch_add(1, Relaxed);
                helper.post(fault)
            })
        };
        let registration = serve_faults(&self.serving.memory, Arc::new(serve));
        self.on_the_spot = Some((registration, queue));
        Ok(())
    }

    fn start_handler(&mut self) -> io::Result<()> {
        let serving = self.serving.clone();
        self.start_thread("pagetide-fault", move || {
            let serve = |fault| {
                // On failure the page is poisoned.
                let _ = serving.serve_message(fault);
            };
            loop {
                match serving.memory.wait_for_faults(serve) {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(error) => panic!("faults of a region cannot be read: {error}"),
                }
            }
        })
    }

    fn start_huge(&mut self) -> io::Result<()> {
        if !self.serving.makes_huge {
            return Ok(());
        }
        let Serving { engine, memory, mapping, .. } = self.serving.clone();
        let (blocks, signal) = (Blocks { engine, memory, mapping }, Arc::clone(&self.huge));
        self.start_thread("pagetide-huge", move || blocks.work(&signal))
    }

    fn start_thread(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = std::thread::Builder::new().name(name.into());
        self.threads.push(thread.spawn(move || {
            let _aborts = AbortsOnPanic;
            run();
        })?);
        Ok(())
    }

    pub(super) fn stop(&mut self) {
        self.serving.faults.stops.store(true, Relaxed);
        if let Some(streams) = &self.serving.streams {
            streams.stop();
        }
        self.serving.memory.stop();
        self.huge.stop();
        if let Some((registration, queue)) = self.on_the_spot.take() {
            drop(registration);
            queue.close();
        }
        self.threads.drain(..).for_each(|thread| {
            let _ = thread.join();
        });
    }
}

impl Serving {
    fn serve(&self, fault: Fault) -> Served {
        let Some(index) = self.memory.page_at(fault.address) else { return Served::No };
        self.faults.serve(&self.engine, &self.mapping, index, fault.is_write, |_| {})
    }

    fn serve_message(&self, fault: Fault) -> Served {
        let Some(index) = self.memory.page_at(fault.address) else { return Served::No };
        self.prepare_next(fault);
        let go_ahead = |noted| self.go_ahead_of(noted, index);
        self.faults.serve(&self.engine, &self.mapping, index, fault.is_write, go_ahead)
    }

    /// Allocates tables ahead if the preceding block has one: a fault without a table goes to the
    /// helper.
    fn prepare_next(&self, fault: Fault) {
        let Some(index) = self.memory.page_at(fault.address) else { return };
        let table = &self.mapping.table;
        let before = index.checked_sub(BLOCK_PAGES as u64);
        if before.is_some_and(|before| table.page(PageIndex(before)).is_some()) {
            let end = self.mapping.nr_pages().min(index + PREPARED);
            (index..end).step_by(BLOCK_PAGES).for_each(|next| {
                table.page_or_make(PageIndex(next));
            });
        }
    }

    fn serve_here(&self, fault: Fault) -> Option<Served> {
        let index = self.memory.page_at(fault.address)?;
        if !self.memory.is_prepared(index) {
            return None;
        }
        let (engine, mapping) = (&self.engine, &self.mapping);
        let (served, noted) = self.faults.serve_here(engine, mapping, index, fault.is_write)?;
        if let Some(noted) = noted {
            self.go_ahead_of(noted, index);
        }
        Some(served)
    }

    fn go_ahead_of(&self, noted: Noted, index: u64) {
        let (engine, mapping, faults) = (&self.engine, &self.mapping, &self.faults);
        let is_upgrade = noted.is_write && noted.before == UserAccess::Read;
        if let (true, Some(upgrades)) = (is_upgrade, &self.upgrades) {
            let map = |pages| faults.map_resident(engine, mapping, pages, true);
            self.store_ahead(upgrades, index, map);
            return;
        }
        if let (true, true, Some(stores)) = (noted.is_write, noted.was_missing, &self.stores) {
            let map = |pages| faults.map_zeros(engine, mapping, pages);
            if self.store_ahead(stores, index, map) {
                return;
            }
        }
        if let Some(streams) = &self.streams {
            self.go_ahead(streams, index, noted);
        }
    }

    /// Calls `map` for the pages of expected stores, which returns the end of the pages mapped.
    /// Returns true if any page was mapped.
    fn store_ahead(
        &self,
        stores: &Streams,
        index: u64,
        map: impl FnOnce(Range<u64>) -> u64,
    ) -> bool {
        let Some(ahead) = stores.note(index, true, 0) else { return false };
        let Some((run, _)) = &ahead.wanted else { return false };
        let pages = run.start..(run.start + run.nr).min(self.mapping.nr_pages());
        let end = map(self.prepared(pages, true));
        if end > run.start {
            stores.advance(&ahead, end - 1);
        }
        end > run.start
    }

    fn go_ahead(&self, streams: &Streams, index: u64, noted: Noted) {
        let (mapping, Noted { is_write, was_missing, .. }) = (&self.mapping, noted);
        let wasted = mapping.wasted.load(Relaxed);
        let Some(mut ahead) = streams.note(index, was_missing, wasted) else { return };
        if let Some((run, reached)) = ahead.wanted.take() {
            let end = (run.start + run.nr).min(mapping.nr_pages());
            // Pages that were never stored need no read.
            let is_stored = |page| mapping.swap.as_ref().is_none_or(|swap| swap.is_stored(page));
            let nr = (run.start..end).take_while(|page| is_stored(*page)).count() as u64;
            if nr > 0 {
                let run = ReadaheadRun { nr, ..run };
                let mut wish = Wish::new(mapping, run, &reached);
                wish.is_for_maps = !is_write;
                self.engine.prefetcher.push(wish);
            }
        }
        let around = self.prepared(ahead.around.clone(), is_write);
        let start = around.start;
        let end = self.faults.map_resident(&self.engine, mapping, around, is_write);
        if end > start {
            streams.advance(&ahead, end - 1);
        }
    }

    /// Returns the leading pages that can be served without allocating.
    fn prepared(&self, pages: Range<u64>, is_write: bool) -> Range<u64> {
        let dirty = &self.mapping.dirty;
        let is_prepared =
            |page: &u64| self.memory.is_prepared(*page) && (!is_write || dirty.is_prepared(*page));
        pages.start..pages.start + pages.clone().take_while(is_prepared).count() as u64
    }
}

/// Faults for the helper. Posting a fault allocates nothing.
#[derive(Default)]
struct HelperQueue {
    state: Mutex<QueueState>,
    /// Signalled on a new fault, or when the queue closes.
    posted: Condvar,
    /// Signalled on a served fault, or a free slot.
    served: Condvar,
}

/// Maximum number of queued faults. Others wait for a slot.
const SLOTS: usize = 32;

#[derive(Default)]
struct QueueState {
    slots: [Slot; SLOTS],
    is_closed: bool,
}

#[derive(Clone, Copy, Default)]
enum Slot {
    #[default]
    Free,
    Waiting(Fault),
    Taken,
    Done(Served),
}

impl QueueState {
    fn find(&self, is_it: impl Fn(&Slot) -> bool) -> Option<usize> {
        self.slots.iter().position(is_it)
    }
}

impl HelperQueue {
    fn post(&self, fault: Fault) -> Served {
        let mut state = lock(&self.state);
        let at = loop {
            match state.find(|slot| matches!(slot, Slot::Free)) {
                Some(at) => break at,
                None => state = self.await_service(state),
            }
        };
        state.slots[at] = Slot::Waiting(fault);
        self.posted.notify_one();
        loop {
            if let Slot::Done(served) = state.slots[at] {
                state.slots[at] = Slot::Free;
                drop(state);
                self.served.notify_all();
                return served;
            }
            state = self.await_service(state);
        }
    }

    fn await_service<'s>(&self, state: MutexGuard<'s, QueueState>) -> MutexGuard<'s, QueueState> {
        self.served.wait(state).expect(POISONED)
    }

    fn work(&self, serve: impl Fn(Fault) -> Served) {
        let mut state = lock(&self.state);
        while !state.is_closed {
            let waiting = state.find(|slot| matches!(slot, Slot::Waiting(_)));
            let Some(at) = waiting else {
                state = self.posted.wait(state).expect(POISONED);
                continue;
            };
            let Slot::Waiting(fault) = std::mem::replace(&mut state.slots[at], Slot::Taken) else {
                unreachable!("it was found waiting, under the lock");
            };
            drop(state);
            let served = serve(fault);
            state = lock(&self.state);
            state.slots[at] = Slot::Done(served);
            self.served.notify_all();
        }
    }

    fn close(&self) {
        lock(&self.state).is_closed = true;
        self.posted.notify_all();
    }
}

/// Aborts on panic: otherwise the faulting thread waits forever.
struct AbortsOnPanic;

impl Drop for AbortsOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("a thread that serves the faults of a region panicked: the process ends");
            std::process::abort();
        }
    }
}
