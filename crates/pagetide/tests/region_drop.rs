//! A dropped region leaves nothing behind. A separate binary, as it counts the process's resources.

mod common;

use common::regions::{region, store};
use common::watchdog::Watchdog;
use pagetide::{Bytes, PageCache, Region, RegionOptions};
use std::fs;

fn entries(path: &str) -> fs::ReadDir {
    fs::read_dir(path).expect("own process")
}

fn count() -> [usize; 2] {
    let maps = fs::read_to_string("/proc/self/smaps").expect("own mappings");
    // "um": missing pages are reported.
    let is_told = |line: &&str| line.starts_with("VmFlags:") && line.contains(" um");
    let regions = maps.lines().filter(is_told).count();
    [entries("/proc/self/fd").count(), regions]
}

/// Counts threads by name. The kernel's io_uring threads stay.
fn nr_handlers() -> usize {
    let names = entries("/proc/self/task").filter_map(|task| {
        let comm = task.ok()?.path().join("comm");
        fs::read_to_string(comm).ok()
    });
    names.filter(|name| ["pagetide-fault", "pagetide-helper"].contains(&name.trim())).count()
}

/// A new thread gets its name, and a joined thread disappears, after a moment.
fn await_handlers(nr: usize) {
    while nr_handlers() != nr {
        std::thread::yield_now();
    }
}

fn touch(region: &Region, nr_pages: usize) {
    (0..nr_pages).for_each(|page| store(region, page, 1));
}

#[test]
fn a_dropped_region_leaves_no_thread_descriptor_or_mapping() {
    let _watchdog = Watchdog::new();
    // Without the cache's threads, which may keep a mapping for a moment.
    let builder = PageCache::builder().memory(Bytes(64 << 12)).background(false);
    let cache = builder.build().expect("a cache");
    // Resources that are created once, at first use.
    let first =
        region("a_dropped_region_leaves_nothing", &cache, RegionOptions::anonymous(Bytes(1 << 20)));
    let Some(first) = first else { return };
    touch(&first, 256);
    drop(first);
    await_handlers(0);
    let before = count();
    let options = RegionOptions::anonymous(Bytes(300 << 12)).handlers(3);
    let region = cache.region(options).expect("a second region");
    touch(&region, 300);
    await_handlers(3);
    let [descriptors, mappings] = count();
    assert_eq!(mappings, before[1] + 1);
    assert!(descriptors > before[0], "{descriptors}");
    assert!(cache.stats().resident_bytes > 0);
    drop(region);
    await_handlers(0);
    assert_eq!(count(), before);
    assert_eq!(cache.stats().resident_bytes, 0);
    cache.validate();
}
