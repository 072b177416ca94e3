//! Regions over a real kernel: contents, limit, eviction.

mod common;

use common::pages::Random;
use common::regions::{WORDS, load, region, store};
use common::watchdog::Watchdog;
use common::{PAGE, pattern_at, patterned_file};
use pagetide::{
    Advice, Bytes, CreateRegionError, FaultDelivery, OpenError, OpenOptions, PageCache, ReadError,
    Region, RegionOptions,
};
use std::fs;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

fn cache_of(nr_frames: u64) -> PageCache {
    PageCache::builder().memory(Bytes(nr_frames << 12)).build().expect("a cache")
}

fn zeros(test: &str, cache: &PageCache, nr_pages: u64) -> Option<Region> {
    region(test, cache, RegionOptions::anonymous(Bytes(nr_pages << 12)))
}

#[test]
fn a_region_four_times_the_memory_keeps_what_is_stored() {
    let cache = cache_of(256);
    let Some(region) = zeros("a_region_four_times_the_memory", &cache, 1024) else { return };
    let mut random = Random::new(7);
    let mut model = vec![0; 1024 * WORDS];
    for step in 0..20_000_u64 {
        let at = random.below(model.len() as u64) as usize;
        if random.below(2) == 0 {
            region.words()[at].store(step, Relaxed);
            model[at] = step;
        } else {
            assert_eq!(region.words()[at].load(Relaxed), model[at], "word {at} at step {step}");
        }
    }
    let wrong = (0..model.len()).find(|at| region.words()[*at].load(Relaxed) != model[*at]);
    assert_eq!(wrong, None);
    let (stats, of_cache) = (region.stats(), cache.stats());
    assert!(stats.missing_faults > 1024, "{stats:?}");
    assert!(stats.wp_faults > 0 && stats.failed_faults == 0, "{stats:?}");
    assert!(of_cache.evictions > 0 && of_cache.device_writes > 0, "{of_cache:?}");
    let counted = of_cache.vmstat.iter().find(|(name, _)| *name == "region_missing_faults");
    assert_eq!(counted, Some(&("region_missing_faults", stats.missing_faults)));
}

/// Over files and over swap, with threads and without: more rows than memory holds, across pages,
/// partly changed.
#[test]
fn rows_that_are_gathered_are_what_loads_find() {
    const NR_PAGES: u64 = 512;
    const ROW: usize = 100;
    let folder = tempfile::tempdir().expect("a folder");
    let file = patterned_file(folder.path(), "rows", NR_PAGES as usize * PAGE);
    for background in [true, false] {
        let cache = PageCache::builder().memory(Bytes(128 << 12)).background(background).build();
        let cache = cache.expect("a cache");
        let over_file = RegionOptions::over(&file);
        for options in [over_file, RegionOptions::anonymous(Bytes(NR_PAGES << 12))] {
            let Some(region) = region("rows_that_are_gathered", &cache, options) else { return };
            let mut random = Random::new(3);
            for page in 0..256 {
                store(&region, page * 2, page as u64);
            }
            let last = NR_PAGES * PAGE as u64 - ROW as u64;
            let offsets: Vec<u64> = (0..2000).map(|_| random.below(last + 1)).collect();
            let mut rows = vec![0; offsets.len() * ROW];
            let nr_read = region.gather(&offsets, &mut rows).expect("gathered");
            assert!(nr_read > 0, "nothing was read together");
            for (offset, row) in offsets.iter().zip(rows.chunks(ROW)) {
                let mut expected = [0; ROW];
                region.read(*offset, &mut expected).expect("read");
                assert!(row == expected, "the row at {offset}");
            }
            let past = region.gather(&[0, last + 1], &mut rows[..2 * ROW]);
            assert!(matches!(past, Err(ReadError::PastEnd { .. })), "{past:?}");
            assert_eq!(region.gather(&[], &mut rows).expect("nothing"), 0);
        }
        if !background {
            cache.validate();
        }
    }
}

