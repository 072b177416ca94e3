//! Tests of a region's internals.

use super::*;
use crate::api::cache::{OpenOptions, PageCache};
use crate::memory::store::Store;
use pagetide_core::folio::Flags;
use pagetide_core::units::{Bytes, PAGE_BYTES as PAGE};
use std::fs;
use std::os::unix::fs::FileExt;

#[expect(dead_code, reason = "only the generator is needed here")]
#[path = "../../tests/common/pages.rs"]
mod pages;

/// Maximum number of duplicate pages a thread makes during one system call: docs/regions.md.
const TWICE_MAX: u64 = 32;

/// Returns the maximum of resident bytes during accesses to a region and a file, both larger than
/// memory.
fn most_resident_bytes(name: &str, nr_frames: u64, background: bool) -> Option<u64> {
    let builder = PageCache::builder().memory(Bytes(nr_frames << 12)).huge_pages(false);
    let cache = builder.background(background).build().expect("a cache");
    let nr_pages = nr_frames * 8;
    let region = match cache.region(RegionOptions::anonymous(Bytes(nr_pages << 12))) {
        Ok(region) => region,
        Err(error) => {
            eprintln!("SKIPPED: {name}: {error}");
            return None;
        }
    };
    let file = tempfile::NamedTempFile::new().expect("a file");
    file.as_file().set_len(nr_pages / 2 * PAGE as u64).expect("a sparse file");
    let file = cache.open(file.path(), OpenOptions::new().read(true)).expect("opened");
    let mut random = pages::Random::new(3);
    let mut below = |end: u64| random.below(end) as usize;
    let mut most = 0;
    for step in 0..(nr_pages * 4).min(1 << 14) {
        match below(3) {
            0 => region.words()[below(nr_pages) * 512].store(step, Relaxed),
            1 => assert!(region.words()[below(nr_pages) * 512].load(Relaxed) <= step),
            _ => {
                let mut bytes = [0; 8];
                let offset = (below(nr_pages / 2) * PAGE) as u64;
                file.read_at(&mut bytes, offset).expect("read");
            }
        }
        if step % (nr_frames / 128) == 0 {
            let in_frames = cache.shared.engine.pages.arena.count_resident_bytes();
            most = most.max(in_frames + region.memory.count_mapped_bytes());
        }
    }
    if !background {
        cache.validate();
    }
    Some(most)
}

fn check_limit(name: &str, nr_frames: u64) {
    let Some(most) = most_resident_bytes(name, nr_frames, false) else { return };
    assert!(most <= nr_frames << 12, "{most} bytes");
    assert!(most > (nr_frames << 12) / 2, "{most} bytes: the test looks at nothing");
}

#[test]
fn the_limit_holds_at_every_moment() {
    check_limit("the_limit_holds_at_every_moment", 256);
}

/// This memory size allows duplicate mappings.
#[test]
fn the_limit_holds_for_pages_that_are_in_memory_twice() {
    check_limit("the_limit_holds_for_pages_that_are_in_memory_twice", 2048);
}

/// Duplicates left by returning pages are freed in batches, and at the end.
#[test]
fn pages_that_come_back_are_in_memory_twice_until_others_do_or_the_region_ends() {
    let cache = PageCache::builder().memory(Bytes(2048 << 12)).background(false).build();
    let cache = cache.expect("a cache");
    let region = match cache.region(RegionOptions::anonymous(Bytes(64 << 12))) {
        Ok(region) => region,
        Err(error) => return eprintln!("SKIPPED: pages_that_come_back: {error}"),
    };
    let arena = &cache.shared.engine.pages.arena;
    let word = |page: u64| &region.words()[page as usize * 512];
    (0..64).for_each(|page| word(page).store(page + 1, Relaxed));
    for nr in 1..=20 {
        let page = region.mapping.table.page(PageIndex(nr)).expect("touched");
        page.lock().unmap_user();
        assert_eq!(word(nr).load(Relaxed), nr + 1);
        // Eight are set aside, and the ninth frees them. The helper's page 0 counts as well.
        assert_eq!(arena.count_resident_bytes() >> 12, nr % 8 + 1);
        word(nr).store(nr + 2, Relaxed);
    }
    for nr in 1..=20 {
        region.mapping.table.page(PageIndex(nr)).expect("touched").lock().unmap_user();
        assert_eq!(word(nr).load(Relaxed), nr + 2, "what was left behind is old");
    }
    cache.validate();
    drop(region);
    cache.validate();
}

