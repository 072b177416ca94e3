//! Faults of a real kernel, served by a thread of the test or by the faulting thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier};

use pagetide_core::ids::{FrameId, PageIndex};

use super::*;
use crate::fault::signal::{Served, serve_faults};
use crate::fault::uffd::FaultKind;
use crate::{ArenaOptions, Claim, FrameArena, Lock, PageTable};

/// A region that fills page `i` with `i + 1` in frame `i` on a touch.
struct Bench {
    region: Arc<RegionMemory>,
    table: Arc<PageTable>,
    faults: [AtomicU64; 3],
}

/// The delivery of faults, and if pages move instead of being copied.
const WAYS: [(FaultDelivery, bool); 4] = [
    (FaultDelivery::Signal, true),
    (FaultDelivery::Signal, false),
    (FaultDelivery::Message, true),
    (FaultDelivery::Message, false),
];

/// Runs `check` on a region of each kind.
fn in_all_ways(test: &str, nr_pages: u32, check: impl Fn(&Arc<Bench>)) {
    for way in WAYS {
        match Bench::new(nr_pages, way, ArenaOptions::default()) {
            Ok(bench) => check(&bench),
            Err(error) => eprintln!("SKIPPED: {test}: {error}"),
        }
    }
}

impl Bench {
    fn new(
        nr_pages: u32,
        (delivery, moves): (FaultDelivery, bool),
        options: ArenaOptions,
    ) -> Result<Arc<Bench>, RegionError> {
        let arena = Arc::new(FrameArena::reserve(nr_pages, options).expect("frames"));
        let lender = if moves { FrameLender::new(&arena)? } else { FrameLender::copying(&arena) };
        let region = Arc::new(RegionMemory::new(nr_pages.into(), &Arc::new(lender), delivery)?);
        let table = PageTable::over_region(Arc::clone(&region));
        let faults = [const { AtomicU64::new(0) }; 3];
        Ok(Arc::new(Bench { region, table: Arc::new(table), faults }))
    }

    fn run<T>(self: &Arc<Bench>, user: impl FnOnce() -> T) -> T {
        let bench = Arc::clone(self);
        if self.region.delivery() == FaultDelivery::Signal {
            let serve = move |fault| {
                bench.serve(fault);
                Served::Yes
            };
            let _registration = serve_faults(&self.region, Arc::new(serve));
            return user();
        }
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
        let mut page = self.table.page_or_make(PageIndex(index)).expect("in range").lock();
        let before = page.user_access();
        let is_write = fault.is_write.unwrap_or(before != UserAccess::None);
        let kind = match page.frame() {
            None => FaultKind::Missing,
            Some(_) if before == UserAccess::None => FaultKind::Minor,
            Some(_) => FaultKind::WriteProtect,
        };
        self.faults[kind as usize].fetch_add(1, SeqCst);
        if kind == FaultKind::Missing {
            let frame = FrameId(index as u32);
            page.install(self.table.arena().claim(frame).expect("free"));
            page.write(0, &[(index as u8).wrapping_add(1); FRAME_BYTES]);
        }
        page.set_young();
        page.map_user(is_write).expect("mapped");
    }

    fn nr(&self, kind: FaultKind) -> u64 {
        self.faults[kind as usize].load(SeqCst)
    }

    fn read(&self, page: usize) -> u8 {
        let byte = self.region.words()[page * FRAME_BYTES / 8].load(SeqCst) as u8;
        self.settle(page);
        byte
    }

    /// The user continues before the handler unlocks the page.
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
    in_all_ways("a_touch_is_a_missing_fault", 4, |bench| {
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
    });
}