/// Two threads count in pages of their own and in a common page, and check each other, with memory
/// for a quarter.
#[test]
fn eviction_under_writers_loses_nothing() {
    const NR_PAGES: usize = 512;
    let cache = cache_of(128);
    let Some(region) = zeros("eviction_under_writers", &cache, NR_PAGES as u64) else { return };
    let long = std::env::var_os("PAGETIDE_LONG").is_some_and(|value| value == "1");
    let time = Duration::from_secs(if long { 60 } else { 2 });
    let _watchdog = Watchdog::of_a_run(time);
    let until = Instant::now() + time;
    let count = |thread: usize| {
        let mut counts = vec![0_u64; NR_PAGES];
        let mut random = Random::new(thread as u64 + 1);
        // Runs until enough was evicted: machine or disk may be slow.
        while Instant::now() < until || cache.stats().evictions <= 100 {
            let page = random.below(NR_PAGES as u64) as usize;
            let word = &region.words()[page * WORDS + thread];
            assert_eq!(word.load(Relaxed), counts[page], "thread {thread}, page {page}");
            counts[page] += 1;
            word.store(counts[page], Relaxed);
            region.words()[page * WORDS + 2].fetch_add(1, Relaxed);
        }
        counts
    };
    let counts = std::thread::scope(|scope| {
        let threads = [0, 1].map(|thread| scope.spawn(move || count(thread)));
        threads.map(|thread| thread.join().expect("no loss"))
    });
    let [firsts, seconds] = counts;
    for (page, (first, second)) in firsts.into_iter().zip(seconds).enumerate() {
        let words: [u64; 3] = [0, 1, 2].map(|nth| region.words()[page * WORDS + nth].load(Relaxed));
        assert_eq!(words, [first, second, first + second], "page {page}");
    }
}

#[test]
fn everything_agrees_after_a_run_without_threads() {
    let builder = PageCache::builder().memory(Bytes(128 << 12)).background(false);
    let cache = builder.build().expect("a cache");
    let Some(region) = zeros("everything_agrees", &cache, 512) else { return };
    let mut random = Random::new(11);
    for step in 0..5000 {
        match random.below(2) {
            0 => store(&region, random.below(512) as usize, step),
            _ => assert!(load(&region, random.below(512) as usize) <= step),
        }
        if step % 500 == 0 {
            // The user resumes just before the handler unlocks the page.
            region.read(0, &mut [0]).expect("read");
            settle(&region);
            cache.validate();
        }
    }
    drop(region);
    cache.validate();
    assert_eq!(cache.stats().resident_bytes, 0);
}

/// Waits until no handler has a page locked, by locking each page.
fn settle(region: &Region) {
    let mut byte = [0];
    (0..region.len()).step_by(PAGE).for_each(|at| region.read(at, &mut byte).expect("read"));
}

#[test]
fn reading_and_writing_by_copy_agree_with_loads_and_stores() {
    let cache = cache_of(64);
    let Some(region) = zeros("reading_and_writing_by_copy", &cache, 256) else { return };
    let bytes: Vec<u8> = (0..3 * PAGE + 100).map(|nth| nth as u8).collect();
    region.write(5 * PAGE as u64 - 8, &bytes).expect("written");
    assert_eq!(load(&region, 5), u64::from_ne_bytes(bytes[8..16].try_into().expect("8")));
    store(&region, 6, 42);
    let mut copy = vec![0; bytes.len()];
    region.read(5 * PAGE as u64 - 8, &mut copy).expect("read");
    assert_eq!(copy[PAGE + 8..PAGE + 16], 42_u64.to_ne_bytes());
    copy[PAGE + 8..PAGE + 16].copy_from_slice(&bytes[PAGE + 8..PAGE + 16]);
    assert_eq!(copy, bytes);
    let past = region.read(256 * PAGE as u64 - 1, &mut [0; 2]).expect_err("past the end");
    assert!(matches!(past, ReadError::PastEnd { .. }), "{past}");
    assert!(region.write(u64::MAX, b"x").is_err());
}

