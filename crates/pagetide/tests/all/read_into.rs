//! Reads into memory that is not initialised.

use crate::common::{PAGE, patterned_file};
use pagetide::{Bytes, OpenOptions, PageCache, ReadError};
use std::mem::MaybeUninit;

#[test]
fn the_bytes_of_hits_misses_and_reads_past_the_cache_are_returned() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 64 * PAGE + 100);
    let all = std::fs::read(&path).unwrap();
    let builder = PageCache::builder().memory(Bytes::from_pages(32)).background(false);
    let cache = builder.build().unwrap();
    let file = cache.open(&path, OpenOptions::new().read(true)).unwrap();
    let check = |offset: usize, len: usize| {
        let mut memory = vec![MaybeUninit::uninit(); len];
        let start = memory.as_ptr().cast::<u8>();
        let read = file.read_into(&mut memory, offset as u64).unwrap();
        let expected = &all[offset.min(all.len())..all.len().min(offset + len)];
        assert!(read == expected, "{len} bytes at {offset}: {} read", read.len());
        assert_eq!(read.as_ptr(), start);
    };
    let check_all = || {
        for (offset, len) in [(0, 0), (5, 1), (5, 1), (10, PAGE), (PAGE, PAGE), (1, 9 * PAGE)] {
            check(offset, len);
            check(offset, len);
        }
        check(64 * PAGE, PAGE);
        check(64 * PAGE + 50, 3 * PAGE);
        check(64 * PAGE + 100, PAGE);
        check(90 * PAGE, PAGE);
        check(0, 80 * PAGE);
    };
    check_all();
    let pins: Vec<_> = (0..).map_while(|index| file.page(2 * index).ok()).collect();
    assert!(pins.len() > 10);
    check_all();
    drop(pins);
    cache.validate();

    let writer = cache.open(&path, OpenOptions::new().write(true)).unwrap();
    let mut memory = [MaybeUninit::uninit(); 4];
    let refused = writer.read_into(&mut memory, 0);
    assert!(matches!(refused, Err(ReadError::NotReadable)));
}
