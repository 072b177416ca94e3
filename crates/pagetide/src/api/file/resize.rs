//! Changing a file's length.
//!
//! A change of length holds `mapping.resize` exclusively, and writers share it. The change also
//! holds `mapping.flush`, so that no write in flight brings truncated bytes back. The store changes
//! first: if it refuses, nothing has changed. A page in use is recorded as
//! [retiring](crate::engine::leaving).

use super::{File, Handle};
use crate::engine::errors::WriteError;
use crate::memory::locks::lock;
use pagetide_core::ids::PageIndex;
use pagetide_core::units::{PAGE_BYTES, PAGE_SHIFT};
use pagetide_sys::{Lock, LockRefused, PageRef};

impl File {
    /// Truncates the file to `len` bytes, or extends it with zeros. Takes effect at once, in the
    /// store too, and is durable after the next sync.
    ///
    /// Waits for store requests of other threads, but for no guard. A guard of a truncated page
    /// keeps its bytes until it is dropped, and its changes are discarded.
    ///
    /// # Errors
    /// [`WriteError::NotWritable`], [`WriteError::TooLong`]. Fails with [`WriteError::SetLen`] if
    /// the store refuses, and the file keeps its old length.
    ///
    /// # Cost
    /// A system call, and a visit to each truncated page.
    pub fn set_len(&self, len: u64) -> Result<(), WriteError> {
        let handle = &*self.handle;
        if !handle.access.write {
            return Err(WriteError::NotWritable);
        }
        let mapping = &handle.mapping;
        mapping.longest.check_end(len, || mapping.backing().ok())?;
        let _no_writers = mapping.resize.write().expect("no holder panics");
        let _no_write_back = lock(&mapping.flush);
        let refused = |source| WriteError::SetLen { len, source };
        let backing = mapping.backing().map_err(refused)?;
        mapping.note_writer();
        let changed = handle.engine().flusher.with_change(mapping, &backing, || {
            let was = mapping.len();
            backing.set_len(len)?;
            mapping.set_len(len);
            if mapping.agreement.is_shared() {
                mapping.agreement.lock().set_len(len);
            }
            if len < was {
                handle.cut_pages(len);
            } else if mapping.table.page_file().is_some() {
                // Other processes may have stored past the end through a mapping.
                handle.cut_last(was);
            }
            Ok(())
        });
        changed.map_err(refused)
    }
}

impl Handle {
    fn cut_pages(&self, len: u64) {
        let (engine, mapping) = (self.engine(), &self.mapping);
        let first_gone = len.div_ceil(PAGE_BYTES as u64);
        mapping.locked.remove(&engine.pages.nr_locked, |page, _| page >= first_gone);
        let gone = PageIndex(first_gone)..PageIndex(u64::MAX);
        mapping.table.for_each_present(gone, |page, _| match lock_to_cut(page) {
            Ok(mut page) => engine.pages.drop_locked(mapping, &mut page),
            Err(_) => mapping.leaving.insert_cut(page.index().0, 0),
        });
        self.cut_last(len);
        if let Some(pool) = &engine.pages.pool {
            // Last, as pages may have been evicted meanwhile. The copy of the last page may have
            // truncated bytes.
            pool.forget_range(mapping.copied(), PageIndex(len >> PAGE_SHIFT)..PageIndex(u64::MAX));
        }
    }

    fn cut_last(&self, len: u64) {
        let mapping = &self.mapping;
        let (last, within) = (len >> PAGE_SHIFT, len as usize % PAGE_BYTES);
        let Some(page) = mapping.table.page(PageIndex(last)).filter(|_| within > 0) else { return };
        if mapping.agreement.is_shared() {
            mapping.dirty.cut(last, within);
        }
        match lock_to_cut(page) {
            Ok(mut page) if page.frame().is_some() => page.fill_zero(within..PAGE_BYTES),
            Ok(_) => {}
            Err(_) => mapping.leaving.insert_cut(last, within),
        }
    }
}

