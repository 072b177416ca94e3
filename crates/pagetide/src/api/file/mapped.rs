//! Pages that other processes map: faults on absent pages.
//!
//! ```text
//!   load  --> resident? --no--> read into the memory file, with the next pages of its stream
//!                  |
//!                  +--yes-----> put into the memory file, with the resident pages that follow
//!
//!   store --> as a load --> dirty --> allowed, at that address of that process
//! ```
//!
//! A page stays dirty as long as a process may store to it: write-back takes the page from all
//! processes first. Accesses of mapped pages leave no trace, so the policy learns of faults only.

use super::{File, Handle};
use crate::api::seam::{MappedPages, SharedPages};
use crate::engine::errors::ReadError;
use crate::engine::flush::Flusher;
use crate::engine::flush::scope::OnLocked;
use crate::engine::locked::LOCKED_SHARE;
use pagetide_core::extents::Extents;
use pagetide_core::folio::Flags;
use pagetide_core::ids::PageIndex;
use pagetide_core::record;
use pagetide_core::units::PAGE_SHIFT;
use pagetide_sys::{Lock, PageFile, PageRef, StoreFault};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Maximum number of resident pages put into the memory file at one fault.
const AROUND: usize = 16;
/// Pages removed from the memory file by one system call, if they are consecutive.
const TAKEN_TOGETHER: usize = 256;
/// Attempts while all memory is in use.
const TRIES: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(5);

impl MappedPages for File {
    fn page_file(&self, nr_pages: u64) -> io::Result<Arc<PageFile>> {
        self.handle.mapping.table.page_file_or_make(nr_pages).map(Arc::clone)
    }

    fn for_maps(&self) -> File {
        let mut file = self.reopen();
        let nr_max =
            file.handle.shared.devices.window_of(&file.handle.mapping, &file.handle.shared.limits);
        let handle = Arc::get_mut(&mut file.handle);
        let handle = handle.expect("invariant: nothing else has it yet");
        handle.extents = Some(Mutex::new(Extents::new(nr_max)));
        file
    }

    fn map_in(&self, index: u64) -> Result<bool, ReadError> {
        let handle = &*self.handle;
        if let Some(file) = handle.mapping.table.page_file() {
            file.set_open(true);
        }
        for _ in 0..TRIES {
            if index >= handle.nr_mappable() {
                return Ok(false);
            }
            self.bring_in(index << PAGE_SHIFT, 1, false)?;
            if handle.put(index)? {
                return Ok(true);
            }
            // The page was read past the cache, or was evicted again.
            Flusher::flush_for_room(&handle.engine().flusher);
            std::thread::sleep(PAUSE);
        }
        Err(handle.store_error(index, io::ErrorKind::OutOfMemory.into()))
    }

    fn map_in_to_write(&self, index: u64, fault: &StoreFault<'_>) -> Result<bool, ReadError> {
        let handle = &*self.handle;
        for _ in 0..TRIES {
            if !self.map_in(index)? {
                return Ok(false);
            }
            if handle.let_write(index, fault)? {
                let flusher = &handle.engine().flusher;
                flusher.balance_dirty(|flusher| flusher.flush_all(OnLocked::Skip));
                return Ok(true);
            }
            // The page was evicted again, or truncated.
        }
        Err(handle.store_error(index, io::ErrorKind::OutOfMemory.into()))
    }

    fn lock_pages(&self, locker: u64, pages: Range<u64>) -> Result<bool, ReadError> {
        let handle = &*self.handle;
        let (mapping, all) = (&handle.mapping, &handle.pages);
        let most = (all.nodes.managed_bytes() / LOCKED_SHARE) >> PAGE_SHIFT;
        if pages.end > mapping.nr_pages()
            || !mapping.locked.add(locker, pages.clone(), &all.nr_locked, most)
        {
            return Ok(false);
        }
        for page in pages.clone() {
            let brought = self.lock_in(page);
            if !matches!(brought, Ok(true)) {
                self.unlock_pages(locker, &pages);
                return brought;
            }
        }
        Ok(true)
    }

    fn unlock_pages(&self, locker: u64, pages: &Range<u64>) {
        let handle = &*self.handle;
        let is_gone = |page, by| by == locker && pages.contains(&page);
        handle.mapping.locked.remove(&handle.pages.nr_locked, is_gone);
    }

    fn unmap_all(&self, keep: bool) {
        let handle = &*self.handle;
        handle.mapping.locked.remove(&handle.pages.nr_locked, |_, _| true);
        let table = &handle.mapping.table;
        let Some(file) = table.page_file() else { return };
        // A read in flight has its page locked.
        file.set_open(false);
        let all = PageIndex(0)..PageIndex(file.nr_pages());
        let mut pages = Vec::with_capacity(TAKEN_TOGETHER);
        table.for_each_present(all, |page, _| {
            // A thread that has other pages locked waits for no lock.
            let lock = page.try_lock().unwrap_or_else(|_| {
                handle.take_out(&mut pages, keep);
                page.lock()
            });
            if lock.is_in_file() {
                pages.push(lock);
            }
            if pages.len() == TAKEN_TOGETHER {
                handle.take_out(&mut pages, keep);
            }
        });
        handle.take_out(&mut pages, keep);
        assert_eq!(file.nr_held(), 0, "no page was put there meanwhile");
    }
}

