use super::*;
use crate::trace::Access;
use pagetide_core::ids::{MappingId, PageIndex};
use pagetide_core::lru::{Mechanism, PolicyName};
use pagetide_core::units::Millis;
use std::ops::Range;

const POLICIES: [PolicyName; 3] = [PolicyName::Mglru, PolicyName::ActiveInactive, PolicyName::Lru];

fn file(nr_pages: u32) -> DenseTrace {
    DenseTrace::from_reads((0..nr_pages).map(u64::from))
}

/// Ranks below `nr_anonymous` are anonymous. `nr_of_file` file pages follow.
fn with_anonymous(nr_anonymous: u32, nr_of_file: u32) -> DenseTrace {
    let mut trace = DenseTrace::default();
    trace.mark_anonymous(MappingId(1));
    for (mapping, nr_pages) in [(1, nr_anonymous), (2, nr_of_file)] {
        for index in 0..nr_pages {
            let page = PageId { mapping: MappingId(mapping), index: PageIndex(index.into()) };
            trace.push(Access { page, kind: AccessKind::Read, thread: 0 });
        }
    }
    trace
}

fn apply(world: &mut World<'_>, ranks: Range<u32>, kind: AccessKind) {
    for rank in ranks {
        world.apply(rank, kind);
        world.validate();
    }
}

fn nr_resident(world: &World<'_>, ranks: Range<u32>) -> usize {
    ranks.filter(|rank| world.is_resident(*rank)).count()
}

/// 40 frames and 10 swap slots hold 50 of 60 pages.
#[test]
fn full_swap_device_ends_swapping_and_a_discard_makes_room_on_it() {
    let trace = with_anonymous(60, 0);
    for policy in POLICIES {
        let setup = Setup { swap_pages: Some(10), ..Setup::new(policy, 40) };
        let mut world = World::new(setup, &trace, |_| {});
        apply(&mut world, 0..60, AccessKind::TableWrite);
        assert_eq!((world.swap_left, nr_resident(&world, 0..60)), (0, 40), "{policy}");
        let outcome = world.outcome();
        assert_eq!((outcome.evictions, outcome.out_of_memory), (10, 10), "{policy}");
        assert_eq!(outcome.bypasses, 0, "{policy}: there is no way past memory for these");

        let swapped =
            |world: &World<'_>, rank: u32| world.pages[rank as usize].backing() == Backing::Swap;
        let gone = (0..60).find(|rank| swapped(&world, *rank)).expect("ten are");
        world.apply(gone, AccessKind::Discard);
        assert_eq!(world.swap_left, 1, "{policy}: its place is free");
        world.apply(gone, AccessKind::TableWrite);
        world.validate();
        assert!(world.is_resident(gone), "{policy}");
        assert_eq!((world.swap_left, world.outcome().out_of_memory), (0, 10), "{policy}");
    }
}

/// No anonymous page can leave, so the first ones stay, and file reads bypass memory.
#[test]
fn without_swap_memory_runs_out_and_nothing_anonymous_is_lost() {
    let trace = with_anonymous(50, 20);
    for policy in POLICIES {
        let setup = Setup { swap_pages: Some(0), ..Setup::new(policy, 40) };
        let mut world = World::new(setup, &trace, |page| panic!("{page} was evicted"));
        apply(&mut world, 0..50, AccessKind::TableWrite);
        assert_eq!(nr_resident(&world, 0..40), 40, "{policy}");
        apply(&mut world, 50..70, AccessKind::Read);
        let outcome = world.outcome();
        assert_eq!((outcome.out_of_memory, outcome.bypasses), (10, 20), "{policy}");
        assert_eq!(outcome.misses, 70, "{policy}: each access missed");
    }
}

#[test]
fn without_swap_files_make_room() {
    let trace = with_anonymous(30, 40);
    for policy in POLICIES {
        let setup = Setup { swap_pages: Some(0), ..Setup::new(policy, 40) };
        let mut world = World::new(setup, &trace, |page| assert_eq!(page.mapping, MappingId(2)));
        apply(&mut world, 0..30, AccessKind::TableWrite);
        apply(&mut world, 30..70, AccessKind::Read);
        assert_eq!(nr_resident(&world, 0..30), 30, "{policy}");
        assert_eq!((world.outcome().out_of_memory, world.outcome().bypasses), (0, 0), "{policy}");
    }
}

