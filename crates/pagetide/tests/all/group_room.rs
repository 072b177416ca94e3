//! Headroom of a group with worker threads: readahead fits, and `low` is kept.

use crate::common::{PAGE, watchdog::Watchdog};
use pagetide::{Bytes, File, GroupOptions, OpenOptions, PageCache, PolicyName};
use std::path::{Path, PathBuf};
use std::sync::Barrier;

const MIB: u64 = 1 << 20;

fn sparse(folder: &Path, name: &str, len: u64) -> PathBuf {
    let path = folder.join(name);
    std::fs::File::create(&path).expect("a file").set_len(len).expect("sparse");
    path
}

fn read_through(file: &File, len: u64, chunk: u64) {
    read_between(file, 0, len, chunk);
}

fn read_between(file: &File, from: u64, end: u64, chunk: u64) {
    let mut bytes = vec![0; chunk as usize];
    for offset in (from..end).step_by(bytes.len()) {
        file.read_at(&mut bytes, offset).expect("read");
    }
}

/// Reads `nr_streams` files of 64 MiB, each once. Returns the bytes read from the device. No reader
/// may lead by more than a 32nd of the group's limit, or a delayed thread loses its readahead.
fn read_in_group(limit: u64, nr_streams: u64, chunk: u64, background: bool) -> u64 {
    let folder = tempfile::tempdir().expect("a folder");
    let builder = PageCache::builder().memory(Bytes(128 * MIB)).groups(true);
    let cache = builder.background(background).build().expect("a cache");
    let group = cache.group("one", GroupOptions::new().limit(Bytes(limit))).expect("made");
    let len = 64 * MIB / nr_streams;
    let files: Vec<_> = (0..nr_streams)
        .map(|nth| sparse(folder.path(), &nth.to_string(), len))
        .map(|path| group.open(&path, OpenOptions::new().read(true)).expect("opened"))
        .collect();
    let (step, together) = ((limit / 32).max(chunk), Barrier::new(files.len()));
    std::thread::scope(|scope| {
        for file in &files {
            scope.spawn(|| {
                for from in (0..len).step_by(step as usize) {
                    read_between(file, from, (from + step).min(len), chunk);
                    together.wait();
                }
            });
        }
    });
    if !background {
        cache.validate();
    }
    cache.stats().device_read_bytes
}

#[test]
fn a_group_reads_ahead_no_further_than_it_has_room() {
    let _watchdog = Watchdog::new();
    for limit in [2 * MIB, 8 * MIB] {
        for chunk in [4096, 64 << 10] {
            let read = read_in_group(limit, 1, chunk, false);
            // On a busy machine a read ahead may complete after the page was read again.
            let is_right = (64 * MIB..=65 * MIB).contains(&read);
            assert!(is_right, "{} in {}, by {chunk}", Bytes(read), Bytes(limit));
            for nr_streams in [1, 4] {
                // Readahead may be late beside other threads.
                let enough = 64 * MIB / 100 * 115;
                let is_enough = |_| {
                    let read = read_in_group(limit, nr_streams, chunk, true);
                    println!(
                        "{nr_streams} streams by {chunk}, {} in {}",
                        Bytes(read),
                        Bytes(limit)
                    );
                    read <= enough
                };
                assert!((0..3).any(is_enough), "each time above {}", Bytes(enough));
            }
        }
    }
}

/// Memory is little more than the group's `low`, and a scan wants all of it.
#[test]
fn low_is_kept_beside_a_scan_that_reads_ahead() {
    const HOT: u64 = 12 * MIB;
    const SCANNED: u64 = 128 * MIB;
    let _watchdog = Watchdog::new();
    let folder = tempfile::tempdir().expect("a folder");
    let [hot, scanned] =
        [("hot", HOT), ("scanned", SCANNED)].map(|(name, len)| sparse(folder.path(), name, len));
    let read_only = OpenOptions::new().read(true);
    for &policy in PolicyName::ALL {
        let builder = PageCache::builder().memory(Bytes(16 * MIB)).policy(policy);
        let cache = builder.groups(true).build().expect("a cache");
        let kept = cache.group("kept", GroupOptions::new().low(Bytes(HOT))).expect("made");
        let scans = cache.group("scans", GroupOptions::new()).expect("made");
        let hot = kept.open(&hot, read_only).expect("opened");
        read_through(&hot, HOT, 64 << 10);
        let scanned = scans.open(&scanned, read_only).expect("opened");
        read_through(&scanned, SCANNED, 64 << 10);
        let stats = kept.stats().expect("there");
        let least = HOT / 100 * 95;
        assert!(stats.usage_bytes >= least, "{policy}: {} of 12M", Bytes(stats.usage_bytes));
        assert!(stats.evictions * PAGE as u64 <= HOT - least, "{policy}: {}", stats.evictions);
    }
}
