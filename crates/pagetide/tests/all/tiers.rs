//! Fast, slow and compressed memory: after any operations and moves, the file equals a plain
//! vector, and pages, frames and lists are consistent (`validate`).

use crate::common::pages::{Random, stamp, version_of};
use crate::common::store::FaultyStore;
use crate::common::tiers::{options, pages, slow, tiering};
use crate::common::watchdog::Watchdog;
use crate::common::{PAGE, pattern_at, patterned_file, pin_thread};
use pagetide::{
    Advice, BuildError, Builder, Bytes, File, Millis, OpenOptions, PageCache, PolicyName, Stage,
    Tier, TieringOptions, TieringStats,
};
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn tiered(nr_fast: u64, nr_slow: u64, stage: Stage) -> Builder {
    let builder = PageCache::builder().tier(Tier::dram(pages(nr_fast))).tier(slow(nr_slow));
    builder.tiering(options(stage)).background(false).readahead_max(Bytes(0))
}

fn read_page(file: &File, index: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    let nr_bytes = file.read_at(&mut page, index * PAGE as u64).unwrap();
    page.truncate(nr_bytes);
    page
}

#[test]
fn memory_of_all_tiers_holds_pages() {
    let cache = tiered(32, 128, Stage::default()).build().unwrap();
    let file = cache.open_store(Box::new(FaultyStore::with_contents(&pattern_at(0, 130 * PAGE))));
    let file = file.unwrap();
    for round in 0..3 {
        for index in 0..130 {
            let offset = index * PAGE as u64;
            assert_eq!(read_page(&file, index), pattern_at(offset, PAGE), "round {round}");
        }
    }
    let stats = cache.stats();
    assert_eq!((stats.memory_bytes, stats.misses), (160 * PAGE as u64, 130), "{stats:?}");
    let tiers = stats.tiering.expect("tiers").tiers;
    assert!(tiers[0].served > 0 && tiers[1].served > 100, "{tiers:?}");
    assert_eq!(tiers[0].served + tiers[1].served, stats.hits);
    cache.validate();
}

/// Cold pages are demoted, dirty ones unwritten. Only slow memory evicts.
#[test]
fn what_reclaim_takes_from_fast_memory_moves_to_slow_memory() {
    for &policy in PolicyName::ALL {
        let cache = tiered(64, 256, Stage::default()).policy(policy).build().unwrap();
        let store = FaultyStore::with_contents(&[]);
        let file = cache.open_store(Box::new(store)).unwrap();
        for index in 0..200 {
            let mut page = [0; PAGE];
            stamp(&mut page, 1, index, 1);
            file.write_at(&page, index * PAGE as u64).unwrap();
            cache.tick(Millis(index));
        }
        // Promotions of hot pages free frames by demotion.
        for round in 0..40 {
            for index in (0..200).rev().take(90) {
                assert_eq!(version_of(&read_page(&file, index), 1, index), Ok(1), "{policy}");
            }
            cache.tick(Millis(200 + round * 20));
        }
        file.sync_data().unwrap();
        for round in 40..80 {
            for index in (0..200).rev().take(90) {
                assert_eq!(version_of(&read_page(&file, index), 1, index), Ok(1), "{policy}");
            }
            cache.tick(Millis(200 + round * 20));
        }
        let stats = tiering(&cache);
        assert!(stats.promoted > 0 && stats.demoted > 0, "{policy}: {stats}");
        assert_eq!(cache.stats().evictions, 0, "{policy}: memory is large enough");
        cache.validate();
    }
}

/// Hot pages start in slow memory, as they were read last. Runs on one CPU: lists and logs of other
/// CPUs make the result random.
fn play_hot_pages(stage: Stage) -> TieringStats {
    let cache = tiered(64, 256, stage).build().unwrap();
    let contents = pattern_at(0, 300 * PAGE);
    let file = cache.open_store(Box::new(FaultyStore::with_contents(&contents))).unwrap();
    (0..300).for_each(|index| drop(read_page(&file, index)));
    let mut random = Random::new(1);
    for now in 0..2000 {
        cache.tick(Millis(now));
        assert_eq!(read_page(&file, 260 + random.below(20)).len(), PAGE);
        if now % 10 == 0 {
            drop(file.page(random.below(300)).unwrap());
        }
    }
    cache.validate();
    let before = tiering(&cache).tiers[1].served;
    (0..20).for_each(|nth| drop(read_page(&file, 260 + nth)));
    let stats = tiering(&cache);
    // A stage that promotes every accessed page sometimes displaces a hot one.
    let nr_slow_max = if stage == Stage::Base { 5 } else { 2 };
    let nr_slow = stats.tiers[1].served - before;
    assert!(nr_slow <= nr_slow_max, "{stage}: {nr_slow} of 20 hot pages are slow: {stats}");
    stats
}

