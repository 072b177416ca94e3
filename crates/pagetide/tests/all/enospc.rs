//! A full device: a small tmpfs and a small ext4 over a loop device, which supports direct I/O and
//! io_uring. A ballast file fills it, and is removed later.

use crate::common::small_fs::{Kind, SmallFs, make_room};
use crate::common::{PAGE, pattern_at, skip};
use pagetide::{Bytes, File, OpenOptions, PageCache, PolicyName, SyncError};
use std::io;

const NR_PAGES: usize = 128;
/// Pages free beside the ballast.
const NR_FREE: usize = 60;
/// Pages for the file system's own use.
const NR_OWN: u64 = 8;

fn rw() -> OpenOptions {
    OpenOptions::new().read(true).write(true).create(true)
}

fn on_small_file_systems(name: &str, test: impl Fn(&SmallFs)) {
    for kind in [Kind::Tmpfs, Kind::Ext4] {
        match SmallFs::mount(kind, 8 << 20) {
            Ok(small) => test(&small),
            Err(why) => skip(name, &format!("{kind:?}: {why}")),
        }
    }
}

fn small_cache(policy: PolicyName) -> PageCache {
    PageCache::builder().memory(Bytes::from_pages(256)).policy(policy).build().unwrap()
}

fn assert_full(synced: Result<(), SyncError>) {
    match synced {
        Err(SyncError::Writeback(source)) => {
            assert_eq!(source.raw_os_error(), Some(libc::ENOSPC), "{source:?}");
        }
        other => panic!("{other:?}"),
    }
}

fn read_all(file: &File) -> Vec<u8> {
    let mut all = vec![0; file.len() as usize];
    assert_eq!(file.read_at(&mut all, 0).unwrap(), all.len());
    all
}

#[test]
fn a_full_file_system_keeps_pages_dirty_until_there_is_room() {
    on_small_file_systems("a_full_file_system_keeps_pages_dirty_until_there_is_room", |small| {
        for policy in [PolicyName::Mglru, PolicyName::ActiveInactive] {
            let ballast = small.fill_up(NR_FREE);
            let path = small.path().join("data");
            let cache = small_cache(policy);
            let (file, other) =
                (cache.open(&path, rw()).unwrap(), cache.open(&path, rw()).unwrap());
            let expected = pattern_at(0, NR_PAGES * PAGE);
            assert_eq!(file.write_at(&expected, 0).unwrap(), expected.len());
            [&file, &other].into_iter().for_each(|handle| assert_full(handle.sync_data()));
            let nr_dirty = cache.stats().dirty_bytes / PAGE as u64;
            assert!(nr_dirty >= (NR_PAGES - NR_FREE) as u64, "only {nr_dirty} pages are dirty");
            assert!(read_all(&file) == expected, "memory has it all");

            make_room(&ballast);
            // The first sync may report a failure of the sync of `other`. It writes all the same.
            let _ = file.sync_data();
            file.sync_data().unwrap();
            let _ = other.sync_data();
            other.sync_data().unwrap();
            assert_eq!(cache.stats().dirty_bytes, 0);
            assert!(std::fs::read(&path).unwrap() == expected);
            drop((file, other, cache));
            std::fs::remove_file(&path).unwrap();
        }
    });
}

/// A failed write-back after the last close. Without background threads, because a retry concurrent
/// with another program's write is a race.
fn failed_close(small: &SmallFs) -> (PageCache, Vec<u8>) {
    let ballast = small.fill_up(NR_FREE);
    let cache = PageCache::builder().memory(Bytes::from_pages(256)).background(false);
    let cache = cache.policy(PolicyName::Mglru).build().unwrap();
    let file = cache.open(small.path().join("data"), rw()).unwrap();
    let contents = pattern_at(0, NR_PAGES * PAGE);
    file.write_at(&contents, 0).unwrap();
    drop(file);
    match cache.flush_all().unwrap_err() {
        SyncError::Unwritten { path, nr_bytes, nr_files, source } => {
            assert_eq!(path, Some(small.path().join("data")));
            assert!(nr_bytes >= ((NR_PAGES - NR_FREE) * PAGE) as u64, "{nr_bytes}");
            assert_eq!((nr_files, source.raw_os_error()), (1, Some(libc::ENOSPC)));
        }
        other => panic!("{other:?}"),
    }
    make_room(&ballast);
    (cache, contents)
}

