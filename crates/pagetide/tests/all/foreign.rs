//! Files changed by other programs or caches: close-to-open consistency, and no byte is lost.

use crate::common::pages::{Random, seed};
use crate::common::watchdog::Watchdog;
use crate::common::{PAGE, pattern_at, patterned_file, wait_until_settled};
use pagetide::{Bytes, File, OpenOptions, PageCache};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

fn rw() -> OpenOptions {
    OpenOptions::new().read(true).write(true).create(true)
}

fn quiet_cache() -> PageCache {
    PageCache::builder().memory(Bytes::from_pages(128)).background(false).build().unwrap()
}

fn outside(path: &Path) -> std::fs::File {
    std::fs::File::options().read(true).write(true).open(path).unwrap()
}

fn read_all(file: &File) -> Vec<u8> {
    let mut all = vec![0; file.len() as usize + 1];
    let nr_read = file.read_at(&mut all, 0).unwrap();
    all.truncate(nr_read);
    all
}

fn assert_seen(cache: &PageCache, path: &Path, before: &File, expected: &[u8]) {
    let after = cache.open(path, rw()).unwrap();
    assert!(read_all(&after) == expected, "by the open");
    assert!(read_all(before) == expected, "by the handle of before");
    assert!(std::fs::read(path).unwrap() == expected, "in the file");
}

#[test]
fn a_change_of_anothers_is_seen_whatever_was_written_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = pattern_at(0, 8 * PAGE);
    let path = patterned_file(dir.path(), "a", expected.len());
    let cache = quiet_cache();
    let file = cache.open(&path, rw()).unwrap();
    assert!(read_all(&file) == expected);
    for round in 0..3 {
        outside(&path).write_all_at(&[round; 10], 5).unwrap();
        expected[5..15].fill(round);
        file.write_at(&[round; 100], 5 * PAGE as u64).unwrap();
        expected[5 * PAGE..5 * PAGE + 100].fill(round);
        file.sync_data().unwrap();
        assert_seen(&cache, &path, &file, &expected);
    }
}

#[test]
fn an_append_of_anothers_is_not_appended_over() {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = pattern_at(0, 2 * PAGE + 100);
    let path = patterned_file(dir.path(), "a", expected.len());
    let cache = quiet_cache();
    let file = cache.open(&path, rw()).unwrap();
    assert!(read_all(&file) == expected);
    for round in 0..3 {
        outside(&path).write_all_at(b"another's line\n", expected.len() as u64).unwrap();
        expected.extend_from_slice(b"another's line\n");
        file.write_at(&[round], 50).unwrap();
        expected[50] = round;
        file.sync_data().unwrap();
        assert_eq!(file.len(), expected.len() as u64, "the sync has seen the append");
        file.write_at(b"our line\n", file.len()).unwrap();
        expected.extend_from_slice(b"our line\n");
        file.sync_data().unwrap();
        assert_seen(&cache, &path, &file, &expected);
    }
}

/// The first checks of the file, and the foreign changes, are within one clock tick of the file's
/// last change. The changes set the modification time back.
#[test]
fn changes_that_move_neither_length_nor_modification_time_are_seen() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let cache = quiet_cache();
    for round in 0..100_u8 {
        std::fs::write(&path, [round; PAGE]).unwrap();
        let other = outside(&path);
        let modified = other.metadata().unwrap().modified().unwrap();
        let file = cache.open(&path, rw()).unwrap();
        assert!(read_all(&file) == [round; PAGE], "{round}");
        other.write_all_at(&[!round; PAGE], 0).unwrap();
        other.set_modified(modified).unwrap();
        let again = cache.open(&path, rw()).unwrap();
        assert!(read_all(&again) == [!round; PAGE], "{round}");
    }
}

#[test]
fn what_nobody_changed_stays_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 8 * PAGE);
    let cache = quiet_cache();
    for is_written in [false, true] {
        let file = cache.open(&path, rw()).unwrap();
        if is_written {
            file.write_at(b"ours", 9).unwrap();
            file.sync_data().unwrap();
            wait_until_settled(&path);
            // Our write-back hides concurrent foreign changes: read once more.
            drop(cache.open(&path, rw()).unwrap());
        }
        let all = read_all(&file);
        drop(file);
        let misses = cache.stats().misses;
        assert!(read_all(&cache.open(&path, rw()).unwrap()) == all);
        assert_eq!(cache.stats().misses, misses, "written: {is_written}");
    }
}

#[test]
fn two_caches_that_write_halves_of_the_same_pages_lose_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 8 * PAGE);
    let caches = [quiet_cache(), quiet_cache()];
    let files = caches.each_ref().map(|cache| cache.open(&path, rw()).unwrap());
    files.iter().for_each(|file| assert!(read_all(file) == pattern_at(0, 8 * PAGE)));
    let mut expected = pattern_at(0, 8 * PAGE);
    for index in 0..8 {
        for (half, file) in files.iter().enumerate() {
            let start = index * PAGE + half * PAGE / 2;
            file.write_at(&[half as u8; PAGE / 2], start as u64).unwrap();
            expected[start..start + PAGE / 2].fill(half as u8);
        }
    }
    files.iter().for_each(|file| file.sync_data().unwrap());
    for (cache, file) in caches.iter().zip(&files) {
        assert_seen(cache, &path, file, &expected);
    }
}

