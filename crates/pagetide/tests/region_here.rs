//! Faults on the accessing thread allocate nothing. A separate binary, as it watches the allocator.

mod common;

use common::pages::Random;
use common::regions::{load, region, store};
use common::watchdog::Watchdog;
use pagetide::{Bytes, FaultDelivery, PageCache, PolicyName, Region, RegionOptions};
use pagetide_core::ids::{FrameId, PageIndex};
use pagetide_sys::{
    ArenaOptions, FaultWatch, FrameArena, FrameLender, PageTable, RegionMemory, Served,
    serve_faults,
};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

#[global_allocator]
static ALLOCATOR: FaultWatch = FaultWatch::new();

const NR_PAGES: u64 = 2048;

/// Loads and stores at random in two threads, and checks each word.
fn use_pages(region: &Region, nr_rounds: u64) {
    std::thread::scope(|scope| {
        for nth in 0..2 {
            scope.spawn(move || {
                let mut random = Random::new(nth + 1);
                let mut model = vec![0; NR_PAGES as usize];
                for round in 1..nr_rounds {
                    // Each thread has pages of its own.
                    let page = (random.below(NR_PAGES / 2) * 2 + nth) as usize;
                    assert_eq!(load(region, page), model[page], "page {page}, round {round}");
                    if random.below(3) == 0 {
                        store(region, page, round);
                        model[page] = round;
                    }
                }
            });
        }
    });
}

/// Clean pages are evicted without the helper.
fn load_pages(region: &Region) {
    let mut random = Random::new(7);
    (0..4 * NR_PAGES).for_each(|_| assert_eq!(load(region, random.below(NR_PAGES) as usize), 0));
    let stats = region.stats();
    assert!(stats.missing_faults > 2 * NR_PAGES, "{stats:?}");
    assert!(stats.helped_faults < stats.missing_faults / 8, "{stats:?}");
}

/// Checks that an allocating fault is detected. Called by the only test that counts.
fn check_the_watch() {
    let arena = FrameArena::reserve(1, ArenaOptions::default()).expect("a frame");
    let Ok(lender) = FrameLender::new(&Arc::new(arena)) else { return };
    let memory = RegionMemory::new(1, &Arc::new(lender), FaultDelivery::Signal).expect("a region");
    let memory = Arc::new(memory);
    let table = PageTable::over_region(Arc::clone(&memory));
    let serve = move |_fault| {
        let mut page = table.page_or_make(PageIndex(0)).expect("there is one").lock();
        page.install(table.arena().claim(FrameId(0)).expect("free"));
        page.fill_zero(0..4096);
        page.map_user(true).expect("mapped");
        Served::Yes
    };
    let _registration = serve_faults(&memory, Arc::new(serve));
    let before = ALLOCATOR.nr_calls_in_faults();
    memory.words()[0].store(1, Relaxed);
    assert!(ALLOCATOR.nr_calls_in_faults() > before, "a leaf of the table was made");
}

/// Handlers run on the thread's own stack.
#[test]
fn a_thread_with_a_small_stack_touches_pages() {
    let _watchdog = Watchdog::new();
    let cache = PageCache::builder().memory(Bytes::from_pages(256)).build().expect("a cache");
    let options = RegionOptions::anonymous(Bytes::from_pages(1024));
    let Some(region) = region("a_thread_with_a_small_stack", &cache, options) else { return };
    std::thread::scope(|scope| {
        let small = std::thread::Builder::new().stack_size(64 << 10);
        let touch = || (0..3000).for_each(|nth| store(&region, nth % 1024, nth as u64));
        small.spawn_scoped(scope, touch).expect("a thread");
    });
    assert_eq!(load(&region, 3), 2051);
}

#[test]
fn no_fault_of_a_thread_allocates() {
    let _watchdog = Watchdog::new();
    check_the_watch();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    for &policy in PolicyName::ALL {
        // The policy and the store are independent.
        let beneath = if policy == PolicyName::default() { &[false, true][..] } else { &[false] };
        for &over_file in beneath {
            let memory = Bytes::from_pages(NR_PAGES / 4);
            let cache = PageCache::builder().memory(memory).policy(policy).build();
            let cache = cache.expect("a cache");
            fs::write(&path, vec![0; NR_PAGES as usize * 4096]).expect("a file");
            let options = match over_file {
                true => RegionOptions::over(&path),
                false => RegionOptions::anonymous(Bytes::from_pages(NR_PAGES)),
            };
            let Some(region) = region("no_fault_of_a_thread_allocates", &cache, options) else {
                return;
            };
            assert_eq!(region.stats().delivery, FaultDelivery::Signal);
            let before = ALLOCATOR.nr_calls_in_faults();
            if over_file {
                load_pages(&region);
            }
            use_pages(&region, 2000);
            let stats = region.stats();
            assert!(stats.missing_faults > 1000 && stats.failed_faults == 0, "{stats:?}");
            let nr = ALLOCATOR.nr_calls_in_faults() - before;
            assert_eq!(nr, 0, "{policy}, over a file: {over_file}");
        }
    }
}
