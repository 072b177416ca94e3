//! Write-back: dirty pages to the store, and what happens when that fails.
//!
//! Each page is copied out under a shared pin, so what is written is one state of the page and
//! writers never wait for the device; the copy is what the store gets. From the copy until the
//! store's answer the folio is under write-back and cannot be evicted.
//!
//! ```text
//!   dirty index --take_run--> pin, copy, DIRTY -> WRITEBACK --> in flight --ok--> clean
//!                                                                  |
//!                                                                  +--error--> dirty again, in the
//!                             index again, and numbered for the next sync of every handle
//! ```
//!
//! One thread at a time writes back a mapping (`mapping.flush`), front to back, once: a pass ends
//! even while writers go on.

use crate::counters::Event;
use crate::engine::Engine;
use crate::in_flight::InFlight;
use crate::locks::{Wake, lock};
use crate::mapping::Mapping;
use crate::store::Backing;
use pagetide_core::folio::Flags;
use pagetide_core::ids::{FrameId, PageIndex};
use pagetide_core::record;
use pagetide_core::units::{PAGE_BYTES, PAGE_SHIFT};
use pagetide_core::writeback::Balance;
use pagetide_sys::{AlignedBuf, Completion, IoQueue, PageRef, PinRefused, Touch, current_cpu};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Pages in one write request: 256 KiB. With 32 in flight, 8 MiB of copies at the most.
const RUN_MAX: u64 = 64;
/// Dirty pages nobody asked to write are written after at most this.
const FLUSH_INTERVAL: Duration = Duration::from_secs(5);

/// What a pass does about a page that somebody has locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnLocked {
    /// Waits: the caller needs the page written.
    Wait,
    /// Leaves it dirty: whoever has locked it may be waiting for the pass, or be the caller.
    Skip,
}

/// Of the frames, one in so many is written at a time of pages that only borrow room.
pub(crate) const SWAP_PART: u64 = 8;

/// What a pass did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Flushed {
    /// Pages the store has now.
    pub(crate) nr_written: u64,
    /// Pages that are dirty again.
    pub(crate) nr_failed: u64,
}

impl Flushed {
    fn add(&mut self, other: Flushed) {
        self.nr_written += other.nr_written;
        self.nr_failed += other.nr_failed;
    }
}

/// Pages in flight together: neighbours, copied into one buffer.
struct Run {
    start: u64,
    frames: Vec<FrameId>,
    /// Where the written bytes end in the file.
    end: u64,
}

/// One pass over a mapping.
struct Pass<'e> {
    engine: &'e Engine,
    mapping: &'e Mapping,
    backing: Arc<Backing>,
    queue: IoQueue,
    in_flight: InFlight<Run>,
    /// Buffers of what has been written.
    spare: Vec<AlignedBuf>,
    on_locked: OnLocked,
    flushed: Flushed,
    /// Pages it may take yet.
    nr_left: u64,
}

impl Engine {
    /// Writes back the mapping's pages in `range` that are dirty now. Errors are recorded in the
    /// mapping; the pages concerned are dirty again.
    pub(crate) fn flush(&self, mapping: &Mapping, range: Range<u64>) -> Flushed {
        let _turn = lock(&mapping.flush);
        self.flush_locked(mapping, range, OnLocked::Wait, u64::MAX)
    }

    /// As [`Engine::flush`], for a caller that holds `mapping.flush`.
    fn flush_locked(
        &self,
        mapping: &Mapping,
        range: Range<u64>,
        on_locked: OnLocked,
        nr_max: u64,
    ) -> Flushed {
        if mapping.dirty.is_empty() {
            return Flushed::default();
        }
        let Ok(backing) = mapping.backing() else { return Flushed::default() };
        let mut pass = Pass {
            engine: self,
            mapping,
            backing,
            queue: self.io.take(),
            in_flight: InFlight::new(),
            spare: Vec::new(),
            on_locked,
            flushed: Flushed::default(),
            nr_left: nr_max,
        };
        pass.run(range);
        mapping.refresh_fingerprint(&pass.backing);
        self.io.give_back(pass.queue);
        pass.flushed
    }

    /// Writes back everything, everywhere, but for what only borrows room in a store.
    pub(crate) fn flush_all(&self, on_locked: OnLocked) -> Flushed {
        let mut total = Flushed::default();
        for mapping in self.mappings.snapshot().iter().filter(|mapping| mapping.swap.is_none()) {
            let turn = lock(&mapping.flush);
            total.add(self.flush_locked(mapping, 0..u64::MAX, on_locked, u64::MAX));
            drop(turn);
            mapping.close_if_idle();
        }
        total
    }

