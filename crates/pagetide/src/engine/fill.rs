//! Filling: from a locked, absent page to its contents, with whatever readahead goes along.
//!
//! ```text
//!   locked, absent ---admit---> locked, resident ---one read for the run---> contents
//!         |  no frame                     | the read fails
//!         v                               v
//!   read past the cache               expelled, and the caller gets the error
//! ```
//!
//! All pages of a run stay locked until the read is done, so nobody sees half a page. A run ends
//! early at a page somebody else holds or has, at the end of the file, and where frames run out;
//! only the first page matters to the caller.

use crate::engine::mapping::Mapping;
use crate::engine::{Engine, NoFrame};
use crate::stats::counters::{Counters, Event};
use pagetide_core::folio::Flags;
use pagetide_core::ids::{CpuId, FrameId, GroupId, PageId, PageIndex};
use pagetide_core::lru::AccessPath;
use pagetide_core::record;
use pagetide_core::units::{PAGE_BYTES, PAGE_SHIFT};
use pagetide_sys::{Lock, PageHandle, PageRef};
use std::io;

/// What a fill is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FillPlan {
    /// Pages the caller wants, from the first on.
    pub(crate) nr_wanted: u64,
    /// Pages to fill in all.
    pub(crate) nr: u64,
    /// How the wanted pages are accessed.
    pub(crate) kind: AccessPath,
    /// What brings in the others.
    pub(crate) beyond: AccessPath,
    /// The page to carry the readahead marker.
    pub(crate) marker: Option<u64>,
    /// The first page's miss is noted as an access before anything else comes in.
    pub(crate) is_noted: bool,
}

impl FillPlan {
    /// Whether pages may come in together, and stand in each other's way while they do: not those
    /// read around, for which nothing is evicted.
    pub(crate) fn is_group(&self) -> bool {
        match self.beyond {
            AccessPath::Around => self.nr_wanted > 1,
            _ => self.nr > 1,
        }
    }

    /// Just one page.
    pub(crate) fn one(kind: AccessPath) -> FillPlan {
        FillPlan {
            nr_wanted: 1,
            nr: 1,
            kind,
            beyond: AccessPath::Readahead,
            marker: None,
            is_noted: false,
        }
    }
}

/// Why the first page could not be filled.
#[derive(Debug)]
pub(crate) enum FillError {
    /// No frame: the page is still absent, and locked.
    NoFrame,
    /// The store failed; nothing was admitted.
    Store(io::Error),
}

impl From<NoFrame> for FillError {
    fn from(_: NoFrame) -> FillError {
        FillError::NoFrame
    }
}

/// A run of pages, filled and still locked; the first is the one asked for.
pub(crate) type Filled<'m> = Vec<Lock<PageRef<'m>>>;

