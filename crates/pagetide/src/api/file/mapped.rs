//! Pages that other processes map: a touch of one that is absent there.
//!
//! ```text
//!   touch --> resident? --no--> brought in as by a read --> put into the memory file, and what
//!                  |                                        follows it and is resident with it
//!                  +--yes--------------------------------->
//! ```
//!
//! What is mapped is touched without a trace: a policy learns of the faults alone.

use super::{File, Handle};
use crate::api::seam::{MappedPages, SharedPages};
use crate::engine::flush::Flusher;
use crate::errors::ReadError;
use pagetide_core::ids::PageIndex;
use pagetide_core::units::PAGE_SHIFT;
use pagetide_sys::{Lock, PageFile, PageRef};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Pages that are put into the memory file at a fault, with the one that was touched: those that
/// follow it and are resident.
const AROUND: u64 = 16;
/// Where all of memory is in use, a touch waits so often.
const TRIES: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(5);

impl MappedPages for File {
    fn page_file(&self, nr_pages: u64) -> io::Result<Arc<PageFile>> {
        self.handle.mapping.table.page_file_or_make(nr_pages).map(Arc::clone)
    }

    fn map_in(&self, index: u64) -> Result<bool, ReadError> {
        let handle = &*self.handle;
        for _ in 0..TRIES {
            if index >= handle.mapping.nr_pages() {
                return Ok(false);
            }
            self.bring_in(index << PAGE_SHIFT, 1)?;
            if handle.put(index)? {
                handle.put_around(index);
                return Ok(true);
            }
            // It was read past the cache, or has left again.
            Flusher::flush_for_room(&handle.engine().flusher);
            std::thread::sleep(PAUSE);
        }
        Err(handle.store_error(index, io::ErrorKind::OutOfMemory.into()))
    }

    fn unmap_all(&self, keep: bool) {
        let handle = &*self.handle;
        let table = &handle.mapping.table;
        let Some(file) = table.page_file().filter(|file| file.nr_held() > 0) else { return };
        let all = PageIndex(0)..PageIndex(file.nr_pages());
        table.for_each_present(all, |page, _| {
            if page.is_in_file() {
                let mut page = page.lock();
                match keep {
                    true => page.take_from_file(),
                    false => handle.pages.drop_locked(&handle.mapping, &mut page),
                }
            }
        });
        assert_eq!(file.nr_held(), 0, "no page was put there meanwhile");
    }
}

impl Handle {
    /// Puts a page where others map it, if it is resident; returns whether it is there.
    fn put(&self, index: u64) -> Result<bool, ReadError> {
        let mut page = self.lock_page(self.page_or_make(index)?)?;
        self.put_locked(&mut page)
    }

    fn put_locked(&self, page: &mut Lock<PageRef<'_>>) -> Result<bool, ReadError> {
        if page.frame().is_none() {
            return Ok(false);
        }
        let index = page.page().index().0;
        page.put_in_file().map_err(|error| self.store_error(index, error.into()))?;
        Ok(true)
    }

    /// What follows and is resident, as far as it is at hand.
    fn put_around(&self, index: u64) {
        let end = (index + AROUND).min(self.mapping.nr_pages());
        let places = self.mapping.table.page_file().map_or(0, |file| file.nr_pages());
        for next in index + 1..end.min(places) {
            let Some(page) = self.mapping.table.page(PageIndex(next)) else { return };
            if page.is_in_file() {
                continue;
            }
            let Ok(mut page) = page.try_lock() else { return };
            if !self.put_locked(&mut page).unwrap_or(false) {
                return;
            }
        }
    }
}
