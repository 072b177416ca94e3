//! A cache shared with other processes: lookups and hidden pages.

use crate::common::{PAGE, pattern_at, patterned_file};
use pagetide::seam::{HeldFiles, Inserted, SharedPages};
use pagetide::{Advice, File, OpenOptions, PageCache};
use pagetide_sys::shared::FrameView;
use std::path::Path;
use std::sync::Arc;

struct Both {
    cache: PageCache,
    file: File,
    view: FrameView,
    tag: u32,
}

fn both(path: &Path) -> Both {
    both_of(path, 64)
}

fn both_of(path: &Path, nr_frames: usize) -> Both {
    let memory = pagetide::Bytes((nr_frames * PAGE) as u64);
    let cache = PageCache::builder().memory(memory).background(false).shared(true).build().unwrap();
    let file = cache.open(path, OpenOptions::new().read(true).write(true)).unwrap();
    let ([frames, numbers], nr_frames) = cache.shared_files().unwrap();
    let view = FrameView::open(frames, numbers, nr_frames).unwrap();
    let tag = file.tag().unwrap();
    Both { cache, file, view, tag }
}

impl Both {
    fn look(&self, index: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; PAGE];
        self.view.read_into(self.tag, index, 0, &mut bytes).then_some(bytes)
    }

    fn writes(&self) -> u64 {
        self.view.file(self.tag, &(0..1)).unwrap().1
    }

    fn insert_around(&self, index: u64, writes: u64) -> bool {
        let bytes = pattern_at(index * PAGE as u64, PAGE);
        self.file.insert_around(index, writes, bytes.as_slice().try_into().unwrap())
    }

    fn insert(&self, index: u64, writes: u64) -> bool {
        let bytes = pattern_at(index * PAGE as u64, PAGE);
        is_inserted(&self.file, index, writes, &bytes)
    }
}

fn is_inserted(file: &File, index: u64, writes: u64, bytes: &[u8]) -> bool {
    file.insert(index, writes, bytes.try_into().unwrap()) != Inserted::Refused
}

#[test]
fn what_nobody_asked_for_is_taken_while_memory_is_ample() {
    let dir = tempfile::tempdir().unwrap();
    let both = both(&patterned_file(dir.path(), "a", 8 * PAGE + 10));
    let writes = both.writes();
    assert_eq!(both.file.nr_around(), 4);
    assert!(
        both.insert(2, writes) && both.insert_around(3, writes) && both.insert_around(4, writes)
    );
    assert!(both.insert_around(3, writes), "it is there");
    let stats = both.cache.stats();
    assert_eq!((stats.misses, stats.hits), (1, 0), "the others were not read");
    assert_eq!(both.look(3).unwrap(), pattern_at(3 * PAGE as u64, PAGE));
    both.file.touch_pages(3, 1);
    assert_eq!(both.cache.stats().hits, 1);
    assert!(!both.insert_around(8, writes), "the last page is not whole");
    both.file.write_at(b"x", 5 * PAGE as u64).unwrap();
    assert!(!both.insert_around(6, writes), "read before the write");
    both.cache.validate();
}

#[test]
fn what_is_brought_in_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let both = both(&patterned_file(dir.path(), "a", 8 * PAGE + 10));
    assert_eq!(both.view.file(both.tag, &(0..1)), Some((8 * PAGE as u64 + 10, 0)));
    assert_eq!(both.look(3), None);
    assert_eq!(
        both.file.bring_in(3 * PAGE as u64 + 5, 2 * PAGE as u64, false).unwrap(),
        2 * PAGE as u64
    );
    for index in 3..=5 {
        assert_eq!(both.look(index).unwrap(), pattern_at(index * PAGE as u64, PAGE), "{index}");
    }
    assert_eq!(both.cache.stats().misses, 3);
    assert_eq!(both.file.bring_in(8 * PAGE as u64, 1 << 20, false).unwrap(), 10, "the file ends");
    assert_eq!(both.file.bring_in(9 * PAGE as u64, 1, false).unwrap(), 0);
    both.cache.validate();
}

#[test]
fn an_offered_page_is_admitted_until_somebody_has_written() {
    let dir = tempfile::tempdir().unwrap();
    let both = both(&patterned_file(dir.path(), "a", 8 * PAGE + 10));
    let before = both.writes();
    assert_eq!(before % 2, 0);
    assert!(both.insert(2, before));
    assert_eq!(both.look(2).unwrap(), pattern_at(2 * PAGE as u64, PAGE));
    let bytes = pattern_at(2 * PAGE as u64, PAGE);
    let again = both.file.insert(2, before, bytes.as_slice().try_into().unwrap());
    assert_eq!(again, Inserted::AlreadyResident, "a hit");
    let stats = both.cache.stats();
    assert_eq!(
        (stats.misses, stats.hits, stats.device_reads),
        (1, 1, 0),
        "requests are told apart"
    );
    assert!(!both.insert(8, before), "the last page is not whole");
    assert!(!both.insert(900, before));
    both.file.write_at(b"new", 5 * PAGE as u64).unwrap();
    assert_eq!(both.writes() % 2, 1);
    assert!(!both.insert(3, before), "read before the write");
    assert!(!both.insert(3, both.writes()), "a reader cannot know what is written");
    both.file.sync_all().unwrap();
    assert!(!both.insert(3, both.writes()));
    both.cache.validate();
}