/// Two threads unmap pages concurrently.
#[test]
fn the_limit_holds_but_for_pages_that_are_on_their_way() {
    const NAME: &str = "the_limit_holds_but_for_pages_that_are_on_their_way";
    const NR_FRAMES: u64 = 256;
    let Some(most) = most_resident_bytes(NAME, NR_FRAMES, true) else { return };
    assert!(most <= (NR_FRAMES + 2 * TWICE_MAX) << 12, "{most} bytes");
}

#[test]
fn a_page_that_is_dirty_already_is_loaded_and_stored_to_by_one_fault() {
    let cache = PageCache::builder().memory(Bytes(64 << 12)).build().expect("a cache");
    let region = match cache.region(RegionOptions::anonymous(Bytes(8 << 12))) {
        Ok(region) => region,
        Err(error) => return eprintln!("SKIPPED: a_page_that_is_dirty_already: {error}"),
    };
    let word = |page: usize| &region.words()[page * 512];
    let take_out = |page: u64| {
        region.mapping.table.page(PageIndex(page)).expect("touched").lock().unmap_user();
    };
    word(1).store(7, Relaxed);
    assert_eq!(word(2).load(Relaxed), 0);
    [1, 2].into_iter().for_each(take_out);
    assert_eq!([1, 2].map(|page| word(page).load(Relaxed)), [7, 0]);
    assert_eq!((region.stats().minor_faults, region.stats().wp_faults), (2, 0));
    word(1).store(8, Relaxed);
    assert_eq!(region.stats().wp_faults, 0, "it was dirty");
    word(2).store(9, Relaxed);
    assert_eq!(region.stats().wp_faults, 1, "it becomes dirty");
}

#[test]
fn write_back_for_room_begins_with_what_reclaim_has_met() {
    let builder = PageCache::builder().memory(Bytes(64 << 12)).background(false);
    let cache = builder.build().expect("a cache");
    let region = match cache.region(RegionOptions::anonymous(Bytes(16 << 12))) {
        Ok(region) => region,
        Err(error) => return eprintln!("SKIPPED: write_back_for_room: {error}"),
    };
    // Page 5 is the neighbour of 4.
    let dirty = [0, 2, 4, 5, 7];
    dirty.iter().for_each(|page| region.words()[page * 512].store(1, Relaxed));
    let (engine, mapping) = (&cache.shared.engine, &region.mapping);
    let met = mapping.table.page(PageIndex(4)).and_then(|page| page.load().frame());
    engine.pages.folios[met.expect("resident")].set(Flags::RECLAIM);
    let stored_after = |nr_written| {
        assert_eq!(engine.flusher.flush_for_room().nr_written, nr_written);
        let swap = mapping.swap.as_ref().expect("anonymous");
        dirty.into_iter().filter(|page| swap.is_stored(*page as u64)).collect::<Vec<_>>()
    };
    assert_eq!(stored_after(2), [4, 5]);
    assert_eq!(stored_after(3), dirty);
}

/// A store that rejects all writes.
struct Full;

impl Store for Full {
    fn read_at(&self, _target: &mut [u8], _offset: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write_at(&self, _source: &[u8], _offset: u64) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(256 << 12)
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }
}

/// Through a handler thread, as the accessing thread gets a signal.
#[test]
fn a_fault_for_which_nothing_can_leave_memory_ends_and_is_counted() {
    const NAME: &str = "a_fault_for_which_nothing_can_leave_memory_ends_and_is_counted";
    for background in [true, false] {
        let builder = PageCache::builder().memory(Bytes(64 << 12)).background(background);
        let cache = builder.build().expect("a cache");
        let options = RegionOptions::anonymous(Bytes(256 << 12)).swap_to(Box::new(Full));
        let region = match cache.region(options) {
            Ok(region) => region,
            Err(error) => return eprintln!("SKIPPED: {NAME}: {error}"),
        };
        let serve = |index: u64| {
            let _ = {
                let engine = &cache.shared.engine;
                region.faults.serve(engine, &region.mapping, index, Some(true), |_| {})
            };
            region.stats().failed_faults
        };
        let failed = (0..256).find(|index| serve(*index) > 0).expect("there is no room for all");
        assert!((16..=64).contains(&failed), "page {failed} of 64 frames");
        let told = region.sync().expect_err("nothing can leave");
        let SyncError::Writeback(source) = told else { panic!("{told:?}") };
        assert!(source.to_string().contains("the store it swaps to failed"), "{source}");
    }
}

fn movable_region(
    test: &str,
    nr_frames: u64,
    bytes: Vec<u8>,
) -> Option<(PageCache, tempfile::NamedTempFile, Region)> {
    let cache = PageCache::builder().memory(Bytes(nr_frames << 12)).background(false);
    let cache = cache.build().expect("a cache");
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), bytes).expect("filled");
    match cache.region(RegionOptions::over(file.path())) {
        Ok(region) if region.memory.nr_blocks() > 0 => return Some((cache, file, region)),
        Ok(_) => eprintln!("SKIPPED: {test}: pages do not move"),
        Err(error) => eprintln!("SKIPPED: {test}: {error}"),
    }
    None
}

