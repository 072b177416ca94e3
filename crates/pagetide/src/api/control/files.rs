//! What is asked about single files, of which the socket's thread has no handle; it opens none, and
//! waits for no guard.

use crate::api::cache::PageCache;
use crate::api::control::document::DumpedFile;
use crate::engine::flush::pass::Flushed;
use crate::engine::flush::scope::OnLocked;
use crate::engine::mapping::Mapping;
use pagetide_core::ids::PageIndex;
use pagetide_core::units::Bytes;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// What is in memory, file by file. Other threads go on meanwhile: what they bring in or push out
/// may be in it or not.
pub(super) fn dump(cache: &PageCache) -> Vec<DumpedFile> {
    let files = cache.mapped_files().map(|mapping| resident(&mapping));
    files.filter(|file| !file.pages.is_empty()).collect()
}

fn resident(mapping: &Mapping) -> DumpedFile {
    let mut pages: Vec<(u64, u64)> = Vec::new();
    mapping.table.for_each_present(PageIndex::ALL, |page, seen| {
        let index = page.index().0;
        match pages.last_mut() {
            _ if !seen.is_resident() => {}
            Some((first, nr)) if *first + *nr == index => *nr += 1,
            _ => pages.push((index, 1)),
        }
    });
    DumpedFile {
        file: mapping.path().map(|path| path.to_string_lossy().into_owned()),
        len_bytes: mapping.len(),
        resident_bytes: Bytes::from_pages(pages.iter().map(|(_, nr)| nr).sum()).0,
        pages,
    }
}

/// As [`PageCache::sync_all`], but for pages that threads have locked.
pub(super) fn sync_unlocked(cache: &PageCache) -> io::Result<Flushed> {
    let flushed = cache.shared.engine.flusher.flush_all(OnLocked::Skip);
    cache.make_durable()?;
    Ok(flushed)
}

/// As [`Advice::DontNeed`](crate::Advice::DontNeed) for all of the file at `path`, but for pages
/// that threads have locked. Returns how much came free; `None` if it is no file of the cache.
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
        let resident = dump(&cache);
        assert_eq!(resident.len(), 1);
        assert_eq!(resident[0].file.as_deref(), folder.join("b").to_str());
        assert_eq!(resident[0].pages, [(0, 1)]);
        drop(files);
    }
}
