//! Guards and waiting threads: no thread waits for a page it does not need, or for itself.

use crate::common::store::FaultyStore;
use crate::common::watchdog::Watchdog;
use crate::common::{PAGE, patterned_file};
use pagetide::{
    Advice, AdviseError, Bytes, File, OpenOptions, PageCache, ReadError, SyncError, WriteError,
};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;

fn rw() -> OpenOptions {
    OpenOptions::new().read(true).write(true)
}

fn cache(background: bool) -> PageCache {
    let builder = PageCache::builder().memory(Bytes::from_pages(64));
    builder.background(background).build().unwrap()
}

fn dirty_file(dir: &Path, background: bool) -> (PageCache, File, std::path::PathBuf) {
    let path = patterned_file(dir, "a", 8 * PAGE);
    let cache = cache(background);
    let file = cache.open(&path, rw()).unwrap();
    file.write_at(&[1], 0).unwrap();
    (cache, file, path)
}

/// Returns once the sync has begun.
fn sync_elsewhere<'s>(scope: &'s Scope<'s, '_>, file: &'s File, has_begun: &'s AtomicBool) {
    scope.spawn(move || {
        has_begun.store(true, Ordering::Release);
        file.sync_data().unwrap();
    });
    while !has_begun.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

#[test]
fn no_open_waits_for_a_guard_or_for_a_sync_that_does() {
    let _watchdog = Watchdog::new();
    let dir = tempfile::tempdir().unwrap();
    for background in [false, true] {
        let (cache, file, path) = dirty_file(dir.path(), background);
        let mut guard = file.page_mut(0).unwrap();
        guard[1] = 2;
        let has_begun = AtomicBool::new(false);
        std::thread::scope(|scope| {
            sync_elsewhere(scope, &file, &has_begun);
            for _ in 0..100 {
                std::fs::File::options().append(true).open(&path).unwrap().set_len(9).unwrap();
                let again = cache.open(&path, rw()).unwrap();
                again.write_at(&[3], 3 * PAGE as u64).unwrap();
                assert_eq!(again.read_at(&mut [0], 3 * PAGE as u64).unwrap(), 1);
                assert!(!file.is_empty());
            }
            drop(guard);
        });
        let stored = std::fs::read(&path).unwrap();
        assert_eq!((stored[0], stored[1], stored[3 * PAGE]), (1, 2, 3));
        drop((file, cache));
    }
}

#[test]
fn a_cut_waits_for_no_guard_and_nobody_waits_for_the_cut() {
    let _watchdog = Watchdog::new();
    for background in [false, true] {
        let store = FaultyStore::with_contents(&[1; 8 * PAGE]);
        let cache = cache(background);
        let file = cache.open_store(store.boxed()).unwrap();
        let (read, mut changed) = (file.page(1).unwrap(), file.page_mut(5).unwrap());
        changed[0] = 5;
        std::thread::scope(|scope| {
            let cut = scope.spawn(|| file.set_len(100));
            cut.join().unwrap().unwrap();
        });
        file.write_at(&[2], 2 * PAGE as u64).unwrap();
        assert_eq!(read[..], [1; PAGE], "a guard keeps its bytes");
        file.set_len(8 * PAGE as u64).unwrap();
        drop((read, changed));
        let mut expected = vec![0; 8 * PAGE];
        expected[..100].fill(1);
        expected[2 * PAGE] = 2;
        let mut all = vec![9; 8 * PAGE];
        assert_eq!(file.read_at(&mut all, 0).unwrap(), all.len());
        assert!(all == expected, "what was cut off does not come back");
        file.sync_data().unwrap();
        assert!(store.contents() == expected);
    }
}

/// The last page keeps its start, perhaps dirty, and loses the rest.
#[test]
fn a_cut_within_a_page_that_a_guard_has_leaves_its_beginning() {
    for is_exclusive in [false, true] {
        let store = FaultyStore::with_contents(&[1; 3 * PAGE]);
        let cache = cache(false);
        let file = cache.open_store(store.boxed()).unwrap();
        file.write_at(&[2; PAGE], PAGE as u64).unwrap();
        if is_exclusive {
            let mut guard = file.page_mut(1).unwrap();
            guard[50..200].fill(3);
            file.set_len(PAGE as u64 + 100).unwrap();
            file.set_len(3 * PAGE as u64).unwrap();
        } else {
            let guard = file.page(1).unwrap();
            file.set_len(PAGE as u64 + 100).unwrap();
            file.set_len(3 * PAGE as u64).unwrap();
            // Written back under the guard, without the truncated bytes.
            file.sync_data().unwrap();
            assert_eq!(guard[..], [2; PAGE]);
        }
        let mut expected = vec![0; 3 * PAGE];
        expected[..PAGE].fill(1);
        expected[PAGE..PAGE + 100].fill(2);
        if is_exclusive {
            expected[PAGE + 50..PAGE + 100].fill(3);
        }
        let mut all = vec![9; 3 * PAGE];
        file.read_at(&mut all, 0).unwrap();
        assert!(all == expected, "exclusive: {is_exclusive}");
        file.sync_data().unwrap();
        assert!(store.contents() == expected, "exclusive: {is_exclusive}");
    }
}

#[test]
fn a_call_that_would_wait_for_its_own_guard_says_so() {
    let _watchdog = Watchdog::new();
    let dir = tempfile::tempdir().unwrap();
    let (cache, file, _) = dirty_file(dir.path(), true);
    let other = file.reopen();
    let mut byte = [0];
    {
        let _guard = file.page(3).unwrap();
        let at = 3 * PAGE as u64;
        assert!(matches!(other.write_at(&[1], at), Err(WriteError::WouldDeadlock { index: 3 })));
        assert!(matches!(other.page_mut(3), Err(WriteError::WouldDeadlock { index: 3 })));
        assert_eq!(other.read_at(&mut byte, at).unwrap(), 1);
        assert_eq!(other.page(3).unwrap().len(), PAGE);
        other.write_at(&[1], 4 * PAGE as u64).unwrap();
        other.sync_data().unwrap();
    }
    {
        let _guard = file.page_mut(3).unwrap();
        let at = 3 * PAGE as u64;
        assert!(matches!(other.write_at(&[1], at), Err(WriteError::WouldDeadlock { index: 3 })));
        assert!(matches!(other.page_mut(3), Err(WriteError::WouldDeadlock { index: 3 })));
        assert!(matches!(other.page(3), Err(ReadError::WouldDeadlock { index: 3 })));
        let read = other.read_at(&mut byte, at);
        assert!(matches!(read, Err(ReadError::WouldDeadlock { index: 3 })));
        assert!(matches!(other.sync_data(), Err(SyncError::WouldDeadlock { index: 3 })));
        assert!(matches!(other.flush(), Err(SyncError::WouldDeadlock { index: 3 })));
        assert!(matches!(cache.flush_all(), Err(SyncError::WouldDeadlock { index: 3 })));
        let dropped = other.advise(Advice::DontNeed, 0, 0);
        assert!(matches!(dropped, Err(AdviseError::WouldDeadlock { index: 3 })));
        let error = io::Error::from(other.sync_data().unwrap_err());
        assert_eq!(error.kind(), io::ErrorKind::Deadlock);
        assert!(error.to_string().contains("guard of page 3"), "{error}");
        // Calls of another thread do not wait for other pages either.
        std::thread::scope(|scope| {
            scope.spawn(|| other.write_at(&[7], 5 * PAGE as u64).unwrap());
        });
    }
    other.write_at(&[1], 3 * PAGE as u64).unwrap();
    cache.flush_all().unwrap();
    other.advise(Advice::DontNeed, 0, 0).unwrap();
}

/// A page changed by another program under a guard is reread after the guard is dropped, and not
/// before: a second guard shows the old bytes.
#[test]
fn a_page_that_was_changed_under_a_guard_is_read_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 2 * PAGE);
    let cache = cache(true);
    let file = cache.open(&path, rw()).unwrap();
    let guard = file.page(1).unwrap();
    std::fs::write(&path, vec![9; 2 * PAGE]).unwrap();
    let again = cache.open(&path, rw()).unwrap();
    assert_eq!(again.page(0).unwrap()[..], [9; PAGE]);
    assert!(guard[..] != [9; PAGE], "a guard keeps its bytes");
    assert!(matches!(again.page(1), Err(ReadError::WouldDeadlock { index: 1 })));
    let mut byte = [0];
    let read = again.read_at(&mut byte, PAGE as u64);
    assert!(matches!(read, Err(ReadError::WouldDeadlock { index: 1 })));
    drop(guard);
    assert_eq!(again.page(1).unwrap()[..], [9; PAGE]);
}

