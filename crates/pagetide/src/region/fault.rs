//! Serving a fault: from the faulting address to a mapped page.
//!
//! ```text
//!   fault --lock the page--> mapped enough? --yes--> map once more, wake
//!                                 | no
//!                                 v
//!              as a guard would: absent --fill--> resident --hint judged, young
//!                                 |  no frame: write back, try again
//!                                 v
//!              a store? mark dirty --> map (read-only for a load) --> wake, unlock
//! ```
//!
//! Problem: user space cannot read accessed bits. So code that clears the young bit or arms a hint
//! unmaps the page, and sees the next access. A mapped page counts as used.
//!
//! Data and invariants: a page is mapped under its own lock, or under the locks of a run that were
//! free. A mapped page is resident, and a page mapped writable is dirty. If a page is armed again
//! while it is being mapped (core is not sure yet), it is still mapped, so that its user makes
//! progress, and unmapped at the next tick.

use super::options::OnFailure;
use super::twice::Twice;
use crate::engine::Engine;
use crate::engine::fill::{FillError, FillPlan, Filled};
use crate::engine::flush::pass::Flushed;
use crate::engine::flush::{Flusher, SWAP_PART};
use crate::engine::mapping::Mapping;
use crate::engine::stats::counters::Event;
use crate::engine::swap::SwapMap;
use crate::memory::locks::lock;
use pagetide_core::driver;
use pagetide_core::folio::Flags;
use pagetide_core::ids::PageIndex;
use pagetide_core::lru::AccessPath;
use pagetide_core::record::AccessKind;
use pagetide_sys::{FaultKind, Lock, PageHandle, PageRef, Served, UserAccess, current_cpu};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Wait when all frames are pinned or in write-back.
const NO_FRAME_WAIT: Duration = Duration::from_millis(1);

/// Consecutive write-back rounds that may fail: all parts of the swapped pages are tried by then.
const FAILED_ROUNDS_MAX: u64 = SWAP_PART + 1;

/// Most pages that are locked and mapped together.
const RUN_MAX: usize = 32;

/// A fault is counted before its user resumes.
#[derive(Default)]
pub(super) struct Faults {
    /// Indexed by [`FaultKind`].
    pub(super) nr_served: [AtomicU64; 3],
    pub(super) nr_failed: AtomicU64,
    pub(super) nr_helped: AtomicU64,
    pub(super) twice: Twice,
    /// No thread waits for a fault any more.
    pub(super) stops: AtomicBool,
    pub(super) on_failure: Option<OnFailure>,
}

impl Faults {
    fn count(&self, engine: &Engine, kind: FaultKind) {
        let event = match kind {
            FaultKind::Missing => Event::RegionMissing,
            FaultKind::Minor => Event::RegionMinor,
            FaultKind::WriteProtect => Event::RegionWriteProtect,
        };
        engine.pages.counters.count(event);
        self.nr_served[kind as usize].fetch_add(1, Relaxed);
    }

    fn count_failed(&self, engine: &Engine) {
        engine.pages.counters.count(Event::RegionFailed);
        self.nr_failed.fetch_add(1, Relaxed);
    }

    /// Serves a fault on page `index`. `is_write` is the machine's report, if there is one. Calls
    /// `go_ahead` before the user resumes, with the page locked.
    pub(super) fn serve(
        &self,
        engine: &Engine,
        mapping: &Mapping,
        index: u64,
        is_write: Option<bool>,
        go_ahead: impl FnOnce(Noted),
    ) -> Served {
        if is_write != Some(false) {
            engine.flusher.balance_dirty(Flusher::flush_for_room);
        }
        let page = mapping.table.page_or_make(PageIndex(index));
        let mut run: Filled<'_> = vec![page.expect("a region is no longer than a table").lock()];
        let found = Found::of(&run[0], is_write);
        if found.is_served() {
            // A late or duplicate report.
            return self.map_page(engine, mapping, &mut run[0], found.is_write);
        }
        if let Err(error) = self.bring_in(engine, mapping, &mut run, found.access()) {
            if let Some(report) = &self.on_failure {
                report(&error);
            }
            return self.fail(engine, &run[0]);
        }
        run[0].set_young();
        self.count(engine, found.kind());
        if run[0].page().load().is_hint() {
            lock(&mapping.rearm).push(PageIndex(index));
        }
        go_ahead(found.noted());
        let served = self.map_page(engine, mapping, &mut run[0], found.is_write);
        drop(run);
        engine.pages.record(mapping, index, AccessKind::Unpin);
        served
    }