/// Dirty pages cannot leave: one access finds no room and wakes the flusher, which runs before the
/// next access.
#[test]
fn flusher_comes_when_reclaim_meets_dirty_pages_only() {
    let trace = file(50);
    for policy in POLICIES {
        let flush_every = Some(Millis(1_000_000));
        let setup = Setup { flush_every, ..Setup::new(policy, 40) };
        let mut world = World::new(setup, &trace, |_| {});
        apply(&mut world, 0..40, AccessKind::Write);
        assert_eq!(world.dirty.len(), 40, "{policy}");
        world.apply(40, AccessKind::Read);
        assert_eq!((world.outcome().bypasses, world.outcome().evictions), (1, 0), "{policy}");
        apply(&mut world, 41..50, AccessKind::Read);
        assert_eq!((world.outcome().bypasses, world.dirty.len()), (1, 0), "{policy}");
        assert_eq!(nr_resident(&world, 41..50), 9, "{policy}");
    }
}

#[test]
fn flusher_comes_when_it_is_due() {
    let trace = file(50);
    let setup = Setup { flush_every: Some(Millis(100)), ..Setup::new(PolicyName::Mglru, 40) };
    let mut world = World::new(setup, &trace, |_| {});
    apply(&mut world, 0..20, AccessKind::Write);
    world.advance_to(Millis(99));
    assert_eq!(world.dirty.len(), 20);
    world.advance_to(Millis(100));
    assert!(world.dirty.is_empty());
    let is_dirty =
        |rank| world.folios[world.frame_of(rank).expect("it fits")].flags().any(Flags::DIRTY);
    assert!(!(0..20).any(is_dirty));
    world.apply(0, AccessKind::Write);
    assert_eq!(world.dirty, [0], "a page gets dirty again");
}

/// Pages discarded while isolated are not evicted. Their frames return with the background step.
#[test]
fn discards_during_a_background_pass_lose_no_frame() {
    let trace = file(4000);
    for policy in POLICIES {
        let memory = Memory::Machine { nr_frames: 1024 };
        let mut evicted = Vec::new();
        let mut world = World::new(Setup::new(policy, memory), &trace, |page| evicted.push(page));
        let is_isolated = |world: &World<'_>, rank: u32| {
            let flags = |frame: FrameId| world.folios[frame].flags();
            world.frame_of(rank).is_some_and(|frame| flags(frame).any(Flags::ISOLATED))
        };
        let mut nr_read = 0;
        let isolated = loop {
            assert!(nr_read < 4000, "{policy}: the background never had a victim");
            world.apply(nr_read, AccessKind::Read);
            nr_read += 1;
            let isolated = (0..nr_read).filter(|rank| is_isolated(&world, *rank));
            let isolated: Vec<u32> = isolated.collect();
            if !isolated.is_empty() {
                break isolated;
            }
        };
        let (nr_before, nr_evicted) = (world.nr_resident(), world.outcome().evictions);
        for &rank in &isolated {
            world.apply(rank, AccessKind::Discard);
            world.validate();
            assert!(!world.is_resident(rank), "{policy}");
        }
        assert_eq!(world.nr_resident(), nr_before, "{policy}: the frames are still the pass's");
        // One of the pages comes back meanwhile, in another frame.
        world.apply(isolated[0], AccessKind::Read);
        world.validate();
        assert!(world.is_resident(isolated[0]), "{policy}");
        world.advance_to(Millis(60_000));
        world.validate();
        assert!(!world.background.is_awake(), "{policy}");
        let nr_evicted = (world.outcome().evictions - nr_evicted) as u32;
        let nr_dropped = isolated.len() as u32;
        assert_eq!(world.nr_resident(), nr_before + 1 - nr_dropped - nr_evicted, "{policy}");
        drop(world);
        let was_evicted = |rank: &u32| evicted.contains(&trace.page(*rank));
        assert!(!isolated[1..].iter().any(was_evicted), "{policy}: dropped, not evicted");
    }
}

