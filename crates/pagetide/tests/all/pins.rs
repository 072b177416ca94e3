//! Owned pins: bytes that stay, and that nothing waits for.

use crate::common::watchdog::Watchdog;
use crate::common::{PAGE, patterned_file};
use pagetide::{Bytes, GroupOptions, OpenOptions, PageCache, PinnedRange, ReadError, WriteError};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

const NR_PAGES: usize = 256;

fn cache(nr_frames: u64) -> PageCache {
    let builder = PageCache::builder().memory(Bytes::from_pages(nr_frames));
    builder.background(false).build().unwrap()
}

fn read_only() -> OpenOptions {
    OpenOptions::new().read(true)
}

fn all_of(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

fn bytes(range: Range<usize>) -> Range<u64> {
    range.start as u64..range.end as u64
}

#[test]
fn a_pin_is_owned_shared_and_outlives_file_thread_and_cache() {
    fn is_owned<T: Send + Sync + std::ops::Deref<Target = [u8]> + 'static>(_: &T) {}
    let _watchdog = Watchdog::new();
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", NR_PAGES * PAGE);
    let all = all_of(&path);
    let ranges = [0..0, 5..5, 0..1, 10..PAGE, 3 * PAGE + 7..3 * PAGE + 9, PAGE - 1..PAGE + 1];
    let longer = [0..16 * PAGE, 100..99_999, 0..NR_PAGES * PAGE, NR_PAGES * PAGE..NR_PAGES * PAGE];
    for range in ranges.into_iter().chain(longer) {
        let cache = cache(1024);
        let file = cache.open(&path, read_only()).unwrap();
        let pin = file.pin(bytes(range.clone())).unwrap();
        is_owned(&pin);
        let before = pin.as_ptr();
        drop((file, cache));
        let pin = Arc::new(pin);
        let (again, expected) = (Arc::clone(&pin), all[range.clone()].to_vec());
        std::thread::spawn(move || assert!(again[..] == expected)).join().unwrap();
        assert_eq!(pin.as_ptr(), before, "{range:?} moved");
    }
}

#[test]
fn a_range_in_one_page_and_a_range_in_adjacent_frames_are_not_copied() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", NR_PAGES * PAGE);
    let cache = cache(4096);
    let file = cache.open(&path, read_only()).unwrap();
    let one = file.pin(5..PAGE as u64).unwrap();
    assert!(one.is_in_place());
    assert_eq!(one.as_ptr(), file.page(0).unwrap()[5..].as_ptr(), "the page itself");
    let resident = cache.stats().resident_bytes;
    let again = file.pin(5..PAGE as u64).unwrap();
    assert_eq!(cache.stats().resident_bytes, resident, "no memory");
    drop((one, again));

    // Page by page, backwards, so that the frames are not in the order of the pages.
    let scattered = cache.open(patterned_file(dir.path(), "b", 8 * PAGE), read_only()).unwrap();
    for index in (0..8).rev() {
        scattered.page(index).unwrap();
    }
    let resident = cache.stats().resident_bytes;
    let copy = scattered.pin(0..8 * PAGE as u64).unwrap();
    if !copy.is_in_place() {
        assert_eq!(cache.stats().resident_bytes, resident + 8 * PAGE as u64, "it counts");
    }
    assert!(copy[..] == all_of(&dir.path().join("b"))[..]);
    drop(copy);
    assert_eq!(cache.stats().resident_bytes, resident);
    drop((file, scattered));
    cache.validate();
}

#[test]
fn when_pins_have_all_memory_pins_fail_and_reads_go_on() {
    let _watchdog = Watchdog::new();
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", NR_PAGES * PAGE);
    let all = all_of(&path);
    let cache = cache(64);
    let file = cache.open(&path, read_only()).unwrap();
    let whole = file.pin(0..(NR_PAGES * PAGE) as u64);
    assert!(matches!(whole, Err(ReadError::NoFrame { frames: 64 })), "{whole:?}");
    for step in [1, 3] {
        let mut pins: Vec<PinnedRange> = Vec::new();
        let refused = loop {
            let start = pins.len() * step * PAGE;
            match file.pin(bytes(start..start + step * PAGE)) {
                Ok(pin) => pins.push(pin),
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, ReadError::NoFrame { .. }), "{refused:?}");
        assert!(pins.len() * step > 16, "{} pins of {step} pages", pins.len());
        assert!(cache.stats().resident_bytes <= 64 * PAGE as u64);
        let mut read = vec![0; NR_PAGES * PAGE];
        file.read_exact_at(&mut read, 0).unwrap();
        assert!(read == all);
        for (nth, pin) in pins.iter().enumerate() {
            assert!(pin[..] == all[nth * step * PAGE..][..step * PAGE]);
        }
        drop(pins);
        cache.validate();
        file.pin(0..16 * PAGE as u64).unwrap();
    }
}