#[test]
fn what_a_failed_close_left_is_there_for_the_next_open_which_reports_it_once() {
    let name = "what_a_failed_close_left_is_there_for_the_next_open_which_reports_it_once";
    on_small_file_systems(name, |small| {
        let (cache, expected) = failed_close(small);
        let path = small.path().join("data");
        let file = cache.open(&path, rw()).unwrap();
        assert!(read_all(&file) == expected);
        assert_full(file.sync_data());
        file.sync_data().unwrap();
        assert!(std::fs::read(&path).unwrap() == expected);
        cache.open(&path, rw()).unwrap().sync_data().unwrap();
    });
}

/// A write after a failed close is final: at once, and after all dirty pages were written back.
#[test]
fn what_a_failed_close_left_does_not_come_back_over_a_later_write() {
    let name = "what_a_failed_close_left_does_not_come_back_over_a_later_write";
    on_small_file_systems(name, |small| {
        for is_opened_first in [false, true] {
            let (cache, _) = failed_close(small);
            let path = small.path().join("data");
            std::fs::write(&path, vec![7; 3 * PAGE]).unwrap();
            if is_opened_first {
                assert!(read_all(&cache.open(&path, rw()).unwrap()) == vec![7; 3 * PAGE]);
            }
            cache.flush_all().unwrap();
            assert!(std::fs::read(&path).unwrap() == vec![7; 3 * PAGE], "{is_opened_first}");
            assert_eq!(cache.stats().dirty_bytes, 0);
            assert!(read_all(&cache.open(&path, rw()).unwrap()) == vec![7; 3 * PAGE]);
            drop(cache);
            assert!(std::fs::read(&path).unwrap() == vec![7; 3 * PAGE], "{is_opened_first}");
        }
        // Through the cache: truncation drops older bytes.
        let (cache, _) = failed_close(small);
        let path = small.path().join("data");
        let file = cache.open(&path, rw().truncate(true)).unwrap();
        file.write_at(&[9; PAGE], 0).unwrap();
        let _ = file.sync_data();
        file.sync_data().unwrap();
        drop((file, cache));
        assert!(std::fs::read(&path).unwrap() == vec![9; PAGE]);
    });
}

/// A writer past the cache gets ENOSPC at once. No accepted byte is lost.
#[test]
fn writes_past_a_full_cache_to_a_full_file_system_are_refused_at_once() {
    let name = "writes_past_a_full_cache_to_a_full_file_system_are_refused_at_once";
    on_small_file_systems(name, |small| {
        let ballast = small.fill_up(NR_FREE);
        let path = small.path().join("data");
        let cache = PageCache::builder().memory(Bytes::from_pages(32)).build().unwrap();
        let file = cache.open(&path, rw()).unwrap();
        let mut expected = Vec::new();
        let refused = loop {
            let page = vec![expected.len() as u8 / 7 + 1; PAGE];
            match file.write_at(&page, expected.len() as u64) {
                Ok(_) => expected.extend_from_slice(&page),
                Err(error) => break io::Error::from(error),
            }
            assert!(expected.len() <= (NR_FREE + 64) * PAGE, "more than there is room for");
        };
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull, "{refused}");
        assert!(expected.len() as u64 >= (NR_FREE as u64 - NR_OWN) * PAGE as u64);
        assert!(read_all(&file) == expected);
        make_room(&ballast);
        let _ = file.sync_data();
        file.sync_data().unwrap();
        assert!(std::fs::read(&path).unwrap() == expected);
        drop((file, cache));
        std::fs::remove_file(&path).unwrap();
    });
}
