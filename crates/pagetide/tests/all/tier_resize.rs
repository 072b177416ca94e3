//! Resizing of tiers in use: a read returns the last version, `validate` finds every frame, and
//! memory has the requested size.

use crate::common::pages::{Random, stamp, version_of};
use crate::common::store::FaultyStore;
use crate::common::tiers::{options, pages, slow, tiering};
use crate::common::watchdog::Watchdog;
use crate::common::{PAGE, pattern_at};
use pagetide::{Builder, Bytes, File, Millis, PageCache, PolicyName, ResizeError, Stage, Tier};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// 64 frames, up to 160, over 200 frames, up to 400.
fn tiered() -> Builder {
    let fast = Tier::dram(pages(64)).growing_to(pages(160));
    let slow = slow(200).growing_to(pages(400));
    let options = options(Stage::Auto);
    let builder = PageCache::builder().tier(fast).tier(slow).tiering(options);
    builder.background(false).readahead_max(Bytes(0))
}

fn sizes(cache: &PageCache) -> Vec<u64> {
    tiering(cache).tiers.iter().map(|tier| tier.tier.len().whole_pages()).collect()
}

fn read_page(file: &File, index: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    assert_eq!(file.read_at(&mut page, index * PAGE as u64).unwrap(), PAGE);
    page
}

#[test]
fn each_tier_is_resized_and_the_whole_keeps_their_shares() {
    for &policy in PolicyName::ALL {
        let cache = tiered().policy(policy).build().unwrap();
        let contents = pattern_at(0, 500 * PAGE);
        let file = cache.open_store(Box::new(FaultyStore::with_contents(&contents))).unwrap();
        let mut now = 0;
        let mut check = |expected: [u64; 2]| {
            for index in (0..500).chain(0..150).chain(0..150) {
                let offset = index * PAGE as u64;
                assert_eq!(read_page(&file, index), pattern_at(offset, PAGE), "{policy}");
                now += u64::from(index % 16 == 0);
                cache.tick(Millis(now));
            }
            assert_eq!(sizes(&cache), expected, "{policy}");
            let (stats, sum) = (cache.stats(), expected.iter().sum::<u64>());
            assert_eq!(stats.memory_bytes, sum * PAGE as u64, "{policy}");
            assert!(stats.resident_bytes <= stats.memory_bytes, "{policy}: {stats:?}");
            // Mostly used, unless a batch of victims exceeds the memory.
            let is_used = stats.resident_bytes > stats.memory_bytes / 2;
            assert!(is_used || sum < 64, "{policy}: {stats:?}");
            cache.validate();
        };
        check([64, 200]);
        cache.resize_tier(0, pages(160)).unwrap();
        check([160, 200]);
        cache.resize(pages(90)).unwrap();
        check([40, 50]);
        cache.resize(pages(360)).unwrap();
        check([160, 200]);
        cache.resize_tier(1, pages(400)).unwrap();
        cache.resize_tier(0, pages(20)).unwrap();
        check([20, 400]);
        cache.resize_tier(1, pages(20)).unwrap();
        check([20, 20]);
        cache.resize(pages(560)).unwrap();
        check([160, 400]);
    }
}

#[test]
fn fast_memory_is_demoted_before_it_is_given_up() {
    let cache = tiered().build().unwrap();
    let contents = pattern_at(0, 500 * PAGE);
    let file = cache.open_store(Box::new(FaultyStore::with_contents(&contents))).unwrap();
    cache.resize_tier(0, pages(160)).unwrap();
    (0..150).for_each(|index| drop(read_page(&file, index)));
    let before = cache.stats();
    assert_eq!(before.evictions, 0);
    cache.resize_tier(0, pages(16)).unwrap();
    let after = cache.stats();
    assert_eq!(after.evictions, 0, "200 frames of slow memory hold them");
    let demoted = after.tiering.expect("tiers").demoted - before.tiering.expect("tiers").demoted;
    assert!(demoted >= 100, "{demoted} demoted");
    let misses = cache.stats().misses;
    (0..150).for_each(|index| drop(read_page(&file, index)));
    assert_eq!(cache.stats().misses, misses);
    cache.validate();
}

#[test]
fn pinned_pages_keep_their_memory() {
    let cache = tiered().build().unwrap();
    let contents = pattern_at(0, 500 * PAGE);
    let file = cache.open_store(Box::new(FaultyStore::with_contents(&contents))).unwrap();
    let guards: Vec<_> = (0..40).map(|index| file.page(index).unwrap()).collect();
    let Err(ResizeError::Busy { given_up, wanted }) = cache.resize_tier(0, pages(16)) else {
        panic!("40 pages are pinned in fast memory");
    };
    assert_eq!(wanted, 48);
    assert!((1..=24).contains(&given_up), "{given_up} of {wanted} given up");
    assert_eq!(sizes(&cache), [64 - given_up, 200]);
    for (index, page) in guards.iter().enumerate() {
        assert_eq!(page[..], pattern_at((index * PAGE) as u64, PAGE));
    }
    drop(guards);
    cache.resize_tier(0, pages(16)).unwrap();
    assert_eq!(sizes(&cache), [16, 200]);
    cache.validate();
}