    /// Serves a fault on the accessing thread, at an arbitrary point of its code: allocates
    /// nothing, and waits only for the page and its store. Otherwise returns `None`, with no
    /// effect. For a load of an unmapped page, also tells whether the page was missing.
    pub(super) fn serve_here(
        &self,
        engine: &Engine,
        mapping: &Mapping,
        index: u64,
        is_write: Option<bool>,
    ) -> Option<(Served, Option<Noted>)> {
        let may_write = is_write != Some(false);
        if may_write && !(mapping.dirty.is_prepared(index) && engine.flusher.balances_at_once()) {
            return None;
        }
        let mut page = mapping.table.page(PageIndex(index))?.lock();
        let found = Found::of(&page, is_write);
        let mut is_mapped = false;
        if !found.is_served() {
            let cpu = current_cpu();
            let brought = engine.filler.bring_in_here(cpu, mapping, &mut page, found.access())?;
            // The helper repeats the read, and reports its error.
            let Ok(mapped) = brought else { return None };
            is_mapped = mapped;
            page.set_young();
            self.count(engine, found.kind());
        }
        note_used(engine, &page);
        let served = match is_mapped {
            true => Served::Yes,
            false => self.map_page(engine, mapping, &mut page, found.is_write),
        };
        let is_noted = !found.is_served() && served == Served::Yes;
        Some((served, is_noted.then_some(found.noted())))
    }

    /// Maps zero pages ahead of expected stores, as far as that is easy. Returns the end of the
    /// range. Never allocates or blocks.
    pub(super) fn map_zeros(&self, engine: &Engine, mapping: &Mapping, pages: Range<u64>) -> u64 {
        let mut next = pages.start;
        while next < pages.end {
            let end = engine.filler.map_zeros_here(current_cpu(), mapping, next..pages.end);
            if end == next {
                break;
            }
            next = end;
        }
        next
    }

    /// Maps the leading resident pages for loads, or dirty for stores. Returns the end of the
    /// range. Never blocks. Allocates only for stores to pages whose dirty index is not prepared.
    pub(super) fn map_resident(
        &self,
        engine: &Engine,
        mapping: &Mapping,
        pages: Range<u64>,
        is_write: bool,
    ) -> u64 {
        let mut next = pages.start;
        while next < pages.end {
            let end = pages.end.min(next + RUN_MAX as u64);
            let mapped = self.map_run(engine, mapping, next..end, is_write);
            if mapped < end {
                return mapped;
            }
            next = end;
        }
        pages.end
    }

