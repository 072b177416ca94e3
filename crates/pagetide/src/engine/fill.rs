//! Filling: reads a locked, absent page, with readahead.
//!
//! ```text
//!   locked, absent ---admit---> locked, resident ---one read for the run---> contents
//!         |  no frame                     | the read fails
//!         v                               v
//!   read past the cache               expelled, and the caller gets the error
//! ```
//!
//! All pages of a run stay locked until the read is done, so no reader sees half a page. A run ends
//! early at a locked or resident page, at the end of the file, or without a free frame. Only the
//! first page matters to the caller. A request may reread a few resident pages between.

use crate::engine::frame_source::{FrameSource, NoFrame};
use crate::engine::mapping::Mapping;
use crate::engine::pages::Pages;
use crate::engine::stats::counters::{Counters, Event};
use pagetide_core::extents::NOW_MAX;
use pagetide_core::ids::{CpuId, FrameId, GroupId, PageId, PageIndex};
use pagetide_core::lru::AccessPath;
use pagetide_core::readahead::READ_OVER_MAX;
use pagetide_core::record;
use pagetide_core::units::{PAGE_BYTES, PAGE_SHIFT};
use pagetide_sys::{AlignedBuf, ClaimedFrame, Lock, PageHandle, PageRef};
use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub(crate) struct FillPlan {
    /// Number of wanted pages, from the first on.
    pub(crate) nr_wanted: u64,
    pub(crate) nr: u64,
    pub(crate) kind: AccessPath,
    /// Access path beyond the wanted pages.
    pub(crate) beyond: AccessPath,
    pub(crate) marker: Option<u64>,
    /// The first page's miss is already recorded.
    pub(crate) is_noted: bool,
    pub(crate) to_file: bool,
}

impl FillPlan {
    /// Returns true if several pages compete for frames. Reads around evict nothing.
    pub(crate) fn is_group(&self) -> bool {
        match self.beyond {
            AccessPath::Around => self.nr_wanted > 1,
            _ => self.nr > 1,
        }
    }

    pub(crate) fn one(kind: AccessPath) -> FillPlan {
        FillPlan {
            nr_wanted: 1,
            nr: 1,
            kind,
            beyond: AccessPath::Readahead,
            marker: None,
            is_noted: false,
            to_file: false,
        }
    }
}

#[derive(Debug)]
pub(crate) enum FillError {
    /// The page is still absent, and locked.
    NoFrame,
    /// Nothing was admitted.
    Store(io::Error),
}

impl From<NoFrame> for FillError {
    fn from(_: NoFrame) -> FillError {
        FillError::NoFrame
    }
}

/// A filled, locked run from the requested page on. Resident pages between may be left out.
pub(crate) type Filled<'m> = Vec<Lock<PageRef<'m>>>;

pub(crate) fn range_of<H: PageHandle>(run: &[Lock<H>]) -> Range<u64> {
    let index_of = |page: &Lock<H>| page.page().index().0;
    run.first().map_or(0, index_of)..run.last().map_or(0, |last| index_of(last) + 1)
}

/// Counts the pages of the read request, including resident pages between.
pub(crate) fn nr_asked(run: &[Lock<impl PageHandle>]) -> usize {
    let range = range_of(run);
    (range.end - range.start) as usize
}

/// Maximum number of resident pages to reread. 0 unless a file is read.
pub(crate) fn nr_over_max(mapping: &Mapping) -> u64 {
    let is_file =
        mapping.swap.is_none() && mapping.backing().is_ok_and(|backing| backing.file().is_some());
    if is_file { READ_OVER_MAX } else { 0 }
}

pub(crate) struct Filler {
    source: Arc<FrameSource>,
    pages: Arc<Pages>,
}

impl Filler {
    pub(crate) fn new(source: &Arc<FrameSource>) -> Filler {
        Filler { source: Arc::clone(source), pages: Arc::clone(&source.pages) }
    }