fn play_beside_resizes(policy: PolicyName, background: bool) {
    const NR_PAGES: u64 = 700;
    let cache = tiered().policy(policy).background(background).build().unwrap();
    let store = FaultyStore::with_contents(&vec![0; NR_PAGES as usize * PAGE]);
    let file = cache.open_store(Box::new(store.clone())).unwrap();
    let versions: Vec<AtomicU64> = (0..NR_PAGES).map(|_| AtomicU64::new(0)).collect();
    let (is_over, nr_rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (file, cache) = (file.clone(), cache.clone());
            let (versions, is_over, nr_rounds) = (&versions, &is_over, &nr_rounds);
            scope.spawn(move || {
                let (mut random, mut page) = (Random::new(thread), vec![0; PAGE]);
                while !is_over.load(SeqCst) {
                    let index = random.below(NR_PAGES / 2) * 2 + thread;
                    let version = versions[index as usize].load(SeqCst) + 1;
                    stamp(&mut page, 1, index, version);
                    file.write_at(&page, index * PAGE as u64).unwrap();
                    versions[index as usize].store(version, SeqCst);
                    for _ in 0..8 {
                        let span = if random.below(2) == 0 { NR_PAGES / 10 } else { NR_PAGES };
                        let index = random.below(span) / 2 * 2 + thread;
                        let expected = versions[index as usize].load(SeqCst);
                        assert_eq!(version_of(&read_page(&file, index), 1, index), Ok(expected));
                    }
                    let round = nr_rounds.fetch_add(1, SeqCst);
                    if !background && round % 8 == 0 {
                        cache.tick(Millis(round / 8));
                    }
                }
            });
        }
        let mut random = Random::new(7);
        for step in 0..60 {
            let before = nr_rounds.load(SeqCst);
            let resized = match random.below(3) {
                0 => cache.resize_tier(0, pages(16 + random.below(145))),
                1 => cache.resize_tier(1, pages(16 + random.below(385))),
                _ => cache.resize(pages(32 + random.below(529))),
            };
            match resized {
                Ok(()) | Err(ResizeError::Busy { .. } | ResizeError::OutOfRange { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            let tiers = sizes(&cache);
            assert!((16..=160).contains(&tiers[0]) && (16..=400).contains(&tiers[1]), "{tiers:?}");
            let stats = cache.stats();
            assert!(stats.resident_bytes <= tiers.iter().sum::<u64>() * PAGE as u64, "step {step}");
            while nr_rounds.load(SeqCst) < before + 40 {
                std::thread::yield_now();
            }
        }
        is_over.store(true, SeqCst);
    });
    // Pages in write-back or moving cannot be evicted at that moment.
    while let Err(error) = cache.resize(pages(40)) {
        assert!(background && matches!(error, ResizeError::Busy { .. }), "{error}");
        std::thread::yield_now();
    }
    if !background {
        cache.validate();
    }
    file.sync_data().unwrap();
    for (index, bytes) in (0..).zip(store.contents().chunks_exact(PAGE)) {
        let version = versions[index as usize].load(SeqCst);
        let expected = if version == 0 { Ok(0) } else { version_of(bytes, 1, index) };
        assert_eq!(expected, Ok(version), "{policy}: page {index} as it is stored");
    }
    assert!(cache.stats().resident_bytes <= 40 * PAGE as u64);
}

#[test]
fn nothing_is_lost_while_tiers_grow_and_shrink() {
    let _watchdog = Watchdog::new();
    for policy in [PolicyName::Mglru, PolicyName::Pagetide, PolicyName::ActiveInactive] {
        play_beside_resizes(policy, false);
    }
    play_beside_resizes(PolicyName::Mglru, true);
}

#[test]
fn sizes_that_cannot_be_say_which_can() {
    let cache = tiered().build().unwrap();
    let said = |resized: Result<(), ResizeError>| resized.unwrap_err().to_string();
    let built = ", what this cache was built for";
    assert_eq!(
        said(cache.resize(pages(31))),
        format!("a size of 124K is outside 128K to 2240K{built}")
    );
    assert_eq!(
        said(cache.resize_tier(0, pages(161))),
        format!("a size of 644K is outside 64K to 640K{built}")
    );
    assert!(said(cache.resize_tier(1, pages(63))).contains("outside 256K to 1600K"), "fast: 64");
    assert_eq!(
        said(cache.resize_tier(2, pages(64))),
        "there is no tier 2: this cache has 2, the fastest is 0"
    );
    assert_eq!(sizes(&cache), [64, 200]);
    // One kind of memory over compressed pages.
    let fast = Tier::dram(pages(32)).growing_to(pages(64));
    let builder = PageCache::builder().tier(fast).tier(Tier::compressed(Bytes(1 << 20)));
    let cache = builder.background(false).build().unwrap();
    cache.resize_tier(0, pages(64)).unwrap();
    cache.resize(pages(16)).unwrap();
    assert_eq!(sizes(&cache), [16]);
    assert!(said(cache.resize(pages(65))).contains("outside 64K to 256K"));
}
