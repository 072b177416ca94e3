//! The page cache compared with a plain vector.

use crate::common::{PAGE, cache, pattern_at, patterned_file};
use pagetide::{Advice, Bytes, File, OpenOptions, PageCache, PolicyName, ReadError, WriteError};
use proptest::prelude::*;

fn rw() -> OpenOptions {
    OpenOptions::new().read(true).write(true).create(true)
}

#[test]
fn statistics_tell_the_arm_in_charge() {
    let stats = cache(64, PolicyName::Pagetide).stats();
    let selection = stats.selection.expect("it has settings");
    assert_eq!((selection.chosen, selection.nr_changes), (selection.settings[0].name, 0));
    assert_eq!(cache(64, PolicyName::Lru).stats().selection, None);
}

#[test]
fn reads_what_the_file_holds() {
    let dir = tempfile::tempdir().unwrap();
    let len = 100 * PAGE + 123;
    let path = patterned_file(dir.path(), "a", len);
    for policy in PolicyName::ALL {
        let cache = cache(32, *policy);
        let file = cache.open(&path, OpenOptions::new().read(true)).unwrap();
        assert_eq!(file.len(), len as u64);
        let mut whole = vec![0; len + 1000];
        assert_eq!(file.read_at(&mut whole, 0).unwrap(), len);
        assert!(whole[..len] == pattern_at(0, len)[..], "{policy}");
        let mut piece = vec![0; 5000];
        assert_eq!(file.read_at(&mut piece, 4000).unwrap(), 5000);
        assert!(piece == pattern_at(4000, 5000));
        assert_eq!(file.read_at(&mut piece, len as u64).unwrap(), 0);
        assert_eq!(file.read_at(&mut piece, len as u64 - 1).unwrap(), 1);
        assert!(cache.stats().resident_bytes_max <= 32 * PAGE as u64);
    }
}

#[test]
fn a_file_is_stored_once_it_was_written_back() {
    let dir = tempfile::tempdir().unwrap();
    let cache = PageCache::builder().memory(Bytes(1 << 20)).background(false).build().unwrap();
    let file = cache.open(dir.path().join("a"), rw()).unwrap();
    assert!(file.is_stored());
    file.write_at(b"written", 5000).unwrap();
    assert!(!file.is_stored());
    file.flush().unwrap();
    assert!(file.is_stored());
}

#[test]
fn readahead_windows_are_as_large_as_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let nr_pages = 8192;
    let path = dir.path().join("a");
    std::fs::File::create(&path).unwrap().set_len(nr_pages * PAGE as u64).unwrap();
    for window in [64, 512, 1024] {
        let builder = PageCache::builder().memory(Bytes(64 << 20)).background(false);
        let cache = builder.readahead_max(Bytes::from_pages(window)).build().unwrap();
        let file = cache.open(&path, OpenOptions::new().read(true)).unwrap();
        let mut page = vec![0; PAGE];
        let mut largest = 0;
        for index in 0..nr_pages / 2 {
            let offset = index * PAGE as u64;
            let before = file.resident_pages(offset, u64::MAX - offset);
            file.read_at(&mut page, offset).unwrap();
            largest = largest.max(file.resident_pages(offset, u64::MAX - offset) - before);
        }
        assert_eq!(largest, window);
    }
}

#[test]
fn many_ranges_are_one_request_each_and_those_that_are_here_none() {
    let dir = tempfile::tempdir().unwrap();
    let (nr_pages, page) = (600, PAGE as u64);
    let path = patterned_file(dir.path(), "a", nr_pages * PAGE);
    for background in [true, false] {
        let builder = PageCache::builder().memory(Bytes(1 << 20)).background(background);
        let cache = builder.build().unwrap();
        let file = cache.open(&path, OpenOptions::new().read(true)).unwrap();
        file.advise(Advice::Random, 0, 0).unwrap();
        let read_every = |step: u64| {
            let mut buffers = vec![[0; 100]; (nr_pages as u64 / step) as usize];
            let starts = (0..).map(|nth| nth * step * page + 50);
            let mut ranges: Vec<_> =
                starts.zip(&mut buffers).map(|(at, buffer)| (at, &mut buffer[..])).collect();
            file.read_many(&mut ranges).unwrap();
            let is_right = |(at, bytes): &(u64, &mut [u8])| bytes == &pattern_at(*at, 100);
            assert!(ranges.iter().all(is_right));
            cache.stats().device_reads
        };
        // 100 of the 600 pages, in a memory of 256. Then 50 of these, and then more than fit.
        assert_eq!([6, 12].map(read_every), [100, 100], "with workers: {background}");
        read_every(1);
        if !background {
            cache.validate();
        }
    }
}

