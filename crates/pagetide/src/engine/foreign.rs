//! Changes of a file by other programs.
//!
//! Close-to-open consistency: an open sees all writes of programs that have closed the file. The
//! cache also checks for changes before it writes to the file. Then clean pages are dropped, and
//! the file takes the longer of both lengths. Bytes written here are kept, and stored with byte
//! precision. Nothing waits for a page: a page in use is [retiring](crate::engine::leaving).

use crate::engine::flush::Flusher;
use crate::engine::flush::scope::OnLocked;
use crate::engine::held;
use crate::engine::mapping::Mapping;
use crate::memory::store::Backing;
use pagetide_core::folio::Flags;
use pagetide_core::ids::PageIndex;
use pagetide_core::units::PAGE_BYTES;
use pagetide_sys::{Lock, Look, PageHandle, PageRef, current_cpu};
use std::io;
use std::ops::RangeInclusive;

const UNCLEAN: Flags = Flags::DIRTY.with(Flags::WRITEBACK);

/// A page with a guard of this thread, or with a pin for an unknown time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WaitsForEver {
    pub(crate) index: u64,
}

impl Flusher {
    pub(crate) fn agree_at_open(&self, mapping: &Mapping, backing: &Backing) -> io::Result<()> {
        if !mapping.agreement.is_shared() {
            return Ok(());
        }
        {
            let mut state = mapping.agreement.lock();
            let look = backing.look()?;
            let is_abandoned = state.take_abandoned();
            if state.proves_same(&look) {
                return Ok(());
            }
            if state.is_changed(&look) && is_abandoned {
                self.give_up_dirty(mapping);
            }
        }
        // Writes back partial pages, as their other bytes may be stale.
        if mapping.dirty.has_partial()
            && let Ok(turn) = mapping.flush.try_lock()
        {
            self.flush_locked(mapping, 0..u64::MAX, OnLocked::Skip, u64::MAX);
            drop(turn);
        }
        let mut state = mapping.agreement.lock();
        let look = backing.look()?;
        self.drop_changed(mapping);
        if state.is_changing() {
            // A concurrent change of ours may still grow the file: do not truncate.
            if let Ok(_no_cut) = mapping.resize.try_read() {
                mapping.grow_to(look.fingerprint.len);
            }
        } else {
            mapping.believe_len(look.fingerprint.len);
        }
        state.agree(&look);
        Ok(())
    }

    /// Runs a change of the file. Detects foreign changes before, and new lengths after.
    pub(crate) fn with_change<T>(
        &self,
        mapping: &Mapping,
        backing: &Backing,
        change: impl FnOnce() -> T,
    ) -> T {
        if !mapping.agreement.is_shared() {
            return change();
        }
        self.begin_change(mapping, backing);
        let result = change();
        self.end_change(mapping, backing);
        result
    }

    fn begin_change(&self, mapping: &Mapping, backing: &Backing) {
        let mut state = mapping.agreement.lock();
        let look = backing.look().ok();
        if let Some(look) = look.filter(|look| state.is_changed(look)) {
            if state.is_abandoned() && !mapping.has_handles() {
                self.give_up_dirty(mapping);
            }
            self.drop_changed(mapping);
            mapping.believe_len(look.fingerprint.len);
        }
        state.begin(look.as_ref());
    }

    fn end_change(&self, mapping: &Mapping, backing: &Backing) {
        let mut state = mapping.agreement.lock();
        let look = backing.look().ok();
        if state.end(look.as_ref())
            && let Some(Look { fingerprint, .. }) = look
        {
            self.drop_changed(mapping);
            mapping.believe_len(fingerprint.len);
        }
    }

    pub(crate) fn abandon(&self, mapping: &Mapping) {
        let mut state = mapping.agreement.lock();
        if !mapping.has_handles() {
            state.abandon();
        }
    }