/// Linux 6.18 reports some of these pages as occupied once it has moved them.
#[test]
fn pages_of_one_huge_page_that_threads_store_to_at_once_keep_their_bytes() {
    const NR_BLOCKS: usize = 32;
    const NR_THREADS: usize = 4;
    let options = ArenaOptions { huge_pages: true, pretouch: true };
    let bench = Bench::new(NR_BLOCKS as u32 * 512, (FaultDelivery::Signal, true), options);
    let bench = match bench {
        Ok(bench) => bench,
        Err(error) => return eprintln!("SKIPPED: pages_of_one_huge_page: {error}"),
    };
    let (barrier, nr_wrong) = (Barrier::new(NR_THREADS), AtomicU64::new(0));
    bench.run(|| {
        std::thread::scope(|scope| {
            for nth in 0..NR_THREADS {
                let (bench, barrier, nr_wrong) = (&bench, &barrier, &nr_wrong);
                scope.spawn(move || {
                    for block in 0..NR_BLOCKS {
                        barrier.wait();
                        let page = block * 512 + nth;
                        bench.write(page, 0);
                        let byte = bench.region.words()[page * 512 + 1].load(SeqCst) as u8;
                        let is_wrong = byte != (page as u8).wrapping_add(1);
                        nr_wrong.fetch_add(is_wrong.into(), SeqCst);
                    }
                });
            }
        });
    });
    assert_eq!(nr_wrong.into_inner(), 0, "pages that lost their bytes");
}

#[test]
fn a_page_taken_out_comes_back_with_what_was_stored() {
    in_all_ways("a_page_taken_out_comes_back", 2, |bench| {
        bench.run(|| {
            bench.write(1, 55);
            bench.page(1).lock().unmap_user();
            assert_eq!((bench.read(1), bench.nr(FaultKind::Minor)), (55, 1));
            assert_eq!(bench.region.access(1), UserAccess::Read);
        });
    });
}

#[test]
fn a_protected_page_keeps_its_user_from_writing_until_a_fault() {
    in_all_ways("a_protected_page", 2, |bench| {
        bench.run(|| {
            bench.write(1, 55);
            let page = bench.page(1).lock();
            page.protect_from_user();
            // The slice's page is not written while the slice lives.
            assert_eq!(page.bytes()[..8], [55; 8]);
            drop(page);
            bench.write(1, 56);
            assert_eq!((bench.nr(FaultKind::WriteProtect), bench.read(1)), (1, 56));
        });
    });
}

#[test]
fn pages_protected_together_are_all_protected_and_those_between_are_served() {
    in_all_ways("pages_protected_together", 4, |bench| {
        bench.run(|| {
            (0..4).for_each(|page| bench.write(page, 55));
            let ends = [0, 3].map(|page| bench.page(page).lock());
            Lock::protect_all_from_user(&ends);
            assert!(ends.iter().all(|page| page.bytes()[..8] == [55; 8]));
            assert_eq!(bench.region.access(1), UserAccess::Write, "not locked");
            drop(ends);
            (0..4).for_each(|page| bench.write(page, 56 + page as u8));
            assert_eq!((0..4).map(|page| bench.read(page)).collect::<Vec<_>>(), [56, 57, 58, 59]);
        });
    });
}

#[test]
#[should_panic(expected = "S25")]
fn no_slice_of_a_page_that_its_user_may_write() {
    let bench = Bench::new(1, WAYS[0], ArenaOptions::default());
    let Ok(bench) = bench else { panic!("S25: skipped") };
    bench.run(|| bench.write(0, 1));
    let _ = bench.page(0).lock().bytes().len();
}

#[test]
fn an_evicted_page_is_gone_and_filled_anew() {
    in_all_ways("an_evicted_page_is_gone", 8, |bench| {
        bench.run(|| {
            (0..8).for_each(|page| bench.write(page, 200));
            assert_eq!(bench.region.count_mapped_bytes(), 8 * FRAME_BYTES as u64);
            let mut page = bench.page(3).lock();
            let claimed = page.evict(Some(7));
            bench.table.arena().release(claimed);
            assert_eq!(page.user_access(), UserAccess::None);
            assert_eq!(bench.region.count_mapped_bytes(), 7 * FRAME_BYTES as u64);
            drop(page);
            assert_eq!((bench.read(3), bench.read(4)), (4, 200));
            assert_eq!(bench.nr(FaultKind::Missing), 9);
        });
    });
}