/// Every second frame is free for the stream, so its requests use contiguous buffers.
#[test]
fn a_stream_into_scattered_frames_reads_what_the_file_holds() {
    let dir = tempfile::tempdir().unwrap();
    let (nr_pages, len) = (3000, 3000 * PAGE + 10);
    let cache = PageCache::builder().memory(Bytes(16 << 20)).build().unwrap();
    let [first, second] = ["a", "b"].map(|name| {
        let path = patterned_file(dir.path(), name, len);
        cache.open(&path, OpenOptions::new().read(true)).unwrap()
    });
    let stream = |file: &File| {
        let mut piece = vec![0; 16 * PAGE];
        for offset in (0..len).step_by(piece.len()) {
            let nr_read = file.read_at(&mut piece, offset as u64).unwrap();
            assert!(piece[..nr_read] == pattern_at(offset as u64, nr_read)[..], "at {offset}");
        }
    };
    stream(&first);
    for index in (0..nr_pages).step_by(2) {
        first.advise(Advice::DontNeed, index * PAGE as u64, PAGE as u64).unwrap();
    }
    stream(&second);
    stream(&first);
    let stats = cache.stats();
    let nr_staged = stats.vmstat.iter().find(|(name, _)| *name == "staged_reads").unwrap().1;
    if stats.io_uring {
        assert!(nr_staged > 0, "{stats:?}");
    } else {
        crate::common::skip(
            "a_stream_into_scattered_frames",
            "io_uring is refused: nothing is staged",
        );
    }
}

/// Resident pages newer than the file split no request, neither readahead nor the read of a call.
#[test]
fn requests_read_over_a_few_pages_that_are_here() {
    let dir = tempfile::tempdir().unwrap();
    let (nr_pages, page) = (600, PAGE as u64);
    let path = patterned_file(dir.path(), "a", nr_pages * PAGE);
    let nr_runs = (nr_pages as u64).div_ceil(32);
    for (advice, every, nr_here, nr_requests) in [
        (Advice::WillNeed, 8, 1, 5),
        (Advice::WillNeed, 16, 8, 5),
        (Advice::WillNeed, 32, 9, nr_runs),
        (Advice::Random, 8, 1, 3),
        (Advice::Random, 16, 8, 3),
        (Advice::Random, 32, 9, nr_runs),
    ] {
        let cache = PageCache::builder().memory(Bytes(16 << 20)).background(false);
        let cache = cache.build().unwrap();
        let file = cache.open(&path, rw()).unwrap();
        let is_here = |index: u64| index % every < nr_here;
        (0..nr_pages as u64).filter(|index| is_here(*index)).for_each(|index| {
            file.write_at(&[7; PAGE], index * page).unwrap();
        });
        let before = cache.stats();
        file.advise(advice, 0, 0).unwrap();
        let mut whole = vec![0; nr_pages * PAGE];
        assert_eq!(file.read_at(&mut whole, 0).unwrap(), whole.len());
        let after = cache.stats();
        let case = format!("{advice:?}, {nr_here} of {every}");
        assert_eq!(after.device_reads - before.device_reads, nr_requests, "{case}");
        assert_eq!(after.accesses - before.accesses, nr_pages as u64, "{case}");
        for (index, bytes) in (0..).zip(whole.chunks_exact(PAGE)) {
            let expected =
                if is_here(index) { vec![7; PAGE] } else { pattern_at(index * page, PAGE) };
            assert!(bytes == expected, "page {index}, {case}");
        }
        cache.validate();
        // Restores the contents for the next round.
        file.write_at(&pattern_at(0, nr_pages * PAGE), 0).unwrap();
        file.flush().unwrap();
    }
}

