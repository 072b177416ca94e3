//! A device that is really full: a small tmpfs, a ballast file, and room made later.

mod common;

use common::small_tmpfs::SmallTmpfs;
use common::{PAGE, pattern_at, skip};
use pagetide::{Bytes, OpenOptions, PageCache, PolicyName, SyncError};

#[test]
fn a_full_file_system_keeps_pages_dirty_until_there_is_room() {
    const NR_PAGES: usize = 128;
    let tmpfs = match SmallTmpfs::mount(160 * PAGE) {
        Ok(tmpfs) => tmpfs,
        Err(why) => return skip("a_full_file_system_keeps_pages_dirty_until_there_is_room", &why),
    };
    for policy in [PolicyName::Mglru, PolicyName::ActiveInactive] {
        let ballast = tmpfs.path().join("ballast");
        std::fs::write(&ballast, vec![1; 100 * PAGE]).unwrap();
        let path = tmpfs.path().join("data");
        let cache =
            PageCache::builder().memory(Bytes::from_pages(256)).policy(policy).build().unwrap();
        let options = OpenOptions::new().read(true).write(true).create(true);
        let file = cache.open(&path, options).unwrap();
        let other = cache.open(&path, options).unwrap();
        let expected = pattern_at(0, NR_PAGES * PAGE);
        assert_eq!(file.write_at(&expected, 0).unwrap(), expected.len());
        for handle in [&file, &other] {
            match handle.sync_data() {
                Err(SyncError::Writeback(source)) => {
                    assert_eq!(source.raw_os_error(), Some(libc::ENOSPC), "{source:?}");
                }
                other => panic!("{other:?}"),
            }
        }
        let nr_dirty = cache.stats().dirty_bytes / PAGE as u64;
        assert!(nr_dirty >= (NR_PAGES - 60) as u64, "only {nr_dirty} pages are dirty");
        let mut all = vec![0; expected.len()];
        file.read_at(&mut all, 0).unwrap();
        assert!(all == expected, "memory has it all");

        std::fs::remove_file(&ballast).unwrap();
        // The first may report what failed during the other's sync; it writes all the same.
        let _ = file.sync_data();
        file.sync_data().unwrap();
        let _ = other.sync_data();
        other.sync_data().unwrap();
        assert_eq!(cache.stats().dirty_bytes, 0);
        assert!(std::fs::read(&path).unwrap() == expected);
        drop((file, other, cache));
        std::fs::remove_file(&path).unwrap();
    }
}
