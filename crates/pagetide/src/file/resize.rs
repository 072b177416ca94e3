//! Changing a file's length.
//!
//! Writers share `mapping.resize`, a change of length has it alone; it also takes `mapping.flush`,
//! so no write is in flight that could bring cut-off bytes back. The store changes first: if it
//! refuses, nothing has happened.

use super::{File, Handle};
use crate::engine::Engine;
use crate::errors::WriteError;
use crate::locks::lock;
use crate::mapping::{FILE_BYTES_MAX, Mapping};
use pagetide_core::folio::Flags;
use pagetide_core::ids::PageIndex;
use pagetide_core::units::{PAGE_BYTES, PAGE_SHIFT};
use pagetide_sys::{PageRef, current_cpu};

impl File {
    /// Cuts the file to `len` bytes, or extends it with zeros. In effect at once, in the store too;
    /// durable after the next sync.
    ///
    /// Waits for guards of the pages that are cut.
    ///
    /// # Errors
    /// [`WriteError::NotWritable`], [`WriteError::TooLong`]; [`WriteError::Store`] if the store
    /// refuses, and then the length is what it was.
    pub fn set_len(&self, len: u64) -> Result<(), WriteError> {
        let handle = &*self.handle;
        if !handle.access.write {
            return Err(WriteError::NotWritable);
        }
        if len > FILE_BYTES_MAX {
            return Err(WriteError::TooLong { end: len, most: FILE_BYTES_MAX });
        }
        let mapping = &handle.mapping;
        let _no_writers = mapping.resize.write().expect("no holder panics");
        let _no_write_back = lock(&mapping.flush);
        let was = mapping.len();
        mapping.note_writer();
        let changed = mapping.backing().and_then(|backing| backing.set_len(len));
        changed.map_err(|source| WriteError::Store { offset: len, len: 0, source })?;
        mapping.set_len(len);
        if len < was {
            handle.cut_pages(len);
        }
        if let Ok(backing) = mapping.backing() {
            mapping.refresh_fingerprint(&backing);
        }
        Ok(())
    }
}

impl Handle {
    /// Drops the pages past the new end, and zeroes what is left of the last one.
    fn cut_pages(&self, len: u64) {
        let engine = self.engine();
        let first_gone = len.div_ceil(PAGE_BYTES as u64);
        self.mapping.table.for_each_present(
            PageIndex(first_gone)..PageIndex(u64::MAX),
            |page, _| {
                engine.drop_page(&self.mapping, page);
            },
        );
        let within = len as usize % PAGE_BYTES;
        if within > 0
            && let Some(page) = self.mapping.table.page(PageIndex(len >> PAGE_SHIFT))
        {
            let mut last = page.lock();
            if last.frame().is_some() {
                last.fill_zero(within..PAGE_BYTES);
            }
        }
        if let Some(pool) = &engine.pool {
            // Last, as pages may have been evicted meanwhile; and with the last page, of which a
            // copy may have the bytes that were cut off.
            pool.forget_range(&self.mapping, PageIndex(len >> PAGE_SHIFT)..PageIndex(u64::MAX));
        }
    }
}

impl Engine {
    /// Drops one page, dirty or not.
    pub(crate) fn drop_page(&self, mapping: &Mapping, page: PageRef<'_>) {
        let index = page.index().0;
        let mut page = page.lock();
        if let Some(frame) = page.frame()
            && self.folios[frame].clear(Flags::DIRTY).any(Flags::DIRTY)
        {
            mapping.dirty.remove(index);
            self.uncount_dirty(mapping, 1);
        }
        self.expel(current_cpu(), mapping, &mut page);
    }
}