/// A random miss reads neighbours while memory is ample, and only its own page later. Unread
/// neighbours are evicted first, and do not count as a stream's waste.
#[test]
fn random_misses_read_around_while_memory_is_ample() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 4096 * PAGE + 10);
    for (policy, advice) in
        [(PolicyName::Pagetide, Advice::Random), (PolicyName::Mglru, Advice::Normal)]
    {
        let builder = PageCache::builder().memory(Bytes(4 << 20)).background(false);
        let cache = builder.policy(policy).build().unwrap();
        let file = cache.open(&path, OpenOptions::new().read(true)).unwrap();
        file.advise(advice, 0, 0).unwrap();
        let mut page = vec![0; PAGE];
        let mut read = |index: u64| {
            let before = cache.stats();
            let nr_read = file.read_at(&mut page, index * PAGE as u64).unwrap();
            assert!(
                page[..nr_read] == pattern_at(index * PAGE as u64, nr_read)[..],
                "page {index}"
            );
            let after = cache.stats();
            (after.misses - before.misses, after.device_reads - before.device_reads)
        };
        let count = |name| cache.stats().vmstat.iter().find(|(one, _)| *one == name).unwrap().1;
        assert_eq!(
            [100, 101, 103, 102, 104].map(&mut read),
            [(1, 1), (0, 0), (0, 0), (0, 0), (1, 1)]
        );
        assert_eq!(count("around_pages"), 6);
        // A run ends before a resident page, and at the end of the file.
        assert_eq!([99, 4094, 4096].map(&mut read), [(1, 1), (1, 1), (0, 0)]);
        assert_eq!(count("around_pages"), 8);
        (0..1000).for_each(|nth| {
            let _ = read(200 + nth * 37 % 3800);
        });
        let nr_around = count("around_pages");
        assert!((500..1000).contains(&nr_around), "{nr_around} in 1024 frames");
        (0..500).for_each(|nth| {
            let _ = read(300 + nth * 41 % 3700);
        });
        assert_eq!(count("around_pages"), nr_around);
        assert!(count("around_wasted") > 100);
        assert_eq!((count("readahead_pages"), count("readahead_wasted")), (0, 0));
        cache.validate();
    }
}

#[test]
fn writes_reach_the_file_at_sync() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new");
    let cache = cache(64, PolicyName::Lru);
    let file = cache.open(&path, rw()).unwrap();
    assert_eq!(file.write_at(b"hello", 3 * PAGE as u64 + 10).unwrap(), 5);
    assert_eq!(file.len(), 3 * PAGE as u64 + 15);
    file.sync_data().unwrap();
    let mut expected = vec![0; 3 * PAGE + 10];
    expected.extend_from_slice(b"hello");
    assert!(std::fs::read(&path).unwrap() == expected);
}

#[test]
fn guards_see_and_change_pages() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 3 * PAGE + 5);
    let cache = cache(64, PolicyName::Lru);
    let file = cache.open(&path, rw()).unwrap();
    assert!(file.page(1).unwrap()[..] == pattern_at(PAGE as u64, PAGE)[..]);
    assert_eq!(file.page(3).unwrap().len(), 5);
    assert!(matches!(file.page(4), Err(ReadError::PastEnd { index: 4, .. })));
    {
        let mut page = file.page_mut(2).unwrap();
        page[7] = 99;
    }
    assert_eq!(file.page(2).unwrap()[7], 99);
    file.sync_all().unwrap();
    assert_eq!(std::fs::read(&path).unwrap()[2 * PAGE + 7], 99);
}