#[test]
fn a_page_mapped_twice_is_no_error() {
    in_all_ways("a_page_mapped_twice", 1, |bench| {
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
    });
}

#[test]
fn taking_young_away_has_the_user_fault_again() {
    in_all_ways("taking_young_away", 600, |bench| {
        bench.run(|| {
            (0..600).for_each(|page| assert_eq!(bench.read(page), (page as u8).wrapping_add(1)));
            let mut nr_young = 0;
            bench.table.for_each_young(|_, _| nr_young += 1);
            assert_eq!(nr_young, 600);
            assert!((0..600).all(|page| bench.region.access(page) == UserAccess::None));
            assert_eq!((bench.read(300), bench.nr(FaultKind::Minor)), (44 + 1, 1));
            let Claim::Young(Some(lock)) = bench.page(300).try_claim() else { panic!("mapped") };
            Lock::unmap_users([&lock].into_iter());
            drop(lock);
            assert_eq!(bench.region.access(300), UserAccess::None);
            assert!(matches!(bench.page(300).try_claim(), Claim::Locked(_)));
        });
    });
}

#[test]
fn a_page_in_use_stays_young() {
    in_all_ways("a_page_in_use_stays_young", 2, |bench| {
        bench.run(|| {
            bench.read(0);
            let held = bench.page(0).lock();
            assert!(!bench.page(0).set_hint());
            assert!(bench.page(0).test_and_clear_young());
            drop(held);
            assert_eq!(bench.region.access(0), UserAccess::Read);
            let mut nr_young = 0;
            bench.table.for_each_young(|_, _| nr_young += 1);
            assert_eq!((nr_young, bench.region.access(0)), (1, UserAccess::None));
        });
    });
}

#[test]
fn an_armed_page_meets_a_fault() {
    in_all_ways("an_armed_page", 2, |bench| {
        bench.run(|| {
            bench.write(0, 8);
            assert!(bench.page(0).set_hint());
            assert_eq!((bench.read(0), bench.nr(FaultKind::Minor)), (8, 1));
            assert!(bench.page(0).test_and_clear_hint());
        });
    });
}

#[test]
fn a_frame_gives_its_memory_to_the_page() {
    in_all_ways("a_frame_gives_its_memory", 4, |bench| {
        let arena = bench.table.arena();
        let file = PageTable::new(Arc::clone(arena));
        let mut page = file.page_or_make(PageIndex(0)).expect("in range").lock();
        page.install(arena.claim(FrameId(2)).expect("free"));
        page.fill_zero(0..FRAME_BYTES);
        assert!(arena.count_resident_bytes() >= FRAME_BYTES as u64);
        arena.release(page.evict(None));
        bench.run(|| bench.read(2));
        let all = arena.count_resident_bytes() + bench.region.count_mapped_bytes();
        assert_eq!(all, FRAME_BYTES as u64);
    });
}

#[test]
fn a_page_that_moves_keeps_its_bytes_where_they_are() {
    in_all_ways("a_page_that_moves", 2, |bench| {
        bench.run(|| {
            bench.write(0, 31);
            let mut page = bench.page(0).lock();
            let left = page.relocate(bench.table.arena().claim(FrameId(1)).expect("free"));
            assert_eq!((left.frame(), page.frame()), (FrameId(0), Some(FrameId(1))));
            bench.table.arena().release(left);
            drop(page);
            assert_eq!(bench.read(0), 31);
        });
    });
}