    fn map_run(
        &self,
        engine: &Engine,
        mapping: &Mapping,
        pages: Range<u64>,
        is_write: bool,
    ) -> u64 {
        let lock_resident = |index| {
            let page = mapping.table.page(PageIndex(index))?.try_lock().ok()?;
            page.frame().is_some().then_some(page)
        };
        let mut run: [Option<Lock<PageRef<'_>>>; RUN_MAX] = [const { None }; RUN_MAX];
        let mut nr = 0;
        for index in pages.clone() {
            let Some(page) = lock_resident(index) else { break };
            run[nr] = Some(page);
            nr += 1;
        }
        let mut rest = &mut run[..nr];
        while let Some(first) = rest.first_mut().and_then(Option::as_mut) {
            let nr_done = match first.user_access() {
                UserAccess::None => self.map_first(engine, mapping, rest, is_write),
                UserAccess::Read if is_write => self.unprotect_first(engine, mapping, rest),
                _ => 1,
            };
            if nr_done == 0 {
                return pages.start + (nr - rest.len()) as u64;
            }
            rest = &mut rest[nr_done..];
        }
        pages.start + nr as u64
    }

    /// Maps the first page, and the pages after it that can be mapped with it.
    fn map_first(
        &self,
        engine: &Engine,
        mapping: &Mapping,
        pages: &mut [Option<Lock<PageRef<'_>>>],
        is_write: bool,
    ) -> usize {
        let is_clean = |page: &Option<Lock<PageRef<'_>>>| {
            let frame = page.as_ref().and_then(Lock::frame);
            frame.is_some_and(|frame| !engine.pages.folios[frame].flags().any(Flags::DIRTY))
        };
        let is_absent = |page: &Option<Lock<PageRef<'_>>>| {
            page.as_ref().is_some_and(|page| page.user_access() == UserAccess::None)
        };
        let nr = pages.iter().take_while(|page| is_absent(page) && (is_write || is_clean(page)));
        let nr = nr.count();
        if is_write {
            mark_dirty(engine, mapping, &pages[..nr]);
        }
        let mut nr_done = Lock::map_run(&mut pages[..nr], is_write);
        if nr_done == 0
            && let Some(Some(first)) = pages.first_mut()
        {
            nr_done = usize::from(self.map_page(engine, mapping, first, is_write) == Served::Yes);
        }
        note_all_used(engine, mapping, &mut pages[..nr_done], is_write);
        nr_done
    }

    /// Lets the user store to the first page, and to the pages after it that the user may read.
    fn unprotect_first(
        &self,
        engine: &Engine,
        mapping: &Mapping,
        pages: &mut [Option<Lock<PageRef<'_>>>],
    ) -> usize {
        let is_read = |page: &Option<Lock<PageRef<'_>>>| {
            page.as_ref().is_some_and(|page| page.user_access() == UserAccess::Read)
        };
        let nr = pages.iter().take_while(|page| is_read(page)).count();
        mark_dirty(engine, mapping, &pages[..nr]);
        let nr_done = Lock::unprotect_run(&mut pages[..nr]);
        note_all_used(engine, mapping, &mut pages[..nr_done], true);
        nr_done
    }

    fn fail<H: PageHandle>(&self, engine: &Engine, page: &Lock<H>) -> Served {
        self.count_failed(engine);
        page.poison_user();
        Served::No
    }

    pub(super) fn map_page<H: PageHandle>(
        &self,
        engine: &Engine,
        mapping: &Mapping,
        page: &mut Lock<H>,
        is_write: bool,
    ) -> Served {
        let index = page.page().index().0;
        let frame = page.frame().expect("a page that is mapped is resident");
        // Saves faults of later stores.
        let is_write = is_write || engine.pages.folios[frame].flags().any(Flags::DIRTY);
        if is_write {
            engine.pages.mark_whole_dirty(mapping, index, frame);
        }
        // Fails only if the kernel is out of memory.
        if !self.twice.map(mapping, page, is_write) && page.map_user(is_write).is_err() {
            return self.fail(engine, page);
        }
        Served::Yes
    }