    /// Fills `run[0]`, which is locked and absent, and as much of the plan as is easy. On
    /// [`FillError::NoFrame`] the page stays locked in `run`.
    pub(crate) fn fill<'m>(
        &self,
        cpu: CpuId,
        mapping: &'m Mapping,
        run: &mut Filled<'m>,
        plan: FillPlan,
    ) -> Result<(), FillError> {
        let first = run[0].page().index().0;
        if self.fill_from_pool(cpu, mapping, &mut run[0], plan)? {
            return Ok(());
        }
        self.admit_first(cpu, mapping, &mut run[0], plan)?;
        self.extend_run(cpu, mapping, run, plan);
        if plan.is_group() {
            // The pages stay locked a little longer, without further decisions.
            self.pages.record(mapping, first, record::AccessKind::Filled);
        }
        let mut read = match plan.to_file {
            true => self.read_run_to_file(cpu, mapping, run, plan),
            false => self.read_run(mapping, run),
        };
        if read.is_err() && run.len() > 1 {
            // The error may be in the readahead part only.
            run.drain(1..).for_each(|mut page| self.pages.expel(cpu, mapping, &mut page));
            read = self.read_run(mapping, run);
        } else if read.is_ok() {
            self.pages.set_marker(run, plan.marker);
        }
        read.map_err(|error| {
            self.pages.expel(cpu, mapping, &mut run[0]);
            FillError::Store(error)
        })
    }

    fn admit_first<H: PageHandle>(
        &self,
        cpu: CpuId,
        mapping: &Mapping,
        page: &mut Lock<H>,
        plan: FillPlan,
    ) -> Result<(), NoFrame> {
        if plan.is_group() {
            self.pages.record(mapping, page.page().index().0, record::AccessKind::Fill);
        }
        let frame = self.source.admit(cpu, mapping, page, plan.kind)?;
        if plan.is_noted {
            self.pages.mark_filled(cpu, frame);
        }
        Ok(())
    }

    fn fill_from_pool<H: PageHandle>(
        &self,
        cpu: CpuId,
        mapping: &Mapping,
        page: &mut Lock<H>,
        plan: FillPlan,
    ) -> Result<bool, NoFrame> {
        let Some(pool) = &self.pages.pool else { return Ok(false) };
        let id = PageId { mapping: mapping.id, index: page.page().index() };
        let Some(mut bytes) = pool.read(id) else { return Ok(false) };
        // The copy may be older than a truncation in flight, which has set the length already.
        bytes[mapping.bytes_in_page(id.index)..].fill(0);
        self.admit_first(cpu, mapping, page, plan)?;
        if plan.is_group() {
            self.pages.record(mapping, id.index.0, record::AccessKind::Filled);
        }
        page.write(0, &bytes);
        Ok(true)
    }

    /// Fills the locked page `run[0]` for an access through a page table. A miss counts as a page
    /// fault to the policy.
    pub(crate) fn bring_in<'m>(
        &self,
        cpu: CpuId,
        mapping: &'m Mapping,
        run: &mut Filled<'m>,
        kind: record::AccessKind,
        counters: &Counters,
    ) -> Result<(), FillError> {
        if self.note_table_access(cpu, mapping, &mut run[0], kind, counters) {
            return Ok(());
        }
        self.fill(cpu, mapping, run, FillPlan::one(AccessPath::Table))
    }

    /// Records the access of [`Filler::bring_in`]. Returns true for a hit.
    pub(crate) fn note_table_access<H: PageHandle>(
        &self,
        cpu: CpuId,
        mapping: &Mapping,
        page: &mut Lock<H>,
        kind: record::AccessKind,
        counters: &Counters,
    ) -> bool {
        let index = page.page().index();
        self.pages.record(mapping, index.0, kind);
        self.pages.reuse.access(mapping.key(index));
        let is_hit = page.frame().is_some();
        counters.count(if is_hit { Event::Hit } else { Event::Miss });
        if is_hit {
            self.source.note_locked_access(cpu, page);
        }
        is_hit
    }

    /// Fills a region's page in a fault handler: allocates nothing. Otherwise returns `None`, with
    /// no effect. The result tells whether the page is mapped already, dirty for a write.
    pub(crate) fn bring_in_here<H: PageHandle>(
        &self,
        cpu: CpuId,
        mapping: &Mapping,
        page: &mut Lock<H>,
        kind: record::AccessKind,
    ) -> Option<io::Result<bool>> {
        if page.frame().is_some() {
            self.note_table_access(cpu, mapping, page, kind, &self.pages.counters);
            return Some(Ok(false));
        }
        let frame = self.admit_here(cpu, mapping, page, kind)?;
        let index = page.page().index().0;
        let mut bytes = PageBytes([0; PAGE_BYTES]);
        if let Err(error) = self.read_page(mapping, index, &mut bytes.0) {
            self.pages.expel(cpu, mapping, page);
            return Some(Err(error));
        }
        let is_write = kind == record::AccessKind::TableWrite;
        if is_write {
            self.pages.mark_whole_dirty(mapping, index, frame);
        }
        let is_mapped = Lock::fill_users([&mut *page].into_iter(), &bytes.0, is_write) == 1;
        if !is_mapped {
            page.write(0, &bytes.0);
        }
        Some(Ok(is_mapped))
    }

    /// Records a miss and gives the page a frame, in a fault handler: allocates nothing. Otherwise
    /// returns `None`, with no effect.
    fn admit_here<H: PageHandle>(
        &self,
        cpu: CpuId,
        mapping: &Mapping,
        page: &mut Lock<H>,
        kind: record::AccessKind,
    ) -> Option<FrameId> {
        let claimed = self.source.alloc_here(cpu)?;
        self.note_table_access(cpu, mapping, page, kind, &self.pages.counters);
        let path = AccessPath::Table;
        Some(self.pages.admit_in(cpu, mapping, page, claimed, GroupId::ROOT, path))
    }

    /// Maps zero pages ahead of expected stores, as far as that is easy, in a fault handler:
    /// allocates nothing. Returns the end of the range.
    pub(crate) fn map_zeros_here(&self, cpu: CpuId, mapping: &Mapping, pages: Range<u64>) -> u64 {
        let mut run: [Option<Lock<PageRef<'_>>>; ZEROS_TOGETHER] = [const { None }; ZEROS_TOGETHER];
        let mut nr = 0;
        for index in pages.clone().take(ZEROS_TOGETHER) {
            let Some(page) = self.admit_zeros(cpu, mapping, index) else { break };
            run[nr] = Some(page);
            nr += 1;
        }
        let pages_of_run = run[..nr].iter_mut().flatten();
        let nr_mapped = Lock::fill_users(pages_of_run, &ZEROS[..nr * PAGE_BYTES], true);
        run[nr_mapped..nr].iter_mut().flatten().for_each(|page| page.fill_zero(0..PAGE_BYTES));
        pages.start + nr_mapped as u64
    }

    fn admit_zeros<'m>(
        &self,
        cpu: CpuId,
        mapping: &'m Mapping,
        index: u64,
    ) -> Option<Lock<PageRef<'m>>> {
        if !mapping.dirty.is_prepared(index) {
            return None;
        }
        let mut page = mapping.table.page(PageIndex(index))?.try_lock().ok()?;
        // Checked under the lock: another thread may have stored to the page, and reclaim evicted
        // it.
        let is_new = mapping.swap.as_ref().is_some_and(|swap| !swap.is_stored(index));
        if page.frame().is_some() || !is_new {
            return None;
        }
        let frame = self.admit_here(cpu, mapping, &mut page, record::AccessKind::TableWrite)?;
        self.pages.mark_whole_dirty(mapping, index, frame);
        Some(page)
    }

    fn read_page(
        &self,
        mapping: &Mapping,
        index: u64,
        bytes: &mut [u8; PAGE_BYTES],
    ) -> io::Result<()> {
        if mapping.swap.as_ref().is_some_and(|swap| !swap.is_stored(index)) {
            return Ok(());
        }
        let offset = index << PAGE_SHIFT;
        let backing = mapping.backing()?;
        let read = || backing.read_bytes(bytes, offset);
        let nr_bytes = self.pages.timed_read(mapping, 1, read)?;
        bytes[nr_bytes..].fill(0);
        mapping.check_end(offset + nr_bytes as u64, offset, 1)?;
        self.pages.check_length(mapping, offset, 1, nr_bytes);
        Ok(())
    }

    fn read_run<H: PageHandle>(&self, mapping: &Mapping, run: &mut [Lock<H>]) -> io::Result<()> {
        let offset = run[0].page().index().0 << PAGE_SHIFT;
        if let Some(swap) = &mapping.swap
            && !run.iter().any(|page| swap.is_stored(page.page().index().0))
        {
            run.iter_mut().for_each(|page| page.fill_zero(0..PAGE_BYTES));
            return Ok(());
        }
        let backing = mapping.backing()?;
        let nr_pages = nr_asked(run);
        let nr_bytes =
            self.pages.timed_read(mapping, nr_pages, || backing.read_pages(offset, run))?;
        mapping.check_end(offset + nr_bytes as u64, offset, nr_pages)?;
        self.pages.check_length(mapping, offset, nr_pages, nr_bytes);
        Ok(())
    }

    /// Reads a run into the memory file, except the marked page, which must be noticed on access.
    fn read_run_to_file<H: PageHandle>(
        &self,
        cpu: CpuId,
        mapping: &Mapping,
        run: &mut [Lock<H>],
        plan: FillPlan,
    ) -> io::Result<()> {
        let has_places =
            mapping.table.page_file().is_some_and(|file| range_of(run).end <= file.nr_pages());
        if run.len() > TO_FILE_MAX || !has_places || mapping.swap.is_some() {
            return self.read_run(mapping, run);
        }
        let offset = run[0].page().index().0 << PAGE_SHIFT;
        let backing = mapping.backing()?;
        let nr_bytes = BUFFER.with_borrow_mut(|buffer| {
            let buffer = buffer.get_or_insert_with(|| AlignedBuf::zeroed(TO_FILE_MAX * PAGE_BYTES));
            let buffer = &mut buffer[..run.len() * PAGE_BYTES];
            let read = || backing.read_bytes(buffer, offset);
            let nr_bytes = self.pages.timed_read(mapping, run.len(), read)?;
            buffer[nr_bytes..].fill(0);
            self.pages.put_in_file(cpu, mapping, run, buffer, plan.marker);
            io::Result::Ok(nr_bytes)
        })?;
        self.pages.check_length(mapping, offset, run.len(), nr_bytes);
        Ok(())
    }

    fn extend_run<'m>(
        &self,
        cpu: CpuId,
        mapping: &'m Mapping,
        run: &mut Filled<'m>,
        plan: FillPlan,
    ) {
        let first = run[0].page().index().0;
        let end = (first + plan.nr.min(RUN_MAX)).min(mapping.nr_pages());
        let reads_over = plan.nr_wanted > 1 && !plan.to_file;
        let nr_over_max = if reads_over { nr_over_max(mapping) } else { 0 };
        for index in first + 1..end {
            let Some(page) = mapping.table.page_or_make(PageIndex(index)) else { return };
            let Ok(mut page) = page.try_lock() else { return };
            let nr_over = index - range_of(run).end;
            let is_wanted = index - first < plan.nr_wanted;
            if page.frame().is_some() {
                if is_wanted && nr_over < nr_over_max {
                    continue;
                }
                return;
            }
            let kind = match is_wanted {
                true if run.len() as u64 == index - first => plan.kind,
                true => AccessPath::Readahead,
                false if nr_over > 0 => return,
                false => plan.beyond,
            };
            let admitted = match kind {
                AccessPath::Around => self.admit_around(cpu, mapping, &mut page),
                AccessPath::Readahead => self.admit_ahead(cpu, mapping, &mut page),
                _ => {
                    self.pages.record(mapping, index, record::AccessKind::Fill);
                    self.source.admit(cpu, mapping, &mut page, kind)
                }
            };
            if admitted.is_err() {
                return;
            }
            run.push(page);
        }
    }

    fn admit_ahead<H: PageHandle>(
        &self,
        cpu: CpuId,
        mapping: &Mapping,
        page: &mut Lock<H>,
    ) -> Result<FrameId, NoFrame> {
        self.pages.record(mapping, page.page().index().0, record::AccessKind::Readahead);
        let frame = self.source.admit(cpu, mapping, page, AccessPath::Readahead)?;
        self.pages.counters.count(Event::Readahead);
        Ok(frame)
    }

    /// Gives a page that is read around a spare frame.
    pub(crate) fn admit_around<H: PageHandle>(
        &self,
        cpu: CpuId,
        mapping: &Mapping,
        page: &mut Lock<H>,
    ) -> Result<FrameId, NoFrame> {
        let claimed = self.source.spare_frame(cpu).ok_or(NoFrame)?;
        Ok(self.admit_to(claimed, cpu, mapping, page))
    }

    /// Gives a page that the kernel's page cache has a free frame.
    pub(crate) fn admit_copied<H: PageHandle>(
        &self,
        cpu: CpuId,
        mapping: &Mapping,
        page: &mut Lock<H>,
    ) -> Result<FrameId, NoFrame> {
        let claimed = self.source.free_frame(cpu).ok_or(NoFrame)?;
        Ok(self.admit_to(claimed, cpu, mapping, page))
    }

    fn admit_to<H: PageHandle>(
        &self,
        claimed: ClaimedFrame,
        cpu: CpuId,
        mapping: &Mapping,
        page: &mut Lock<H>,
    ) -> FrameId {
        self.pages.record(mapping, page.page().index().0, record::AccessKind::Around);
        self.pages.counters.count(Event::Around);
        self.pages.admit_in(cpu, mapping, page, claimed, GroupId::ROOT, AccessPath::Around)
    }
}

#[repr(align(4096))]
struct PageBytes([u8; PAGE_BYTES]);

const ZEROS_TOGETHER: usize = 16;
static ZEROS: [u8; ZEROS_TOGETHER * PAGE_BYTES] = [0; _];

/// Maximum number of pages in one request: 1 MiB.
const RUN_MAX: u64 = 256;

const TO_FILE_MAX: usize = NOW_MAX as usize;

thread_local! {
    static BUFFER: RefCell<Option<AlignedBuf>> = const { RefCell::new(None) };
}