#[test]
fn hot_pages_of_slow_memory_are_promoted_at_every_stage() {
    if !pin_thread("hot_pages_of_slow_memory_are_promoted_at_every_stage") {
        return;
    }
    for stage in Stage::ALL {
        let stats = play_hot_pages(stage);
        assert!(stats.hint_faults > 20 && stats.armed >= stats.hint_faults, "{stage}: {stats}");
        assert!(stats.promoted >= 20, "{stage}: {stats}");
        assert_eq!(stats.candidates > 0, stage != Stage::Base, "{stage}: {stats}");
    }
}

#[test]
fn nothing_moves_where_moving_is_off() {
    let off = TieringOptions { promotion: false, demotion: false, ..options(Stage::Base) };
    let cache = tiered(64, 256, Stage::Base).tiering(off).build().unwrap();
    let contents = pattern_at(0, 600 * PAGE);
    let file = cache.open_store(Box::new(FaultyStore::with_contents(&contents))).unwrap();
    for now in 0..3 {
        (0..600).for_each(|index| drop(read_page(&file, index)));
        cache.tick(Millis(now * 100));
    }
    let stats = tiering(&cache);
    assert_eq!((stats.armed, stats.promoted, stats.demoted), (0, 0, 0), "{stats}");
    assert!(cache.stats().evictions > 0);
    cache.validate();
}

#[test]
fn a_page_from_the_compressed_tier_is_not_read_again() {
    let builder = PageCache::builder().tier(Tier::dram(pages(32)));
    let builder = builder.tier(Tier::compressed(Bytes(1 << 20)));
    let cache = builder.background(false).readahead_max(Bytes(0)).build().unwrap();
    let contents = pattern_at(0, 200 * PAGE);
    let file = cache.open_store(Box::new(FaultyStore::with_contents(&contents))).unwrap();
    for round in 0..3 {
        for index in 0..200 {
            let offset = index * PAGE as u64;
            assert_eq!(read_page(&file, index), pattern_at(offset, PAGE), "round {round}");
        }
    }
    let stats = cache.stats();
    assert_eq!(stats.device_reads, 200, "each page is read from the store once");
    let pool = stats.tiering.expect("tiers").compressed.expect("a pool");
    assert!(pool.hits >= 300 && pool.used_bytes <= 1 << 20, "{pool:?}");
    assert!(pool.used_bytes < pool.nr_pages * PAGE as u64 / 2, "{pool:?}");
    cache.validate();
}

#[test]
fn pages_that_do_not_compress_are_not_kept() {
    let builder = PageCache::builder().tier(Tier::dram(pages(32)));
    let builder = builder.tier(Tier::compressed(Bytes(1 << 20)));
    let cache = builder.background(false).readahead_max(Bytes(0)).build().unwrap();
    let mut contents = vec![0; 100 * PAGE];
    for (index, page) in contents.chunks_exact_mut(PAGE).enumerate() {
        stamp(page, 1, index as u64, 1);
    }
    let file = cache.open_store(Box::new(FaultyStore::with_contents(&contents))).unwrap();
    for index in (0..100).chain(0..100) {
        assert_eq!(version_of(&read_page(&file, index), 1, index), Ok(1));
    }
    let pool = tiering(&cache).compressed.expect("a pool");
    assert_eq!((pool.nr_pages, pool.hits), (0, 0));
    assert!(pool.incompressible > 100, "{pool:?}");
}

#[test]
fn compressed_copies_of_a_file_that_changed_are_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let path = patterned_file(dir.path(), "file", 100 * PAGE);
    let builder = PageCache::builder().tier(Tier::dram(pages(32)));
    let builder = builder.tier(Tier::compressed(Bytes(1 << 20)));
    let cache = builder.background(false).readahead_max(Bytes(0)).build().unwrap();
    let open = || cache.open(&path, OpenOptions::new().read(true)).unwrap();
    let file = open();
    (0..100).for_each(|index| drop(read_page(&file, index)));
    assert!(tiering(&cache).compressed.expect("a pool").nr_pages > 50);
    std::fs::write(&path, vec![7; 100 * PAGE + 1]).unwrap();
    let file = open();
    for index in 0..100 {
        assert_eq!(read_page(&file, index), [7; PAGE], "page {index}");
    }
    // A removed mapping leaves nothing for the next one with its number.
    drop(file);
    cache.validate();
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Read(u64, u64),
    Write(u64, u64, u8),
    Guard(u64),
    GuardMut(u64, u8),
    SetLen(u64),
    Sync,
    DontNeed(u64, u64),
    WillNeed(u64, u64),
    Tick(u64),
}