impl Engine {
    /// Fills `run[0]`, which is locked and absent, and as much of the plan after it as is easy.
    ///
    /// On [`FillError::NoFrame`] the page is left locked in `run`.
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
            // The pages stay locked a little longer, but nothing is decided any more.
            self.record(mapping, first, record::AccessKind::Filled);
        }
        let mut read = self.read_run(mapping, run);
        if read.is_err() && run.len() > 1 {
            // Readahead may have run into trouble that the wanted page has not.
            run.drain(1..).for_each(|mut page| self.expel(cpu, mapping, &mut page));
            read = self.read_run(mapping, run);
        } else if read.is_ok() {
            self.set_marker(run, plan.marker);
        }
        read.map_err(|error| {
            self.expel(cpu, mapping, &mut run[0]);
            FillError::Store(error)
        })
    }

    /// The page that a plan is for, and whatever is to be noted of it before others come in.
    fn admit_first<H: PageHandle>(
        &self,
        cpu: CpuId,
        mapping: &Mapping,
        page: &mut Lock<H>,
        plan: FillPlan,
    ) -> Result<(), NoFrame> {
        if plan.is_group() {
            self.record(mapping, page.page().index().0, record::AccessKind::Fill);
        }
        let frame = self.admit(cpu, mapping, page, plan.kind)?;
        if plan.is_noted {
            self.mark_filled(cpu, frame);
        }
        Ok(())
    }

    /// Fills a page from its compressed copy, if there is one.
    fn fill_from_pool<H: PageHandle>(
        &self,
        cpu: CpuId,
        mapping: &Mapping,
        page: &mut Lock<H>,
        plan: FillPlan,
    ) -> Result<bool, NoFrame> {
        let Some(pool) = &self.pool else { return Ok(false) };
        let id = PageId { mapping: mapping.id, index: page.page().index() };
        let Some(mut bytes) = pool.read(id) else { return Ok(false) };
        // A copy from before a cut that is under way: the length was set first.
        bytes[mapping.bytes_in_page(id.index)..].fill(0);
        self.admit_first(cpu, mapping, page, plan)?;
        if plan.is_group() {
            self.record(mapping, id.index.0, record::AccessKind::Filled);
        }
        page.write(0, &bytes);
        Ok(true)
    }

    /// An access of the locked page `run[0]` as through a page table: makes sure it has its
    /// contents, and counts in `counters`. A miss is a page fault to the policy.
    pub(crate) fn bring_in<'m>(
        &self,
        cpu: CpuId,
        mapping: &'m Mapping,
        run: &mut Filled<'m>,
        kind: record::AccessKind,
        counters: &Counters,
    ) -> Result<(), FillError> {
        if self.note_table_access(cpu, mapping, run, kind, counters) {
            return Ok(());
        }
        self.fill(cpu, mapping, run, FillPlan::one(AccessPath::Table))
    }

    /// Notes the access that [`Engine::bring_in`] is, once; says whether the page is there.
    pub(crate) fn note_table_access(
        &self,
        cpu: CpuId,
        mapping: &Mapping,
        run: &mut Filled<'_>,
        kind: record::AccessKind,
        counters: &Counters,
    ) -> bool {
        let index = run[0].page().index();
        self.record(mapping, index.0, kind);
        self.reuse.access(mapping, index);
        let is_hit = run[0].frame().is_some();
        counters.count(if is_hit { Event::Hit } else { Event::Miss });
        if is_hit {
            self.note_locked_access(cpu, &mut run[0]);
        }
        is_hit
    }

    /// One read for all pages of the run, which are locked and have frames.
    fn read_run(&self, mapping: &Mapping, run: &mut Filled<'_>) -> io::Result<()> {
        let offset = run[0].page().index().0 << PAGE_SHIFT;
        if let Some(swap) = &mapping.swap
            && !run.iter().any(|page| swap.is_stored(page.page().index().0))
        {
            run.iter_mut().for_each(|page| page.fill_zero(0..PAGE_BYTES));
            return Ok(());
        }
        self.count_read(run.len());
        let nr_bytes = mapping.backing().and_then(|backing| backing.read_pages(offset, run))?;
        self.check_length(mapping, offset, run.len(), nr_bytes);
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
        for index in first + 1..end {
            let Some(page) = mapping.table.page_or_make(PageIndex(index)) else { return };
            let Ok(mut page) = page.try_lock() else { return };
            if page.frame().is_some() {
                return;
            }
            let kind = if index - first < plan.nr_wanted { plan.kind } else { plan.beyond };
            let admitted = match kind {
                AccessPath::Around => self.admit_around(cpu, mapping, &mut page),
                AccessPath::Readahead => self.admit_ahead(cpu, mapping, &mut page),
                _ => {
                    self.record(mapping, index, record::AccessKind::Fill);
                    self.admit(cpu, mapping, &mut page, kind)
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
        self.record(mapping, page.page().index().0, record::AccessKind::Readahead);
        let frame = self.admit(cpu, mapping, page, AccessPath::Readahead)?;
        self.counters.count(Event::Readahead);
        Ok(frame)
    }

    /// Gives the locked, absent page, which nobody has asked for, a frame that nobody else wants.
    pub(crate) fn admit_around<H: PageHandle>(
        &self,
        cpu: CpuId,
        mapping: &Mapping,
        page: &mut Lock<H>,
    ) -> Result<FrameId, NoFrame> {
        let claimed = self.spare_frame(cpu).ok_or(NoFrame)?;
        self.record(mapping, page.page().index().0, record::AccessKind::Around);
        self.counters.count(Event::Around);
        Ok(self.admit_in(cpu, mapping, page, claimed, GroupId::ROOT, AccessPath::Around))
    }

    pub(crate) fn set_marker<H: PageHandle>(&self, run: &[Lock<H>], marker: Option<u64>) {
        let Some(marker) = marker else { return };
        for page in run {
            if page.page().index().0 == marker
                && let Some(frame) = page.frame()
            {
                self.folios[frame].set(Flags::READAHEAD);
            }
        }
    }

    pub(crate) fn count_read(&self, nr_pages: usize) {
        self.counters.count(Event::DeviceRead);
        self.counters.add(Event::DeviceReadBytes, (nr_pages * PAGE_BYTES) as u64);
    }

    pub(crate) fn count_write(&self, nr_bytes: usize) {
        self.counters.count(Event::DeviceWrite);
        self.counters.add(Event::DeviceWriteBytes, nr_bytes as u64);
    }

    /// Notices a file that is shorter than it was: somebody cut it while we had it open.
    pub(crate) fn check_length(
        &self,
        mapping: &Mapping,
        offset: u64,
        nr_pages: usize,
        nr_bytes: usize,
    ) {
        let end = offset + nr_bytes as u64;
        let expected = mapping.stored_len().min(offset + (nr_pages * PAGE_BYTES) as u64);
        if end < expected
            && let Some(len) = mapping.believe_shrunk(end)
        {
            // Bytes past the end would come back if the file grew again.
            self.drop_clean_pages(mapping, PageIndex(len >> PAGE_SHIFT)..PageIndex(u64::MAX));
        }
    }
}

/// Pages one request may have: 1 MiB.
const RUN_MAX: u64 = 256;
