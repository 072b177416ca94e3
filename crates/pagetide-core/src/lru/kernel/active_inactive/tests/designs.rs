//! Differences of the earlier designs, and the switches of all designs.

use super::world::World;
use crate::folio::Flags;
use crate::ids::PageType;
use crate::lru::{LruConfig, Mechanism, Policy, PolicyName, Switches};
use crate::reclaim::ReclaimPass;
use crate::vmstat::Counter;

fn world(name: PolicyName, nr_frames: u32) -> World {
    World::with_policy(name, &LruConfig::file_only(nr_frames))
}

fn unthrottled(nr_frames: u32) -> World {
    let switches = Switches::default().without(Mechanism::ShadowThrottle);
    let config = LruConfig { switches, ..LruConfig::file_only(nr_frames) };
    World::with_policy(PolicyName::ActiveInactive2013, &config)
}

/// Activates 1000 to 1000 + `nr_active`, reads 0 to 164 and evicts the first 41. Then 10 more pages
/// become active: page 0 is 50 places away, one less than by today's count.
fn evict_and_activate(world: &mut World, nr_active: u64) {
    world.read_twice(1000..1000 + nr_active);
    world.read_all(0..164);
    world.drain();
    let mut pass = ReclaimPass::background(&world.lruvec, 41);
    pass.scan.priority = 2;
    assert_eq!(world.run(pass).reclaimed, 41);
    assert_eq!(world.count(Counter::Pgdeactivate), 0, "the inactive list was always the longer");
    world.read_twice(2000..2010);
    world.drain();
}

/// These designs pack the shadow after the clock moved. An equal distance is recent.
#[test]
fn earlier_distances_are_one_less() {
    for (nr_active, is_recent) in [(40, true), (39, false)] {
        let mut first = world(PolicyName::ActiveInactive315, 256);
        evict_and_activate(&mut first, nr_active);
        first.read(0);
        assert_eq!(first.count(Counter::WorkingsetRefaultFile), 1);
        assert_eq!(first.count(Counter::WorkingsetActivateFile), u64::from(is_recent));
        assert_eq!(first.flags(0).any(Flags::ACTIVE), is_recent);
        let mut challenge = unthrottled(256);
        evict_and_activate(&mut challenge, nr_active);
        challenge.read(0);
        assert_eq!(challenge.count(Counter::WorkingsetRefaultFile), 1);
        assert_eq!(challenge.count(Counter::WorkingsetBalance), u64::from(is_recent));
        assert_eq!(challenge.count(Counter::WorkingsetStale), u64::from(!is_recent));
        assert!(!challenge.flags(0).any(Flags::ACTIVE), "it stays inactive either way");
    }
}

#[test]
fn immediate_refault_is_recent_even_beside_an_empty_active_list() {
    let mut world = world(PolicyName::ActiveInactive315, 64);
    world.read_all(0..1);
    world.reclaim_in_full(1);
    world.read(0);
    assert_eq!(world.count(Counter::WorkingsetActivateFile), 1);
}

#[test]
fn earlier_designs_remember_no_anonymous_page() {
    for name in [PolicyName::ActiveInactive315, PolicyName::ActiveInactive2013] {
        let switches = Switches::default().without(Mechanism::ShadowThrottle);
        let config = LruConfig { can_swap: true, switches, ..LruConfig::file_only(64) };
        let mut world = World::with_policy(name, &config);
        world.read_all(0..8);
        world.page_type = PageType::Anon;
        world.read_all(100..108);
        world.reclaim_in_full(16);
        assert!(world.resident.is_empty());
        assert_eq!(
            world.shadows.keys().copied().collect::<alloc::vec::Vec<_>>(),
            [0, 1, 2, 3, 4, 5, 6, 7]
        );
        assert!(world.shadows.values().all(|shadow| (1..=8).contains(&shadow.token())), "{name}");
    }
}

fn owed(world: &mut World) -> i64 {
    world.drain();
    let Policy::ActiveInactive2013(policy) = &world.lruvec.policy else {
        panic!("the world was built with the challenging design")
    };
    policy.design.shrink_active()
}

#[test]
fn activation_by_access_backs_off() {
    let mut world = unthrottled(256);
    evict_and_activate(&mut world, 60);
    world.read_all(0..3);
    assert_eq!((owed(&mut world), world.count(Counter::WorkingsetBalance)), (3, 3));
    world.read(0);
    assert_eq!(owed(&mut world), 2, "the second access activated it");
    world.read_twice(3000..3005);
    assert_eq!(owed(&mut world), 0, "not below zero by activations");
}

/// Whole pieces make the debt negative.
#[test]
fn owed_folios_are_deactivated_by_the_next_scan() {
    let mut world = unthrottled(256);
    world.read_twice(1000..1060);
    world.read_all(0..196);
    let first = world.reclaim();
    assert!(first.reclaimed >= 32);
    assert_eq!(world.count(Counter::Pgdeactivate), 0, "not low, nothing owed");
    world.read_all(0..5);
    assert_eq!((owed(&mut world), world.count(Counter::WorkingsetBalanceForce)), (5, 5));
    let nr_free = world.free.len() as u64;
    world.read_all(5000..5000 + nr_free);
    world.reclaim();
    let deactivated = world.count(Counter::Pgdeactivate);
    assert!(deactivated >= 5);
    assert_eq!(owed(&mut world), 5 - deactivated as i64);
    world.reclaim();
    assert_eq!(world.count(Counter::Pgdeactivate), deactivated, "paid: not low again");
}

