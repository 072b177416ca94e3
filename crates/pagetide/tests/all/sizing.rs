//! `CacheStats::sizing` of a real cache: hits by copy, by guard, by other processes, misses,
//! writes, truncation.

use crate::common::{PAGE, cache, patterned_file};
use pagetide::seam::SharedPages;
use pagetide::{Bytes, OpenOptions, PageCache, PolicyName, Sizing};

fn pages(nr: u64) -> Bytes {
    Bytes::from_pages(nr)
}

/// A cache of 64 frames without readahead or threads, which samples every page.
fn quiet(policy: PolicyName) -> PageCache {
    let builder = PageCache::builder().memory(pages(64)).policy(policy);
    builder.readahead_max(Bytes(0)).background(false).build().unwrap()
}

fn near(sizing: &Sizing, memory: u64, ratio: f64) {
    let told = sizing.hit_ratio(pages(memory));
    assert!((told - ratio).abs() < 0.02, "{memory} pages: {told}, not {ratio}");
}

#[test]
fn a_loop_is_known_below_and_above_the_memory_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "data", 96 * PAGE);
    let cache = quiet(PolicyName::Lru);
    let file = cache.open(&path, OpenOptions::new().read(true)).unwrap();
    let mut bytes = [0; 100];
    assert_eq!(cache.stats().sizing().hit_ratio(pages(64)), 0.0);
    // A loop over 96 pages, which does not fit, and twice as often a loop over 16.
    for step in 0..9600_u64 {
        file.read_at(&mut bytes, step % 96 * PAGE as u64).unwrap();
        for again in [0, 1] {
            file.read_at(&mut bytes, (2 * step + again) % 16 * PAGE as u64 + 200).unwrap();
        }
    }
    let stats = cache.stats();
    let sizing = stats.sizing();
    assert_eq!(sizing.hit_ratio(pages(64)), stats.hit_ratio(), "drawn through what was");
    assert_eq!(sizing.sampled_accesses(), stats.accesses);
    assert_eq!(sizing.memory(), pages(64));
    // Pages of the long loop sometimes displace the short one.
    near(&sizing, 8, 0.04);
    near(&sizing, 40, stats.hit_ratio());
    near(&sizing, 200, 0.99);
    assert!(sizing.working_set(0.99) > pages(80), "{}", sizing.working_set(0.99));
    assert!(sizing.working_set(0.6) < pages(40), "{}", sizing.working_set(0.6));
    assert!(sizing.memory_known() >= pages(4 * 64));
    cache.validate();
}

#[test]
fn guards_writes_and_told_pages_count_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "data", 32 * PAGE);
    let cache = quiet(PolicyName::Mglru);
    let file = cache.open(&path, OpenOptions::new().read(true).write(true)).unwrap();
    for _ in 0..10 {
        for index in 0..32 {
            drop(file.page(index).unwrap());
            file.write_at(&[1], index * PAGE as u64).unwrap();
            file.touch_pages(index, 1);
        }
    }
    let stats = cache.stats();
    assert_eq!((stats.accesses, stats.misses), (960, 32));
    assert_eq!(stats.sizing().sampled_accesses(), 960);
    near(&stats.sizing(), 16, 640.0 / 960.0);
    near(&stats.sizing(), 32, 928.0 / 960.0);
}

#[test]
fn what_is_cut_off_is_new_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let cache = quiet(PolicyName::Mglru);
    let options = OpenOptions::new().read(true).write(true).create(true);
    let file = cache.open(&path, options).unwrap();
    for _ in 0..20 {
        file.write_at(&[7; 16 * PAGE], 0).unwrap();
        file.set_len(0).unwrap();
    }
    let sizing = cache.stats().sizing();
    assert_eq!(sizing.lru_hit_ratio(pages(512)), 0.0);
    assert_eq!(sizing.working_set(0.99), Bytes(0));
}

#[test]
fn a_difference_tells_of_the_time_between() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "data", 48 * PAGE);
    let cache = quiet(PolicyName::Lru);
    let file = cache.open(&path, OpenOptions::new().read(true)).unwrap();
    let read = |nr: u64| {
        for step in 0..480 {
            file.read_at(&mut [0; 8], step % nr * PAGE as u64).unwrap();
        }
    };
    read(48);
    let before = cache.stats().sizing();
    read(4);
    let since = cache.stats().sizing().since(&before);
    assert!(since.hit_ratio(pages(4)) > 0.98);
    assert!(cache.stats().sizing().hit_ratio(pages(4)) < 0.6);
}

/// Concurrent threads lose some uses, and the totals correct for them.
#[test]
fn threads_lose_no_more_than_is_made_good() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "data", 48 * PAGE);
    let cache = cache(64, PolicyName::Mglru);
    let file = cache.open(&path, OpenOptions::new().read(true)).unwrap();
    std::thread::scope(|scope| {
        for start in 0..4_u64 {
            let file = &file;
            scope.spawn(move || {
                for step in 0..20_000 {
                    file.read_at(&mut [0; 8], (start * 12 + step) % 48 * PAGE as u64).unwrap();
                }
            });
        }
    });
    let stats = cache.stats();
    assert!(stats.sizing().sampled_accesses() <= stats.accesses);
    near(&stats.sizing(), 256, 1.0);
}

#[test]
fn a_larger_memory_begins_a_coarser_sample() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "data", 64 * PAGE);
    let builder = PageCache::builder().memory(pages(64)).memory_max(pages(4096));
    let cache = builder.readahead_max(Bytes(0)).build().unwrap();
    let file = cache.open(&path, OpenOptions::new().read(true)).unwrap();
    let read = || {
        for step in 0..640_u64 {
            file.read_at(&mut [0; 8], step % 64 * PAGE as u64).unwrap();
        }
    };
    read();
    assert_eq!(cache.stats().sizing().memory_known(), pages(512));
    cache.resize(pages(4096)).unwrap();
    read();
    let sizing = cache.stats().sizing();
    assert_eq!(sizing.memory_known(), pages(4 * 8192));
    assert!(sizing.sampled_accesses() < 640, "{}", sizing.sampled_accesses());
}
