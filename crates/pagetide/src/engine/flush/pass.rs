//! One pass of write-back over a mapping.
//!
//! A page is copied out under a shared pin, so the store gets a consistent page and writers never
//! wait for the device. Until the store answers, the folio cannot be evicted.
//!
//! ```text
//!   dirty index --next_run--> pin, copy, DIRTY -> WRITEBACK --> in flight --ok--> clean
//!                                                                  |
//!                                                                  +--error--> dirty again, in the
//!                             index again, and numbered for the next sync of every handle
//! ```
//!
//! If other programs can change the file, only bytes written here are stored: whole pages in long
//! requests, past the kernel's cache, and parts of pages through it.

use crate::engine::flush::scope::{Chosen, OnLocked, PassScope};
use crate::engine::in_flight::InFlight;
use crate::engine::mapping::Mapping;
use crate::engine::pages::Pages;
use crate::engine::stats::counters::Event;
use crate::engine::written::Written;
use crate::memory::io_pool::IoPool;
use crate::memory::store::Backing;
use pagetide_core::folio::Flags;
use pagetide_core::ids::{FrameId, PageIndex};
use pagetide_core::record;
use pagetide_core::units::{PAGE_BYTES, PAGE_SHIFT};
use pagetide_sys::{
    AlignedBuf, Completion, IoQueue, Lock, PageRef, Pin, PinRefused, StoreError, Touch, current_cpu,
};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Pages in one write request: 256 KiB.
pub(crate) const RUN_MAX: u64 = 64;
/// Buffer size for shorter runs: mapping [`RUN_MAX`] pages costs more than the write.
const SHORT_RUN: u64 = 8;
/// Long runs in flight: at most 2 MiB of copies.
const LONG_IN_FLIGHT: usize = 8;
/// Requests for short runs submitted in one call, with one notification of the device.
const SHORT_TOGETHER: u32 = 16;
/// Polls of a locked page before a pass ends there: most are locked for a copy.
const LOOKS_MAX: u32 = 64;
/// Partly written pages that the kernel completes at once.
const PREPARED: usize = 128;
/// Maximum number of region pages protected together, and their maximum span.
const PROTECTED: usize = 64;
const PROTECTED_SPAN: u64 = 4096;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Flushed {
    pub(crate) nr_written: u64,
    pub(crate) nr_failed: u64,
    /// Locked page at which the pass ended.
    pub(crate) ended_at: Option<u64>,
}

impl Flushed {
    pub(crate) fn add(&mut self, other: Flushed) {
        self.nr_written += other.nr_written;
        self.nr_failed += other.nr_failed;
        self.ended_at = other.ended_at;
    }
}

struct Run {
    start: u64,
    pages: Vec<Copied>,
    /// End of the written bytes in the file.
    end: u64,
}

struct Copied {
    frame: FrameId,
    /// Dirty range to restore if the store fails.
    written: Written,
}

struct Snapshot {
    page: Copied,
    /// Bytes within the file.
    nr_bytes: usize,
}

pub(crate) struct Pass<'e> {
    pages: &'e Pages,
    io: &'e IoPool,
    mapping: &'e Mapping,
    backing: Arc<Backing>,
    queue: IoQueue,
    in_flight: InFlight<Run>,
    spare: Vec<AlignedBuf>,
    on_locked: OnLocked,
    chosen: Chosen,
    flushed: Flushed,
    nr_unsubmitted: u32,
    nr_left: u64,
    /// End of the pages prepared for writing: read by the kernel, protected, or taken from the
    /// processes that may write them.
    prepared_to: u64,
}

