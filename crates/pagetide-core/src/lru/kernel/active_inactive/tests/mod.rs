//! Tests of the whole policy in a tiny world, by the behaviour of Linux 6.18.

mod acceptance;
mod designs;
mod statistics;
mod world;

use super::{Activity, ListId};
use crate::folio::Flags;
use crate::ids::PageType;
use crate::lru::refault_distance::{ListPages, NonresidentAge};
use crate::lru::{LruConfig, LruvecId, ReclaimBatch, Room, ShadowEntry};
use crate::reclaim::{ReclaimPass, Step};
use crate::vmstat::Counter;
use alloc::vec;
use world::World;

const INACTIVE_FILE: ListId = ListId::new(PageType::File, Activity::Inactive);
const ACTIVE_FILE: ListId = ListId::new(PageType::File, Activity::Active);

#[test]
fn second_read_activates() {
    let mut world = World::new(8);
    assert!(world.read(1));
    assert_eq!(world.pages(INACTIVE_FILE), [1]);
    assert!(world.flags(1).any(Flags::REFERENCED));
    assert!(!world.read(1));
    assert_eq!(world.pages(ACTIVE_FILE), [1]);
    assert_eq!((world.age(), world.count(Counter::Pgactivate)), (1, 1));
    assert!(!world.flags(1).any(Flags::REFERENCED));
    for _ in 0..3 {
        assert!(!world.read(1));
        assert!(world.flags(1).all(Flags::REFERENCED.with(Flags::ACTIVE)));
    }
    world.drain();
    assert_eq!((world.age(), world.count(Counter::Pgactivate)), (1, 1));
}

#[test]
fn second_read_does_not_move_an_unevictable_folio() {
    let mut world = World::new(8);
    world.read(1);
    world.set(1, Flags::UNEVICTABLE);
    world.read(1);
    assert_eq!(world.pages(INACTIVE_FILE), [1]);
}

/// REFERENCED alone saves nothing.
#[test]
fn mapped_page_needs_two_young_scans_to_become_active() {
    let mut world = World::new(8);
    world.map(3);
    world.read(4);
    world.reclaim_in_full(32);
    assert_eq!(world.pages(INACTIVE_FILE), [3], "kept; the page that was only read went");
    assert!(world.flags(3).any(Flags::REFERENCED));
    assert_eq!(world.age(), 1, "one eviction; what is kept inactive does not count");
    world.map(3);
    world.reclaim_in_full(32);
    assert_eq!(world.pages(ACTIVE_FILE), [3]);
    assert_eq!((world.age(), world.count(Counter::Pgactivate)), (2, 1), "put back active");
}

#[test]
fn mapped_page_that_is_still_at_the_second_scan_goes() {
    let mut world = World::new(8);
    world.map(3);
    world.reclaim_in_full(32);
    assert_eq!(world.pages(INACTIVE_FILE), [3]);
    world.reclaim_in_full(32);
    assert!(world.resident.is_empty());
}

#[test]
fn unevictable_folio_leaves_the_inactive_list_and_is_never_tried() {
    let mut world = World::new(8);
    world.read(1);
    world.read(2);
    world.set(1, Flags::UNEVICTABLE);
    for _ in 0..3 {
        world.reclaim_in_full(32);
        assert_eq!(world.pages(ACTIVE_FILE), [1]);
    }
    assert_eq!(world.count(Counter::PgstealRefused), 0);
}

#[test]
fn dirty_page_is_activated_and_returns_to_the_inactive_tail() {
    let mut world = World::new(8);
    world.read(1);
    world.read(2);
    world.set(1, Flags::DIRTY);
    world.pinned.insert(2);
    let scan = world.reclaim_in_full(32);
    assert_eq!((scan.reclaimed, scan.dirty), (0, 1));
    assert_eq!(world.pages(ACTIVE_FILE), [1]);
    assert_eq!(world.pages(INACTIVE_FILE), [2]);
    assert!(world.flags(1).any(Flags::RECLAIM));
    let frame = world.resident[&1];
    world.folios[frame].clear(Flags::DIRTY.with(Flags::RECLAIM));
    assert_eq!(world.log.rotate(frame), Room::Left);
    assert_eq!(world.pages(INACTIVE_FILE), [1, 2], "oldest first");
}

