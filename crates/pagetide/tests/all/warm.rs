//! Warm restarts: a new cache reads the resident set of an old one, for unchanged files.

use pagetide::{
    Bytes, File, OpenOptions, PAGE_BYTES, PageCache, PolicyName, ResidentFile, ResidentRange,
    ResidentSet,
};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const PAGE: u64 = PAGE_BYTES as u64;

fn cache(pages: u64, policy: PolicyName, has_workers: bool) -> PageCache {
    let builder = PageCache::builder().memory(Bytes(pages * PAGE)).readahead_max(Bytes(0));
    builder.policy(policy).background(has_workers).build().expect("a small cache")
}

fn open(cache: &PageCache, path: &Path) -> File {
    cache.open(path, OpenOptions::new().read(true)).expect("it is there")
}

fn read(file: &File, page: u64) {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, page * PAGE).expect("a read");
    assert_eq!(u64::from_le_bytes(bytes), page);
}

fn make_file(path: &Path, pages: u64) {
    let mut bytes = vec![0; (pages * PAGE) as usize];
    for page in 0..pages {
        bytes[(page * PAGE) as usize..][..8].copy_from_slice(&page.to_le_bytes());
    }
    std::fs::write(path, bytes).expect("room");
}

/// Builds a set of ranges (heat, first page, pages) for the present file.
fn set_of(path: &Path, ranges: &[(u8, u64, u64)]) -> ResidentSet {
    let facts = std::fs::metadata(path).expect("it is there");
    let range = |&(heat, first, nr): &(u8, u64, u64)| ResidentRange { heat, first, nr };
    let file = ResidentFile {
        ino: facts.ino(),
        len: facts.len(),
        mtime_ns: i128::from(facts.mtime()) * 1_000_000_000 + i128::from(facts.mtime_nsec()),
        path: None,
        ranges: ranges.iter().map(range).collect(),
    };
    ResidentSet { files: vec![file] }
}

#[test]
fn what_was_read_is_there_again_before_the_first_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    make_file(&path, 100);
    for &policy in PolicyName::ALL {
        let before = cache(256, policy, false);
        let file = open(&before, &path);
        let pages = [3, 4, 5, 50, 99];
        for _ in 0..3 {
            pages.iter().for_each(|&page| read(&file, page));
        }
        drop(file);
        let text = before.dump().to_string();
        let set: ResidentSet = text.parse().expect("our own text");
        assert_eq!(set.nr_pages(), 5, "{policy}: {text}");

        let after = cache(256, policy, false);
        after.warm(set).expect("no thread is needed");
        let file = open(&after, &path);
        assert_eq!(after.warm_stats().brought_in, 5, "{policy}: {text}");
        pages.iter().for_each(|&page| read(&file, page));
        assert_eq!(after.stats().misses, 0, "{policy}: {text}");
    }
}

#[test]
fn what_was_read_often_is_hotter() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    make_file(&path, 64);
    for policy in [PolicyName::Pagetide, PolicyName::ActiveInactive, PolicyName::S3Fifo] {
        let cache = cache(128, policy, false);
        let file = open(&cache, &path);
        (0..64).for_each(|page| read(&file, page));
        for _ in 0..8 {
            (10..20).for_each(|page| read(&file, page));
        }
        let set = cache.dump();
        let heat_of = |page: u64| {
            let mut ranges = set.files[0].ranges.iter();
            ranges.find(|range| (range.first..range.first + range.nr).contains(&page)).unwrap().heat
        };
        assert!(heat_of(15) > heat_of(40), "{policy}: {set}");
    }
}

#[test]
fn the_hottest_come_first_and_full_memory_ends_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    make_file(&path, 1000);
    let cache = cache(128, PolicyName::default(), false);
    cache.warm(set_of(&path, &[(1, 0, 500), (9, 700, 40), (5, 900, 10)])).expect("no thread");
    let file = open(&cache, &path);
    assert_eq!(file.resident_pages(700 * PAGE, 40 * PAGE), 40);
    assert_eq!(file.resident_pages(900 * PAGE, 10 * PAGE), 10);
    let stats = cache.warm_stats();
    assert!(stats.brought_in < 500 && stats.waiting == 0, "{stats:?}");
    assert_eq!(cache.stats().evictions, 0, "{stats:?}");
}

#[test]
fn of_files_that_changed_nothing_is_brought_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    make_file(&path, 100);
    let before = set_of(&path, &[(1, 0, 100)]);
    make_file(&path, 101);
    let longer = cache(256, PolicyName::default(), false);
    longer.warm(before).expect("no thread");
    let file = open(&longer, &path);
    let stats = longer.warm_stats();
    assert_eq!((stats.stale_files, stats.pages, file.resident_pages(0, 0)), (1, 0, 0));

    // Ranges past the end are skipped.
    let beyond = cache(256, PolicyName::default(), false);
    beyond.warm(set_of(&path, &[(1, 90, u64::MAX - 90)])).expect("no thread");
    let file = open(&beyond, &path);
    assert_eq!(file.resident_pages(0, 101 * PAGE), 11);
}

#[test]
fn a_thread_brings_them_in_beside_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    make_file(&path, 1000);
    let cache = cache(2048, PolicyName::default(), true);
    cache.warm(set_of(&path, &[(2, 0, 300), (1, 600, 300)])).expect("a thread");
    let file = open(&cache, &path);
    // Concurrent misses: each piece waits for the one before.
    (300..400).for_each(|page| read(&file, page));
    while cache.warm_stats().brought_in < 600 || file.resident_pages(0, 1000 * PAGE) < 700 {
        std::thread::yield_now();
    }
    (0..300).chain(600..900).for_each(|page| read(&file, page));
    assert_eq!(cache.stats().misses, 100);
}
