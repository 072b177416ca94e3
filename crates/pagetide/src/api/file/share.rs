//! Hits and misses of other processes: page lookups, and reports about them.
//!
//! ```text
//!   other process: page found by tag and index --> copies the page         touch_pages, in batches
//!                  absent, one of many         --> the cache reads it      bring_in
//!                  absent, single              --> reads it from the file  insert, with the bytes
//! ```
//!
//! Bytes are inserted as the contents of the file on disk. They are refused once the file was
//! written through the cache, because the current contents may then be in the cache only.

use super::read::Piece;
use super::{File, Handle, NO_PAGE};
use crate::api::seam::{Inserted, SharedPages};
use crate::engine::errors::ReadError;
use crate::engine::frame_source::NoFrame;
use crate::engine::mapping::Mapping;
use crate::engine::stats::counters::Event;
use crate::memory::locks::lock;
use pagetide_core::ids::{CpuId, FrameId, PageIndex};
use pagetide_core::lru::AccessPath;
use pagetide_core::units::{PAGE_BYTES, PAGE_SHIFT};
use pagetide_sys::{Lock, PageRef, Target, current_cpu, fetch};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const FETCHED: usize = 16;

impl File {
    pub(crate) fn hold(&self) {
        self.handle.mapping.agreement.hold();
    }
}

impl SharedPages for File {
    fn tag(&self) -> Option<u32> {
        self.handle.mapping.tag()
    }

    fn allows_len(&self, len: u64) -> bool {
        let mapping = &self.handle.mapping;
        mapping.longest.check_end(len, || mapping.backing().ok()).is_ok()
    }

    fn hide(&self) {
        self.handle.mapping.set_visible(false);
        self.handle.mapping.note_foreign_writer();
    }

    fn show(&self) {
        self.handle.mapping.set_visible(true);
    }

    fn show_only_to(&self, viewer: u32, pages: &Range<u64>) {
        self.handle.mapping.show_only_to(viewer, pages);
    }

    fn reads_ahead(&self, descriptor: &Arc<std::fs::File>) -> Box<dyn FnOnce()> {
        let (shared, mapping) = (Arc::clone(&self.handle.shared), Arc::clone(&self.handle.mapping));
        let descriptor = Arc::downgrade(descriptor);
        Box::new(move || shared.engine.prefetcher.wait_until_closed(&mapping, &descriptor))
    }

    fn discard(&self) {
        let handle = &*self.handle;
        let _no_writers = handle.mapping.resize.write().expect("no holder panics");
        let _no_write_back = lock(&handle.mapping.flush);
        handle.mapping.table.for_each_present(PageIndex::ALL, |page, _| {
            handle.pages.drop_page(&handle.mapping, page);
        });
    }

    fn note_failed_write(&self, error: &std::io::Error) {
        self.handle.mapping.record_error(error);
    }

    fn agree(&self) {
        let mapping = &self.handle.mapping;
        let look = mapping.backing().and_then(|backing| backing.look());
        mapping.agreement.share_as(look.as_ref().ok());
    }

    fn bring_in(&self, offset: u64, len: u64, continues: bool) -> Result<u64, ReadError> {
        let handle = &*self.handle;
        if !handle.access.read {
            return Err(ReadError::NotReadable);
        }
        let end = offset.saturating_add(len).min(handle.mapping.len());
        if offset >= end {
            return Ok(0);
        }
        let cpu = current_cpu();
        let (first, last) = (offset >> PAGE_SHIFT, (end - 1) >> PAGE_SHIFT);
        handle.settle(first..=last)?;
        let previous = handle.last_page.at(cpu).swap(last, Relaxed);
        let is_counted = !handle.no_reuse.load(Relaxed);
        // Hits before this miss may not be reported yet, and come by threads of several CPUs.
        let before = if continues { first.checked_sub(1).unwrap_or(NO_PAGE) } else { previous };
        let mut missed_below = 0;
        for index in first..=last {
            let counts = is_counted && (index > first || previous != first);
            let piece = Piece { index, last, within: 0, counts };
            if !handle.read_hit(cpu, &piece, &mut Target::of(&mut []), index >= missed_below) {
                let (_, filled_end) =
                    handle.read_miss(cpu, &piece, before, &mut Target::of(&mut []))?;
                missed_below = missed_below.max(filled_end);
            }
            if let Some(page) = handle.mapping.table.page(PageIndex(index)) {
                page.publish();
            }
        }
        Ok(end - offset)
    }

    fn touch_pages(&self, first: u64, nr: u64) {
        let handle = &*self.handle;
        let cpu = current_cpu();
        let Some(last) = nr.checked_sub(1).and_then(|more| first.checked_add(more)) else { return };
        let previous = handle.last_page.at(cpu).swap(last, Relaxed);
        let is_counted = !handle.no_reuse.load(Relaxed);
        for index in first..=last {
            let counts = is_counted && (index > first || previous != first);
            let piece = Piece { index, last, within: 0, counts };
            handle.read_hit(cpu, &piece, &mut Target::of(&mut []), true);
        }
    }