#[test]
fn read_only_handles_refuse_writes() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", PAGE);
    let cache = cache(64, PolicyName::Lru);
    let file = cache.open(&path, OpenOptions::new().read(true)).unwrap();
    assert!(matches!(file.write_at(b"x", 0), Err(WriteError::NotWritable)));
    let writer = cache.open(&path, rw()).unwrap();
    writer.write_at(b"x", 0).unwrap();
    let mut byte = [0];
    file.read_at(&mut byte, 0).unwrap();
    assert_eq!(&byte, b"x", "two opens of one file share its pages");
}

#[test]
fn a_reader_that_finds_every_frame_pinned_still_reads() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 64 * PAGE);
    let cache = cache(16, PolicyName::Lru);
    let file = cache.open(&path, rw()).unwrap();
    let mut guards = Vec::new();
    let refused = loop {
        match file.page(guards.len() as u64) {
            Ok(guard) => guards.push(guard),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, ReadError::NoFrame { frames: 16 }), "{refused}");
    assert_eq!(guards.len(), 16);
    let mut page = vec![0; PAGE];
    assert_eq!(file.read_at(&mut page, 40 * PAGE as u64).unwrap(), PAGE);
    assert!(page == pattern_at(40 * PAGE as u64, PAGE));
    assert_eq!(cache.stats().bypass_reads, 1);
    file.write_at(b"through", 41 * PAGE as u64 + 1).unwrap();
    assert_eq!(cache.stats().writes_through, 1);
    file.read_at(&mut page, 41 * PAGE as u64).unwrap();
    assert_eq!(&page[1..8], b"through");
}

#[test]
fn a_file_changed_behind_our_back_is_seen_at_the_next_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 2 * PAGE);
    let cache = cache(64, PolicyName::Lru);
    let mut page = vec![0; PAGE];
    let file = cache.open(&path, rw()).unwrap();
    file.read_at(&mut page, 0).unwrap();
    drop(file);
    std::fs::write(&path, vec![7; 3 * PAGE]).unwrap();
    let file = cache.open(&path, rw()).unwrap();
    assert_eq!(file.len(), 3 * PAGE as u64);
    file.read_at(&mut page, 0).unwrap();
    assert!(page == vec![7; PAGE]);
}

#[test]
fn pages_survive_close_and_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 8 * PAGE);
    let cache = cache(64, PolicyName::Lru);
    let mut all = vec![0; 8 * PAGE];
    cache.open(&path, rw()).unwrap().read_at(&mut all, 0).unwrap();
    let misses = cache.stats().misses;
    cache.open(&path, rw()).unwrap().read_at(&mut all, 0).unwrap();
    assert_eq!(cache.stats().misses, misses);
}

#[test]
fn a_file_that_shrinks_under_us_reads_short() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 8 * PAGE);
    let cache = cache(64, PolicyName::Lru);
    let file = cache.open(&path, OpenOptions::new().read(true)).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(PAGE as u64 + 9).unwrap();
    let mut all = vec![0; 8 * PAGE];
    let nr_read = file.read_at(&mut all, 0).unwrap();
    assert_eq!(nr_read, PAGE + 9);
    assert_eq!(file.len(), PAGE as u64 + 9);
    assert_eq!(file.read_at(&mut all, 4 * PAGE as u64).unwrap(), 0);
}

#[test]
fn bytes_past_a_foreign_cut_do_not_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 8 * PAGE);
    let cache = cache(64, PolicyName::Lru);
    let file = cache.open(&path, rw()).unwrap();
    let mut all = vec![0; 8 * PAGE];
    // All but page 0, which will find the file short.
    file.read_at(&mut all[PAGE..], PAGE as u64).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(9).unwrap();
    assert_eq!(file.read_at(&mut all, 0).unwrap(), 9);
    file.write_at(b"end", 8 * PAGE as u64 - 3).unwrap();
    assert_eq!(file.read_at(&mut all, 0).unwrap(), 8 * PAGE);
    let mut expected = pattern_at(0, 9);
    expected.resize(8 * PAGE - 3, 0);
    expected.extend_from_slice(b"end");
    assert!(all == expected);
    file.sync_all().unwrap();
    assert!(std::fs::read(&path).unwrap() == expected);
}