const POLICIES: [PolicyName; 8] = [
    PolicyName::Lirs,
    PolicyName::Mglru,
    PolicyName::Mglru61,
    PolicyName::Mglru73,
    PolicyName::ActiveInactive,
    PolicyName::Pagetide,
    PolicyName::Lru,
    PolicyName::S3Fifo,
];

const FILE_MAX: u64 = 240 * PAGE as u64;

fn op() -> impl Strategy<Value = Op> {
    let offset = || 0..FILE_MAX;
    let len = || prop_oneof![1..100_u64, Just(PAGE as u64), 1..20_000_u64];
    prop_oneof![
        8 => (offset(), len()).prop_map(|(offset, len)| Op::Read(offset, len)),
        6 => (offset(), len(), any::<u8>())
            .prop_map(|(offset, len, byte)| Op::Write(offset, len, byte)),
        4 => (0..240_u64).prop_map(Op::Guard),
        2 => (0..240_u64, any::<u8>()).prop_map(|(index, byte)| Op::GuardMut(index, byte)),
        1 => prop_oneof![offset(), (0..240_u64).prop_map(|index| index * PAGE as u64)]
            .prop_map(Op::SetLen),
        1 => Just(Op::Sync),
        1 => (offset(), len()).prop_map(|(offset, len)| Op::DontNeed(offset, len)),
        1 => (offset(), len()).prop_map(|(offset, len)| Op::WillNeed(offset, len)),
        6 => (1..60_u64).prop_map(Op::Tick),
    ]
}

fn apply(op: Op, cache: &PageCache, file: &File, model: &mut Vec<u8>, now: &mut u64) {
    let end = |offset: u64, len: u64| (offset + len).min(model.len() as u64) as usize;
    match op {
        Op::Read(offset, len) => {
            let mut bytes = vec![0; len as usize];
            let nr_bytes = file.read_at(&mut bytes, offset).unwrap();
            let start = (offset as usize).min(model.len());
            assert_eq!(bytes[..nr_bytes], model[start..end(offset, len).max(start)]);
        }
        Op::Write(offset, len, byte) => {
            // Partly compressible.
            let bytes: Vec<u8> = (0..len).map(|at| byte.wrapping_add((at / 3) as u8)).collect();
            file.write_at(&bytes, offset).unwrap();
            let end = (offset + len) as usize;
            model.resize(model.len().max(end), 0);
            model[offset as usize..end].copy_from_slice(&bytes);
        }
        Op::Guard(index) => {
            let start = index as usize * PAGE;
            match file.page(index) {
                Ok(page) => assert_eq!(page[..], model[start..(start + PAGE).min(model.len())]),
                Err(_) => assert!(start >= model.len(), "page {index} is in the file"),
            }
        }
        Op::GuardMut(index, byte) => {
            if let Ok(mut page) = file.page_mut(index) {
                page[0] = byte;
                model[index as usize * PAGE] = byte;
            }
        }
        Op::SetLen(len) => {
            file.set_len(len).unwrap();
            model.resize(len as usize, 0);
        }
        Op::Sync => file.sync_data().unwrap(),
        Op::DontNeed(offset, len) => file.advise(Advice::DontNeed, offset, len).unwrap(),
        Op::WillNeed(offset, len) => file.advise(Advice::WillNeed, offset, len).unwrap(),
        Op::Tick(millis) => {
            *now += millis;
            cache.tick(Millis(*now));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn bytes_are_those_of_a_plain_vector(
        ops in prop::collection::vec(op(), 1..300),
        nr_tiers in 1..4_usize,
        policy in prop::sample::select(&POLICIES[..]),
        stage in prop::sample::select(&Stage::ALL[..]),
        readahead in prop::sample::select(&[0, 64 << 10][..]),
    ) {
        let slower = Tier::emulated(pages(64), Duration::from_nanos(90));
        let tiers = [slow(48), Tier::compressed(Bytes(64 << 10)), slower];
        let builder = PageCache::builder().tier(Tier::dram(pages(16))).policy(policy);
        let builder = tiers[..nr_tiers].iter().fold(builder, |builder, tier| builder.tier(*tier));
        let builder = builder.tiering(options(stage)).background(false);
        let cache = builder.readahead_max(Bytes(readahead)).build().unwrap();
        let mut model = pattern_at(0, 100 * PAGE + 17);
        let store = FaultyStore::with_contents(&model);
        let file = cache.open_store(Box::new(store.clone())).unwrap();
        let mut now = 0;
        for op in ops {
            apply(op, &cache, &file, &mut model, &mut now);
            cache.validate();
        }
        file.sync_data().unwrap();
        prop_assert!(store.contents() == model, "what is stored is not what was written");
    }
}

#[test]
fn pages_stay_what_they_are_while_they_move() {
    let is_long = std::env::var_os("PAGETIDE_LONG").is_some_and(|value| value == "1");
    let time = Duration::from_secs(if is_long { 60 } else { 2 });
    let _watchdog = Watchdog::of_a_run(time);
    let until = Instant::now() + time;
    let nr_pages = 400;
    let builder = PageCache::builder().tier(Tier::dram(pages(64))).tier(slow(160));
    let builder = builder.tier(Tier::compressed(Bytes(128 << 10))).tiering(options(Stage::Base));
    let cache = builder.build().unwrap();
    let file = cache.open_store(Box::new(FaultyStore::with_contents(&vec![0; nr_pages * PAGE])));
    let file = file.unwrap();
    let have_moved = || {
        let stats = tiering(&cache);
        stats.promoted > 10 && stats.demoted > 10
    };
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let (file, have_moved) = (file.clone(), &have_moved);
            scope.spawn(move || {
                let (mut random, mut version) = (Random::new(thread), 0);
                let mut page = vec![0; PAGE];
                while Instant::now() < until || !have_moved() {
                    // Each thread writes pages of its own, and knows their versions.
                    version += 1;
                    let hot = random.below(60) * 3 + thread;
                    stamp(&mut page, 1, hot, version);
                    file.write_at(&page, hot * PAGE as u64).unwrap();
                    for _ in 0..20 {
                        let index = random.below(nr_pages as u64);
                        version_of(&read_page(&file, index), 1, index).unwrap();
                        if let Ok(page) = file.page(random.below(180)) {
                            assert_eq!(page.len(), PAGE);
                        }
                    }
                    assert_eq!(version_of(&read_page(&file, hot), 1, hot), Ok(version));
                }
            });
        }
    });
    file.sync_data().unwrap();
}

