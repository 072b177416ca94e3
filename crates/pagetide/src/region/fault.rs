//! Serving a fault: from an address that a thread waits at to a page that is mapped there.
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
//! Problem: user space cannot read accessed bits. So a page that is mapped counts as used until it
//! is taken out; what takes young bits away, or arms a page, takes it out (`pagetide_sys`,
//! `UnmapBatch`), and hears of the next use by a minor fault.
//!
//! Data and invariants: what is mapped is resident; what is mapped writable is dirty. A page that
//! is armed again while it is being mapped (core is not sure yet) has to be mapped all the same,
//! or its user would never get on: it is noted, and taken out at the next tick.
//!
//! Ignored: readahead. A fault brings one page.

use crate::engine::Engine;
use crate::engine::fill::{FillError, FillPlan, Filled};
use crate::engine::flush::{Flusher, SWAP_PART};
use crate::engine::mapping::Mapping;
use crate::engine::pass::Flushed;
use crate::engine::swap::SwapMap;
use crate::memory::locks::lock;
use crate::stats::counters::Event;
use pagetide_core::ids::PageIndex;
use pagetide_core::lru::AccessPath;
use pagetide_core::record::AccessKind;
use pagetide_sys::{FaultKind, Lock, PageHandle, UserAccess, current_cpu};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// How long to wait when no frame can be had and nothing can be written: all are pinned, or being
/// written.
const NO_FRAME_WAIT: Duration = Duration::from_millis(1);

/// Rounds of write-back that may fail, one after the other: all that only borrows room has been
/// tried then, a part at a time.
const FAILED_ROUNDS_MAX: u64 = SWAP_PART + 1;

/// What the handlers of a region share, and count. A fault is counted before its user goes on.
#[derive(Default)]
pub(super) struct Faults {
    /// By [`FaultKind`].
    pub(super) nr_served: [AtomicU64; 3],
    pub(super) nr_failed: AtomicU64,
    /// No thread will wait for a fault any more.
    pub(super) stops: AtomicBool,
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

    /// Serves a fault of a region's user on page `index`.
    pub(super) fn serve(&self, engine: &Engine, mapping: &Mapping, index: u64, is_write: bool) {
        if is_write {
            engine.flusher.balance_dirty(Flusher::flush_for_room);
        }
        let page = mapping.table.page_or_make(PageIndex(index));
        let mut run: Filled<'_> = vec![page.expect("a region is no longer than a table").lock()];
        let before = run[0].user_access();
        let was_resident = run[0].frame().is_some();
        let wanted = if is_write { UserAccess::Write } else { UserAccess::Read };
        if was_resident && before >= wanted {
            // Heard of late, or by two threads at once.
            return self.map_page(engine, mapping, &mut run[0], is_write);
        }
        let kind = if is_write { AccessKind::TableWrite } else { AccessKind::Table };
        if self.bring_in(engine, mapping, &mut run, kind).is_err() {
            self.count_failed(engine);
            return run[0].poison_user();
        }
        run[0].set_young();
        let kind = match (was_resident, before) {
            (false, _) => FaultKind::Missing,
            (true, UserAccess::None) => FaultKind::Minor,
            (true, _) => FaultKind::WriteProtect,
        };
        self.count(engine, kind);
        if run[0].page().load().is_hint() {
            lock(&mapping.rearm).push(PageIndex(index));
        }
        self.map_page(engine, mapping, &mut run[0], is_write);
        drop(run);
        engine.pages.record(mapping, index, AccessKind::Unpin);
    }

    /// Maps a resident page, dirty first if it is to be written.
    fn map_page<H: PageHandle>(
        &self,
        engine: &Engine,
        mapping: &Mapping,
        page: &mut Lock<H>,
        is_write: bool,
    ) {
        let index = page.page().index().0;
        let frame = page.frame().expect("a page that is mapped is resident");
        let mark_dirty = || engine.pages.mark_whole_dirty(mapping, index, frame);
        if is_write {
            mark_dirty();
        }
        match page.map_user(is_write) {
            // The kernel cannot map for reading alone.
            Ok(UserAccess::Write) if !is_write => mark_dirty(),
            Ok(_) => {}
            Err(error) => {
                eprintln!("a page of a region could not be mapped: {error}");
                self.count_failed(engine);
                page.poison_user();
            }
        }
    }

    /// As [`Filler::bring_in`](crate::engine::fill::Filler::bring_in); where there is no frame,
    /// waits until there is one, or until nothing that could leave memory can be written. It is one
    /// access, however long that takes.
    pub(super) fn bring_in<'m>(
        &self,
        engine: &Engine,
        mapping: &'m Mapping,
        run: &mut Filled<'m>,
        kind: AccessKind,
    ) -> io::Result<()> {
        let cpu = current_cpu();
        if engine.filler.note_table_access(cpu, mapping, run, kind, &engine.pages.counters) {
            return Ok(());
        }
        let mut nr_failed_rounds = 0;
        loop {
            match engine.filler.fill(cpu, mapping, run, FillPlan::one(AccessPath::Table)) {
                Ok(()) => return Ok(()),
                Err(FillError::Store(error)) => return Err(error),
                Err(FillError::NoFrame) if self.stops.load(Relaxed) => {
                    return Err(io::ErrorKind::OutOfMemory.into());
                }
                Err(FillError::NoFrame) => match engine.flusher.flush_for_room() {
                    Flushed { nr_written: 1.., .. } => nr_failed_rounds = 0,
                    Flushed { nr_failed: 0, .. } => std::thread::sleep(NO_FRAME_WAIT),
                    _ if nr_failed_rounds < FAILED_ROUNDS_MAX => nr_failed_rounds += 1,
                    _ => return Err(no_room_error(engine, mapping)),
                },
            }
        }
    }
}

/// Why nothing can leave memory: what the swap of this mapping says, or that of another.
fn no_room_error(engine: &Engine, mapping: &Mapping) -> io::Error {
    let own = mapping.swap.as_ref().and_then(SwapMap::failure);
    let others = engine.mappings.snapshot();
    let of_others = || others.iter().find_map(|other| other.swap.as_ref()?.failure());
    own.or_else(of_others).unwrap_or_else(|| {
        let text = "all frames hold pages that cannot be written";
        io::Error::new(io::ErrorKind::StorageFull, text)
    })
}