#[test]
fn populated_pages_are_loaded_from_without_a_fault() {
    let cache = cache_of(64);
    let Some(region) = zeros("populated_pages", &cache, 32) else { return };
    region.populate(4096..9 * 4096).expect("populated");
    let sum: u64 = (1..9).map(|page| load(&region, page)).sum();
    assert_eq!((sum, region.stats().missing_faults, region.stats().minor_faults), (0, 0, 0));
    assert_eq!(load(&region, 9), 0);
    assert_eq!(region.stats().missing_faults, 1);
    assert!(region.populate(0..33 * 4096).is_err());
    region.populate_for_writes(20 * 4096..22 * 4096).expect("populated");
    (20..22).for_each(|page| store(&region, page, 7));
    let stats = region.stats();
    assert_eq!((stats.missing_faults, stats.wp_faults), (1, 0));
    region.advise(Advice::DontNeed, 0, 0).expect("written back");
    assert_eq!((load(&region, 20), load(&region, 21)), (7, 7));
}

#[test]
fn pages_of_a_file_are_loaded_stored_and_synced() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    let words: Vec<u64> = (0..512 * WORDS as u64).collect();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    // The last page is partial.
    fs::write(&path, &bytes[..bytes.len() - 1000]).expect("a file");
    let cache = cache_of(128);
    let Some(over) = region("pages_of_a_file", &cache, RegionOptions::over(&path)) else { return };
    assert_eq!(over.len(), bytes.len() as u64 - 1000);
    let mut random = Random::new(5);
    let mut model = words;
    for step in 0..4000 {
        let at = random.below((model.len() - 125) as u64) as usize;
        if random.below(2) == 0 {
            over.words()[at].store(step, Relaxed);
            model[at] = step;
        } else {
            assert_eq!(over.words()[at].load(Relaxed), model[at]);
        }
    }
    over.sync().expect("synced");
    let expected: Vec<u8> = model.iter().flat_map(|word| word.to_ne_bytes()).collect();
    assert!(fs::read(&path).expect("read") == expected[..expected.len() - 1000]);
    let refused = cache.open(&path, OpenOptions::new().read(true)).expect_err("in a region");
    assert!(matches!(refused, OpenError::InRegion { .. }), "{refused}");
    // Stores after the sync are written when the region is dropped.
    store(&over, 3, 99);
    drop(over);
    let file = cache.open(&path, OpenOptions::new().read(true)).expect("opened");
    let mut word = [0; 8];
    file.read_at(&mut word, 3 * PAGE as u64).expect("read");
    assert_eq!(u64::from_ne_bytes(word), 99);
    let refused = cache.region(RegionOptions::over(&path)).expect_err("open as a file");
    assert!(matches!(refused, CreateRegionError::InUse { .. }), "{refused}");
    drop(file);
    let again = cache.region(RegionOptions::over(&path)).expect("a region");
    assert_eq!(load(&again, 3), 99);
}

#[test]
fn what_cannot_be_is_refused_with_a_sentence() {
    let cache = cache_of(64);
    for len in [0, u64::MAX >> 3] {
        let refused = cache.region(RegionOptions::anonymous(Bytes(len))).expect_err("refused");
        assert!(refused.to_string().contains("pages"), "{refused}");
    }
    let missing = cache.region(RegionOptions::over("/nowhere/file")).expect_err("missing");
    assert!(missing.to_string().contains("/nowhere/file"), "{missing}");
    let folder = RegionOptions::anonymous(Bytes(4096)).swap_in("/nowhere");
    let missing = cache.region(folder).expect_err("no such folder");
    assert!(missing.to_string().contains("/nowhere"), "{missing}");
    let shared = PageCache::builder().memory(Bytes(1 << 20)).shared(true).build().expect("a cache");
    let refused = shared.region(RegionOptions::anonymous(Bytes(4096))).expect_err("shared");
    assert!(matches!(refused, CreateRegionError::Shared), "{refused}");
}