#[test]
fn too_few_and_too_many_pages_are_refused() {
    let arena = Arc::new(FrameArena::reserve(1, ArenaOptions::default()).expect("frames"));
    let lender = Arc::new(FrameLender::copying(&arena));
    for nr_pages in [0, REGION_PAGES_MAX + 1] {
        let refused = RegionMemory::new(nr_pages, &lender, FaultDelivery::Signal);
        let refused = refused.expect_err("a count out of range");
        assert!(matches!(refused, RegionError::PageCount { .. }), "{refused}");
    }
}

#[test]
fn a_child_has_no_part_of_it() {
    in_all_ways("a_child_has_no_part_of_it", 2, |bench| {
        let maps = |what: &str| {
            let smaps = std::fs::read_to_string("/proc/self/smaps").expect("own mappings");
            let start = format!("{:x}-", bench.region.base().addr());
            let mapping = smaps.split("VmFlags:").zip(smaps.split("VmFlags:").skip(1));
            mapping.into_iter().any(|(head, flags)| {
                let is_it = head.lines().any(|line| line.starts_with(&start));
                is_it && flags.lines().next().is_some_and(|flags| flags.contains(what))
            })
        };
        // "dc": do not copy on fork. "um", "uw": registered for missing, write-protect.
        for flag in [" dc", " um", " uw"] {
            assert!(maps(flag), "the mapping lacks {flag}");
        }
    });
}

/// Counts in pages while another thread unmaps, protects and reads them.
#[test]
fn stores_meet_all_that_is_done_to_a_page_and_none_is_lost() {
    in_all_ways("stores_meet_all_that_is_done_to_a_page", 8, |bench| {
        bench.run(|| {
            let word =
                |page: usize, nth: usize| &bench.region.words()[page * FRAME_BYTES / 8 + nth];
            for page in 0..8 {
                [1, 2].into_iter().for_each(|nth| word(page, nth).store(0, SeqCst));
            }
            let is_over = AtomicBool::new(false);
            let count = |thread: usize| {
                let mut counts = [0_u64; 8];
                while !is_over.load(SeqCst) {
                    for (page, count) in counts.iter_mut().enumerate() {
                        *count += 1;
                        let before = word(page, 1 + thread).swap(*count, SeqCst);
                        assert_eq!(before, *count - 1, "page {page}");
                    }
                }
            };
            std::thread::scope(|scope| {
                let counters = [0, 1].map(|thread| scope.spawn(move || count(thread)));
                for round in 0..2000_u64 {
                    let page = bench.page(round % 8).lock();
                    match round / 8 % 5 {
                        0 => page.unmap_user(),
                        1 => page.protect_from_user(),
                        2 => drop(page.test_and_clear_young()),
                        3 => {
                            drop(page);
                            let locks: Vec<_> = (0..8).map(|nth| bench.page(nth).lock()).collect();
                            Lock::unmap_users(locks.iter());
                        }
                        // Also protects the pages between, unknown to the counters.
                        _ => {
                            drop(page);
                            Lock::protect_all_from_user(&[0, 7].map(|nth| bench.page(nth).lock()));
                        }
                    }
                }
                is_over.store(true, SeqCst);
                for counter in counters {
                    counter.join().expect("none is lost");
                }
            });
        });
    });
}

/// A page cannot move while a child has a copy of its frame.
#[test]
fn a_page_that_a_child_has_too_is_copied() {
    in_all_ways("a_page_that_a_child_has_too", 4, |bench| {
        bench.run(|| {
            (0..4).for_each(|page| bench.write(page, 40 + page as u8));
            bench.page(1).lock().unmap_user();
            // SAFETY: S30: the child only makes system calls.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: S9 (calls without pointers).
                unsafe { libc::pause() };
                unreachable!("it is killed");
            }
            assert_eq!((0..4).map(|page| bench.read(page)).collect::<Vec<_>>(), [40, 41, 42, 43]);
            bench.write(1, 9);
            bench.page(1).lock().unmap_user();
            assert_eq!(bench.read(1), 9);
            // SAFETY: S9 (a call without pointers).
            unsafe { libc::kill(child, libc::SIGKILL) };
            // SAFETY: S9 (a call without pointers that are dereferenced).
            let ended = unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
            assert_eq!(ended, child);
        });
    });
}