#[test]
fn active_shrink_rotates_only_young_executables() {
    let mut world = World::with_config(&LruConfig { can_swap: true, ..LruConfig::file_only(8) });
    for (page, page_type) in [(0, PageType::File), (1, PageType::Anon), (2, PageType::File)] {
        world.page_type = page_type;
        world.read_twice(page..page + 1);
    }
    world.drain();
    world.set(0, Flags::EXEC);
    world.young.extend([0, 1]);
    let age = world.age();
    // Both inactive lists are empty, hence low.
    let mut pass = ReclaimPass::direct(&world.lruvec);
    pass.scan.priority = 0;
    let mut batch = ReclaimBatch::new();
    for _ in 0..2 {
        assert_eq!(world.lruvec.isolate(&mut pass, &mut batch), Step::Look);
        world.answer(&mut batch, false);
        world.lruvec.settle(&mut pass, &mut batch);
    }
    assert_eq!(world.lruvec.isolate(&mut pass, &mut batch), Step::Done);
    assert_eq!((world.pages(ACTIVE_FILE), world.pages(INACTIVE_FILE)), (vec![0], vec![2]));
    assert_eq!(world.sizes(), ListPages { inactive: [1, 1], active: [0, 1] });
    for (page, is_workingset) in [(0, false), (1, true), (2, true)] {
        assert_eq!(world.flags(page).any(Flags::WORKINGSET), is_workingset, "page {page}");
    }
    assert!(world.young.is_empty(), "young bits are cleared, also of those deactivated");
    assert_eq!(world.count(Counter::Pgdeactivate), 2);
    assert_eq!(world.count(Counter::Pgrefill), 3);
    assert_eq!(world.count(Counter::PgstealRefused), 0, "a look is no trial");
    assert_eq!(world.age(), age + 1, "the rotated one was put back active");
}

#[test]
fn rotations_are_charged_to_the_type() {
    let mut world = World::new(64);
    world.read_all(0..48);
    world.pinned.extend(0..6);
    let scan = world.reclaim_in_full(8);
    assert_eq!((scan.scanned, scan.reclaimed), (32, 26));
    assert_eq!(world.policy().cost.of(PageType::File), 6 / 2, "over a quarter of 22: halved");
    assert_eq!(world.policy().cost.of(PageType::Anon), 0);
    let mut world = World::new(64);
    world.read_twice(0..48);
    world.drain();
    for page in 0..5 {
        world.set(page, Flags::EXEC);
        world.young.insert(page);
    }
    world.reclaim_in_full(1);
    assert_eq!(world.policy().cost.of(PageType::File), 5, "no more than a quarter of 48");
}

#[test]
fn skipped_active_list_is_forced_when_nothing_else_goes() {
    let mut world = World::new(64);
    world.read_twice(0..32);
    world.read_all(32..64);
    world.pinned.extend(32..64);
    assert_eq!(world.sizes(), ListPages { inactive: [0, 32], active: [0, 32] }, "not low");
    let background = world.run(ReclaimPass::background(&world.lruvec, 8));
    assert_eq!((background.reclaimed, background.skipped, background.forced), (0, true, false));
    let direct = world.reclaim();
    assert!(direct.forced && direct.reclaimed > 0);
}

#[test]
fn pass_that_frees_something_needs_no_force() {
    let mut world = World::new(128);
    world.read_twice(0..20);
    world.read_all(20..128);
    let scan = world.reclaim();
    assert!(scan.skipped && !scan.forced);
    assert!((32..64).contains(&scan.reclaimed));
    assert_eq!(world.sizes().active[1], 20);
}

/// Aging happens even in a round for files only.
#[test]
fn anonymous_folios_are_aged_after_the_round() {
    let config = LruConfig { can_swap: true, ..LruConfig::file_only(128) };
    for can_swap in [true, false] {
        let mut world = World::with_config(&LruConfig { can_swap, ..config });
        world.page_type = PageType::Anon;
        world.read_twice(0..50);
        world.page_type = PageType::File;
        world.read_all(100..164);
        world.drain();
        let mut pass = ReclaimPass::direct(&world.lruvec);
        pass.scan.priority = 1;
        assert_eq!(world.run(pass).reclaimed, 32);
        assert_eq!(world.count(Counter::PgstealFile), 32);
        let sizes = world.sizes();
        let expected = if can_swap { (32, 18) } else { (0, 50) };
        assert_eq!((sizes.inactive[0], sizes.active[0]), expected, "swap: {can_swap}");
    }
}

#[test]
fn anonymous_folios_are_not_aged_while_their_inactive_list_is_long() {
    let mut world = World::with_config(&LruConfig { can_swap: true, ..LruConfig::file_only(128) });
    world.page_type = PageType::Anon;
    world.read_twice(0..20);
    world.read_all(20..40);
    world.page_type = PageType::File;
    world.read_all(100..164);
    world.reclaim();
    assert_eq!(world.count(Counter::Pgdeactivate), 0);
}

#[test]
fn activated_refault_opens_one_pass_of_deactivation() {
    let mut world = World::new(128);
    world.read_twice(0..40);
    world.read_all(40..128);
    world.reclaim();
    assert_eq!(world.count(Counter::Pgdeactivate), 0, "the inactive list is the longer");
    world.read(40);
    assert_eq!(world.count(Counter::WorkingsetActivateFile), 1);
    assert!(world.flags(40).any(Flags::ACTIVE));
    world.read_all(1000..1000 + world.free.len() as u64);
    world.reclaim();
    let deactivated = world.count(Counter::Pgdeactivate);
    assert!(deactivated > 0);
    world.read_all(2000..2000 + world.free.len() as u64);
    world.reclaim();
    assert_eq!(world.count(Counter::Pgdeactivate), deactivated, "the pass's end closed it");
}