#[test]
fn a_pin_of_a_file_that_is_written_stays_as_it_was_and_no_writer_waits() {
    let _watchdog = Watchdog::new();
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", NR_PAGES * PAGE);
    let all = all_of(&path);
    let cache = cache(256);
    let file = cache.open(&path, read_only().write(true)).unwrap();
    let pins = [file.pin(0..100).unwrap(), file.pin(0..5 * PAGE as u64).unwrap()];
    file.write_all_at(&[1; 5 * PAGE], 0).unwrap();
    file.set_len(3 * PAGE as u64).unwrap();
    file.page_mut(0).unwrap()[0] = 2;
    assert!(pins.iter().all(|pin| pin[..] == all[..pin.len()] && !pin.is_in_place()));
    assert_eq!(file.pin(0..2).unwrap()[..], [2, 1]);
    drop((pins, file));
    cache.validate();
}

#[test]
fn a_change_of_a_page_that_is_pinned_in_place_fails_and_does_not_wait() {
    let _watchdog = Watchdog::new();
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 8 * PAGE);
    let all = all_of(&path);
    let cache = cache(64);
    let file = cache.open(&path, read_only()).unwrap();
    let pin = file.pin(0..10).unwrap();
    let writer = cache.open(&path, read_only().write(true)).unwrap();
    let refused = writer.write_at(b"x", 5);
    assert!(matches!(refused, Err(WriteError::Pinned { index: 0 })), "{refused:?}");
    let refused = writer.page_mut(0).map(drop);
    assert!(matches!(refused, Err(WriteError::Pinned { index: 0 })), "{refused:?}");
    writer.write_all_at(b"x", PAGE as u64).unwrap();
    assert_eq!(pin[..], all[..10]);
    drop(pin);
    writer.write_all_at(b"x", 5).unwrap();
    drop((writer, file));

    // Another program changes the file.
    let file = cache.open(&path, read_only()).unwrap();
    let pin = file.pin(0..10).unwrap();
    std::fs::write(&path, [9; 8 * PAGE]).unwrap();
    file.look_again().unwrap();
    let refused = file.read_at(&mut [0; 4], 0);
    assert!(matches!(refused, Err(ReadError::Pinned { index: 0 })), "{refused:?}");
    let mut elsewhere = [0; 4];
    file.read_exact_at(&mut elsewhere, PAGE as u64).unwrap();
    assert_eq!((elsewhere, pin[0]), ([9; 4], all[0]));
    drop(pin);
    file.read_exact_at(&mut elsewhere, 0).unwrap();
    assert_eq!(elsewhere, [9; 4]);
    drop(file);
    cache.validate();
}

#[test]
fn the_range_must_be_in_the_file_and_the_file_readable() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 8 * PAGE + 1);
    let cache = cache(64);
    let file = cache.open(&path, read_only()).unwrap();
    assert_eq!(file.pin(8 * PAGE as u64..8 * PAGE as u64 + 1).unwrap().len(), 1);
    let past = file.pin(0..8 * PAGE as u64 + 2);
    assert!(matches!(past, Err(ReadError::UnexpectedEnd { .. })), "{past:?}");
    let huge = file.pin(u64::MAX..u64::MAX);
    assert!(matches!(huge, Err(ReadError::UnexpectedEnd { .. })), "{huge:?}");
    let writer = cache.open(&path, OpenOptions::new().write(true)).unwrap();
    assert!(matches!(writer.pin(0..1), Err(ReadError::NotReadable)));
}

#[test]
fn a_copy_is_charged_to_the_group_and_evicts_only_as_a_miss_does() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", NR_PAGES * PAGE);
    let builder = PageCache::builder().memory(Bytes::from_pages(512)).groups(true);
    let cache = builder.background(false).readahead_max(Bytes(0)).build().unwrap();
    let group = cache.group("g", GroupOptions::new().limit(Bytes::from_pages(64))).unwrap();
    let file = group.open(&path, read_only().write(true)).unwrap();
    let pin = file.pin(0..32 * PAGE as u64).unwrap();
    let usage = group.stats().unwrap().usage_bytes;
    assert!((32 * PAGE as u64..=64 * PAGE as u64).contains(&usage), "{usage}");
    assert!(matches!(file.pin(0..40 * PAGE as u64), Err(ReadError::NoFrame { .. })));
    assert!(pin[..] == all_of(&path)[..32 * PAGE]);
    drop((pin, file));
    cache.validate();
}

#[test]
fn threads_pin_evict_and_drop_each_others_pins() {
    let _watchdog = Watchdog::new();
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", NR_PAGES * PAGE);
    let all = all_of(&path);
    let cache = cache(128);
    let file = cache.open(&path, read_only()).unwrap();
    let (send, receive) = std::sync::mpsc::sync_channel::<(usize, PinnedRange)>(8);
    std::thread::scope(|scope| {
        for seed in 1..=3_usize {
            let (file, send) = (file.clone(), send.clone());
            scope.spawn(move || {
                for nth in 0..2_000_usize {
                    let start = (nth * seed * 7_919) % ((NR_PAGES - 5) * PAGE);
                    let len = (nth * 613) % (4 * PAGE);
                    match file.pin(bytes(start..start + len)) {
                        Ok(pin) => send.send((start, pin)).unwrap(),
                        Err(error) => assert!(matches!(error, ReadError::NoFrame { .. })),
                    }
                }
            });
        }
        drop(send);
        for (start, pin) in receive {
            assert!(pin[..] == all[start..][..pin.len()]);
        }
    });
    drop(file);
    cache.validate();
}