#[test]
fn file_that_returns_is_remembered_better() {
    let mut world = world(PolicyName::ActiveInactive2013, 256);
    world.mapping_pages = 100_000;
    for _ in 0..60 {
        world.read_all(0..300);
    }
    let nr_evicted = (0..300).filter(|page| !world.resident.contains_key(page)).count();
    assert_eq!(world.shadows.range(0..300).count(), nr_evicted, "each left a shadow");
    let stream = 100_000..130_000;
    world.read_all(stream.clone());
    let nr_stream = world.shadows.range(stream).count();
    assert!((100..1000).contains(&nr_stream), "{nr_stream} of 30000 evicted");
}

#[test]
fn without_throttling_each_eviction_leaves_a_shadow() {
    let mut world = unthrottled(64);
    world.read_all(0..1000);
    assert_eq!(world.shadows.len() + world.resident.len(), 1000);
}

#[test]
fn oldest_shadows_are_deleted_in_all_but_without_the_shrinker() {
    for (is_on, nr_refaults) in [(true, 0), (false, 1)] {
        let mut switches = Switches::default().without(Mechanism::ShadowThrottle);
        if !is_on {
            switches = switches.without(Mechanism::ShadowShrinker);
        }
        let config = LruConfig { switches, ..LruConfig::file_only(64) };
        let mut world = World::with_policy(PolicyName::ActiveInactive2013, &config);
        world.read_all(0..500);
        world.read(0);
        assert_eq!(world.count(Counter::WorkingsetRefaultFile), nr_refaults);
        assert_eq!(world.count(Counter::WorkingsetStale), nr_refaults);
    }
}

#[test]
fn without_activation_accesses_move_nothing() {
    let names = Mechanism::Activation.policies();
    assert_eq!(names.len(), 4);
    for name in names {
        let switches = Switches::default().without(Mechanism::Activation);
        let config = LruConfig { switches, ..LruConfig::file_only(64) };
        let mut world = World::with_policy(*name, &config);
        world.read_twice(0..32);
        world.read_twice(0..32);
        world.drain();
        assert_eq!(world.count(Counter::Pgactivate), 0, "{name}");
        assert!((0..32).all(|page| !world.flags(page).any(Flags::ACTIVE)), "{name}");
    }
}

/// Pinned files are scanned in vain.
#[test]
fn without_costs_vain_scans_change_no_share() {
    for (is_on, cost) in [(true, 3), (false, 0)] {
        let switches = Switches::default();
        let switches = if is_on { switches } else { switches.without(Mechanism::CostModel) };
        let mut world = World::with_config(&LruConfig { switches, ..LruConfig::file_only(64) });
        world.read_all(0..48);
        world.pinned.extend(0..6);
        world.reclaim_in_full(8);
        assert_eq!(world.policy().cost.of(PageType::File), cost);
    }
}

/// Young executable pages at both tails, and one piece of the active list.
#[test]
fn without_protection_executables_are_pages_as_others() {
    for (is_on, nr_active) in [(true, 40 + 5), (false, 40 - 32)] {
        let switches = Switches::default();
        let switches = if is_on { switches } else { switches.without(Mechanism::ExecProtection) };
        let mut world = World::with_config(&LruConfig { switches, ..LruConfig::file_only(64) });
        world.read_twice(0..40);
        world.read(200);
        (100..105).for_each(|page| world.map(page));
        world.drain();
        for page in (0..40).chain(100..105) {
            world.set(page, Flags::EXEC);
            world.young.insert(page);
        }
        world.reclaim_in_full(1);
        assert_eq!(world.sizes().active[1], nr_active);
        assert!((100..105).all(|page| world.flags(page).any(Flags::EXEC)), "it stays what it is");
    }
}

#[test]
fn only_todays_design_forces_deactivation() {
    for (name, forces) in [
        (PolicyName::ActiveInactive, true),
        (PolicyName::ActiveInactive315, false),
        (PolicyName::ActiveInactive2013, false),
        (PolicyName::ActiveInactiveVanilla, false),
    ] {
        let mut world = world(name, 64);
        world.read_twice(0..32);
        world.read_all(32..64);
        world.pinned.extend(32..64);
        let scan = world.reclaim();
        assert_eq!((scan.forced, scan.reclaimed > 0), (forces, forces), "{name}");
    }
}

#[test]
fn earlier_designs_ask_before_each_piece() {
    let deactivated = [PolicyName::ActiveInactive, PolicyName::ActiveInactiveVanilla].map(|name| {
        let mut world = world(name, 256);
        world.read_twice(0..128);
        world.read_all(128..256);
        world.reclaim_in_full(256);
        world.count(Counter::Pgdeactivate)
    });
    assert_eq!(deactivated[0], 0, "not low when the pass began");
    assert!(deactivated[1] > 0);
}