#[test]
fn a_write_outlives_a_foreign_cut() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 8 * PAGE);
    let cache = cache(64, PolicyName::Lru);
    let file = cache.open(&path, rw()).unwrap();
    file.write_at(&[7; PAGE], 6 * PAGE as u64).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(9).unwrap();
    let mut page = vec![0; PAGE];
    file.read_at(&mut page, 2 * PAGE as u64).unwrap();
    file.sync_all().unwrap();
    let contents = std::fs::read(&path).unwrap();
    assert_eq!(&contents[6 * PAGE..7 * PAGE], &[7; PAGE]);
}

#[test]
fn resize_gives_memory_up_and_takes_it_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "a", 200 * PAGE);
    let cache = PageCache::builder()
        .memory(Bytes::from_pages(128))
        .memory_max(Bytes::from_pages(256))
        .build()
        .unwrap();
    let file = cache.open(&path, rw()).unwrap();
    let mut all = vec![0; 200 * PAGE];
    file.read_at(&mut all, 0).unwrap();
    cache.resize(Bytes::from_pages(32)).unwrap();
    assert!(cache.stats().resident_bytes <= 32 * PAGE as u64);
    file.read_at(&mut all, 0).unwrap();
    assert!(all == pattern_at(0, 200 * PAGE));
    assert!(cache.stats().resident_bytes <= 32 * PAGE as u64);
    cache.resize(Bytes::from_pages(256)).unwrap();
    file.read_at(&mut all, 0).unwrap();
    file.read_at(&mut all, 0).unwrap();
    assert_eq!(file.resident_pages(0, 200 * PAGE as u64), 200);
    assert!(cache.resize(Bytes(4096)).is_err());
}

#[derive(Clone, Debug)]
enum Op {
    Read { offset: u64, len: usize },
    ReadMany { offset: u64, step: u64, nr: u64, len: usize },
    Write { offset: u64, len: usize, byte: u8 },
    SetLen(u64),
    Guard { index: u64 },
    GuardMut { index: u64, byte: u8 },
    Sync,
    Advise { advice: u8, offset: u64, len: u64 },
    Reopen,
}

const SPAN: u64 = 60 * PAGE as u64;

fn op() -> impl Strategy<Value = Op> {
    let len = 0..3 * PAGE;
    prop_oneof![
        6 => (0..SPAN, len.clone()).prop_map(|(offset, len)| Op::Read { offset, len }),
        3 => (0..SPAN, 0..SPAN / 8, 0..40u64, len.clone())
            .prop_map(|(offset, step, nr, len)| Op::ReadMany { offset, step, nr, len }),
        6 => (0..SPAN, len, any::<u8>())
            .prop_map(|(offset, len, byte)| Op::Write { offset, len, byte }),
        1 => (0..SPAN).prop_map(Op::SetLen),
        2 => (0..60u64).prop_map(|index| Op::Guard { index }),
        2 => (0..60u64, any::<u8>()).prop_map(|(index, byte)| Op::GuardMut { index, byte }),
        1 => Just(Op::Sync),
        1 => (0..6u8, 0..SPAN, 0..SPAN)
            .prop_map(|(advice, offset, len)| Op::Advise { advice, offset, len }),
        1 => Just(Op::Reopen),
    ]
}

const ADVICE: [Advice; 6] = [
    Advice::Normal,
    Advice::Sequential,
    Advice::Random,
    Advice::NoReuse,
    Advice::WillNeed,
    Advice::DontNeed,
];

