//! Requests about files. Opens no handles, and waits for no guard.

use crate::api::cache::PageCache;
use crate::engine::flush::pass::Flushed;
use crate::engine::flush::scope::OnLocked;
use crate::engine::mapping::Mapping;
use pagetide_core::ids::PageIndex;
use pagetide_core::units::Bytes;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Does the work of [`PageCache::sync_all`], but skips locked pages.
pub(super) fn sync_unlocked(cache: &PageCache) -> io::Result<Flushed> {
    let flushed = cache.shared.engine.flusher.flush_all(OnLocked::Skip);
    cache.make_durable()?;
    Ok(flushed)
}

/// Does the work of [`Advice::DontNeed`](crate::Advice::DontNeed) for a whole file, but skips
/// locked pages. Returns the memory freed, or `None` if the file is not cached.
pub(super) fn drop_file(cache: &PageCache, path: &Path) -> Option<Bytes> {
    let is_it = |mapping: &Arc<Mapping>| mapping.path().as_deref() == Some(path);
    let mapping = cache.mapped_files().find(is_it)?;
    let before = cache.resident_bytes();
    let engine = &cache.shared.engine;
    engine.flusher.flush_unlocked(&mapping);
    engine.pages.drop_clean_pages(&mapping, PageIndex::ALL);
    Some(Bytes(before.saturating_sub(cache.resident_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;

    #[test]
    fn one_file_is_dropped_alone() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let builder = PageCache::builder().memory(Bytes(1 << 20)).background(false);
        let cache = builder.readahead_max(Bytes(0)).build().unwrap();
        let files = ["a", "b"].map(|name| {
            std::fs::write(folder.join(name), [1; 4096]).unwrap();
            let file = cache.open(folder.join(name), OpenOptions::new().read(true)).unwrap();
            file.read_at(&mut [0; 10], 0).unwrap();
            file
        });
        assert_eq!(drop_file(&cache, &folder.join("c")), None);
        assert_eq!(drop_file(&cache, &folder.join("a")), Some(Bytes(4096)));
        let resident = cache.dump().files;
        assert_eq!((resident.len(), resident[0].ranges.len()), (1, 1));
        assert_eq!(resident[0].path, Some(folder.join("b")));
        drop(files);
    }
}