    fn touch_ranges(&self, ranges: &[(u64, u64)]) {
        let (table, folios) = (&self.handle.mapping.table, &self.handle.pages.folios);
        for some in ranges.chunks(FETCHED) {
            // Overlaps the cache misses of all ranges: first the page words, then the descriptors.
            let pages = || some.iter().filter_map(|(first, _)| table.page(PageIndex(*first)));
            pages().for_each(PageRef::fetch);
            let frames = pages().filter_map(|page| page.load().frame());
            frames.filter_map(|frame| folios.get(frame)).for_each(fetch);
            some.iter().for_each(|(first, nr)| self.touch_pages(*first, *nr));
        }
    }

    fn fetch_absent(&self, index: u64) {
        let mapping = &self.handle.mapping;
        if let Some(page) = mapping.table.page(PageIndex(index)) {
            page.fetch();
        }
        if let Some(tag) = mapping.tag() {
            self.handle.pages.arena.fetch_hints(tag, PageIndex(index));
        }
    }

    fn nr_around(&self) -> u64 {
        let handle = &*self.handle;
        lock(&handle.readahead).nr_around(handle.engine().source.is_ample())
    }

    fn count_device_reads(&self, nr: u64) {
        self.handle.counters.add(Event::DeviceRead, nr);
    }

    fn writes(&self) -> u64 {
        self.handle.mapping.writes()
    }

    fn insert(&self, index: u64, writes: u64, bytes: &[u8; PAGE_BYTES]) -> Inserted {
        let handle = &*self.handle;
        let (engine, mapping) = (handle.engine(), &handle.mapping);
        let Some(mut page) = handle.lock_absent(index, writes) else { return Inserted::Refused };
        if page.frame().is_some() {
            drop(page);
            self.touch_pages(index, 1);
            if let Some(page) = mapping.table.page(PageIndex(index)) {
                // Published, because the process that read the page had not found it.
                page.publish();
            }
            return Inserted::AlreadyResident;
        }
        // Checked under the page's lock: a writer counts itself before it takes the lock.
        if mapping.writes() != writes {
            return Inserted::Refused;
        }
        let cpu = current_cpu();
        handle.counters.count(Event::Miss);
        engine.pages.reuse.access(mapping.key(PageIndex(index)));
        engine.pages.count_read_pages(mapping, 1);
        let previous = handle.last_page.at(cpu).swap(index, Relaxed);
        let counts = previous != index && !handle.no_reuse.load(Relaxed);
        handle.record_read(&Piece { index, last: index, within: 0, counts });
        let Ok(frame) = engine.source.admit(cpu, mapping, &mut page, AccessPath::Descriptor) else {
            return Inserted::Refused;
        };
        page.write(0, bytes);
        if counts {
            engine.pages.mark_filled(cpu, frame);
        }
        Inserted::New
    }

    fn insert_around(&self, index: u64, writes: u64, bytes: &[u8; PAGE_BYTES]) -> bool {
        let handle = &*self.handle;
        let filler = &handle.engine().filler;
        let inserted = handle.insert_by(index, writes, bytes, |cpu, mapping, page| {
            filler.admit_around(cpu, mapping, page)
        });
        if inserted == Inserted::New {
            handle.pages.counters.add(Event::DeviceReadBytes, PAGE_BYTES as u64);
        }
        inserted != Inserted::Refused
    }

    fn insert_copied(&self, index: u64, writes: u64, bytes: &[u8; PAGE_BYTES]) -> bool {
        let handle = &*self.handle;
        let filler = &handle.engine().filler;
        let inserted = handle.insert_by(index, writes, bytes, |cpu, mapping, page| {
            filler.admit_copied(cpu, mapping, page)
        });
        inserted != Inserted::Refused
    }
}

impl Handle {
    /// Inserts a page if `admit` finds a frame. Counts no access.
    fn insert_by<'a>(
        &'a self,
        index: u64,
        writes: u64,
        bytes: &[u8; PAGE_BYTES],
        admit: impl FnOnce(CpuId, &Mapping, &mut Lock<PageRef<'a>>) -> Result<FrameId, NoFrame>,
    ) -> Inserted {
        let Some(mut page) = self.lock_absent(index, writes) else { return Inserted::Refused };
        if page.frame().is_some() {
            return Inserted::AlreadyResident;
        }
        // Checked under the page's lock: a writer counts itself before it takes the lock.
        let is_as_read = self.mapping.writes() == writes;
        if is_as_read && admit(current_cpu(), &self.mapping, &mut page).is_ok() {
            page.write(0, bytes);
            return Inserted::New;
        }
        Inserted::Refused
    }

    fn lock_absent(&self, index: u64, writes: u64) -> Option<Lock<PageRef<'_>>> {
        let is_whole = index < self.mapping.len() >> PAGE_SHIFT;
        let is_leaving = self.mapping.leaving.is_any();
        if !self.access.read || !is_whole || writes & 1 == 1 || is_leaving {
            return None;
        }
        Some(self.mapping.table.page_or_make(PageIndex(index))?.lock())
    }
}
