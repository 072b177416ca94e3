//! Generations of the page cache: text form, commands, and minimum age.

use crate::common::{PAGE, patterned_file};
use pagetide::{Bytes, Detail, GenCommandError, OpenOptions, PageCache, PolicyName};
use std::time::Duration;

const FRAMES: u64 = 256;

fn cache(min_ttl: Duration) -> PageCache {
    let builder = PageCache::builder().memory(Bytes::from_pages(FRAMES)).policy(PolicyName::Mglru);
    builder.min_ttl(min_ttl).background(false).readahead_max(Bytes(0)).build().unwrap()
}

/// Sequence number and file pages of each generation.
fn generations(cache: &PageCache) -> Vec<(u64, u64)> {
    let text = cache.describe_lru_gen(Detail::Sizes);
    let rows = text.lines().skip(2).map(|row| {
        let numbers: Vec<u64> = row.split_whitespace().map(|it| it.parse().unwrap()).collect();
        (numbers[0], numbers[3])
    });
    rows.collect()
}

#[test]
fn generations_are_told_aged_and_evicted_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "file", 100 * PAGE);
    let cache = cache(Duration::ZERO);
    let file = cache.open(&path, OpenOptions::new().read(true)).unwrap();
    for index in 0..100 {
        file.read_at(&mut [0; 10], index * PAGE as u64).unwrap();
    }
    assert_eq!(generations(&cache), [(0, 100), (1, 0), (2, 0), (3, 0)]);
    assert_eq!(cache.command_lru_gen("+ 0 0 3"), Ok(0));
    assert_eq!(generations(&cache), [(1, 100), (2, 0), (3, 0), (4, 0)]);
    assert_eq!(cache.command_lru_gen("- 0 0 3"), Err(GenCommandError::Young(3)));
    assert_eq!(cache.command_lru_gen("- 0 0 2 60 30\n- 0 0 2"), Ok(100));
    assert_eq!(cache.stats().evictions, 100);
    assert!(generations(&cache).iter().all(|(_, nr_pages)| *nr_pages == 0));
    let plain = PageCache::builder().memory(Bytes::from_pages(16)).policy(PolicyName::Lru);
    let plain = plain.build().unwrap();
    assert_eq!(plain.describe_lru_gen(Detail::Full), "");
    assert_eq!(plain.command_lru_gen("+ 0 0 3"), Err(GenCommandError::NoLruvec));
}

/// Aging on request, done twice, makes pages young that are accessed through the page table only.
#[test]
fn a_page_in_use_through_its_table_survives_eviction_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "file", 100 * PAGE);
    let cache = cache(Duration::ZERO);
    let file = cache.open(&path, OpenOptions::new().read(true)).unwrap();
    for index in 0..100 {
        file.read_at(&mut [0; 10], index * PAGE as u64).unwrap();
    }
    for seq in 3..7 {
        (20..60).for_each(|index| drop(file.page(index).unwrap()));
        cache.command_lru_gen(&format!("+ 0 0 {seq}")).unwrap();
    }
    assert_eq!(generations(&cache), [(4, 60), (5, 0), (6, 40), (7, 0)]);
    assert_eq!(cache.command_lru_gen("- 0 0 5"), Ok(60));
    let misses = cache.stats().misses;
    (20..60).for_each(|index| drop(file.page(index).unwrap()));
    assert_eq!(cache.stats().misses, misses);
}

#[test]
fn what_is_younger_than_min_ttl_stays_and_reads_are_served_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "file", 2 * FRAMES as usize * PAGE);
    let cache = cache(Duration::from_secs(86_400));
    let file = cache.open(&path, OpenOptions::new().read(true)).unwrap();
    let (mut page, mut bypassed) = ([0; 10], [0; 10]);
    for index in 0..2 * FRAMES {
        file.read_at(&mut page, index * PAGE as u64).unwrap();
    }
    let stats = cache.stats();
    assert_eq!(stats.evictions, 0);
    assert!(stats.bypass_reads >= FRAMES, "{} reads", stats.bypass_reads);
    let refused = stats.vmstat.iter().find(|(name, _)| *name == "lru_gen_too_young");
    assert!(refused.unwrap().1 > 0);
    let last = (2 * FRAMES - 1) * PAGE as u64;
    file.read_at(&mut bypassed, last).unwrap();
    assert_eq!(page, bypassed);
    cache.resize(Bytes::from_pages(FRAMES / 2)).unwrap();
    assert!(cache.stats().evictions > 0, "a resize insists");
}
