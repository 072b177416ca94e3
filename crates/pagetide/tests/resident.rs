//! The process's resident size under load: the limit plus a documented overhead.
//!
//! A separate binary, so that no other test's memory is counted. `results/notes.md`, "Resident
//! size", explains the overhead. [`overhead_max`] is that section's first sentence.

mod common;

use common::pages::{Random, seed};
use common::{PAGE, watchdog::Watchdog};
use pagetide::{Bytes, File, OpenOptions, PageCache};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const FILE_BYTES: u64 = 512 << 20;
/// Only the first part is written: a sparse file is faster to create than to remove.
const WRITTEN_BYTES: u64 = 128 << 20;

/// Allowed overhead in bytes: 128 a frame, 16 a page of the files, 16 MiB.
fn overhead_max(limit: u64) -> u64 {
    limit / PAGE as u64 * 128 + FILE_BYTES / PAGE as u64 * 16 + (16 << 20)
}

fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("/proc is mounted");
    let pages: u64 = statm.split(' ').nth(1).expect("the second of seven").parse().expect("pages");
    pages * PAGE as u64
}

fn load(cache: &PageCache, file: &File, mut random: Random, end: Instant, most: &AtomicU64) {
    let mut bytes = vec![0; 64 << 10];
    let mut round = 0u64;
    // Runs until the limit was reached: machine or disk may be slow.
    while Instant::now() < end || cache.stats().evictions == 0 {
        let index = random.below(FILE_BYTES / PAGE as u64 - 16);
        let offset = index * PAGE as u64;
        let written = offset % WRITTEN_BYTES;
        match random.below(10) {
            0..4 => drop(file.read_at(&mut bytes[..PAGE], offset).unwrap()),
            4 => drop(file.read_at(&mut bytes, offset).unwrap()),
            5 => drop(file.page(index)),
            6..8 => drop(file.write_at(&bytes[..PAGE], written).unwrap()),
            // Whole runs, for the largest copies of write-back.
            8 => drop(file.write_at(&bytes, written).unwrap()),
            _ => drop(file.page_mut(written / PAGE as u64).map(|mut page| page[0] = 1)),
        }
        round += 1;
        if round.is_multiple_of(64) {
            most.fetch_max(resident(), Relaxed);
        }
    }
    most.fetch_max(resident(), Relaxed);
}

#[test]
fn resident_size_stays_within_the_limit_and_the_stated_overhead() {
    let _watchdog = Watchdog::new();
    let seed = seed();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sparse");
    std::fs::File::create(&path).unwrap().set_len(FILE_BYTES).unwrap();
    for limit in [2 << 20, 64 << 20] {
        let before = resident();
        let cache = PageCache::builder().memory(Bytes(limit)).build().unwrap();
        let file = cache.open(&path, OpenOptions::new().read(true).write(true)).unwrap();
        let most = AtomicU64::new(0);
        let end = Instant::now() + Duration::from_millis(1500);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (cache, file, most) = (&cache, &file, &most);
                scope.spawn(move || load(cache, file, Random::new(seed + thread), end, most));
            }
        });
        let most = most.into_inner().saturating_sub(before);
        let stats = cache.stats();
        println!(
            "limit {}: {} more resident than before, {} in frames, {} evictions",
            Bytes(limit),
            Bytes(most),
            Bytes(stats.resident_bytes_max),
            stats.evictions
        );
        assert!(stats.resident_bytes_max <= limit);
        let allowed = limit + overhead_max(limit);
        assert!(most <= allowed, "{} resident, {} allowed", Bytes(most), Bytes(allowed));
    }
}