/// The page is evicted at age 1000. 40 evictions and 10 activations follow.
#[test]
fn refault_distance_counts_all_that_happened_in_between() {
    for (nr_active, is_recent) in [(41, true), (40, false)] {
        let mut world = World::new(128);
        world.read_twice(1000..1000 + nr_active);
        world.read_all(0..41);
        world.drain();
        *world.policy().design.age_mut() = NonresidentAge::new(1000);
        let scan = world.reclaim_in_full(41);
        assert_eq!((scan.reclaimed, world.age()), (41, 1041));
        assert_eq!(world.shadows[&0].token(), 1000, "packed before the clock moves on");
        assert_eq!(world.shadows[&40].token(), 1040);
        world.read_twice(2000..2010);
        world.drain();
        assert_eq!(world.age(), 1051);
        assert_eq!(world.sizes().active[1], nr_active + 10, "the threshold");
        assert!(world.read(0));
        assert_eq!(world.count(Counter::WorkingsetRefaultFile), 1);
        assert_eq!(world.count(Counter::WorkingsetActivateFile), u64::from(is_recent));
        assert_eq!(world.flags(0).any(Flags::ACTIVE), is_recent, "equality is recent");
        assert_eq!(world.age(), 1051 + u64::from(is_recent), "a refault activation counts");
    }
}

#[test]
fn activations_still_in_the_log_count() {
    let mut world = World::new(64);
    world.read_all(0..1);
    world.reclaim_in_full(1);
    world.read_twice(10..13);
    assert_eq!(world.age(), 1, "three activations wait in the log");
    world.read(0);
    // D is 1 + 3, W is 3.
    assert_eq!(world.age(), 4);
    assert_eq!(world.count(Counter::WorkingsetActivateFile), 0);
}

#[test]
fn workingset_page_is_restored_and_charged() {
    let mut world = World::new(128);
    world.read_twice(0..10);
    world.reclaim_in_full(1);
    assert_eq!(world.sizes(), ListPages { inactive: [0, 10], active: [0, 0] }, "low: deactivated");
    assert!(world.flags(9).any(Flags::WORKINGSET));
    world.read_twice(100..130);
    world.read_all(10..35);
    world.reclaim_in_full(1);
    assert_eq!(world.sizes(), ListPages { inactive: [0, 3], active: [0, 30] });
    assert!(world.shadows[&9].workingset() && !world.shadows[&10].workingset());
    world.read(10);
    assert_eq!(world.count(Counter::WorkingsetRestoreFile), 0, "recent, but never active before");
    world.read(9);
    assert_eq!(world.count(Counter::WorkingsetActivateFile), 2);
    assert_eq!(world.count(Counter::WorkingsetRestoreFile), 1);
    assert!(world.flags(9).all(Flags::WORKINGSET.with(Flags::ACTIVE)));
    assert_eq!(world.policy().cost.of(PageType::File), 32 / 2, "over a quarter of 34: halved");
}

#[test]
fn shadow_of_another_lruvec_is_not_recent() {
    let mut world = World::new(64);
    world.read_twice(10..30);
    world.drain();
    for (page, group, activated) in [(0, 1, 0), (1, 0, 1)] {
        let shadow = ShadowEntry::new(world.age(), LruvecId { group, node: 0 }, false);
        world.shadows.insert(page, shadow);
        world.read(page);
        assert_eq!(world.count(Counter::WorkingsetActivateFile), activated, "group {group}");
    }
    assert_eq!(world.count(Counter::WorkingsetRefaultFile), 2);
}

/// Swappiness 200 spares files.
#[test]
fn anonymous_folios_go_and_return_by_their_own_counters() {
    let config = LruConfig { can_swap: true, swappiness: 200, ..LruConfig::file_only(256) };
    let mut world = World::with_config(&config);
    world.read_twice(1000..1070);
    world.read_all(1070..1128);
    world.page_type = PageType::Anon;
    world.read_all(0..128);
    assert_eq!(world.sizes(), ListPages { inactive: [128, 58], active: [0, 70] }, "files are low");
    world.reclaim();
    assert_eq!(world.count(Counter::PgstealFile), 0);
    assert!(world.count(Counter::PgstealAnon) >= 32);
    world.read(0);
    let anon = [Counter::WorkingsetRefaultAnon, Counter::WorkingsetActivateAnon];
    let file = [Counter::WorkingsetRefaultFile, Counter::WorkingsetActivateFile];
    assert_eq!(anon.map(|counter| world.count(counter)), [1, 1]);
    assert_eq!(file.map(|counter| world.count(counter)), [0, 0]);
}