impl<'e> Pass<'e> {
    pub(crate) fn new(
        pages: &'e Pages,
        io: &'e IoPool,
        mapping: &'e Mapping,
        backing: &Arc<Backing>,
        scope: PassScope,
    ) -> Pass<'e> {
        Pass {
            pages,
            io,
            mapping,
            backing: Arc::clone(backing),
            queue: io.take(),
            in_flight: InFlight::new(),
            spare: io.take_buffers(),
            on_locked: scope.on_locked,
            chosen: scope.chosen,
            flushed: Flushed::default(),
            nr_unsubmitted: 0,
            nr_left: scope.nr_max,
            prepared_to: 0,
        }
    }

    pub(crate) fn run(mut self, range: Range<u64>) -> Flushed {
        let mut from = range.start;
        while self.nr_left > 0
            && self.flushed.ended_at.is_none()
            && let Some(run) = self.mapping.dirty.next_run(from, RUN_MAX.min(self.nr_left))
        {
            if run.start >= range.end {
                break;
            }
            from = run.end;
            if self.chosen == Chosen::Met {
                if !run.clone().any(|index| self.is_met(index)) {
                    continue;
                }
                self.protect_next(run.start, run.end);
            } else {
                self.prepare_parts(run.start, range.end);
                self.protect_next(run.start, range.end);
                self.take_next(run.start, range.end);
            }
            self.nr_left -= run.end - run.start;
            self.write_run(run);
        }
        if let Some(swap) = &self.mapping.swap
            && self.chosen == Chosen::All
        {
            swap.end_part(from);
        }
        self.queue.submit();
        while self.queue.nr_pending() > 0 {
            self.reap(1);
        }
        self.io.give_back(self.queue);
        self.io.give_back_buffers(self.spare);
        self.flushed
    }

    /// Returns true if reclaim waits for the page to be clean.
    fn is_met(&self, index: u64) -> bool {
        let page = self.mapping.table.page(PageIndex(index));
        let frame = page.and_then(|page| page.load().frame());
        frame.is_some_and(|frame| self.pages.folios[frame].flags().any(Flags::RECLAIM))
    }

    /// Has the kernel read the next partly written pages, all at once.
    fn prepare_parts(&mut self, from: u64, end: u64) {
        let Some(file) = self.backing.file() else { return };
        if from < self.prepared_to || !self.mapping.agreement.is_shared() {
            return;
        }
        let next = self.mapping.dirty.collect_partial(from, PREPARED);
        let stored = self.mapping.stored_len();
        let in_store = |index: &&u64| **index < end && **index << PAGE_SHIFT < stored;
        next.iter().filter(in_store).for_each(|index| file.prepare_part(index << PAGE_SHIFT));
        self.prepared_to = next.last().map_or(end, |last| last + 1);
    }

    /// Write-protects the next pages of a region, all at once: each call interrupts every CPU that
    /// runs the user.
    fn protect_next(&mut self, from: u64, end: u64) {
        if from < self.prepared_to || !self.mapping.is_region() {
            return;
        }
        let table = &self.mapping.table;
        let lock = |index: &u64| table.page(PageIndex(*index))?.try_lock().ok();
        let locks: Vec<_> = self.next_to_prepare(from, end).iter().filter_map(lock).collect();
        Lock::protect_all_from_user(&locks);
    }

    /// Takes the next pages from other processes that may store to them, all at once.
    fn take_next(&mut self, from: u64, end: u64) {
        let table = &self.mapping.table;
        if from < self.prepared_to || !table.page_file().is_some_and(|file| file.has_writers()) {
            return;
        }
        let lock = |index: &u64| {
            let page = table.page(PageIndex(*index)).filter(|page| page.is_written_in_file())?;
            page.try_lock().ok()
        };
        let mut locks: Vec<_> = self.next_to_prepare(from, end).iter().filter_map(lock).collect();
        Lock::take_written_from_file(&mut locks);
    }

    fn next_to_prepare(&mut self, from: u64, end: u64) -> Vec<u64> {
        let nr_max = PROTECTED.min(self.nr_left as usize);
        let next = self.mapping.dirty.collect_in(from..end.min(from + PROTECTED_SPAN), nr_max);
        self.prepared_to = next.last().map_or(from, |last| last + 1);
        next
    }

    /// Writes a run, which dropped and partly written pages split.
    fn write_run(&mut self, range: Range<u64>) {
        let nr_pages = range.end - range.start;
        let mut buffer = self.buffer(nr_pages);
        let mut run = Run::at(range.start);
        for index in range {
            let at = run.pages.len() * PAGE_BYTES;
            let copy = &mut buffer[at..at + PAGE_BYTES];
            let copied = self.snapshot(index, copy);
            if let Some(Snapshot { page, nr_bytes }) = copied {
                let pieces = page.written.pieces(nr_bytes);
                if matches!(&pieces[..], [all] if *all == (0..nr_bytes)) {
                    run.end = (index << PAGE_SHIFT) + nr_bytes as u64;
                    run.pages.push(page);
                    continue;
                }
                let bytes = copy.to_vec();
                self.write_pieces(index, page, &bytes, &pieces);
            }
            let before = std::mem::replace(&mut run, Run::at(index + 1));
            if !before.pages.is_empty() {
                let filled = std::mem::replace(&mut buffer, self.buffer(nr_pages));
                self.submit(before, filled);
            }
            if self.flushed.ended_at.is_some() {
                break;
            }
        }
        self.submit(run, buffer);
    }

    fn write_pieces(&mut self, index: u64, page: Copied, bytes: &[u8], pieces: &[Range<usize>]) {
        let start = index << PAGE_SHIFT;
        let mut result = Ok(());
        let mut run = Run::at(index);
        run.pages.push(page);
        for piece in pieces {
            let counters = &self.pages.counters;
            counters.count(Event::DeviceWrite);
            counters.add(Event::DeviceWriteBytes, piece.len() as u64);
            run.end = start + piece.end as u64;
            self.note_submitted(run.end);
            let offset = start + piece.start as u64;
            result = result.and_then(|()| self.backing.write_bytes(&bytes[piece.clone()], offset));
        }
        self.complete(run, result);
    }

    fn note_submitted(&self, end: u64) {
        if self.mapping.agreement.is_shared() {
            self.mapping.agreement.lock().may_grow_to(end);
        }
    }

    fn buffer(&mut self, nr_pages: u64) -> AlignedBuf {
        let nr_pages = match nr_pages {
            1 => 1,
            ..=SHORT_RUN => SHORT_RUN,
            _ => RUN_MAX,
        };
        while nr_pages == RUN_MAX && self.queue.nr_pending() >= LONG_IN_FLIGHT {
            self.reap(1);
        }
        let nr_bytes = nr_pages as usize * PAGE_BYTES;
        let fitting = self.spare.iter().enumerate().filter(|(_, spare)| spare.len() >= nr_bytes);
        let shortest = fitting.min_by_key(|(_, spare)| spare.len()).map(|(at, _)| at);
        shortest.map_or_else(|| AlignedBuf::zeroed(nr_bytes), |at| self.spare.swap_remove(at))
    }

    /// Copies one page out and marks it under write-back. Returns `None` if the page was dropped,
    /// lies past the end of the file, or is locked.
    fn snapshot(&mut self, index: u64, target: &mut [u8]) -> Option<Snapshot> {
        let page = self.mapping.table.page(PageIndex(index))?;
        if self.mapping.is_region() {
            return self.snapshot_of_region(page, target);
        }
        let mut nr_looks = 0;
        loop {
            match pin_unwritten(page) {
                Ok(pin) => {
                    let folio = &self.pages.folios[pin.frame()];
                    if !folio.flags().any(Flags::DIRTY) {
                        return None;
                    }
                    let cut = self.mapping.leaving.cut_of(index).unwrap_or(PAGE_BYTES);
                    let nr_bytes = self.mapping.bytes_in_page(PageIndex(index));
                    let written = self.mapping.dirty.take(index).unwrap_or(Written::WHOLE);
                    if nr_bytes.min(cut) == 0 {
                        // A guard from before a truncation changed the page afterwards.
                        folio.clear(Flags::DIRTY);
                        self.pages.uncount_dirty(self.mapping, 1);
                        self.pages.record(self.mapping, index, record::AccessKind::Clean);
                        return None;
                    }
                    target.copy_from_slice(pin.bytes());
                    target[cut..].fill(0);
                    folio.update(|flags| Some(flags.without(Flags::DIRTY).with(Flags::WRITEBACK)));
                    return Some(Snapshot {
                        page: Copied { frame: pin.frame(), written },
                        nr_bytes,
                    });
                }
                Err(PinRefused::NotResident) => return None,
                Err(PinRefused::Locked) => {
                    let is_worth_another = self.on_locked == OnLocked::End && nr_looks < LOOKS_MAX;
                    if !is_worth_another {
                        self.note_locked(index);
                        return None;
                    }
                    nr_looks += 1;
                    std::thread::yield_now();
                }
                // All pin counts are in use, briefly: no need to sleep.
                Err(_) => std::thread::yield_now(),
            }
        }
    }

    fn note_locked(&mut self, index: u64) {
        if self.on_locked == OnLocked::End {
            self.flushed.ended_at = Some(index);
        }
    }

    /// A later store faults, waits for the lock, and makes the page dirty again.
    fn snapshot_of_region(&mut self, page: PageRef<'_>, target: &mut [u8]) -> Option<Snapshot> {
        let Ok(lock) = page.try_lock() else {
            self.note_locked(page.index().0);
            return None;
        };
        let frame = lock.frame()?;
        let folio = &self.pages.folios[frame];
        if !folio.flags().any(Flags::DIRTY) {
            return None;
        }
        let written = self.mapping.dirty.take(page.index().0).unwrap_or(Written::WHOLE);
        let nr_bytes = self.mapping.bytes_in_page(page.index());
        lock.protect_from_user();
        if nr_bytes == 0 {
            // The file has shrunk: the page is dropped, as the kernel does.
            folio.clear(Flags::DIRTY);
            self.pages.uncount_dirty(self.mapping, 1);
            return None;
        }
        lock.read(0, target);
        folio.update(|flags| Some(flags.without(Flags::DIRTY).with(Flags::WRITEBACK)));
        Some(Snapshot { page: Copied { frame, written }, nr_bytes })
    }

    fn submit(&mut self, run: Run, buffer: AlignedBuf) {
        if run.pages.is_empty() {
            return self.spare.push(buffer);
        }
        let offset = run.start << PAGE_SHIFT;
        let len = (run.end - offset) as usize;
        self.pages.counters.count(Event::DeviceWrite);
        self.pages.counters.add(Event::DeviceWriteBytes, len as u64);
        self.note_submitted(run.end);
        let backing = Arc::clone(&self.backing);
        let Some(file) = backing.file() else {
            let result = backing.write_bytes(&buffer[..len], offset);
            self.spare.push(buffer);
            return self.complete(run, result);
        };
        let is_short = run.pages.len() as u64 <= SHORT_RUN;
        let token = self.in_flight.insert(run);
        self.queue.submit_write(Arc::clone(file), offset, buffer, len, token);
        self.nr_unsubmitted += 1;
        if !is_short || self.nr_unsubmitted == SHORT_TOGETHER {
            self.nr_unsubmitted = 0;
            self.reap(0);
        }
    }

    fn reap(&mut self, nr_min: usize) {
        let mut completions = Vec::new();
        self.queue.reap(nr_min, &mut completions);
        for completion in completions {
            let Completion::Write { token, buffer, result } = completion else { continue };
            self.spare.push(buffer);
            if let Some(run) = self.in_flight.take(token) {
                self.complete(run, result.map_err(StoreError::into_os_error));
            }
        }
    }

    fn complete(&mut self, run: Run, result: io::Result<()>) {
        let nr = run.pages.len() as u64;
        match result {
            Ok(()) => {
                self.mapping.note_stored(run.end);
                if let Some(swap) = &self.mapping.swap {
                    // First, because clean pages can be evicted.
                    (run.start..run.start + nr).for_each(|index| swap.note_stored(index));
                }
                (run.start..).zip(&run.pages).for_each(|(index, page)| {
                    self.set_clean(index, page.frame);
                });
                self.flushed.nr_written += nr;
                self.pages.uncount_dirty(self.mapping, nr);
            }
            Err(error) => {
                self.mapping.record_error(&error);
                if let Some(swap) = &self.mapping.swap {
                    swap.note_failure(&error);
                }
                (run.start..).zip(&run.pages).for_each(|(index, page)| {
                    self.set_dirty_again(index, page);
                });
                self.flushed.nr_failed += nr;
            }
        }
    }

    fn set_clean(&self, index: u64, frame: FrameId) {
        let folio = &self.pages.folios[frame];
        let before = folio.clear(Flags::WRITEBACK);
        if !before.any(Flags::DIRTY) {
            self.pages.record(self.mapping, index, record::AccessKind::Clean);
        }
        if before.any(Flags::RECLAIM) && !before.any(Flags::DIRTY) {
            folio.clear(Flags::RECLAIM);
            self.pages.nodes.of(frame).log_rotation(current_cpu(), frame);
        }
    }

    fn set_dirty_again(&self, index: u64, page: &Copied) {
        let dirty_again = |flags: Flags| Some(flags.without(Flags::WRITEBACK).with(Flags::DIRTY));
        // Before the flag: a dirty page is always in the index.
        self.mapping.dirty.insert(index, &page.written);
        let before = self.pages.folios[page.frame].update(dirty_again);
        if before.any(Flags::DIRTY) {
            // A concurrent writer counted the page once more.
            self.pages.uncount_dirty(self.mapping, 1);
        }
    }
}

/// Pins a page, and takes it from other processes that may store to it.
fn pin_unwritten(page: PageRef<'_>) -> Result<Pin<PageRef<'_>>, PinRefused> {
    loop {
        let pin = if page.is_written_in_file() {
            let mut lock = page.try_lock().map_err(|_| PinRefused::Locked)?;
            lock.take_from_file();
            lock.downgrade(Touch::Quiet).map_err(|_| PinRefused::NotResident)?
        } else {
            page.try_pin(Touch::Quiet)?
        };
        // A store may have been allowed in between.
        if !page.is_written_in_file() {
            return Ok(pin);
        }
    }
}

impl Run {
    fn at(start: u64) -> Run {
        Run { start, pages: Vec::new(), end: start << PAGE_SHIFT }
    }
}