/// A region takes only addresses, and its swap file only a length.
#[test]
fn a_region_of_more_than_the_machine_has_takes_what_is_touched() {
    const NAME: &str = "a_region_of_more_than_the_machine_has_takes_what_is_touched";
    let cache = cache_of(64);
    let nr_pages = machine_pages() + (8 << 18);
    let last = nr_pages as usize - 1;
    // Skips if regions are refused.
    let Some(_small) = zeros(NAME, &cache, 1) else { return };
    let before = resident_kib();
    let options = RegionOptions::anonymous(Bytes(nr_pages << 12));
    let region = cache.region(options).expect("a region of any length");
    for page in [0, last / 2, last] {
        store(&region, page, page as u64 + 1);
    }
    (1..200).for_each(|page| store(&region, page, 7));
    assert_eq!(
        [0, last / 2, last].map(|page| load(&region, page) as usize - 1),
        [0, last / 2, last]
    );
    let grown = resident_kib() - before;
    assert!(grown < 64 << 10, "{grown} KiB for 64 frames");

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sparse");
    let file = fs::File::create(&path).expect("a file");
    file.set_len(nr_pages << 12).expect("longer than memory");
    let over = cache.region(RegionOptions::over(&path)).expect("a region over a sparse file");
    assert_eq!(load(&over, last), 0);
    store(&over, last, 5);
    over.sync().expect("synced");
    assert_eq!((load(&over, last), load(&over, 0)), (5, 0));
}

fn machine_pages() -> u64 {
    let told = fs::read_to_string("/proc/meminfo").expect("meminfo");
    let kib = told.lines().find_map(|line| line.strip_prefix("MemTotal:")?.strip_suffix("kB"));
    kib.expect("a machine has memory").trim().parse::<u64>().expect("a number") / 4
}

/// Returns this process's resident memory, each page counted once.
fn resident_kib() -> i64 {
    let told = fs::read_to_string("/proc/self/smaps_rollup").expect("smaps_rollup");
    let kib = told.lines().find_map(|line| line.strip_prefix("Pss:")?.strip_suffix("kB"));
    kib.expect("counted").trim().parse().expect("a number")
}

/// Other users may list the folder, and may have created links with likely names.
#[test]
fn a_swap_file_has_no_name_and_is_its_owners_alone() {
    use std::os::unix::fs::{MetadataExt, symlink};
    let folder = tempfile::tempdir().expect("a folder");
    let victim = folder.path().join("victim");
    fs::write(&victim, b"keep").expect("written");
    for number in 0..100 {
        let name = format!(".pagetide-swap-{}-{number}", std::process::id());
        symlink(&victim, folder.path().join(name)).expect("a link");
    }
    let cache = cache_of(64);
    let options = RegionOptions::anonymous(Bytes(256 << 12)).swap_in(folder.path());
    let Some(_region) = region("a_swap_file_has_no_name", &cache, options) else { return };
    assert_eq!(fs::read(&victim).expect("read"), b"keep");
    let descriptors = fs::read_dir("/proc/self/fd").expect("descriptors");
    let modes: Vec<_> = descriptors
        .map(|entry| entry.expect("listed").path())
        .filter(|path| fs::read_link(path).is_ok_and(|at| at.starts_with(folder.path())))
        .map(|path| fs::metadata(path).expect("open"))
        .map(|found| (found.mode() & 0o777, found.nlink()))
        .collect();
    assert!(!modes.is_empty() && modes.iter().all(|mode| *mode == (0o600, 0)), "{modes:?}");
}