#[test]
fn frames_of_huge_pages_are_lent_one_by_one() {
    let options = ArenaOptions { huge_pages: true, pretouch: true };
    for way in WAYS {
        let Ok(bench) = Bench::new(1024, way, options) else { return };
        bench.run(|| {
            for page in (0..1024).step_by(3) {
                assert_eq!(bench.read(page), (page as u8).wrapping_add(1));
                bench.write(page, 7);
            }
            let all =
                bench.table.arena().count_resident_bytes() + bench.region.count_mapped_bytes();
            assert_eq!(all, 1024 * FRAME_BYTES as u64, "each page once");
            for page in (0..1024).step_by(3) {
                bench.page(page).lock().unmap_user();
                assert_eq!(bench.read(page as usize), 7);
            }
        });
    }
}

#[test]
fn what_the_user_drops_reads_as_zeros() {
    in_all_ways("what_the_user_drops", 2, |bench| {
        if !bench.region.lender().moves() {
            return;
        }
        bench.run(|| {
            bench.write(1, 5);
            let place = bench.region.base().wrapping_add(FRAME_BYTES).cast();
            // SAFETY: S24: the user of a region may do this.
            let dropped = unsafe {
                rustix::mm::madvise(place, FRAME_BYTES, rustix::mm::Advice::LinuxDontNeed)
            };
            dropped.expect("dropped");
            bench.page(1).lock().unmap_user();
            assert_eq!(bench.read(1), 0);
        });
    });
}

/// Page 4 is in frame 5, and page 5 in frame 4.
#[test]
fn pages_that_are_mapped_together_are_read_without_a_fault_and_leave_together() {
    in_all_ways("pages_that_are_mapped_together", 8, |bench| {
        let lock = |index: u64| bench.table.page_or_make(PageIndex(index)).expect("one").lock();
        let mut locks: Vec<_> = [0, 1, 2, 3, 5, 4, 6, 7].into_iter().zip(0..).collect();
        let mut locks: Vec<_> = locks
            .drain(..)
            .map(|(frame, index)| {
                let mut page = lock(index);
                page.install(bench.table.arena().claim(FrameId(frame)).expect("free"));
                page.write(0, &[index as u8 + 1; FRAME_BYTES]);
                Some(page)
            })
            .collect();
        assert_eq!(Lock::map_run(&mut locks, false), 4, "frames follow each other so far");
        assert_eq!(Lock::map_run(&mut locks, false), 0, "they are mapped");
        assert_eq!(Lock::map_run(&mut locks[4..], false), 1);
        let sixth = locks[6].as_mut().expect("locked");
        let nr_filled = Lock::fill_users([sixth].into_iter(), &[77; FRAME_BYTES], false);
        assert_eq!(nr_filled, 1);
        drop(locks);
        bench.run(|| {
            assert_eq!([0, 1, 2, 3, 4, 6].map(|page| bench.read(page)), [1, 2, 3, 4, 5, 77]);
            assert_eq!(bench.nr(FaultKind::Missing) + bench.nr(FaultKind::Minor), 0);
            bench.write(1, 9);
            assert_eq!(bench.nr(FaultKind::WriteProtect), 1);
            let locks: Vec<_> = (0..8).map(lock).collect();
            Lock::drop_from_users(locks.iter());
            assert_eq!(bench.region.count_mapped_bytes(), FRAME_BYTES as u64, "what was written");
            let access = [0, 1, 2, 3, 4, 6].map(|page: usize| locks[page].user_access());
            assert!(access.iter().all(|one| matches!(one, UserAccess::None | UserAccess::Write)));
            for mut page in locks {
                bench.table.arena().release(page.evict(None));
            }
            assert_eq!((bench.read(0), bench.read(6)), (1, 7), "filled anew");
            assert_eq!(bench.nr(FaultKind::Missing), 2);
        });
    });
}