    /// Waits for a free frame if needed, until no page can be written back. Counts as one access.
    pub(super) fn bring_in<'m>(
        &self,
        engine: &Engine,
        mapping: &'m Mapping,
        run: &mut Filled<'m>,
        kind: AccessKind,
    ) -> io::Result<()> {
        let cpu = current_cpu();
        let counters = &engine.pages.counters;
        if engine.filler.note_table_access(cpu, mapping, &mut run[0], kind, counters) {
            return Ok(());
        }
        let fill = || match engine.filler.fill(cpu, mapping, run, FillPlan::one(AccessPath::Table))
        {
            Ok(()) => Some(Ok(())),
            Err(FillError::Store(error)) => Some(Err(error)),
            Err(FillError::NoFrame) if self.stops.load(Relaxed) => {
                Some(Err(io::ErrorKind::OutOfMemory.into()))
            }
            Err(FillError::NoFrame) => None,
        };
        let write_back = || {
            let Flushed { nr_written, nr_failed, .. } = engine.flusher.flush_for_room();
            (nr_written, nr_failed)
        };
        let wait = || std::thread::sleep(NO_FRAME_WAIT);
        driver::wait_for_room(FAILED_ROUNDS_MAX, fill, write_back, wait)
            .unwrap_or_else(|| Err(no_room_error(engine, mapping)))
    }
}

fn mark_dirty(engine: &Engine, mapping: &Mapping, pages: &[Option<Lock<PageRef<'_>>>]) {
    for page in pages.iter().flatten() {
        let frame = page.frame().expect("the pages of a run are resident");
        engine.pages.mark_whole_dirty(mapping, page.page().index().0, frame);
    }
}

fn note_all_used(
    engine: &Engine,
    mapping: &Mapping,
    pages: &mut [Option<Lock<PageRef<'_>>>],
    is_write: bool,
) {
    let (cpu, counters) = (current_cpu(), &engine.pages.counters);
    let kind = if is_write { AccessKind::TableWrite } else { AccessKind::Table };
    for page in pages.iter_mut().flatten() {
        engine.filler.note_table_access(cpu, mapping, page, kind, counters);
        page.set_young();
        note_used(engine, page);
    }
}

pub(super) fn note_used<H: PageHandle>(engine: &Engine, page: &Lock<H>) {
    if let Some(frame) = page.frame() {
        engine.pages.folios[frame].clear(Flags::READAHEAD.with(Flags::PREFETCHED));
    }
}

#[derive(Clone, Copy)]
pub(super) struct Noted {
    pub(super) is_write: bool,
    pub(super) was_missing: bool,
    pub(super) before: UserAccess,
}

struct Found {
    was_resident: bool,
    before: UserAccess,
    is_write: bool,
}

impl Found {
    fn of<H: PageHandle>(page: &Lock<H>, is_write: Option<bool>) -> Found {
        let before = page.user_access();
        // If the machine does not tell: the first fault is a load, and a fault on a page mapped for
        // loads is a store.
        let is_write = is_write.unwrap_or(before != UserAccess::None);
        Found { was_resident: page.frame().is_some(), before, is_write }
    }

    fn is_served(&self) -> bool {
        let wanted = if self.is_write { UserAccess::Write } else { UserAccess::Read };
        self.was_resident && self.before >= wanted
    }

    fn noted(&self) -> Noted {
        Noted { is_write: self.is_write, was_missing: !self.was_resident, before: self.before }
    }

    fn access(&self) -> AccessKind {
        if self.is_write { AccessKind::TableWrite } else { AccessKind::Table }
    }

    fn kind(&self) -> FaultKind {
        match (self.was_resident, self.before) {
            (false, _) => FaultKind::Missing,
            (true, UserAccess::None) => FaultKind::Minor,
            (true, _) => FaultKind::WriteProtect,
        }
    }
}

/// Finds the swap error, here or in another mapping, that keeps pages in memory.
fn no_room_error(engine: &Engine, mapping: &Mapping) -> io::Error {
    let own = mapping.swap.as_ref().and_then(SwapMap::failure);
    let others = engine.mappings.snapshot();
    let of_others = || others.iter().find_map(|other| other.swap.as_ref()?.failure());
    own.or_else(of_others).unwrap_or_else(|| {
        let text = "all frames hold pages that cannot be written";
        io::Error::new(io::ErrorKind::StorageFull, text)
    })
}