fn blocks_of(region: &Region) -> huge::Blocks {
    huge::Blocks {
        engine: Arc::clone(&region.shared.engine),
        memory: Arc::clone(&region.memory),
        mapping: Arc::clone(&region.mapping),
    }
}

/// Stores to a huge block are written back, within the limit.
#[test]
fn blocks_that_are_made_huge_stay_within_the_limit_and_are_written_back() {
    const NR_PAGES: usize = 1536;
    let made = movable_region("blocks_that_are_made_huge", 2560, vec![1; NR_PAGES * PAGE]);
    let Some((cache, file, region)) = made else { return };
    let word = |page: usize| &region.words()[page * 512];
    (0..NR_PAGES).for_each(|page| _ = word(page).load(Relaxed));
    let blocks = blocks_of(&region);
    let could = |block| region.memory.could_be_huge(block);
    assert!((0..3).all(could), "all of it is mapped");
    assert!((0..3).all(|block| blocks.make(block)));
    assert!(!(0..3).any(could), "it was asked for");
    let count = || {
        let arena = cache.shared.engine.pages.arena.count_resident_bytes();
        (arena + region.memory.count_mapped_bytes()) / PAGE as u64
    };
    assert!(count() <= 2560, "{} pages", count());
    [3, 600, 1535].into_iter().for_each(|page| word(page).store(7, Relaxed));
    region.sync().expect("written back");
    let bytes = fs::read(file.path()).expect("read");
    let changed: Vec<_> = (0..NR_PAGES).filter(|page| bytes[page * PAGE] != 1).collect();
    assert_eq!(changed, [3, 600, 1535]);
    region.advise(Advice::DontNeed, 0, 0).expect("let go");
    assert_eq!(region.memory.count_mapped_bytes(), 0);
    let sum: u64 = (0..NR_PAGES).map(|page| word(page).load(Relaxed) & 0xff).sum();
    assert_eq!(sum, NR_PAGES as u64 + 18);
    // Without a free block, none is made.
    assert!((0..3).all(could));
    cache.resize(Bytes(1800 << 12)).expect("smaller");
    assert!(!blocks.make(0));
}

/// A store during the collapse of its block is synced, although no fault reports it.
#[test]
fn what_is_stored_while_a_block_is_made_huge_is_on_the_disk_after_a_sync() {
    const NR_PAGES: usize = 512;
    let made = movable_region("what_is_stored_while", 1536, vec![0; NR_PAGES * PAGE]);
    let Some((_cache, file, region)) = made else { return };
    let word = |page: usize| &region.words()[page * 512];
    let blocks = blocks_of(&region);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                (0..NR_PAGES).for_each(|page| _ = word(page).load(Relaxed));
                blocks.make(0);
                region.mapping.table.page(PageIndex(0)).expect("mapped").lock().unmap_user();
            }
        });
        for round in 1..=300_u64 {
            let page = round as usize * 7 % (NR_PAGES - 1) + 1;
            word(page).store(round, Relaxed);
            region.sync().expect("written back");
            let mut stored = [0; 8];
            file.as_file().read_exact_at(&mut stored, (page * PAGE) as u64).expect("read");
            if stored != round.to_ne_bytes() {
                is_over.store(true, Relaxed);
                panic!("round {round}: {stored:?}");
            }
        }
        is_over.store(true, Relaxed);
    });
}

/// Returns a cache of 16 MiB and a region of as many bytes, with faults as messages or signals.
fn region_of(test: &str, by_messages: bool, options: RegionOptions) -> Option<(PageCache, Region)> {
    let cache = PageCache::builder().memory(Bytes(16 << 20)).huge_pages(false);
    let cache = cache.set("dirty", "90").expect("a knob").build().expect("a cache");
    let options = if by_messages { options.handlers(2) } else { options };
    match cache.region(options) {
        Ok(region) => Some((cache, region)),
        Err(error) => {
            eprintln!("SKIPPED: {test}: {error}");
            None
        }
    }
}