/// Hints are in buckets, and a few buckets overflow if pages are scattered over their file.
#[test]
fn a_resident_page_that_was_not_found_is_found_once_it_was_offered() {
    const NR_FRAMES: usize = 16_384;
    const NR_PAGES: usize = 16_000;
    const STEP: usize = 97;
    let pages = || (0..(NR_PAGES * STEP) as u64).step_by(STEP);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sparse");
    std::fs::File::create(&path).unwrap().set_len((NR_PAGES * STEP * PAGE) as u64).unwrap();
    let both = both_of(&path, NR_FRAMES);
    let offer = |index| is_inserted(&both.file, index, both.writes(), &[0; PAGE]);
    assert!(pages().all(offer));
    let is_found = |index: u64| both.view.read_into(both.tag, index, 0, &mut [1]);
    let not_found: Vec<u64> = pages().filter(|index| !is_found(*index)).collect();
    assert!((1..NR_PAGES / 100).contains(&not_found.len()), "{}", not_found.len());
    for index in not_found {
        assert!(offer(index));
        assert!(is_found(index), "{index}");
    }
    let stats = both.cache.stats();
    assert_eq!((stats.misses, stats.evictions), (NR_PAGES as u64, 0), "all were resident");
    both.cache.validate();
}

#[test]
fn a_file_that_was_closed_is_as_the_disk_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 8 * PAGE);
    let Both { cache, file, view, tag } = both(&path);
    file.write_at(b"new", 0).unwrap();
    file.sync_all().unwrap();
    let odd = view.file(tag, &(0..1)).unwrap().1;
    drop(file);
    let file = cache.open(&path, OpenOptions::new().read(true)).unwrap();
    assert_eq!(file.tag(), Some(tag), "its pages were kept");
    let even = view.file(tag, &(0..1)).unwrap().1;
    assert!(even % 2 == 0 && even > odd, "{odd} {even}");
    let bytes = pattern_at(3 * PAGE as u64, PAGE);
    assert!(!is_inserted(&file, 3, even - 2, &bytes), "of an earlier time");
    assert!(is_inserted(&file, 3, even, &bytes));
    let mut start = [0; 3];
    file.read_at(&mut start, 0).unwrap();
    assert_eq!(&start, b"new");
}

#[test]
fn nothing_is_found_of_a_file_that_is_hidden() {
    let dir = tempfile::tempdir().unwrap();
    let both = both(&patterned_file(dir.path(), "a", 8 * PAGE));
    let before = both.writes();
    both.file.bring_in(0, PAGE as u64, false).unwrap();
    both.file.hide();
    assert_eq!(both.view.file(both.tag, &(0..1)), None);
    assert!(!both.insert(4, before));
    assert_eq!(both.file.len(), 8 * PAGE as u64);
}

#[test]
fn a_reader_elsewhere_knows_which_page_starts_the_next_window() {
    let dir = tempfile::tempdir().unwrap();
    let both = both_of(&patterned_file(dir.path(), "a", 64 * PAGE), 128);
    let marker = || both.view.marker(both.tag);
    assert_eq!(marker(), u64::MAX);
    // Four pages, the marker in the second. Eight more, a 16th of memory, the marker in the first.
    assert_eq!(both.file.bring_in(0, PAGE as u64, false).unwrap(), PAGE as u64);
    assert_eq!(marker(), 1);
    both.file.touch_pages(1, 1);
    assert_eq!(marker(), 4);
    assert!(both.look(11).is_some() && both.look(12).is_none());
}

/// An unnamed file takes disk space until it is closed.
#[test]
fn after_the_wait_no_read_ahead_keeps_a_file_open_that_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 256 * PAGE);
    let cache = PageCache::builder().memory(pagetide::Bytes(4 << 20)).build().unwrap();
    for round in 0..400 {
        let real = Arc::new(std::fs::File::open(&path).unwrap());
        let file = cache.open_held(Arc::clone(&real), false).unwrap();
        file.advise(Advice::DontNeed, 0, 0).unwrap();
        let mut bytes = vec![0; PAGE];
        for index in 0..8 {
            file.read_at(&mut bytes, index * PAGE as u64).unwrap();
        }
        let reads = file.reads_ahead(&real);
        drop(file);
        if round % 2 == 0 {
            cache.wait_for_closed_files();
            assert_eq!(Arc::strong_count(&real), 1, "round {round}");
        } else {
            let real = Arc::downgrade(&{ real });
            reads();
            assert_eq!(real.strong_count(), 0, "round {round}");
        }
    }
}

/// The hits between two misses are not reported yet, so the miss tells that a stream goes on.
#[test]
fn a_miss_of_a_stream_reads_further_ahead_than_single_misses() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 512 * PAGE);
    let nr_resident_after_three_misses = |continues: bool| {
        let both = both_of(&path, 512);
        let mut at = 100;
        for _ in 0..3 {
            both.file.bring_in(at * PAGE as u64, PAGE as u64, continues).unwrap();
            while both.look(at).is_some() {
                at += 1;
            }
        }
        at - 100
    };
    let (single, stream) =
        (nr_resident_after_three_misses(false), nr_resident_after_three_misses(true));
    assert!(stream >= 2 * single, "{single} {stream}");
}