    /// Writes back what keeps frames from being reclaimed, of mappings that nobody else is writing
    /// back; of pages that only borrow room, a part at a time, in turn. Waits for no page, and for
    /// nobody's turn: the caller may be serving a fault.
    pub(crate) fn flush_for_room(&self) -> Flushed {
        let mut total = Flushed::default();
        for mapping in self.mappings.snapshot() {
            let Ok(turn) = mapping.flush.try_lock() else { continue };
            let Some(swap) = &mapping.swap else {
                total.add(self.flush_locked(&mapping, 0..u64::MAX, OnLocked::Skip, u64::MAX));
                drop(turn);
                mapping.close_if_idle();
                continue;
            };
            let nr_max = (self.nodes.nr_frames() / SWAP_PART).max(RUN_MAX);
            let from = swap.begin_part();
            for range in [from..u64::MAX, 0..from] {
                let nr_left = nr_max.saturating_sub(total.nr_written);
                if nr_left > 0 {
                    total.add(self.flush_locked(&mapping, range, OnLocked::Skip, nr_left));
                }
            }
        }
        total
    }

    /// Has who makes pages dirty wake the flusher, or wait for it, as the limits say; where there
    /// is none, `flush` by itself.
    pub(crate) fn balance_dirty(&self, flush: impl FnOnce(&Engine) -> Flushed) {
        match self.dirty.balance() {
            Balance::Continue => {}
            Balance::WakeFlusher | Balance::Wait if !self.has_workers => {
                flush(self);
            }
            Balance::WakeFlusher => self.flusher.notify(),
            Balance::Wait => self.dirty.wait_below_hard(|| self.flusher.notify()),
        }
    }
}

