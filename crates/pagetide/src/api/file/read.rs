//! Reading by copy.
//!
//! A hit takes no lock. It copies the frame's bytes, then retries if the page word has changed. A
//! hit writes a shared line only to count an access until the count is saturated, to clear ASK
//! once, or after three disturbed copies. A miss locks the page, fills it, and copies under the
//! lock. Without a free frame, a read bypasses the cache under the page's lock, and so sees all
//! earlier writes.

use super::{File, Handle, NO_PAGE, NOTED};
use crate::engine::errors::ReadError;
use crate::engine::fill::{FillError, FillPlan, Filled};
use crate::engine::pages::Pages;
use crate::engine::stats::counters::Event;
use crate::memory::locks::lock;
use pagetide_core::extents::MissingPage;
use pagetide_core::folio::Flags;
use pagetide_core::ids::{CpuId, FrameId, PageIndex};
use pagetide_core::lru::AccessPath;
use pagetide_core::readahead::{Miss, ReadaheadRun};
use pagetide_core::record;
use pagetide_core::units::{PAGE_BYTES, PAGE_SHIFT};
use pagetide_sys::{AlignedBuf, CopyTarget, PageRef, Pin, Target, Touch, current_cpu};
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::Relaxed;

/// Copies tried before taking a pin.
const OPTIMISTIC_TRIES: usize = 3;

/// The part of a read call in one page.
pub(super) struct Piece {
    pub(super) index: u64,
    /// The last page of the call.
    pub(super) last: u64,
    /// The first byte within the page.
    pub(super) within: usize,
    /// True if the access counts as a reference.
    pub(super) counts: bool,
}

impl File {
    /// Reads up to `target.len()` bytes at `offset`. Returns the number of bytes read, fewer only
    /// at the end of the file, and 0 at or past the end. Never fails for lack of memory.
    ///
    /// Waits for other threads with a [`PageGuardMut`](crate::PageGuardMut) of a page, or with any
    /// guard of a page that was truncated or changed by another program.
    ///
    /// A hit within one page costs the copy, and 10 to 18 ns. `pagetide bench hit` measures 8
    /// bytes.
    ///
    /// # Errors
    /// Fails with [`ReadError::NotReadable`], with [`ReadError::Store`] if the store failed for a
    /// page of the range, or with [`ReadError::WouldDeadlock`] if this thread itself has the guard.
    #[inline]
    pub fn read_at(&self, target: &mut [u8], offset: u64) -> Result<usize, ReadError> {
        match self.handle.read_plainly(target, target.len(), offset) {
            true => Ok(target.len()),
            false => self.handle.read_slowly(&mut Target::of(target), offset),
        }
    }

    /// Reads as [`File::read_at`] into memory that need not be initialised, and returns the bytes
    /// read, which begin at the start of `target`. Spares the zeroing of a new buffer.
    ///
    /// ```
    /// # use pagetide::{Bytes, OpenOptions, PageCache};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// # std::fs::write(&path, vec![7; 10_000])?;
    /// # let cache = PageCache::builder().memory(Bytes(1 << 20)).build()?;
    /// # let file = cache.open(path, OpenOptions::new().read(true))?;
    /// let mut block = Vec::with_capacity(16 << 10);
    /// let nr_read = file.read_into(block.spare_capacity_mut(), 0)?.len();
    /// // SAFETY: so many bytes were read.
    /// unsafe { block.set_len(nr_read) };
    /// assert_eq!(block, [7; 10_000]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`File::read_at`].
    #[inline]
    pub fn read_into<'t>(
        &self,
        target: &'t mut [MaybeUninit<u8>],
        offset: u64,
    ) -> Result<&'t mut [u8], ReadError> {
        let len = target.len();
        let mut target = Target::new(target);
        let nr_read = match self.handle.read_plainly(&mut target, len, offset) {
            true => len,
            false => self.handle.read_slowly(&mut target, offset)?,
        };
        Ok(target.into_filled(nr_read))
    }

    /// Fills all of `target` from `offset`. Waits and costs as [`File::read_at`].
    ///
    /// # Errors
    /// Fails as [`File::read_at`], or with [`ReadError::UnexpectedEnd`] if the file ends early.
    /// After an error, the contents of `target` are unspecified.
    pub fn read_exact_at(&self, target: &mut [u8], offset: u64) -> Result<(), ReadError> {
        if self.read_at(target, offset)? == target.len() {
            return Ok(());
        }
        let end = offset.saturating_add(target.len() as u64);
        Err(ReadError::UnexpectedEnd { end, len: self.len() })
    }
}