impl File {
    fn lock_in(&self, index: u64) -> Result<bool, ReadError> {
        while self.map_in(index)? {
            // Once its lock is free, any earlier eviction is over.
            let page = self.handle.page_or_make(index)?;
            if self.handle.lock_page(page)?.frame().is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Handle {
    /// Returns the number of the file's pages that have a place in the memory file.
    fn nr_mappable(&self) -> u64 {
        let nr_places = self.mapping.table.page_file().map_or(0, |file| file.nr_pages());
        self.mapping.nr_pages().min(nr_places)
    }

    /// Removes pages from the memory file, and drops them unless `keep` is set.
    fn take_out(&self, pages: &mut Vec<Lock<PageRef<'_>>>, keep: bool) {
        if keep {
            Lock::take_all_from_file(pages);
        } else {
            Lock::leave_files(pages.iter());
            pages.iter_mut().for_each(|page| self.pages.drop_locked(&self.mapping, page));
        }
        pages.clear();
    }

    /// Puts a resident page, and resident pages that follow, into the memory file. Returns true if
    /// the page is there.
    fn put(&self, index: u64) -> Result<bool, ReadError> {
        let page = self.page_or_make(index)?;
        if page.is_in_file() {
            return Ok(true);
        }
        let mut pages = vec![self.lock_page(page)?];
        if pages[0].frame().is_none() {
            return Ok(false);
        }
        self.extend(&mut pages);
        let put = Lock::put_in_file(&mut pages);
        put.map_err(|error| self.store_error(index, error.into()))?;
        Ok(true)
    }

    /// Marks a page in the memory file dirty and lets a process store to it.
    fn let_write(&self, index: u64, fault: &StoreFault<'_>) -> Result<bool, ReadError> {
        let page = self.page_or_make(index)?;
        loop {
            {
                let _no_truncation = self.mapping.resize.read().expect("no holder panics");
                self.mapping.note_writer();
                if let Ok(mut page) = page.try_lock() {
                    self.engine().flusher.settle_locked(&self.mapping, &mut page);
                    let frame = page.frame().filter(|_| page.is_in_file());
                    if let Some(frame) = frame {
                        self.pages.record(&self.mapping, index, record::AccessKind::Write);
                        self.pages.mark_whole_dirty(&self.mapping, index, frame);
                        page.let_write(fault);
                    }
                    return Ok(frame.is_some());
                }
            }
            self.check_not_own(index)?;
            page.wait_while_in_use();
        }
    }

    /// Locks the resident pages that follow, except marked pages, which must be noticed on access.
    fn extend<'m>(&'m self, pages: &mut Vec<Lock<PageRef<'m>>>) {
        let index = pages[0].page().index().0 + 1;
        for next in index..self.nr_mappable() {
            let Some(page) = self.mapping.table.page(PageIndex(next)) else { return };
            let Ok(page) = page.try_lock() else { return };
            let Some(frame) = page.frame() else { return };
            let is_marked = self.pages.folios[frame].flags().any(Flags::READAHEAD);
            if page.is_in_file() || is_marked || pages.len() == AROUND {
                return;
            }
            self.pages.folios[frame].clear(Flags::PREFETCHED);
            pages.push(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, OpenOptions, PageCache};
    use pagetide_core::units::PAGE_BYTES;

    /// The file has grown beyond the places of its memory file.
    #[test]
    fn pages_without_a_place_are_not_put_into_the_memory_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, [7; 64 * PAGE_BYTES]).unwrap();
        let cache = PageCache::builder().memory(Bytes(4 << 20)).background(false).build().unwrap();
        let file = cache.open(&path, OpenOptions::new().read(true)).unwrap();
        let memory_file = match file.page_file(20) {
            Ok(memory_file) => memory_file,
            Err(error) => return eprintln!("SKIPPED: userfaultfd is refused here: {error}"),
        };
        let handle = file.for_maps();
        for index in 0..20 {
            assert!(handle.map_in(index).unwrap(), "page {index}");
        }
        assert_eq!(memory_file.nr_held(), 20);
        assert!(!handle.map_in(20).unwrap() && !handle.map_in(64).unwrap());
        assert!(!handle.map_in(u64::MAX).unwrap());
        file.unmap_all(true);
        let mut last = [0; 1];
        file.read_at(&mut last, 19 << PAGE_SHIFT).unwrap();
        assert_eq!(last, [7]);
    }
}