    /// Discards unstored bytes of closed handles: they must not overwrite other programs' later
    /// writes.
    fn give_up_dirty(&self, mapping: &Mapping) {
        if !mapping.is_failing() {
            return;
        }
        for index in mapping.dirty.collect_in(0..u64::MAX, usize::MAX) {
            if let Some(page) = mapping.table.page(PageIndex(index)) {
                match page.try_lock() {
                    Ok(mut page) => self.pages.drop_locked(mapping, &mut page),
                    Err(_) => mapping.leaving.insert_cut(index, 0),
                }
            }
        }
    }

    /// Drops clean pages, and the rest as soon as possible.
    fn drop_changed(&self, mapping: &Mapping) {
        // First, so that later reads past the cache are fresh.
        mapping.note_foreign_writer();
        self.drop_resident(mapping);
        if let Some(pool) = &self.pages.pool {
            pool.forget_range(mapping.copied(), PageIndex::ALL);
            // Pages decompressed in the meantime.
            self.drop_resident(mapping);
        }
    }

    fn drop_resident(&self, mapping: &Mapping) {
        let cpu = current_cpu();
        mapping.table.for_each_present(PageIndex::ALL, |page, _| {
            let index = page.index().0;
            let Ok(mut page) = page.try_lock() else {
                return mapping.leaving.insert_changed(index);
            };
            let flags = page.frame().map_or(Flags::NONE, |frame| self.pages.folios[frame].flags());
            if flags.any(Flags::WRITEBACK) || mapping.dirty.is_partial(index) {
                mapping.leaving.insert_changed(index);
            } else if !flags.any(Flags::DIRTY) {
                self.pages.expel(cpu, mapping, &mut page);
            }
        });
    }

    /// Drops the retiring pages of the range before use, and stores bytes written here. Waits for
    /// other threads that use the pages.
    pub(crate) fn settle(
        &self,
        mapping: &Mapping,
        range: RangeInclusive<u64>,
    ) -> Result<(), WaitsForEver> {
        for index in mapping.leaving.collect(range) {
            self.settle_page(mapping, index)?;
            let is_kept = mapping.leaving.cut_of(index).is_some();
            // A page that cannot be stored stays, although its other bytes may be stale.
            if is_kept && !mapping.is_failing() {
                self.flush(mapping, index..index + 1);
                self.settle_page(mapping, index)?;
            }
        }
        Ok(())
    }

    fn settle_page(&self, mapping: &Mapping, index: u64) -> Result<(), WaitsForEver> {
        let Some(page) = mapping.table.page(PageIndex(index)) else { return Ok(()) };
        let mut page = match page.try_lock() {
            Ok(page) => page,
            Err(_) if held::has(mapping, index) || mapping.has_owned_pin(index) => {
                return Err(WaitsForEver { index });
            }
            Err(_) => page.lock(),
        };
        self.settle_locked(mapping, &mut page);
        Ok(())
    }

    pub(crate) fn settle_idle(&self, mapping: &Mapping) {
        if !mapping.leaving.is_any() {
            return;
        }
        for index in mapping.leaving.collect(0..=u64::MAX) {
            let page = mapping.table.page(PageIndex(index));
            if let Some(Ok(mut page)) = page.map(PageRef::try_lock) {
                self.settle_locked(mapping, &mut page);
            }
        }
    }

    /// Drops a retiring page, except for bytes to be stored.
    pub(crate) fn settle_locked<H: PageHandle>(&self, mapping: &Mapping, page: &mut Lock<H>) {
        let index = page.page().index();
        let Some(cut) = mapping.leaving.cut_of(index.0) else { return };
        let flags = page.frame().map_or(Flags::NONE, |frame| self.pages.folios[frame].flags());
        if cut == 0 || !flags.any(UNCLEAN) {
            self.pages.drop_locked(mapping, page);
            mapping.leaving.remove(index.0);
        } else if cut < PAGE_BYTES {
            page.fill_zero(cut..PAGE_BYTES);
            mapping.leaving.note_zeroed(index.0);
        }
    }
}