/// Locks a page without waiting for a guard. Waits for a page that other processes may store to,
/// which has no guard: stores after the file has grown again must be kept.
fn lock_to_cut(page: PageRef<'_>) -> Result<Lock<PageRef<'_>>, LockRefused> {
    loop {
        match page.try_lock() {
            Err(_) if page.is_written_in_file() => std::thread::yield_now(),
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Bytes, OpenOptions, PageCache, Tier, WriteError};
    use pagetide_core::driver;
    use pagetide_core::units::PAGE_BYTES;
    use pagetide_sys::current_cpu;
    use std::path::Path;

    /// A read after the new length, before the copy of the last page is dropped.
    #[test]
    fn a_compressed_copy_of_a_cut_page_does_not_bring_back_what_was_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, [1; 3 * PAGE_BYTES]).unwrap();
        let builder = PageCache::builder().tier(Tier::dram(Bytes(1 << 20)));
        let cache =
            builder.tier(Tier::compressed(Bytes(1 << 20))).background(false).build().unwrap();
        let file = cache.open(&path, OpenOptions::new().read(true).write(true)).unwrap();
        let mut all = [0; 3 * PAGE_BYTES];
        file.read_at(&mut all, 0).unwrap();
        let engine = &cache.shared.engine;
        // Frames in other CPUs' logs are on no list.
        engine.pages.nodes.drain_logs();
        driver::reclaim_on_demand(&mut engine.source.reclaimer(current_cpu()), driver::FIRST, 64);
        let pool = engine.pages.pool.as_ref().unwrap();
        assert_eq!(pool.collect_stats().nr_pages, 3);
        let mapping = &file.handle.mapping;
        mapping.set_len(100);
        file.read_at(&mut all, 0).unwrap();
        mapping.set_len(3 * PAGE_BYTES as u64);
        assert_eq!(file.read_at(&mut all[..PAGE_BYTES], 0).unwrap(), PAGE_BYTES);
        let (left, cut_off) = all[..PAGE_BYTES].split_at(100);
        assert!(left == [1; 100] && cut_off.iter().all(|byte| *byte == 0));
    }

    /// On disk and in memory, which have different maximum lengths.
    #[test]
    fn a_write_past_the_longest_file_fails_at_once_and_the_rest_still_syncs() {
        let shared_memory = Path::new("/dev/shm");
        let folders = [
            Some(tempfile::tempdir()),
            shared_memory.exists().then(|| tempfile::tempdir_in(shared_memory)),
        ];
        for folder in folders.into_iter().flatten().map(Result::unwrap) {
            let builder = PageCache::builder().memory(Bytes(1 << 20));
            let cache = builder.background(false).build().unwrap();
            let options = OpenOptions::new().read(true).write(true).create(true);
            let path = folder.path().join("a");
            let file = cache.open(&path, options).unwrap();
            let refused = |result: Result<(), WriteError>| match result {
                Err(WriteError::TooLong { most, .. }) => most,
                other => panic!("{other:?}"),
            };
            file.write_all_at(b"first", 0).unwrap();
            let most = refused(file.write_all_at(b"x", u64::MAX - 1));
            assert_eq!(refused(file.write_all_at(b"xy", most - 1)), most);
            assert_eq!(refused(file.write_all_at(b"x", most)), most);
            assert_eq!(refused(file.set_len(most + 1)), most);
            file.sync_all().unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"first");

            file.write_all_at(b"last", most - 4).unwrap();
            file.sync_all().unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().len(), most);
            let mut last = [0; 8];
            assert_eq!(file.read_at(&mut last, most - 4).unwrap(), 4);
            assert_eq!(&last[..4], b"last");
            file.set_len(most - 1).unwrap();
            file.set_len(most).unwrap();
            file.sync_all().unwrap();
        }
    }
}