fn apply(file: &File, twin: &mut Vec<u8>, op: &Op) {
    match *op {
        Op::Read { offset, len } => {
            let mut bytes = vec![0xaa; len];
            let nr_read = file.read_at(&mut bytes, offset).unwrap();
            let start = (offset as usize).min(twin.len());
            let end = (offset as usize + len).min(twin.len());
            assert_eq!(&bytes[..nr_read], &twin[start..end.max(start)]);
        }
        Op::ReadMany { offset, step, nr, len } => {
            let mut buffers = vec![vec![0xaa; len]; nr as usize];
            let starts = (0..nr).map(|nth| offset + nth * step);
            let mut ranges: Vec<_> =
                starts.zip(&mut buffers).map(|(at, buffer)| (at, &mut buffer[..])).collect();
            match file.read_many(&mut ranges) {
                Ok(()) => ranges.iter().for_each(|(at, bytes)| {
                    let at = *at as usize;
                    assert!(len == 0 || bytes[..] == twin[at..at + len]);
                }),
                Err(ReadError::UnexpectedEnd { end, .. }) => assert!(end as usize > twin.len()),
                Err(other) => panic!("{other}"),
            }
        }
        Op::Write { offset, len, byte } => {
            file.write_at(&vec![byte; len], offset).unwrap();
            let end = offset as usize + len;
            if len > 0 && twin.len() < end {
                twin.resize(end, 0);
            }
            twin[..].iter_mut().skip(offset as usize).take(len).for_each(|slot| *slot = byte);
        }
        Op::SetLen(len) => {
            file.set_len(len).unwrap();
            twin.resize(len as usize, 0);
        }
        Op::Guard { index } => {
            let start = index as usize * PAGE;
            match file.page(index) {
                Ok(page) => assert_eq!(&page[..], &twin[start..(start + PAGE).min(twin.len())]),
                Err(ReadError::PastEnd { .. }) => assert!(start >= twin.len()),
                Err(other) => panic!("{other}"),
            }
        }
        Op::GuardMut { index, byte } => {
            let at = index as usize * PAGE;
            match file.page_mut(index) {
                Ok(mut page) => {
                    page[0] = byte;
                    twin[at] = byte;
                }
                Err(WriteError::PastEnd { .. }) => assert!(at >= twin.len()),
                Err(other) => panic!("{other}"),
            }
        }
        Op::Sync => file.sync_data().unwrap(),
        Op::Advise { advice, offset, len } => {
            file.advise(ADVICE[usize::from(advice)], offset, len).unwrap();
        }
        Op::Reopen => {}
    }
    assert_eq!(file.len(), twin.len() as u64);
}

fn agrees_with_a_vector(policy: PolicyName, background: bool) {
    let dir = tempfile::tempdir().unwrap();
    let ops = prop::collection::vec(op(), 1..120);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(24));
    let path = dir.path().join("file");
    runner
        .run(&ops, |ops| {
            let _ = std::fs::remove_file(&path);
            let cache = PageCache::builder()
                .memory(Bytes::from_pages(24))
                .policy(policy)
                .background(background)
                .build()
                .unwrap();
            let mut file = cache.open(&path, rw()).unwrap();
            let mut twin = Vec::new();
            for op in &ops {
                if matches!(op, Op::Reopen) {
                    drop(file);
                    file = cache.open(&path, rw()).unwrap();
                }
                apply(&file, &mut twin, op);
            }
            file.sync_all().unwrap();
            assert!(std::fs::read(&path).unwrap() == twin, "the file differs after the last sync");
            assert!(cache.stats().resident_bytes_max <= 24 * PAGE as u64);
            Ok(())
        })
        .unwrap();
}

#[test]
fn every_policy_agrees_with_a_vector() {
    for policy in PolicyName::ALL {
        agrees_with_a_vector(*policy, true);
    }
}

#[test]
fn a_cache_without_threads_agrees_with_a_vector() {
    agrees_with_a_vector(PolicyName::Lru, false);
}

#[test]
fn without_threads_the_last_close_writes_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let builder = PageCache::builder().memory(Bytes::from_pages(64)).background(false);
    let cache = builder.build().unwrap();
    let file = cache.open(&path, rw()).unwrap();
    file.write_at(&pattern_at(0, PAGE), 0).unwrap();
    drop(file);
    assert!(std::fs::read(&path).unwrap() == pattern_at(0, PAGE));
    assert_eq!(cache.stats().dirty_bytes, 0);
}
