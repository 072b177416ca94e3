//! Small forms of `wschange` and `wsprotect` (docs/seeds.md), for all designs. Files of three
//! quarters of memory must displace each other quickly (never without history). A protected set
//! must survive a stream that does not fit.
//!
//! Exact miss counts depend on batch boundaries. An independent model with quotas by priority has
//! 1069 misses for the second file and 88 for later ones. The tests check ranges around these.

use super::world::World;
use crate::lru::{LruConfig, Mechanism, PolicyName, Switches};
use crate::vmstat::Counter;
use alloc::vec::Vec;

const NR_FRAMES: u32 = 4096;
const FILE: u64 = 3072;
const DESIGNS: [PolicyName; 4] = [
    PolicyName::ActiveInactive,
    PolicyName::ActiveInactive315,
    PolicyName::ActiveInactive2013,
    PolicyName::ActiveInactiveVanilla,
];

fn world(name: PolicyName, switches: Switches) -> World {
    let config = LruConfig { switches, ..LruConfig::file_only(NR_FRAMES) };
    let mut world = World::with_policy(name, &config);
    world.mapping_pages = FILE;
    world
}

/// Reads one file until a pass has no miss, at most 30 times. Returns the misses of each pass.
fn passes(world: &mut World, nth: u64) -> Vec<u64> {
    let pages = nth * FILE..(nth + 1) * FILE;
    let mut misses = Vec::new();
    while misses.last() != Some(&0) && misses.len() < 30 {
        misses.push(world.read_all(pages.clone()));
    }
    if misses.last() == Some(&0) {
        for _ in 0..2 {
            assert_eq!(world.read_all(pages.clone()), 0, "it stays");
        }
    }
    misses
}

/// A number of full misses, then a range for the last passes.
type Expected = (u64, usize, core::ops::Range<u64>);

fn check(name: PolicyName, switches: Switches, expected: &[Expected]) -> World {
    let mut world = world(name, switches);
    assert_eq!(passes(&mut world, 0), [FILE, 0], "{name}: nothing competes with the first");
    for (nth, nr_full, last) in expected {
        let misses = passes(&mut world, *nth);
        assert_eq!(misses.len(), nr_full + 2, "{name}, file {nth}: {misses:?}");
        assert!(misses[..*nr_full].iter().all(|misses| *misses == FILE), "{name}: {misses:?}");
        assert!(last.contains(&misses[*nr_full]), "{name}, file {nth}: {misses:?}");
    }
    world
}

#[test]
fn changed_working_set_is_taken_in_within_four_passes() {
    let later = |nth| (nth, 2, 30..200);
    let expected = [(1, 2, 1024..1150), later(2), later(3), later(4)];
    check(PolicyName::ActiveInactive, Switches::default(), &expected);
}

/// The table has 1045 and 38.
#[test]
fn first_merged_form_takes_in_as_fast_as_todays() {
    let expected = [(1, 2, 1030..1080), (2, 2, 20..80), (3, 2, 20..80), (0, 2, 20..80)];
    let world = check(PolicyName::ActiveInactive315, Switches::default(), &expected);
    assert_eq!(world.count(Counter::WorkingsetRestoreFile), 0, "it did not tell those");
}

/// The table has 2048 and 1088 misses in the third pass. Scans by priority deactivate fewer pages.
#[test]
fn challenging_form_takes_in_within_five_passes() {
    let switches = Switches::default().without(Mechanism::ShadowThrottle);
    let expected = [(1, 3, 800..1000), (2, 3, 400..600), (0, 3, 400..600)];
    let world = check(PolicyName::ActiveInactive2013, switches, &expected);
    assert_eq!(world.count(Counter::WorkingsetActivateFile), 0, "nothing is activated at once");
    assert!(world.count(Counter::WorkingsetBalanceForce) > 0);
}

/// Each file has to pay its debt first: one more pass, less on its second turn. The posting
/// measured, in seconds a pass (4.2 without a miss, 10 with all misses): data-2 9.58 10.00 9.72
/// 10.22 5.77 4.29; data-3 9.71 9.71 10.13 10.25 6.08 4.42; data-1 again 10.00 9.79 10.32 7.53
/// 4.49.
#[test]
fn challenging_form_with_little_history_needs_the_passes_that_were_measured() {
    let expected = [(1, 4, 900..1700), (2, 4, 900..1700), (0, 3, 1500..3072)];
    check(PolicyName::ActiveInactive2013, Switches::default(), &expected);
}

#[test]
fn without_history_the_first_working_set_stays_for_ever() {
    let mut world = world(PolicyName::ActiveInactiveVanilla, Switches::default());
    assert_eq!(passes(&mut world, 0), [FILE, 0]);
    assert_eq!(passes(&mut world, 1), [FILE; 30], "30 passes, and nothing learnt");
    assert!(world.shadows.is_empty());
}

/// Matches [`PolicyName::ActiveInactiveVanilla`].
#[test]
fn unjudged_refaults_take_nothing_in() {
    for name in DESIGNS {
        let mut world = world(name, Switches::default().without(Mechanism::RefaultDistance));
        assert_eq!(passes(&mut world, 0), [FILE, 0]);
        assert_eq!(passes(&mut world, 1), [FILE; 30], "{name}");
    }
}

/// The active list becomes too long instead, as in 3.15.
#[test]
fn refault_deactivation_is_not_what_convergence_needs() {
    let switches = Switches::default().without(Mechanism::RefaultDeactivation);
    let with = world_misses(PolicyName::ActiveInactive, Switches::default());
    let without = world_misses(PolicyName::ActiveInactive, switches);
    assert_ne!(with, without);
    assert!(without.len() <= 5, "{without:?}");
}

#[test]
fn without_challenge_refaults_are_activated() {
    let switches = Switches::default().without(Mechanism::ShadowThrottle);
    let expected = world_misses(PolicyName::ActiveInactive315, Switches::default());
    let switches = switches.without(Mechanism::Challenge);
    assert_eq!(world_misses(PolicyName::ActiveInactive2013, switches), expected);
}

fn world_misses(name: PolicyName, switches: Switches) -> Vec<u64> {
    let mut world = world(name, switches);
    passes(&mut world, 0);
    passes(&mut world, 1)
}

#[test]
fn protected_set_survives_a_stream() {
    for name in DESIGNS {
        let mut world = world(name, Switches::default());
        for _ in 0..5 {
            world.read_all(0..1024);
        }
        for nth in 0..10 {
            let misses = world.read_all(10_000..10_000 + 4352);
            assert_eq!(misses, 4352, "{name}, pass {nth} of the stream");
            assert_eq!(world.resident.range(0..1024).count(), 1024, "{name}, after pass {nth}");
        }
        assert_eq!(world.count(Counter::WorkingsetActivateFile), 0, "{name}");
        assert_eq!(world.count(Counter::WorkingsetBalance), 0, "{name}");
        assert_eq!(world.count(Counter::Pgdeactivate), 0, "{name}");
    }
}