/// Threads that serve faults map pages ahead of loads and of stores, as the accessing thread does.
#[test]
fn passes_over_a_region_cost_few_faults() {
    const NR_PAGES: u64 = 1024;
    let file = tempfile::NamedTempFile::new().expect("a file");
    for by_messages in [true, false] {
        fs::write(file.path(), vec![7; NR_PAGES as usize * PAGE]).expect("filled");
        let over = || RegionOptions::over(file.path());
        let zeros = || RegionOptions::anonymous(Bytes(NR_PAGES << PAGE_SHIFT));
        for (is_write, options) in [(false, over()), (true, over()), (true, zeros())] {
            let name = "passes_over_a_region_cost_few_faults";
            let Some((_cache, region)) = region_of(name, by_messages, options) else { return };
            let pass = |value: u64| {
                let before = region.stats();
                for page in 0..NR_PAGES as usize {
                    let word = &region.words()[page * 512];
                    match is_write {
                        true => word.store(value, Relaxed),
                        false => assert_eq!(word.load(Relaxed), 0x0707_0707_0707_0707),
                    }
                }
                let after = region.stats();
                after.missing_faults + after.minor_faults + after.wp_faults
                    - (before.missing_faults + before.minor_faults + before.wp_faults)
            };
            let nr_faults = pass(1);
            assert!(nr_faults <= NR_PAGES / 4, "{nr_faults}, {by_messages}, {is_write}");
            if is_write {
                // Written back, and so protected.
                region.sync().expect("written");
                let nr_faults = pass(2);
                assert!(nr_faults <= NR_PAGES / 8, "{nr_faults} again, {by_messages}");
                assert!(
                    (0..NR_PAGES as usize)
                        .all(|page| region.words()[page * 512].load(Relaxed) == 2)
                );
            }
        }
    }
    assert_eq!(fs::read(file.path()).expect("read")[..8], 2_u64.to_ne_bytes());
}

#[test]
fn a_failed_access_is_reported_before_it_ends() {
    let reported = Arc::new(std::sync::Mutex::new(String::new()));
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), vec![7; 4 * PAGE]).expect("filled");
    let told = Arc::clone(&reported);
    let options = RegionOptions::over(file.path())
        .on_failure(move |error| *told.lock().expect("no panic") = error.to_string());
    let name = "a_failed_access_is_reported_before_it_ends";
    let Some((cache, region)) = region_of(name, true, options) else { return };
    file.as_file().set_len(PAGE as u64 + 1).expect("cut");
    let serve = |index| {
        let engine = &cache.shared.engine;
        region.faults.serve(engine, &region.mapping, index, Some(false), |_| {})
    };
    assert_eq!([0, 1].map(serve), [Served::Yes; 2]);
    assert_eq!(serve(2), Served::No);
    let told = reported.lock().expect("no panic").clone();
    assert!(told.contains("has shrunk to 4097 bytes"), "{told}");
    let SyncError::Store(source) = region.sync().expect_err("it has shrunk") else { panic!() };
    assert_eq!(source.kind(), io::ErrorKind::UnexpectedEof);
}

/// Pages past the end are dropped, as the kernel drops them, and the file stays short.
#[test]
fn write_back_does_not_grow_a_file_that_has_shrunk() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), vec![7; 8 * PAGE]).expect("filled");
    let name = "write_back_does_not_grow_a_file_that_has_shrunk";
    let options = RegionOptions::over(file.path());
    let Some((cache, region)) = region_of(name, true, options) else { return };
    region.write(0, &vec![8; 8 * PAGE]).expect("stored");
    file.as_file().set_len(5000).expect("cut");
    region.sync().expect_err("it has shrunk");
    cache.flush_all().expect("nothing is left to write");
    drop(region);
    assert_eq!(fs::read(file.path()).expect("read"), vec![8; 5000]);
}

#[test]
fn regions_of_one_file_may_be_read_beside_each_other_and_not_written() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), [7; PAGE]).expect("filled");
    let read_only = || RegionOptions::over(file.path()).read_only();
    let name = "regions_of_one_file_may_be_read_beside_each_other_and_not_written";
    let Some((cache, first)) = region_of(name, true, read_only()) else { return };
    file.as_file().set_len(3 * PAGE as u64).expect("grown");
    let second = cache.region(read_only()).expect("both only read");
    assert_eq!((first.len(), second.len()), (PAGE as u64, 3 * PAGE as u64));
    let write = || cache.region(RegionOptions::over(file.path()));
    let written = write();
    assert!(matches!(written, Err(CreateRegionError::InUse { .. })), "{written:?}");
    drop(second);
    let written = write();
    assert!(matches!(written, Err(CreateRegionError::InUse { .. })), "the first: {written:?}");
    let opened = cache.open(file.path(), OpenOptions::new());
    assert!(opened.is_err(), "the first has the file: {opened:?}");
    drop(first);
    let _written = cache.region(RegionOptions::over(file.path())).expect("no reader is left");
    let read = cache.region(read_only());
    assert!(matches!(read, Err(CreateRegionError::InUse { .. })), "{read:?}");
}