impl Handle {
    /// Copies from one resident page if accesses need no extra work. Otherwise returns false. Then
    /// only `target` has changed.
    #[inline(never)]
    fn read_plainly(
        &self,
        target: &mut (impl CopyTarget + ?Sized),
        len: usize,
        offset: u64,
    ) -> bool {
        let (index, within) = (offset >> PAGE_SHIFT, offset as usize % PAGE_BYTES);
        let is_in_page = len > 0 && len <= PAGE_BYTES - within;
        // Saturates only past the end of every file.
        let is_in_file = offset.saturating_add(len as u64) <= self.mapping.len();
        if !self.reads_plainly || !is_in_page || !is_in_file || self.mapping.leaving.is_any() {
            return false;
        }
        let Some((page, guess)) = self.table.page_and_guess(PageIndex(index)) else {
            return false;
        };
        self.pages.fetch_guess(Some(guess), within);
        let Some(frame) = page.read_plain(within, target) else { return false };
        self.count_hit();
        let cpu = current_cpu();
        let last_page = self.last_page.at(cpu);
        if last_page.load(Relaxed) != index {
            last_page.store(index, Relaxed);
            if !self.no_reuse.load(Relaxed) {
                self.pages.mark_accessed(cpu, frame);
            }
        }
        true
    }

    /// Fills `target` from any pages, resident or not.
    #[inline(never)]
    fn read_slowly(&self, target: &mut Target<'_>, offset: u64) -> Result<usize, ReadError> {
        if !self.access.read {
            return Err(ReadError::NotReadable);
        }
        let end = offset.saturating_add(target.len() as u64).min(self.mapping.len());
        if offset >= end {
            return Ok(0);
        }
        target.truncate((end - offset) as usize);
        self.read_range(target, offset)
    }

