//! What a region leaves behind: nothing. In a binary of its own, as it counts what the process has.

mod common;

use common::regions::{region, store};
use pagetide::{Bytes, PageCache, Region, RegionOptions};
use std::fs;

/// Handler threads, descriptors and regions' mappings of this process.
fn count() -> [usize; 3] {
    let entries = |path| fs::read_dir(path).expect("own process");
    // The kernel's own threads, of io_uring, stay.
    let names = entries("/proc/self/task").filter_map(|task| {
        let comm = task.ok()?.path().join("comm");
        fs::read_to_string(comm).ok()
    });
    let maps = fs::read_to_string("/proc/self/maps").expect("own mappings");
    let regions = maps.lines().filter(|line| line.contains("memfd:")).count();
    let handlers = names.filter(|name| name.trim() == "pagetide-fault").count();
    [handlers, entries("/proc/self/fd").count(), regions]
}

fn touch(region: &Region, nr_pages: usize) {
    (0..nr_pages).for_each(|page| store(region, page, 1));
}

#[test]
fn a_dropped_region_leaves_no_thread_descriptor_or_mapping() {
    // Without threads of the cache: they may hold on to a mapping for a moment.
    let builder = PageCache::builder().memory(Bytes(64 << 12)).background(false);
    let cache = builder.build().expect("a cache");
    // What a first use makes once, for all.
    let first =
        region("a_dropped_region_leaves_nothing", &cache, RegionOptions::anonymous(Bytes(1 << 20)));
    let Some(first) = first else { return };
    touch(&first, 256);
    drop(first);
    let before = count();
    let options = RegionOptions::anonymous(Bytes(300 << 12)).handlers(3);
    let region = cache.region(options).expect("a second region");
    touch(&region, 300);
    let [threads, descriptors, mappings] = count();
    assert_eq!((threads, mappings), (before[0] + 3, before[2] + 2));
    assert!(descriptors > before[1], "{descriptors}");
    assert!(cache.stats().resident_bytes > 0);
    drop(region);
    assert_eq!(count(), before);
    assert_eq!(cache.stats().resident_bytes, 0);
    cache.validate();
}