#[test]
fn a_fault_that_waits_for_a_frame_is_one_access() {
    const NAME: &str = "a_fault_that_waits_for_a_frame_is_one_access";
    let builder = PageCache::builder().memory(Bytes(32 << 12)).background(false);
    let cache = builder.readahead_max(Bytes(0)).build().expect("a cache");
    let Some(region) = zeros(NAME, &cache, 1) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file =
        cache.open(patterned_file(folder.path(), "file", 64 * PAGE), OpenOptions::new().read(true));
    let file = file.expect("opened");
    let pins: Vec<_> = (0..64).map_while(|index| file.page(index).ok()).collect();
    assert!(pins.len() >= 16, "{} pins", pins.len());
    let nr_misses = || cache.stats().misses;
    let nr_passes = || {
        cache.stats().vmstat.iter().find(|(name, _)| *name == "direct_passes").expect("counted").1
    };
    let _watchdog = Watchdog::new();
    let (misses, passes) = (nr_misses(), nr_passes());
    std::thread::scope(|scope| {
        let user = scope.spawn(|| load(&region, 0));
        while nr_passes() < passes + 20 {
            std::thread::yield_now();
        }
        drop(pins);
        assert_eq!(user.join().expect("served"), 0);
    });
    assert_eq!(nr_misses(), misses + 1);
}

#[test]
fn passes_over_a_region_are_read_ahead_and_give_what_the_file_has() {
    const NAME: &str = "passes_over_a_region_are_read_ahead_and_give_what_the_file_has";
    const NR_PAGES: usize = 1024;
    let folder = tempfile::tempdir().expect("a folder");
    let path = patterned_file(folder.path(), "file", NR_PAGES * PAGE);
    let expected = pattern_at(0, NR_PAGES * PAGE);
    let expected: Vec<u64> = expected
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")))
        .collect();
    let cache = cache_of(256);
    let Some(region) = region(NAME, &cache, RegionOptions::over(&path)) else { return };
    if region.stats().delivery == FaultDelivery::Message {
        return eprintln!("SKIPPED: {NAME}: faults are messages here, and are not read ahead of");
    }
    for pass in 0..3 {
        let found = region.words().iter().map(|word| word.load(Relaxed));
        assert!(found.eq(expected.iter().copied()), "pass {pass}");
    }
    let vmstat = cache.stats().vmstat;
    let nr_ahead = vmstat.iter().find(|(name, _)| *name == "readahead_pages").expect("counted").1;
    assert!(nr_ahead > 0, "{}", region.stats());
}

/// Skips loudly if faults are messages: no zeros ahead and no helper then.
fn is_told_by_signals(region: &Region, test: &str) -> bool {
    let is_by_signals = region.stats().delivery == FaultDelivery::Signal;
    if !is_by_signals {
        eprintln!("SKIPPED: {test}: faults are messages here");
    }
    is_by_signals
}

#[test]
fn stores_that_follow_each_other_meet_few_faults_and_are_kept() {
    const NAME: &str = "stores_that_follow_each_other_meet_few_faults_and_are_kept";
    const NR_PAGES: usize = 4096;
    let cache = cache_of(1024);
    let Some(region) = zeros(NAME, &cache, NR_PAGES as u64) else { return };
    if !is_told_by_signals(&region, NAME) {
        return;
    }
    let store = |page| store(&region, page, page as u64 + 1);
    (0..512).for_each(store);
    // The bound for this memory.
    assert!(region.stats().missing_faults < 128, "{}", region.stats());
    (512..NR_PAGES).for_each(store);
    for page in 0..NR_PAGES {
        let words = &region.words()[page * PAGE / 8..(page + 1) * PAGE / 8];
        let found: Vec<u64> = words.iter().map(|word| word.load(Relaxed)).collect();
        assert_eq!(found[0], page as u64 + 1, "page {page}");
        assert!(found[1..].iter().all(|word| *word == 0), "page {page}");
    }
}

#[test]
fn a_pass_of_stores_that_fit_has_the_helper_seldom() {
    const NAME: &str = "a_pass_of_stores_that_fit_has_the_helper_seldom";
    const NR_PAGES: usize = 8192;
    let cache = cache_of(10_000);
    let Some(region) = zeros(NAME, &cache, NR_PAGES as u64) else { return };
    if !is_told_by_signals(&region, NAME) {
        return;
    }
    (0..NR_PAGES).for_each(|page| store(&region, page, 1));
    // One for each 2 MiB would be 16.
    assert!(region.stats().helped_faults < 6, "{}", region.stats());
}
