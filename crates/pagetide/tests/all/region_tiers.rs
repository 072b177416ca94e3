//! Regions over fast, slow and compressed memory, and over failing stores.

use crate::common::regions::{WORDS, load, region, store};
use crate::common::store::{Fault, FaultyStore, Kind};
use crate::common::tiers::{options, pages, slow, tiering};
use crate::common::watchdog::Watchdog;
use pagetide::{
    Bytes, Millis, PageCache, PolicyName, Region, RegionOptions, Stage, Tier, TieringOptions,
};
use std::sync::atomic::Ordering::Relaxed;

const STEP_MS: u64 = 20;

/// Waits until no handler has a page locked, by locking each page.
fn settle(region: &Region, pages: impl Iterator<Item = usize>) {
    pages.for_each(|page| region.read(page as u64 * 4096, &mut [0]).expect("read"));
}

/// 64 fast and 256 slow frames, which hold the whole region together.
fn tiered(options: TieringOptions) -> PageCache {
    let builder = PageCache::builder().tier(Tier::dram(pages(64))).tier(slow(256));
    builder.tiering(options).background(false).build().expect("a cache")
}

/// Pages accessed repeatedly. They start in slow memory.
const HOT: std::ops::Range<usize> = 200..216;

fn numbered(test: &str, cache: &PageCache) -> Option<Region> {
    let mut contents = vec![0; 256 * 4096];
    for (page, bytes) in contents.chunks_exact_mut(4096).enumerate() {
        bytes[..8].copy_from_slice(&(page as u64).to_ne_bytes());
    }
    region(test, cache, RegionOptions::over_store(FaultyStore::with_contents(&contents).boxed()))
}

fn use_hot_pages(cache: &PageCache, region: &Region, nr_rounds: u64) {
    assert_eq!((0..256).find(|page| load(region, *page) != *page as u64), None);
    (0..nr_rounds).for_each(|round| use_once_more(cache, region, round));
    settle(region, HOT);
}

fn use_once_more(cache: &PageCache, region: &Region, round: u64) {
    assert_eq!(HOT.into_iter().find(|page| load(region, *page) != *page as u64), None);
    cache.tick(Millis((round + 1) * STEP_MS));
}

#[test]
fn an_armed_page_of_a_region_faults_and_is_promoted() {
    let _watchdog = Watchdog::new();
    let cache = tiered(options(Stage::HotSelection));
    let Some(region) = numbered("an_armed_page", &cache) else { return };
    use_hot_pages(&cache, &region, 40);
    let stats = tiering(&cache);
    assert!(stats.armed > 0 && stats.hint_faults > 0, "{stats:?}");
    assert!(stats.promoted >= 16, "{stats:?}");
    assert!(region.stats().minor_faults > 0, "{:?}", region.stats());
    // Loads of unarmed pages leave no trace, so a hot page may be demoted until its next fault. The
    // number in fast memory depends on timing.
    (40..200).for_each(|round| use_once_more(&cache, &region, round));
    let wrong = (0..200).find(|page| load(&region, *page) != *page as u64);
    assert_eq!(wrong, None);
    settle(&region, 0..256);
    cache.validate();
}

/// Nothing else reads an anonymous region's store, so its pages need not be written first.
#[test]
fn a_dirty_page_of_an_anonymous_region_is_promoted() {
    const NAME: &str = "a_dirty_page_of_an_anonymous_region_is_promoted";
    let _watchdog = Watchdog::new();
    let cache = tiered(options(Stage::HotSelection));
    let Some(region) = region(NAME, &cache, RegionOptions::anonymous(pages(256))) else { return };
    (0..256).for_each(|page| store(&region, page, page as u64));
    use_hot_pages(&cache, &region, 40);
    let stats = tiering(&cache);
    assert_eq!(cache.stats().device_writes, 0, "nothing was written: all pages are dirty");
    assert!(stats.promoted >= 16, "{stats:?}");
    cache.validate();
}

#[test]
fn nothing_is_armed_where_promotion_is_off() {
    let off = TieringOptions { promotion: false, ..options(Stage::HotSelection) };
    let cache = tiered(off);
    let Some(region) = numbered("nothing_is_armed", &cache) else { return };
    use_hot_pages(&cache, &region, 10);
    let stats = tiering(&cache);
    assert_eq!((stats.armed, stats.promoted), (0, 0), "{stats:?}");
    assert!(stats.tiers[1].resident_bytes > 100 << 12, "{stats:?}");
}