#[test]
fn kernel_group_keeps_its_limit_and_forgets_what_the_limit_on_shadows_says() {
    const LIMIT: u32 = 700;
    let trace = file(64 * 1000);
    for (policy, remembers) in [(PolicyName::Mglru, true), (PolicyName::Lru, false)] {
        let base = Setup::new(policy, Memory::KernelGroup { limit_pages: LIMIT });
        let nr_of = |setup: Setup| {
            let mut world = World::new(setup, &trace, |_| {});
            for rank in 0..trace.nr_pages() as u32 {
                world.apply(rank, AccessKind::Read);
                if rank % 997 == 0 {
                    world.validate();
                }
            }
            world.validate();
            let nr_shadows = trace.nr_pages() as u32;
            let nr_shadows = (0..nr_shadows).filter(|rank| world.slot_of(*rank) == Slot::Shadow);
            (world.nr_resident(), nr_shadows.count() as u32, world.outcome().bypasses)
        };
        let (resident, shadows, bypasses) = nr_of(base);
        assert_eq!(bypasses, 0, "{policy}");
        assert!((500..LIMIT - 28).contains(&resident), "{policy}: {resident} resident");
        let switches = base.switches.without(Mechanism::ShadowLimit);
        let (unlimited_resident, unlimited_shadows, _) = nr_of(Setup { switches, ..base });
        if remembers {
            // 600 pages / 8 leaves, and the work deferred until a batch of 128 is full.
            assert!(shadows < 64 * (75 + 256), "{policy}: {shadows} shadows");
            assert_eq!(unlimited_shadows + unlimited_resident, 64_000, "{policy}");
            let nr_node_pages = (1000 + 16_u32).div_ceil(7);
            assert!(unlimited_resident <= LIMIT - 28 - nr_node_pages, "{policy}");
        } else {
            assert_eq!((shadows, unlimited_shadows), (0, 0), "{policy}");
            assert_eq!(resident, unlimited_resident, "{policy}");
        }
    }
}

#[test]
fn tiny_kernel_groups_stay_whole() {
    let trace = with_anonymous(100, 3000);
    for limit_pages in [29, 30, 40, 100] {
        for &policy in PolicyName::ALL {
            let memory = Memory::KernelGroup { limit_pages };
            let setup = Setup { swap_pages: Some(20), ..Setup::new(policy, memory) };
            let mut world = World::new(setup, &trace, |_| {});
            let mut at = 1_u32;
            for step in 0..600 {
                at = (at * 75 + 74) % 65_537;
                let kind = if step % 5 == 0 { AccessKind::Discard } else { AccessKind::Read };
                world.apply(at % 3100, kind);
                if step % 16 == 0 {
                    world.validate();
                }
            }
            world.validate();
            assert!(world.nr_resident() <= limit_pages - 28, "{policy}");
        }
    }
}

/// Hits, repeated reads, writes, discards and misses in a small memory, with clock checks. Accesses
/// through tables come last.
#[test]
fn plain_hits_and_misses_are_what_they_are_the_long_way() {
    let mut random = crate::random::Random::new(7);
    let mut trace = DenseTrace::default();
    let mut index = 0;
    for nth in 0..20_000 {
        if random.below(8) > 0 {
            index = random.below(20) * random.below(20);
        }
        let page = PageId { index: PageIndex(index), ..PageId::default() };
        let kind = match random.below(18) {
            0 | 1 => AccessKind::Write,
            2 => AccessKind::Discard,
            3 if nth > 16_000 => AccessKind::Table,
            _ => AccessKind::Read,
        };
        trace.push(Access { page, kind, thread: 0 });
    }
    for &policy in PolicyName::ALL {
        for (reader, flush_every) in [
            (Reader::Recorded, None),
            (Reader::OneHandle, None),
            (Reader::OneHandle, Some(Millis(20))),
        ] {
            let setup = Setup { reader, flush_every, ..Setup::new(policy, 64) };
            let (mut evicted, mut by_hand) = (Vec::new(), Vec::new());
            let mut world = World::new(setup, &trace, |page| evicted.push(page));
            world.play(|_| true);
            world.validate();
            let outcome = world.outcome();
            drop(world);
            let mut long_way = World::new(setup, &trace, |page| by_hand.push(page));
            long_way.is_plain = false;
            trace.entries().for_each(|(rank, kind)| long_way.apply_any(rank, kind));
            assert_eq!(outcome, long_way.outcome(), "{policy}");
            drop(long_way);
            assert_eq!(evicted, by_hand, "{policy}");
        }
    }
}