#[test]
fn tiers_that_make_no_cache_are_refused() {
    let refused = |builder: Builder| match builder.build() {
        Err(BuildError::Tiers(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let tiers = || tiered(32, 64, Stage::default());
    assert_eq!(
        refused(tiers().memory(Bytes(1 << 20))),
        "a memory limit of 1M and tiers were both given: leave one of them out"
    );
    assert!(refused(PageCache::builder().tier(slow(64))).contains("no tier is fast"));
    assert!(refused(tiered(65, 64, Stage::Base)).contains("at least as large"));
    assert!(refused(tiers().tier(Tier::numa(999, pages(64)))).contains("no memory node 999"));
}

#[test]
fn tiering_is_set_by_name_as_everything_else() {
    let named = |name: &str, text: &str| tiered(64, 256, Stage::Base).set(name, text);
    let nr_armed = |builder: Builder| {
        let cache = builder.build().unwrap();
        let file = cache.open_store(Box::new(FaultyStore::with_contents(&[1; 200 * PAGE])));
        let file = file.unwrap();
        (0..200).for_each(|index| drop(read_page(&file, index)));
        (0..900).for_each(|now| cache.tick(Millis(now)));
        tiering(&cache).armed
    };
    assert!(nr_armed(tiered(64, 256, Stage::Base)) > 0);
    assert_eq!(nr_armed(named("tier_scan_delay_ms", "1000").unwrap()), 0);
    assert_eq!(
        named("tier_hot_threshold_ms", "7").unwrap_err().to_string(),
        "knob tier_hot_threshold_ms is 7, outside 8 to 4294967295"
    );
    assert_eq!(
        named("tier_scan_period_min_ms", "41").unwrap().build().unwrap_err().to_string(),
        "scan periods from 41 to 40 ms: the least is 1 ms, and the maximum not below it"
    );
}

#[test]
fn a_tiers_report_says_where_pages_are() {
    if !pin_thread("a_tiers_report_says_where_pages_are") {
        return;
    }
    let text = play_hot_pages(Stage::AutoThreshold).to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("dram=256K: ") && lines[0].ends_with(" accesses served"),
        "{text}"
    );
    assert!(lines[1].starts_with("slow=1M,latency=50ns: "), "{text}");
    assert!(lines[2].starts_with("moved: ") && lines[3].contains("hot within"), "{text}");
}