/// A thread knows its guards, however many there are, and in whatever order they go.
#[test]
fn each_of_many_guards_is_known_until_it_is_dropped() {
    const NR: u64 = 20;
    let _watchdog = Watchdog::new();
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", NR as usize * PAGE);
    let cache = cache(false);
    let file = cache.open(&path, rw()).unwrap();
    for step in [1, 3, 7, 11, 19] {
        let mut guards: Vec<_> = (0..NR).map(|index| file.page(index).ok()).collect();
        for nth in 0..NR {
            let index = nth * step % NR;
            let refused = file.page_mut(index).unwrap_err();
            assert!(matches!(refused, WriteError::WouldDeadlock { index: at } if at == index));
            guards[index as usize] = None;
            // A guard taken anew uses what the dropped guard has left.
            let again = file.page(index).unwrap();
            assert!(matches!(file.page_mut(index), Err(WriteError::WouldDeadlock { .. })));
            drop(again);
            file.page_mut(index).unwrap()[0] = 1;
        }
    }
}

/// Hits are counted by thread. The sum is exact once the threads have stopped, whichever thread
/// comes after them, and no hit is counted for another cache.
#[test]
fn each_guard_of_a_resident_page_counts_as_one_hit() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 8 * PAGE);
    let caches = [cache(false), cache(false)];
    let files = caches.each_ref().map(|cache| cache.open(&path, rw()).unwrap());
    for file in &files {
        (0..8).for_each(|index| drop(file.page(index).unwrap()));
    }
    let before = caches.each_ref().map(|cache| cache.stats().hits);
    let take = |seed: u64| {
        for nth in 0..1000 {
            // By turns, and one of the files twice as often.
            let file = &files[usize::from((nth + seed).is_multiple_of(3))];
            drop(file.page(nth % 8).unwrap());
        }
    };
    for round in 0..4 {
        std::thread::scope(|scope| {
            (0..4).for_each(|nth| drop(scope.spawn(move || take(nth + round))))
        });
    }
    let count = |cache: usize| caches[cache].stats().hits - before[cache];
    let second: u64 = (0..4)
        .flat_map(|round| (0..4).map(move |nth| nth + round))
        .map(|seed| (0..1000).filter(|nth| u64::is_multiple_of(nth + seed, 3)).count() as u64)
        .sum();
    assert_eq!((count(0), count(1)), (16_000 - second, second));
}

/// A page that readahead brought in tells readahead of its first use, also if that is a guard; its
/// later guards have nothing to tell.
#[test]
fn the_guard_of_a_page_with_a_marker_starts_readahead() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 64 * PAGE);
    let builder = PageCache::builder().memory(Bytes::from_pages(128)).background(false);
    let cache = builder.readahead_max(Bytes::from_pages(8)).build().unwrap();
    let file = cache.open(&path, rw()).unwrap();
    for index in 0..2 {
        file.read_at(&mut [0; PAGE], index * PAGE as u64).unwrap();
    }
    let len = 64 * PAGE as u64;
    let mut resident = file.resident_pages(0, len);
    let mut nr_started = 0;
    for index in 2..48 {
        assert!(file.page(index).is_ok());
        assert!(file.page(index).is_ok());
        let now = file.resident_pages(0, len);
        nr_started += u32::from(now > resident + 1);
        resident = now;
    }
    assert!(nr_started > 2, "{nr_started} runs, {resident} pages");
}
