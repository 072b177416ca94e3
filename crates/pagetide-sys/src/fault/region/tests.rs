//! Faults of a real kernel, served by a thread of the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use pagetide_core::ids::{FrameId, PageIndex};

use super::*;
use crate::fault::uffd::FaultKind;
use crate::{ArenaOptions, Claim, FrameArena, PageTable, UnmapBatch};

/// A region whose page `i` is filled with `i + 1` in frame `i` when it is touched.
struct Bench {
    region: Arc<RegionMemory>,
    table: Arc<PageTable>,
    faults: [AtomicU64; 3],
}

impl Bench {
    fn new(test: &str, nr_pages: u32) -> Option<Arc<Bench>> {
        let region = match RegionMemory::new(nr_pages.into()) {
            Ok(region) => Arc::new(region),
            Err(error) => {
                eprintln!("SKIPPED: {test}: {error}");
                return None;
            }
        };
        let arena = FrameArena::reserve(nr_pages, ArenaOptions::default()).expect("frames");
        let table = PageTable::over_region(Arc::new(arena), Arc::clone(&region));
        let faults = [const { AtomicU64::new(0) }; 3];
        Some(Arc::new(Bench { region, table: Arc::new(table), faults }))
    }

    /// Runs `user` beside a thread that serves its faults.
    fn run<T>(self: &Arc<Bench>, user: impl FnOnce() -> T) -> T {
        let bench = Arc::clone(self);
        let handler = std::thread::spawn(move || {
            while bench.region.wait_for_faults(|fault| bench.serve(fault)).expect("faults") {}
        });
        let result = user();
        self.region.stop();
        handler.join().expect("the handler ends");
        result
    }

    fn serve(&self, fault: Fault) {
        let index = self.region.page_at(fault.address).expect("an address of the region");
        self.faults[fault.kind as usize].fetch_add(1, SeqCst);
        let mut page = self.table.page_or_make(PageIndex(index)).expect("in range").lock();
        if page.frame().is_none() {
            let frame = FrameId(index as u32);
            page.install(self.table.arena().claim(frame).expect("free"));
            page.write(0, &[(index as u8).wrapping_add(1); FRAME_BYTES]);
        }
        page.set_young();
        page.map_user(fault.is_write).expect("mapped");
    }

    fn nr(&self, kind: FaultKind) -> u64 {
        self.faults[kind as usize].load(SeqCst)
    }

    fn read(&self, page: usize) -> u8 {
        let byte = self.region.words()[page * FRAME_BYTES / 8].load(SeqCst) as u8;
        self.settle(page);
        byte
    }

    /// The user goes on a moment before the handler unlocks the page.
    fn settle(&self, page: usize) {
        self.page(page as u64).wait_while_locked();
    }

    fn write(&self, page: usize, byte: u8) {
        let word = u64::from_ne_bytes([byte; 8]);
        self.region.words()[page * FRAME_BYTES / 8].store(word, SeqCst);
        self.settle(page);
    }

    fn page(&self, index: u64) -> crate::PageRef<'_> {
        self.table.page(PageIndex(index)).expect("touched before")
    }
}

#[test]
fn a_touch_is_a_missing_fault_and_a_store_after_a_load_a_write_fault() {
    let Some(bench) = Bench::new("a_touch_is_a_missing_fault", 4) else { return };
    bench.run(|| {
        assert_eq!((bench.read(2), bench.nr(FaultKind::Missing)), (3, 1));
        assert_eq!((bench.read(2), bench.nr(FaultKind::Missing)), (3, 1));
        assert_eq!(bench.region.access(2), UserAccess::Read);
        bench.write(2, 77);
        assert_eq!((bench.nr(FaultKind::WriteProtect), bench.read(2)), (1, 77));
        assert_eq!(bench.region.access(2), UserAccess::Write);
        bench.write(0, 9);
        assert_eq!((bench.nr(FaultKind::Missing), bench.nr(FaultKind::WriteProtect)), (2, 1));
        assert_eq!((bench.region.access(0), bench.region.access(1)), {
            (UserAccess::Write, UserAccess::None)
        });
    });
}

#[test]
fn a_page_taken_out_comes_back_with_what_was_stored() {
    let Some(bench) = Bench::new("a_page_taken_out_comes_back", 2) else { return };
    bench.run(|| {
        bench.write(1, 55);
        bench.page(1).lock().unmap_user();
        assert_eq!((bench.read(1), bench.nr(FaultKind::Minor)), (55, 1));
        assert_eq!(bench.region.access(1), UserAccess::Read);
    });
}

#[test]
fn a_protected_page_keeps_its_user_from_writing_until_a_fault() {
    let Some(bench) = Bench::new("a_protected_page", 2) else { return };
    bench.run(|| {
        bench.write(1, 55);
        let page = bench.page(1).lock();
        page.protect_from_user();
        // A slice, which is not written while it lives.
        assert_eq!(page.bytes()[..8], [55; 8]);
        drop(page);
        bench.write(1, 56);
        assert_eq!((bench.nr(FaultKind::WriteProtect), bench.read(1)), (1, 56));
    });
}

#[test]
#[should_panic(expected = "S25")]
fn no_slice_of_a_page_that_its_user_may_write() {
    let Some(bench) = Bench::new("no_slice_of_a_page", 1) else { panic!("S25: skipped") };
    bench.run(|| bench.write(0, 1));
    let _ = bench.page(0).lock().bytes().len();
}

