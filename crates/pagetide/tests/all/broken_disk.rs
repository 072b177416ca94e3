//! A device that answers with EIO, with io_uring and without: nothing is lost, each handle reports
//! the error once, and other files work.

use crate::common::failing_disk::{FailingDisk, pages};
use crate::common::{PAGE, skip};
use pagetide::{Advice, Bytes, File, OpenOptions, PageCache, ReadError, SyncError};

const NR_PAGES: usize = 128;

fn rw() -> OpenOptions {
    OpenOptions::new().read(true).write(true).create(true)
}

fn on_a_failing_disk(name: &str, test: impl Fn(&FailingDisk, PageCache)) {
    for io_uring in [true, false] {
        let disk = match FailingDisk::mount() {
            Ok(disk) => disk,
            Err(why) => return skip(name, &why),
        };
        let cache = PageCache::builder().memory(Bytes::from_pages(256)).io_uring(io_uring);
        let cache = cache.build().unwrap();
        if cache.stats().io_uring != io_uring {
            skip(name, "there is no io_uring");
            continue;
        }
        test(&disk, cache);
    }
}

fn assert_io_error(synced: Result<(), SyncError>) {
    match synced {
        Err(SyncError::Writeback(source)) => {
            assert_eq!(source.raw_os_error(), Some(libc::EIO), "{source:?}");
        }
        other => panic!("{other:?}"),
    }
}

fn read_all(file: &File) -> Vec<u8> {
    let mut all = vec![0; file.len() as usize];
    assert_eq!(file.read_at(&mut all, 0).unwrap(), all.len());
    all
}

fn file_of(disk: &FailingDisk, cache: &PageCache, name: &str, contents: &[u8]) -> File {
    let file = cache.open(disk.path().join(name), rw()).unwrap();
    assert_eq!(file.write_at(contents, 0).unwrap(), contents.len());
    file.sync_all().unwrap();
    file
}

#[test]
fn what_a_device_does_not_write_stays_dirty_until_it_does() {
    on_a_failing_disk("what_a_device_does_not_write_stays_dirty_until_it_does", |disk, cache| {
        let file = file_of(disk, &cache, "data", &pages(NR_PAGES, 0));
        let other = cache.open(disk.path().join("data"), rw()).unwrap();
        let idle = cache.open(disk.path().join("data"), rw()).unwrap();
        let expected = pages(NR_PAGES, 7);
        disk.fail("write");
        file.write_at(&expected, 0).unwrap();
        [&file, &other].into_iter().for_each(|handle| assert_io_error(handle.sync_data()));
        assert_eq!(cache.stats().dirty_bytes, (NR_PAGES * PAGE) as u64);
        assert!(read_all(&file) == expected, "memory has it all");
        // More than the memory, beside pages that cannot be written.
        let beside = vec![7; 512 * PAGE];
        let fine = file_of(disk, &cache, "fine", &beside);
        assert!(read_all(&fine) == beside);

        disk.fail("");
        // Each handle reports failures once, including failures of another's sync.
        assert_io_error(file.sync_data());
        assert_io_error(idle.sync_data());
        // Background attempts since then.
        let _ = other.sync_data();
        for handle in [&file, &other, &idle] {
            handle.sync_data().unwrap();
        }
        assert_eq!(cache.stats().dirty_bytes, 0);
        assert!(std::fs::read(disk.path().join("data")).unwrap() == expected);
    });
}

#[test]
fn what_a_device_does_not_read_is_an_error_and_read_later() {
    on_a_failing_disk("what_a_device_does_not_read_is_an_error_and_read_later", |disk, cache| {
        let good = vec![1; 8 * PAGE];
        let expected = [&good[..], &pages(NR_PAGES, 3), &good].concat();
        let file = file_of(disk, &cache, "data", &expected);
        file.advise(Advice::DontNeed, 0, 0).unwrap();
        disk.fail("read");
        for round in 0..3 {
            let mut page = vec![0; PAGE];
            for index in [8, 8 + NR_PAGES - 1, 8 + round] {
                let error = file.read_at(&mut page, (index * PAGE) as u64).unwrap_err();
                let ReadError::Store { source, .. } = error else { panic!("{error:?}") };
                assert_eq!(source.raw_os_error(), Some(libc::EIO), "{source:?}");
            }
            for index in [0, 7, 8 + NR_PAGES, 8 + NR_PAGES + 7] {
                assert_eq!(file.read_at(&mut page, (index * PAGE) as u64).unwrap(), PAGE);
                assert!(page == good[..PAGE], "page {index}");
            }
        }
        disk.fail("");
        assert!(read_all(&file) == expected);
    });
}
