//! Folded and live statistics.

use super::world::World;
use crate::ids::PageType;
use crate::lru::refault_distance::ListPages;
use crate::lru::{LruConfig, Statistics};
use crate::reclaim::ReclaimPass;
use crate::vmstat::Counter;

fn folded(nr_frames: u32) -> World {
    let statistics = Statistics::Folded;
    World::with_config(&LruConfig { statistics, ..LruConfig::file_only(nr_frames) })
}

fn fold(world: &mut World) {
    world.drain();
    world.lruvec.fold_statistics();
}

fn deactivated_by_a_pass(world: &mut World) -> u64 {
    let before = world.count(Counter::Pgdeactivate);
    world.reclaim();
    world.count(Counter::Pgdeactivate) - before
}

/// Reads a new page into each free frame.
fn fill_with_new(world: &mut World, from: u64) {
    let nr_free = world.free.len() as u64;
    assert_eq!(world.read_all(from..from + nr_free), nr_free);
}

#[test]
fn low_verdict_is_constant_between_folds() {
    let mut world = folded(256);
    world.read_twice(0..200);
    world.read_all(200..256);
    assert_eq!(deactivated_by_a_pass(&mut world), 0, "all zeros before the first fold: not low");
    fold(&mut world);
    for pass in 1..=4 {
        fill_with_new(&mut world, pass * 1000);
        let deactivated = deactivated_by_a_pass(&mut world);
        assert!(deactivated > 0, "pass {pass}: low at the fold");
    }
    let ListPages { inactive, active } = world.sizes();
    assert!(
        inactive[1] > active[1],
        "no longer low, which is not known yet: {inactive:?} {active:?}"
    );
    fold(&mut world);
    for pass in 11..=13 {
        fill_with_new(&mut world, pass * 1000);
        assert_eq!(deactivated_by_a_pass(&mut world), 0, "pass {pass}: not low at the fold");
    }
}

/// Only the refault clause can permit deactivation.
#[test]
fn refault_clause_is_true_in_one_pass_per_fold_that_changed_the_counter() {
    let mut world = folded(256);
    world.read_twice(0..64);
    world.read_all(64..256);
    fold(&mut world);
    assert_eq!(deactivated_by_a_pass(&mut world), 0);
    let evicted = *world.shadows.keys().next().expect("the pass evicted");
    world.read(evicted);
    assert_eq!(world.count(Counter::WorkingsetActivateFile), 1, "distances are live");
    for pass in 1..=2 {
        fill_with_new(&mut world, pass * 1000);
        assert_eq!(deactivated_by_a_pass(&mut world), 0, "pass {pass}: not folded yet");
    }
    fold(&mut world);
    fill_with_new(&mut world, 3000);
    assert!(deactivated_by_a_pass(&mut world) > 0, "the first pass after the fold");
    fill_with_new(&mut world, 4000);
    assert_eq!(deactivated_by_a_pass(&mut world), 0, "its end took the snapshot");
    fold(&mut world);
    fill_with_new(&mut world, 5000);
    assert_eq!(deactivated_by_a_pass(&mut world), 0, "a fold that changed nothing");
}

#[test]
fn refaults_are_compared_with_the_active_list_of_the_last_fold() {
    let mut world = folded(128);
    world.read_twice(0..64);
    world.read_all(64..128);
    world.reclaim();
    world.read(64);
    assert_eq!(world.count(Counter::WorkingsetRefaultFile), 1);
    assert_eq!(world.count(Counter::WorkingsetActivateFile), 0, "an active list of length zero");
    fold(&mut world);
    world.read(65);
    assert_eq!(world.count(Counter::WorkingsetActivateFile), 1);
}

#[test]
fn quotas_are_live() {
    let mut world = folded(64);
    world.read_all(0..64);
    let scan = world.reclaim_in_full(64);
    assert_eq!((scan.scanned, scan.reclaimed), (64, 64));
}

#[test]
fn pages_behind_the_shadow_limit_are_folded() {
    let mut world = folded(64);
    world.read_all(0..64);
    world.drain();
    assert_eq!((world.lruvec.nr_pages_for_shadows(), world.lruvec.nr_folios()), (0, 64));
    world.lruvec.fold_statistics();
    world.reclaim_in_full(32);
    assert_eq!((world.lruvec.nr_pages_for_shadows(), world.lruvec.nr_folios()), (64, 32));
    let mut live = World::new(64);
    live.read_all(0..64);
    live.drain();
    assert_eq!(live.lruvec.nr_pages_for_shadows(), 64);
}

/// Cache trimming uses the folded sizes too.
#[test]
fn anonymous_aging_waits_for_a_fold() {
    let statistics = Statistics::Folded;
    let file_only = LruConfig::file_only(128);
    let mut world = World::with_config(&LruConfig { can_swap: true, statistics, ..file_only });
    world.page_type = PageType::Anon;
    world.read_twice(0..50);
    world.page_type = PageType::File;
    world.read_all(100..164);
    world.drain();
    let pass = |world: &mut World| {
        let mut pass = ReclaimPass::direct(&world.lruvec);
        pass.scan.priority = 1;
        world.run(pass)
    };
    pass(&mut world);
    assert_eq!(world.count(Counter::Pgdeactivate), 0, "no anonymous folio is known of");
    let nr_missing = 64 - world.sizes().inactive[1];
    world.read_all(200..200 + nr_missing);
    fold(&mut world);
    pass(&mut world);
    assert_eq!(world.count(Counter::Pgdeactivate), 32);
}