impl Pass<'_> {
    fn run(&mut self, range: Range<u64>) {
        let mut from = range.start;
        while self.nr_left > 0
            && let Some(run) = self.mapping.dirty.take_run(from, RUN_MAX.min(self.nr_left))
        {
            if run.start >= range.end {
                run.for_each(|index| self.mapping.dirty.insert(index));
                break;
            }
            from = run.end;
            self.nr_left -= run.end - run.start;
            self.write_run(run);
        }
        if let Some(swap) = &self.mapping.swap {
            swap.end_part(from);
        }
        self.queue.submit();
        while self.queue.nr_pending() > 0 {
            self.reap(1);
        }
    }

    /// Copies the pages and submits them; pages that went away meanwhile split the run.
    fn write_run(&mut self, range: Range<u64>) {
        let mut buffer = self.buffer();
        let mut run =
            Run { start: range.start, frames: Vec::new(), end: range.start << PAGE_SHIFT };
        for index in range {
            let at = run.frames.len() * PAGE_BYTES;
            match self.snapshot(index, &mut buffer[at..at + PAGE_BYTES]) {
                Some((frame, nr_bytes)) => {
                    run.frames.push(frame);
                    run.end = (index << PAGE_SHIFT) + nr_bytes as u64;
                }
                None => {
                    let next = Run { start: index + 1, frames: Vec::new(), end: 0 };
                    let before = std::mem::replace(&mut run, next);
                    if !before.frames.is_empty() {
                        let filled = std::mem::replace(&mut buffer, self.buffer());
                        self.submit(before, filled);
                    }
                }
            }
        }
        self.submit(run, buffer);
    }

    /// Room for the longest run; what is in it is to be written over.
    fn buffer(&mut self) -> AlignedBuf {
        self.spare.pop().unwrap_or_else(|| AlignedBuf::zeroed(RUN_MAX as usize * PAGE_BYTES))
    }

    /// Copies one page out and turns it from dirty to under write-back. `None` if there is nothing
    /// to write: it was dropped, or lies past the end of the file.
    fn snapshot(&self, index: u64, target: &mut [u8]) -> Option<(FrameId, usize)> {
        let page = self.mapping.table.page(PageIndex(index))?;
        if self.mapping.is_region() {
            return self.snapshot_of_region(page, target);
        }
        loop {
            match page.try_pin(Touch::Quiet) {
                Ok(pin) => {
                    let nr_bytes = self.mapping.bytes_in_page(PageIndex(index));
                    let folio = &self.engine.folios[pin.frame()];
                    if nr_bytes == 0 {
                        // A guard taken before a truncation changed it afterwards.
                        if folio.clear(Flags::DIRTY).any(Flags::DIRTY) {
                            self.engine.uncount_dirty(self.mapping, 1);
                            self.engine.record(self.mapping, index, record::AccessKind::Clean);
                        }
                        return None;
                    }
                    if !folio.flags().any(Flags::DIRTY) {
                        return None;
                    }
                    target.copy_from_slice(pin.bytes());
                    folio.update(|flags| Some(flags.without(Flags::DIRTY).with(Flags::WRITEBACK)));
                    return Some((pin.frame(), nr_bytes));
                }
                Err(PinRefused::NotResident) => return None,
                Err(PinRefused::Locked) if self.on_locked == OnLocked::Skip => {
                    self.mapping.dirty.insert(index);
                    return None;
                }
                Err(PinRefused::Locked) => page.wait_while_locked(),
                // So many guards: one of them will go, and dropping one is not something to sleep
                // for.
                Err(_) => std::thread::yield_now(),
            }
        }
    }

    /// As [`Pass::snapshot`], of a page whose user may be writing it: from here on a store is a
    /// fault, which waits for the lock and makes the page dirty again.
    fn snapshot_of_region(&self, page: PageRef<'_>, target: &mut [u8]) -> Option<(FrameId, usize)> {
        let lock = match (page.try_lock(), self.on_locked) {
            (Ok(lock), _) => lock,
            (Err(_), OnLocked::Wait) => page.lock(),
            (Err(_), OnLocked::Skip) => {
                self.mapping.dirty.insert(page.index().0);
                return None;
            }
        };
        let frame = lock.frame()?;
        let folio = &self.engine.folios[frame];
        if !folio.flags().any(Flags::DIRTY) {
            return None;
        }
        lock.protect_from_user();
        lock.read(0, target);
        folio.update(|flags| Some(flags.without(Flags::DIRTY).with(Flags::WRITEBACK)));
        Some((frame, self.mapping.bytes_in_page(page.index())))
    }

    fn submit(&mut self, run: Run, buffer: AlignedBuf) {
        if run.frames.is_empty() {
            return;
        }
        let offset = run.start << PAGE_SHIFT;
        let len = (run.end - offset) as usize;
        self.engine.counters.count(Event::DeviceWrite);
        self.engine.counters.add(Event::DeviceWriteBytes, len as u64);
        let backing = Arc::clone(&self.backing);
        let Some(file) = backing.file() else {
            let result = backing.write_bytes(&buffer[..len], offset);
            return self.complete(&run, result);
        };
        let token = self.in_flight.insert(run);
        self.queue.submit_write(Arc::clone(file), offset, buffer, len, token);
        self.reap(0);
    }

    fn reap(&mut self, nr_min: usize) {
        let mut completions = Vec::new();
        self.queue.reap(nr_min, &mut completions);
        for completion in completions {
            let Completion::Write { token, buffer, result } = completion else { continue };
            self.spare.push(buffer);
            if let Some(run) = self.in_flight.take(token) {
                self.complete(&run, result.map_err(io::Error::from));
            }
        }
    }

    fn complete(&mut self, run: &Run, result: io::Result<()>) {
        let nr = run.frames.len() as u64;
        match result {
            Ok(()) => {
                self.mapping.note_stored(run.end);
                if let Some(swap) = &self.mapping.swap {
                    // Before the pages are clean, and can leave.
                    (run.start..run.start + nr).for_each(|index| swap.note_stored(index));
                }
                (run.start..).zip(&run.frames).for_each(|(index, frame)| {
                    self.set_clean(index, *frame);
                });
                self.flushed.nr_written += nr;
                self.engine.uncount_dirty(self.mapping, nr);
            }
            Err(error) => {
                self.mapping.record_error(&error);
                if let Some(swap) = &self.mapping.swap {
                    swap.note_failure(&error);
                }
                (run.start..).zip(&run.frames).for_each(|(index, frame)| {
                    self.set_dirty_again(index, *frame);
                });
                self.flushed.nr_failed += nr;
            }
        }
    }

    fn set_clean(&self, index: u64, frame: FrameId) {
        let folio = &self.engine.folios[frame];
        let before = folio.clear(Flags::WRITEBACK);
        if !before.any(Flags::DIRTY) {
            self.engine.record(self.mapping, index, record::AccessKind::Clean);
        }
        if before.any(Flags::RECLAIM) && !before.any(Flags::DIRTY) {
            folio.clear(Flags::RECLAIM);
            self.engine.nodes.of(frame).log_rotation(current_cpu(), frame);
        }
    }

    fn set_dirty_again(&self, index: u64, frame: FrameId) {
        let dirty_again = |flags: Flags| Some(flags.without(Flags::WRITEBACK).with(Flags::DIRTY));
        let before = self.engine.folios[frame].update(dirty_again);
        if before.any(Flags::DIRTY) {
            // A writer came meanwhile and counted the page once more.
            self.engine.uncount_dirty(self.mapping, 1);
        } else {
            self.mapping.dirty.insert(index);
        }
    }
}

/// The flusher thread: writes back when told, and every few seconds whatever has been left lying.
pub(crate) fn run_flusher(engine: &Arc<Engine>) {
    loop {
        let flushed = match engine.flusher.wait(FLUSH_INTERVAL) {
            Wake::Stop => return,
            Wake::Work => engine.flush_for_room(),
            Wake::Timeout => engine.flush_all(OnLocked::Skip),
        };
        if flushed.nr_written == 0 && flushed.nr_failed > 0 {
            engine.dirty.set_stalled();
        }
    }
}