/// Pages armed, moved and unmapped by ticks of another thread keep their contents.
#[test]
fn pages_that_move_between_tiers_keep_what_is_stored_meanwhile() {
    let _watchdog = Watchdog::new();
    for (stage, nr_handlers) in [(Stage::HotSelection, 1), (Stage::Auto, 3)] {
        let cache = tiered(options(stage));
        let options = RegionOptions::anonymous(pages(400)).handlers(nr_handlers);
        let Some(region) = region("pages_that_move", &cache, options) else { return };
        let have_moved = || {
            let stats = tiering(&cache);
            stats.demoted > 0 && stats.hint_faults > 0
        };
        std::thread::scope(|scope| {
            let writers = [0, 1].map(|nth| {
                let (region, have_moved) = (&region, &have_moved);
                scope.spawn(move || {
                    let mut random = crate::common::pages::Random::new(nth + 1);
                    let mut counts = vec![0_u64; 400];
                    let mut nr_rounds = 0;
                    while nr_rounds < 4000 || !have_moved() {
                        nr_rounds += 1;
                        // Mostly a few pages.
                        let most = if random.below(4) == 0 { 400 } else { 40 };
                        let page = random.below(most) as usize;
                        let word = &region.words()[page * WORDS + nth as usize];
                        assert_eq!(word.load(Relaxed), counts[page]);
                        counts[page] += 1;
                        word.store(counts[page], Relaxed);
                    }
                })
            });
            let mut now = 0;
            while writers.iter().any(|writer| !writer.is_finished()) {
                now += STEP_MS;
                cache.tick(Millis(now));
                std::thread::yield_now();
            }
        });
        settle(&region, 0..400);
        cache.validate();
    }
}

#[test]
fn a_page_of_a_region_comes_back_from_the_compressed_tier() {
    let builder = PageCache::builder().tier(Tier::dram(pages(64)));
    let builder = builder.tier(Tier::compressed(Bytes(1 << 20))).background(false);
    let cache = builder.build().expect("a cache");
    let Some(region) = region("a_page_comes_back", &cache, RegionOptions::anonymous(pages(256)))
    else {
        return;
    };
    (0..256).for_each(|page| store(&region, page, page as u64 + 1));
    for _ in 0..2 {
        let wrong = (0..256).find(|page| load(&region, *page) != *page as u64 + 1);
        assert_eq!(wrong, None);
    }
    let pool = tiering(&cache).compressed.expect("a pool");
    assert!(pool.stored > 0 && pool.hits > 100, "{pool:?}");
    settle(&region, 200..256);
    cache.validate();
}

#[test]
fn every_policy_reclaims_pages_of_regions() {
    let _watchdog = Watchdog::new();
    for &policy in PolicyName::ALL {
        let builder = PageCache::builder().memory(pages(64)).policy(policy).background(false);
        let cache = builder.build().expect("a cache");
        let options = RegionOptions::anonymous(pages(200));
        let Some(region) = region("every_policy", &cache, options) else { return };
        for round in 0..3 {
            for page in 0..200 {
                assert_eq!(load(&region, page), round, "{policy}, page {page}");
                store(&region, page, round + 1);
            }
        }
        assert!(cache.stats().evictions > 300, "{policy}: {:?}", cache.stats());
        settle(&region, 0..200);
        cache.validate();
    }
}

#[test]
fn a_store_that_fails_is_an_error_of_a_copy_and_of_the_sync() {
    let cache = PageCache::builder().memory(pages(64)).background(false).build().expect("a cache");
    let store_ = FaultyStore::with_contents(&[7; 32 * 4096]);
    let options = RegionOptions::over_store(store_.boxed());
    let Some(region) = region("a_store_that_fails", &cache, options) else { return };
    store_.fail(Kind::Read, 0, Fault::Error(5), 1);
    let error = region.read(4096, &mut [0; 8]).expect_err("the store fails");
    assert!(error.to_string().contains("4096"), "{error}");
    let mut bytes = [0; 8];
    region.read(4096, &mut bytes).expect("it fails once");
    assert_eq!(bytes, [7; 8]);
    store(&region, 3, 9);
    settle(&region, 3..4);
    store_.fail(Kind::Write, 0, Fault::Error(28), 1);
    assert!(region.sync().is_err());
    // The page is still dirty, and the next sync writes it.
    region.sync().expect("synced");
    assert_eq!(load(&region, 3), 9);
}