#[test]
fn an_evicted_page_is_gone_from_the_file_and_filled_anew() {
    let Some(bench) = Bench::new("an_evicted_page_is_gone", 8) else { return };
    bench.run(|| {
        (0..8).for_each(|page| bench.write(page, 200));
        assert_eq!(bench.region.count_resident_bytes(), 8 * FRAME_BYTES as u64);
        let mut page = bench.page(3).lock();
        let claimed = page.evict(Some(7));
        bench.table.arena().release(claimed);
        assert_eq!(page.user_access(), UserAccess::None);
        assert_eq!(bench.region.count_resident_bytes(), 7 * FRAME_BYTES as u64);
        drop(page);
        assert_eq!((bench.read(3), bench.read(4)), (4, 200));
        assert_eq!(bench.nr(FaultKind::Missing), 9);
    });
}

#[test]
fn a_page_mapped_twice_is_no_error() {
    let Some(bench) = Bench::new("a_page_mapped_twice", 1) else { return };
    bench.run(|| {
        bench.read(0);
        for write in [false, true, true, false] {
            let mut page = bench.page(0).lock();
            page.map_user(write).expect("EEXIST is normal");
        }
        assert_eq!(bench.region.access(0), UserAccess::Write);
        bench.write(0, 3);
        assert_eq!((bench.nr(FaultKind::Missing), bench.nr(FaultKind::WriteProtect)), (1, 0));
    });
}

#[test]
fn taking_young_away_has_the_user_fault_again() {
    let Some(bench) = Bench::new("taking_young_away", 600) else { return };
    bench.run(|| {
        (0..600).for_each(|page| assert_eq!(bench.read(page), (page as u8).wrapping_add(1)));
        let mut nr_young = 0;
        bench.table.for_each_young(|_, _| nr_young += 1);
        assert_eq!(nr_young, 600);
        assert!((0..600).all(|page| bench.region.access(page) == UserAccess::None));
        assert_eq!((bench.read(300), bench.nr(FaultKind::Minor)), (44 + 1, 1));
        assert!(matches!(bench.page(300).try_claim(), Claim::Young));
        assert_eq!(bench.region.access(300), UserAccess::None);
        assert!(matches!(bench.page(300).try_claim(), Claim::Locked(_)));
    });
}

#[test]
fn a_page_in_use_stays_young() {
    let Some(bench) = Bench::new("a_page_in_use_stays_young", 2) else { return };
    bench.run(|| {
        bench.read(0);
        let held = bench.page(0).lock();
        assert!(!UnmapBatch::new().set_hint(bench.page(0)));
        assert!(bench.page(0).test_and_clear_young());
        drop(held);
        assert_eq!(bench.region.access(0), UserAccess::Read);
        let mut nr_young = 0;
        bench.table.for_each_young(|_, _| nr_young += 1);
        assert_eq!((nr_young, bench.region.access(0)), (1, UserAccess::None));
    });
}

#[test]
fn an_armed_page_meets_a_fault() {
    let Some(bench) = Bench::new("an_armed_page", 2) else { return };
    bench.run(|| {
        bench.write(0, 8);
        assert!(bench.page(0).set_hint());
        assert_eq!((bench.read(0), bench.nr(FaultKind::Minor)), (8, 1));
        assert!(bench.page(0).test_and_clear_hint());
    });
}

#[test]
fn a_frame_gives_its_memory_to_the_page() {
    let Some(bench) = Bench::new("a_frame_gives_its_memory", 4) else { return };
    let arena = bench.table.arena();
    let file = PageTable::new(Arc::clone(arena));
    let mut page = file.page_or_make(PageIndex(0)).expect("in range").lock();
    page.install(arena.claim(FrameId(2)).expect("free"));
    page.fill_zero(0..FRAME_BYTES);
    assert!(arena.count_resident_bytes() >= FRAME_BYTES as u64);
    arena.release(page.evict(None));
    bench.run(|| bench.read(2));
    let all = arena.count_resident_bytes() + bench.region.count_resident_bytes();
    assert_eq!(all, FRAME_BYTES as u64);
}

#[test]
fn a_page_that_moves_keeps_its_bytes_where_they_are() {
    let Some(bench) = Bench::new("a_page_that_moves", 2) else { return };
    bench.run(|| {
        bench.write(0, 31);
        let mut page = bench.page(0).lock();
        let left = page.relocate(bench.table.arena().claim(FrameId(1)).expect("free"));
        assert_eq!((left.frame(), page.frame()), (FrameId(0), Some(FrameId(1))));
        bench.table.arena().release(left);
        drop(page);
        assert_eq!(bench.read(0), 31);
    });
}

#[test]
fn too_few_and_too_many_pages_are_refused() {
    for nr_pages in [0, REGION_PAGES_MAX + 1] {
        let refused = RegionMemory::new(nr_pages).expect_err("a count out of range");
        assert!(matches!(refused, RegionError::PageCount { .. }), "{refused}");
    }
}

#[test]
fn a_child_has_no_part_of_it() {
    let Some(bench) = Bench::new("a_child_has_no_part_of_it", 2) else { return };
    let maps = |what: &str| {
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("own mappings");
        let start = format!("{:x}-", bench.region.base().addr());
        let mapping = smaps.split("VmFlags:").zip(smaps.split("VmFlags:").skip(1));
        mapping.into_iter().any(|(head, flags)| {
            let is_it = head.lines().any(|line| line.starts_with(&start));
            is_it && flags.lines().next().is_some_and(|flags| flags.contains(what))
        })
    };
    // "dc": do not copy on fork; "um", "uw", "ui": registered for missing, write-protect, minor.
    for flag in [" dc", " um", " uw", " ui"] {
        assert!(maps(flag), "the mapping lacks {flag}");
    }
}