/// Makes block 0 huge. Returns true if the changed pages are the pages reported as written.
fn make_huge(bench: &Bench) -> bool {
    let mut locks: Vec<_> = (0..BLOCK_PAGES as u64).map(|page| bench.page(page).lock()).collect();
    if locks[0].user_access() == UserAccess::Read {
        Lock::protect_all_from_user(&locks);
    }
    let bytes_of = |lock: &Lock<_>| {
        let mut bytes = [0; FRAME_BYTES];
        lock.read(0, &mut bytes);
        bytes
    };
    let before: Vec<_> = locks.iter().map(bytes_of).collect();
    let written = Lock::make_huge(&mut locks);
    let is_other = |page: &usize| bytes_of(&locks[*page]) != before[*page];
    written == (0..BLOCK_PAGES).filter(is_other).collect::<Vec<_>>()
}

#[test]
fn a_block_made_huge_keeps_its_bytes_and_its_faults() {
    in_all_ways("a_block_made_huge", 1024, |bench| {
        if bench.region.nr_blocks() == 0 {
            return;
        }
        bench.run(|| {
            let expected = |page: usize| (page as u8).wrapping_add(1);
            (0..511).for_each(|page| assert_eq!(bench.read(page), expected(page)));
            assert!(!bench.region.could_be_huge(0), "a page of it is missing");
            bench.read(511);
            assert!(bench.region.could_be_huge(0) && !bench.region.could_be_huge(1));
            assert!(make_huge(bench));
            assert!(!bench.region.could_be_huge(0), "it is");
            bench.write(7, 99);
            assert_eq!(bench.nr(FaultKind::WriteProtect), 1, "stores are heard of still");
            bench.write(8, 98);
            assert_eq!(bench.nr(FaultKind::WriteProtect), 2, "and those to its neighbours");
            // Each page of the block can leave and come back.
            bench.page(100).lock().unmap_user();
            assert_eq!((bench.read(100), bench.nr(FaultKind::Minor)), (101, 1));
            assert!((9..512).all(|page| bench.read(page) == expected(page)));
            assert_eq!((bench.read(7), bench.read(8)), (99, 98));
            assert!(!bench.region.could_be_huge(0), "some of it is written");
            (0..512).for_each(|page| bench.write(page, 5));
            assert!(bench.region.could_be_huge(0), "and now all of it");
            assert!(make_huge(bench));
            (0..512).for_each(|page| bench.page(page as u64).lock().unmap_user());
            assert!((0..512).all(|page| bench.read(page) == 5));
        });
        assert_eq!(bench.nr(FaultKind::Missing), 512);
    });
}

#[test]
fn stores_while_a_block_is_made_huge_are_found() {
    const NR_ROUNDS: usize = 20;
    in_all_ways("stores_while_a_block_is_made_huge", 512, |bench| {
        if bench.region.nr_blocks() == 0 {
            return;
        }
        let (is_over, nr_stored) = (AtomicBool::new(false), AtomicU64::new(0));
        let word = &bench.region.words()[300 * FRAME_BYTES / 8];
        bench.run(|| {
            (0..512).for_each(|page| _ = bench.read(page));
            let nr_right = std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_over.load(SeqCst) {
                        word.store(nr_stored.fetch_add(1, SeqCst) + 1, SeqCst);
                    }
                });
                // No panic here: the storing thread would never stop.
                let nr_right = (0..NR_ROUNDS).filter(|_| {
                    let is_right = make_huge(bench);
                    bench.page(0).lock().unmap_user();
                    bench.read(0);
                    is_right
                });
                let nr_right = nr_right.count();
                is_over.store(true, SeqCst);
                nr_right
            });
            assert_eq!(nr_right, NR_ROUNDS);
            assert_eq!(word.load(SeqCst), nr_stored.load(SeqCst));
        });
    });
}
