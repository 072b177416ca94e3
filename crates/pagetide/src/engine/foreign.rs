//! Other programs' changes of a file: when they are noticed, and what becomes of the pages.
//!
//! Close to open: an open sees what others had written when they closed the file. In between, a
//! change of theirs is noticed whenever something of ours is about to be stored; then clean pages
//! go, and the file is as long as the longer of both. Bytes written here stay, and are stored as
//! the bytes they are: of two programs that write the same byte, the one that is stored last wins,
//! as on NFS.
//!
//! Nothing here waits for a page: what is in use is [leaving](crate::engine::leaving).

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

/// The page is held by a guard of the thread that would wait for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WaitsForItself {
    pub(crate) index: u64,
}

impl Flusher {
    /// Another open of a cached file: it sees what others had stored until now.
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
        // What was written here leaves its pages, whose other bytes may be old.
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
            // A change of ours cuts nothing off while writers are let in.
            if let Ok(_no_cut) = mapping.resize.try_read() {
                mapping.grow_to(look.fingerprint.len);
            }
        } else {
            mapping.believe_len(look.fingerprint.len);
        }
        state.agree(&look);
        Ok(())
    }

    /// Runs what changes the file: what others did until then is noticed first, and their lengths
    /// afterwards.
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

    /// The last handle of the file is gone, and some of it could not be stored.
    pub(crate) fn abandon(&self, mapping: &Mapping) {
        let mut state = mapping.agreement.lock();
        if !mapping.has_handles() {
            state.abandon();
        }
    }

    /// Bytes that could not be stored before their last handle went are older than what others have
    /// written since: they are not to come back.
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

    /// Drops what is clean; what is in use, or has bytes that are to be stored, as soon as it can
    /// be.
    fn drop_changed(&self, mapping: &Mapping) {
        // First: what is read past the cache from now on is new, what was read before is not.
        mapping.note_foreign_writer();
        self.drop_resident(mapping);
        if let Some(pool) = &self.pages.pool {
            pool.forget_range(mapping.copied(), PageIndex::ALL);
            // What came back from there meanwhile.
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

    /// Before the pages are used: drops those that are leaving, and stores what of them was written
    /// here. Waits for the other threads that have them.
    pub(crate) fn settle(
        &self,
        mapping: &Mapping,
        range: RangeInclusive<u64>,
    ) -> Result<(), WaitsForItself> {
        for index in mapping.leaving.collect(range) {
            self.settle_page(mapping, index)?;
            let is_kept = mapping.leaving.cut_of(index).is_some();
            // What cannot be stored stays, beside bytes that may be old.
            if is_kept && !mapping.is_failing() {
                self.flush(mapping, index..index + 1);
                self.settle_page(mapping, index)?;
            }
        }
        Ok(())
    }

    fn settle_page(&self, mapping: &Mapping, index: u64) -> Result<(), WaitsForItself> {
        let Some(page) = mapping.table.page(PageIndex(index)) else { return Ok(()) };
        let mut page = match page.try_lock() {
            Ok(page) => page,
            Err(_) if held::has(mapping, index) => return Err(WaitsForItself { index }),
            Err(_) => page.lock(),
        };
        self.settle_locked(mapping, &mut page);
        Ok(())
    }

    /// Drops those that are leaving and can be dropped now.
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

    /// Drops a page that is leaving; keeps what of it was written here and is still to be stored.
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