    fn read_range(&self, target: &mut Target<'_>, offset: u64) -> Result<usize, ReadError> {
        let cpu = current_cpu();
        let last = (offset + target.len() as u64 - 1) >> PAGE_SHIFT;
        self.settle(offset >> PAGE_SHIFT..=last)?;
        let last_page = self.last_page.at(cpu);
        let previous = last_page.load(Relaxed);
        let mut counts = previous != offset >> PAGE_SHIFT && !self.no_reuse.load(Relaxed);
        // Pages below this index were missing when the call began.
        let mut missed_below = 0;
        let mut len = target.len();
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let within = at as usize % PAGE_BYTES;
            let nr_bytes = (PAGE_BYTES - within).min(len - done);
            let piece = Piece { index: at >> PAGE_SHIFT, last, within, counts };
            target.select(done..done + nr_bytes);
            let is_new = piece.index >= missed_below;
            if done + nr_bytes < len {
                // Overlaps the fetch of the next page with this copy.
                self.fetch_page(piece.index + 1, 0);
            }
            if !self.read_hit(cpu, &piece, target, is_new) {
                let (nr_read, filled_end) = self.read_miss(cpu, &piece, previous, target)?;
                missed_below = missed_below.max(filled_end);
                if nr_read < nr_bytes {
                    return Ok(done + nr_read);
                }
                // The miss may have found a shorter file.
                len = len.min(self.mapping.len().saturating_sub(offset) as usize);
            }
            done += nr_bytes;
            counts = !self.no_reuse.load(Relaxed);
        }
        if previous != last {
            last_page.store(last, Relaxed);
        }
        Ok(done.min(len))
    }

    /// Prefetches a resident page from byte `within`.
    #[inline]
    fn fetch_page(&self, index: u64, within: usize) {
        self.pages.fetch_guess(self.mapping.table.guess_frame(PageIndex(index)), within);
    }

    /// Copies from a resident page. Returns false if there is none.
    #[inline]
    pub(super) fn read_hit(
        &self,
        cpu: CpuId,
        piece: &Piece,
        target: &mut Target<'_>,
        is_hit: bool,
    ) -> bool {
        let index = PageIndex(piece.index);
        // A touch needs no bytes.
        if !target.is_empty() {
            self.fetch_page(piece.index, piece.within);
        }
        let Some(page) = self.mapping.table.page(index) else { return false };
        let Some(copied) = copy_resident(&self.pages, page, piece.within, target) else {
            return false;
        };
        if is_hit {
            self.count_hit();
        }
        self.note_read(cpu, piece, page, copied, is_hit);
        true
    }

    /// Records a successful read. `is_hit` is false if this call filled the page.
    #[inline]
    fn note_read(
        &self,
        cpu: CpuId,
        piece: &Piece,
        page: PageRef<'_>,
        copied: Copied,
        is_hit: bool,
    ) {
        let engine = self.engine();
        let Copied { mut frame, flags, has_hint, .. } = copied;
        self.record_read(piece);
        match (piece.counts, is_hit) {
            (true, true) => self.pages.mark_accessed(cpu, frame),
            (true, false) => self.pages.mark_filled(cpu, frame),
            (false, _) => {}
        }
        // The read that fills a page is no access of slow memory.
        if is_hit && self.pages.is_slow(frame, has_hint) {
            match engine.source.note_slow_access(cpu, page, frame, has_hint) {
                Some(now) => frame = now,
                None => return,
            }
        }
        if flags.any(NOTED) {
            self.note_flags(piece.index, frame, flags);
        } else if copied.asks
            && let Ok(pin) = page.try_pin(Touch::Quiet)
        {
            self.make_plain(&pin);
        }
    }

    /// Enables the short paths for later hits, unless accesses need extra work.
    #[cold]
    pub(super) fn make_plain(&self, pin: &Pin<PageRef<'_>>) {
        let frame = pin.frame();
        if !self.pages.folios[frame].flags().any(NOTED) && !self.pages.is_slow(frame, false) {
            pin.make_plain();
        }
    }

    #[inline]
    pub(super) fn record_read(&self, piece: &Piece) {
        let kind =
            if piece.counts { record::AccessKind::Read } else { record::AccessKind::ReadAgain };
        self.pages.record(&self.mapping, piece.index, kind);
    }

    /// Fills a page that is still absent, and copies under its lock. Returns the number of bytes
    /// copied and the end of the filled run.
    #[cold]
    pub(super) fn read_miss(
        &self,
        cpu: CpuId,
        piece: &Piece,
        previous: u64,
        target: &mut Target<'_>,
    ) -> Result<(usize, u64), ReadError> {
        let engine = self.engine();
        let page = self.page_or_make(piece.index)?;
        if page.load().is_locked() {
            self.check_not_own(piece.index)?;
            page.wait_while_locked();
        }
        if self.read_hit(cpu, piece, target, true) {
            return Ok((target.len(), 0));
        }
        let mut run: Filled<'_> = vec![self.lock_page(page)?];
        if let Some(frame) = run[0].frame() {
            self.count_hit();
            run[0].read(piece.within, target);
            // Tiering needs the lock. This reader has waited, so the page stays in place.
            let flags = self.pages.folios[frame].flags();
            let copied = Copied { frame, flags, has_hint: false, asks: false };
            self.note_read(cpu, piece, page, copied, true);
            return Ok((target.len(), 0));
        }
        self.counters.count(Event::Miss);
        self.pages.reuse.access(self.mapping.key(PageIndex(piece.index)));
        let plan = self.plan_fill(piece, previous);
        // A single page's access record also stands for its fill, and precedes the fill.
        if !plan.is_group() {
            self.record_read(piece);
        }
        let filled = engine.filler.fill(cpu, &self.mapping, &mut run, plan);
        if plan.is_group() {
            match filled {
                Ok(()) => self.record_read(piece),
                Err(_) => self.pages.record(&self.mapping, piece.index, record::AccessKind::Bypass),
            }
        }
        match filled {
            Ok(()) => {}
            Err(FillError::NoFrame) => {
                let nr_read = self.read_past_cache(piece, target)?;
                return Ok((nr_read, 0));
            }
            Err(FillError::Store(source)) => return Err(self.store_error(piece.index, source)),
        }
        let nr_valid = self.mapping.bytes_in_page(PageIndex(piece.index));
        let nr_read = target.len().min(nr_valid.saturating_sub(piece.within));
        target.truncate(nr_read);
        run[0].read(piece.within, target);
        // Pages beyond a gap in the run do not belong to this miss.
        let filled =
            (piece.index..).zip(&run).take_while(|(at, page)| page.page().index().0 == *at);
        let filled_end = piece.index + filled.count() as u64;
        let nr_wanted = (piece.last + 1).min(filled_end) - piece.index;
        self.counters.add(Event::Miss, nr_wanted - 1);
        if piece.counts && !plan.is_noted {
            let frame = run[0].frame().expect("a filled page has a frame");
            self.pages.mark_filled(cpu, frame);
        }
        Ok((nr_read, filled_end.min(piece.last + 1)))
    }

    /// Asks core for the readahead size, and queues the asynchronous part for the worker.
    fn plan_fill(&self, piece: &Piece, previous: u64) -> FillPlan {
        let wanted = piece.last + 1 - piece.index;
        // Before the lock of the readahead state, because this may lock the lists.
        let missing = self.missing_page(piece.index);
        let run = match &self.extents {
            Some(extents) => lock(extents).on_miss(missing),
            None => self.plan_readahead(missing, wanted, previous),
        };
        self.mapping.note_marker(run.marker);
        let mut plan = FillPlan {
            nr_wanted: wanted,
            nr: run.nr,
            kind: AccessPath::Descriptor,
            beyond: if run.is_around { AccessPath::Around } else { AccessPath::Readahead },
            marker: run.marker,
            is_noted: false,
            to_file: self.extents.is_some(),
        };
        if self.engine().source.has_workers && run.nr_now < run.nr {
            plan.nr = run.nr_now;
            let mut later = run;
            later.start += run.nr_now;
            later.nr -= run.nr_now;
            if later.start < self.mapping.nr_pages() {
                self.engine().prefetcher.push(self.wish(later, &self.reached));
            }
        }
        if plan.is_group() {
            plan.kind = AccessPath::Run;
        }
        plan.is_noted = piece.counts && !plan.is_group();
        plan
    }

    fn missing_page(&self, index: u64) -> MissingPage {
        let source = &self.engine().source;
        MissingPage { index, is_ample: source.is_ample(), room: source.group_room(&self.mapping) }
    }

    fn plan_readahead(&self, missing: MissingPage, wanted: u64, previous: u64) -> ReadaheadRun {
        let MissingPage { index, is_ample, room } = missing;
        let miss = Miss {
            index,
            wanted,
            previous: (previous != NO_PAGE).then_some(previous),
            wasted: self.mapping.wasted.load(Relaxed),
            is_ample,
            has_prefetcher: self.engine().source.has_workers,
            room,
        };
        let mut readahead = lock(&self.readahead);
        self.reached.store(index, Relaxed);
        readahead.on_miss(miss)
    }

    /// Reads a locked, absent page's bytes directly from the store.
    fn read_past_cache(&self, piece: &Piece, target: &mut Target<'_>) -> Result<usize, ReadError> {
        self.counters.count(Event::BypassRead);
        let mut buffer = AlignedBuf::zeroed(PAGE_BYTES);
        let offset = piece.index << PAGE_SHIFT;
        let read = self.mapping.backing().and_then(|backing| {
            let read = || backing.read_bytes(&mut buffer, offset);
            self.pages.timed_read(&self.mapping, 1, read)
        });
        let nr_bytes = read.map_err(|source| self.store_error(piece.index, source))?;
        self.pages.check_length(&self.mapping, offset, 1, nr_bytes);
        let nr_valid = self.mapping.bytes_in_page(PageIndex(piece.index));
        let nr_read = target.len().min(nr_valid.saturating_sub(piece.within));
        target.truncate(nr_read);
        target.write(&buffer[piece.within..piece.within + nr_read]);
        Ok(nr_read)
    }

    pub(super) fn page_or_make(&self, index: u64) -> Result<PageRef<'_>, ReadError> {
        let too_far = || ReadError::PastEnd { index, len: self.mapping.len() };
        self.mapping.table.page_or_make(PageIndex(index)).ok_or_else(too_far)
    }

    pub(super) fn store_error(&self, index: u64, source: io::Error) -> ReadError {
        ReadError::Store { offset: index << PAGE_SHIFT, len: PAGE_BYTES as u64, source }
    }
}