#[test]
fn writes_past_the_cache_write_no_bytes_of_anothers() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 64 * PAGE);
    let cache = PageCache::builder().memory(Bytes::from_pages(16)).build().unwrap();
    let file = cache.open(&path, rw()).unwrap();
    let guards: Vec<_> = (0..16).map(|index| file.page(index).unwrap()).collect();
    let at = 40 * PAGE as u64 + 10;
    file.write_at(b"ours", at).unwrap();
    assert_eq!(cache.stats().writes_through, 1);
    assert_eq!(cache.stats().device_write_bytes, 4);
    drop(guards);
    let mut expected = pattern_at(0, 64 * PAGE);
    expected[at as usize..][..4].copy_from_slice(b"ours");
    assert_seen(&cache, &path, &file, &expected);
}

enum Writer {
    Cached { cache: PageCache, file: File },
    Outside(std::fs::File),
}

impl Writer {
    fn write(&self, byte: u8, offset: u64) {
        match self {
            Writer::Cached { file, .. } => assert_eq!(file.write_at(&[byte], offset).unwrap(), 1),
            Writer::Outside(file) => file.write_all_at(&[byte], offset).unwrap(),
        }
    }

    fn store(&self) {
        if let Writer::Cached { file, .. } = self {
            file.flush().unwrap();
        }
    }

    fn reopen(&mut self, path: &Path) {
        match self {
            Writer::Cached { cache, file } => *file = cache.open(path, rw()).unwrap(),
            Writer::Outside(file) => *file = outside(path),
        }
    }

    fn read(&self) -> Vec<u8> {
        match self {
            Writer::Cached { file, .. } => read_all(file),
            Writer::Outside(file) => {
                let mut all = vec![0; file.metadata().unwrap().len() as usize];
                file.read_exact_at(&mut all, 0).unwrap();
                all
            }
        }
    }
}

fn writers(path: &Path) -> [Writer; 3] {
    let cached = |cache: PageCache| {
        let file = cache.open(path, rw()).unwrap();
        Writer::Cached { cache, file }
    };
    let busy = PageCache::builder().memory(Bytes::from_pages(64)).build().unwrap();
    [cached(quiet_cache()), cached(busy), Writer::Outside(outside(path))]
}

/// Three writers, each with its own bytes in all pages. Each sees its own writes at once, and other
/// writes stored before its last open. At the end nothing is lost.
#[test]
fn what_is_stored_is_seen_by_the_next_open_and_nothing_is_lost() {
    const LEN: u64 = 12 * PAGE as u64;
    let dir = tempfile::tempdir().unwrap();
    let nr_steps = if std::env::var_os("PAGETIDE_LONG").is_some() { 50_000 } else { 1500 };
    let mut random = Random::new(seed());
    let path = dir.path().join("a");
    std::fs::write(&path, vec![0; LEN as usize]).unwrap();
    let mut writers = writers(&path);
    // Values of each byte since it was last stored for certain, latest last.
    let mut held: Vec<Vec<u8>> = vec![vec![0]; LEN as usize];
    for step in 0..nr_steps {
        let writer = random.below(3) as usize;
        let is_own = |at: usize| at % 3 == writer;
        match random.below(10) {
            0..6 => {
                let at = random.below(LEN / 3) * 3 + writer as u64;
                let byte = random.below(255) as u8 + 1;
                writers[writer].write(byte, at);
                held[at as usize].push(byte);
                if writer == 2 {
                    held[at as usize] = vec![byte];
                }
            }
            6 | 7 => {
                writers[writer].store();
                let own = (0..LEN as usize).filter(|at| is_own(*at));
                for at in own {
                    let last = held[at].len() - 1;
                    held[at].drain(..last);
                }
            }
            _ => {
                writers[writer].reopen(&path);
                let seen = writers[writer].read();
                assert_eq!(seen.len(), LEN as usize);
                for at in 0..LEN as usize {
                    // Other writers may have stored more than requested, but nothing older.
                    let is_right = match is_own(at) {
                        true => held[at].last() == Some(&seen[at]),
                        false => held[at].contains(&seen[at]),
                    };
                    assert!(is_right, "step {step}: {writer} sees {} at {at}", seen[at]);
                }
            }
        }
    }
    writers.iter().for_each(Writer::store);
    for writer in &mut writers {
        writer.reopen(&path);
        let seen = writer.read();
        assert!(seen.iter().zip(&held).all(|(is, held)| held.last() == Some(is)));
    }
}

#[test]
fn changes_in_the_middle_of_a_write_back_are_seen_by_the_next_open() {
    let _watchdog = Watchdog::new();
    const NR_PAGES: usize = 400;
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", NR_PAGES * PAGE);
    let cache = PageCache::builder().memory(Bytes::from_pages(1024)).build().unwrap();
    let file = cache.open(&path, rw()).unwrap();
    let nr_rounds = if std::env::var_os("PAGETIDE_LONG").is_some() { 3000 } else { 200 };
    let other = outside(&path);
    for round in 0..nr_rounds {
        read_all(&file);
        let byte = round as u8;
        // We write the first half of the file, and the second program the rest.
        for index in 0..NR_PAGES / 2 {
            file.write_at(&[byte; PAGE], (index * PAGE) as u64).unwrap();
        }
        let is_storing = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                is_storing.store(true, Ordering::Release);
                file.flush().unwrap();
            });
            while !is_storing.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            other.write_all_at(&[byte], ((NR_PAGES - 1) * PAGE) as u64).unwrap();
        });
        let seen = read_all(&cache.open(&path, rw()).unwrap());
        let is_ours = seen[..NR_PAGES / 2 * PAGE].iter().all(|one| *one == byte);
        assert!(is_ours && seen[(NR_PAGES - 1) * PAGE] == byte, "round {round}");
    }
}
