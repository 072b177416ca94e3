//! All files of a cache: statistics, sync and drop.

use crate::api::cache::PageCache;
use crate::api::file::store_durably;
use crate::engine::errors::SyncError;
use crate::engine::flush::scope::OnLocked;
use crate::engine::mapping::Mapping;
use crate::memory::store::Backing;
use pagetide_core::ids::PageIndex;
use pagetide_core::units::Bytes;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Statistics of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileStats {
    /// Path, also after the close. `None` for a store of the caller or an unnamed file.
    pub path: Option<PathBuf>,
    /// Length in bytes.
    pub len_bytes: u64,
    /// Bytes read from the store, including readahead.
    pub device_read_bytes: u64,
    /// A handle is open.
    pub is_open: bool,
}

impl PageCache {
    /// Returns the files that are open or have resident pages, in no order, without regions.
    ///
    /// # Cost
    /// A system call for each file.
    pub fn files(&self) -> Vec<FileStats> {
        let stats = |mapping: &Mapping| FileStats {
            path: mapping.path(),
            len_bytes: mapping.len(),
            device_read_bytes: Bytes::from_pages(mapping.nr_read.load(Relaxed)).0,
            is_open: mapping.has_handles(),
        };
        self.mapped_files().map(|mapping| stats(&mapping)).collect()
    }

    /// Writes back all dirty pages of all files, and makes them durable. A failure does not affect
    /// other files.
    ///
    /// # Errors
    /// The first error: as [`PageCache::flush_all`], and [`SyncError::Store`] if a store could not
    /// be made durable. The next sync of each handle of that file reports it, too.
    ///
    /// # Concurrency
    /// As [`PageCache::flush_all`].
    pub fn sync_all(&self) -> Result<(), SyncError> {
        let flushed = self.flush_all();
        let durable = self.make_durable().map_err(SyncError::Store);
        flushed.and(durable)
    }

    /// Drops clean, unused pages of all files after a write-back that skips locked pages, as the
    /// kernel's `drop_caches`. Returns the memory freed. Regions keep their pages.
    ///
    /// # Concurrency
    /// Thread-safe. Other threads may bring in pages meanwhile. Waits for no guard.
    pub fn drop_caches(&self) -> Bytes {
        let before = self.resident_bytes();
        self.shared.engine.flusher.flush_all(OnLocked::Skip);
        for mapping in self.mapped_files() {
            self.shared.engine.pages.drop_clean_pages(&mapping, PageIndex::ALL);
        }
        Bytes(before.saturating_sub(self.resident_bytes()))
    }

    /// Syncs all stores. Returns the first error.
    pub(crate) fn make_durable(&self) -> io::Result<()> {
        let mut stored = Ok(());
        for mapping in self.mapped_files() {
            // A closed file has nothing left to store.
            let Ok(backing) = mapping.backing() else { continue };
            if backing.is_writable() {
                stored = stored.and(store_durably(&mapping, &backing, Backing::sync_data));
            }
        }
        stored
    }

    pub(crate) fn mapped_files(&self) -> impl Iterator<Item = Arc<Mapping>> {
        self.shared.engine.mappings.snapshot().into_iter().filter(|mapping| !mapping.is_region())
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        Bytes::from_pages(self.shared.engine.pages.nodes.sample_resident()).0
    }
}

#[cfg(test)]
mod tests {
    use crate::{Bytes, OpenOptions, PageCache};

    #[test]
    fn closed_files_are_known_by_what_is_in_memory_until_that_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("a");
        std::fs::write(&path, [1; 10 * 4096]).unwrap();
        let builder = PageCache::builder().memory(Bytes(1 << 20)).background(false);
        let cache = builder.readahead_max(Bytes(0)).build().unwrap();
        let file = cache.open(&path, OpenOptions::new().read(true).write(true)).unwrap();
        for index in [1, 2, 3, 7] {
            file.read_at(&mut [0; 10], index * 4096).unwrap();
        }
        file.write_at(&[2], 9 * 4096).unwrap();
        cache.sync_all().unwrap();
        assert_eq!(std::fs::read(&path).unwrap()[9 * 4096], 2);
        file.write_at(&[3], 9 * 4096).unwrap();
        drop(file);

        assert_eq!(cache.stats().resident_bytes, 5 * 4096);
        let files = cache.files();
        assert_eq!(files[0].path.as_ref(), Some(&path));
        assert_eq!(files[0].device_read_bytes, 5 * 4096);
        assert!(!files[0].is_open);

        assert_eq!(cache.drop_caches(), Bytes(5 * 4096));
        assert_eq!(cache.stats().resident_bytes, 0);
        assert_eq!(std::fs::read(&path).unwrap()[9 * 4096], 3, "it was written back");
        cache.validate();
    }
}