/// The source of a hit's bytes.
#[derive(Clone, Copy)]
struct Copied {
    frame: FrameId,
    flags: Flags,
    /// A hint scan armed the page.
    has_hint: bool,
    /// The word of an optimistic copy had ASK, perhaps without a reason.
    asks: bool,
}

/// Copies from the page's frame, if resident.
#[inline]
fn copy_resident(
    pages: &Pages,
    page: PageRef<'_>,
    within: usize,
    target: &mut Target<'_>,
) -> Option<Copied> {
    for _ in 0..OPTIMISTIC_TRIES {
        let ticket = match page.peek() {
            Some(ticket) => ticket,
            // Other processes map the page, which may vanish during a copy.
            None if page.is_in_file() => break,
            None => return None,
        };
        let frame = ticket.frame();
        // Before the copy, so that the descriptor's line arrives meanwhile.
        let flags = pages.folios[frame].flags();
        pages.arena.read(frame, within, target);
        if page.still(ticket) {
            let (has_hint, asks) = (ticket.is_hint(), ticket.asks());
            return Some(Copied { frame, flags, has_hint, asks });
        }
    }
    let pin = page.try_pin(Touch::Quiet).ok()?;
    let frame = pin.frame();
    pin.read(within, target);
    let flags = pages.folios[frame].flags();
    Some(Copied { frame, flags, has_hint: pin.has_hint(), asks: false })
}
