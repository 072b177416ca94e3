//! Clock and counters of refaults among groups.

use super::world::World;
use crate::group::GroupConfig;
use crate::ids::GroupId;
use crate::lru::PolicyName;
use crate::vmstat::Counter;

fn ages(world: &World, groups: &[GroupId]) -> alloc::vec::Vec<u64> {
    groups.iter().map(|group| world.groups.lruvec(*group).hierarchy_counts().age).collect()
}

/// Evictions for a group's limit advance its clock and all above. The shadow names the group.
#[test]
fn ages_move_on_in_the_ancestors_of_the_cause() {
    let mut world = World::new(PolicyName::ActiveInactive, 512);
    let top = world.create(GroupId::ROOT, GroupConfig::limited(100));
    let inner = world.create(top, GroupConfig::limited(60));
    let other = world.create(top, GroupConfig::NONE);
    world.read_all(inner, 0..70);
    let nr_evicted = world.evictions[&inner];
    assert!(nr_evicted >= 10);
    assert_eq!(
        ages(&world, &[GroupId::ROOT, top, inner, other]),
        [nr_evicted, nr_evicted, nr_evicted, 0]
    );
    assert!(world.shadows.values().all(|shadow| shadow.lruvec().group == inner.0));
}

/// Evictions for an ancestor's limit use its clock, and the shadow names it.
#[test]
fn pages_are_evicted_by_the_clock_of_the_cause() {
    let mut world = World::new(PolicyName::ActiveInactive, 512);
    let top = world.create(GroupId::ROOT, GroupConfig::limited(100));
    let [first, second] = [(); 2].map(|()| world.create(top, GroupConfig::NONE));
    world.read_all(first, 0..60);
    world.read_all(second, 100..160);
    let nr_evicted: u64 = world.evictions.values().sum();
    assert!(nr_evicted >= 20);
    assert_eq!(ages(&world, &[GroupId::ROOT, top, first, second]), [nr_evicted, nr_evicted, 0, 0]);
    assert!(world.shadows.values().all(|shadow| shadow.lruvec().group == top.0));
}

/// The cause's clock and lists judge the refault. Active pages of a sibling count.
#[test]
fn a_refault_is_judged_where_the_page_was_evicted_from() {
    let activated = |nr_active: u64| {
        let mut world = World::new(PolicyName::ActiveInactive, 512);
        let top = world.create(GroupId::ROOT, GroupConfig::limited(100));
        let [reader, sibling] = [(); 2].map(|()| world.create(top, GroupConfig::NONE));
        world.read_all(sibling, 0..nr_active);
        world.read_all(sibling, 0..nr_active);
        world.read_all(reader, 1000..1120);
        let (page, _) = world.shadows.iter().next_back().unwrap();
        let page = *page;
        assert!(page >= 1000, "the reader's");
        world.access(reader, page);
        world.check();
        let vmstat = world.groups.lruvec(reader).vmstat();
        assert_eq!(vmstat.read(Counter::WorkingsetRefaultFile), 1);
        vmstat.read(Counter::WorkingsetActivateFile)
    };
    assert_eq!(activated(0), 0, "nothing is active: nothing could have been displaced");
    assert_eq!(activated(40), 1, "the sibling's 40 active pages could");
}

/// Without the group's clock, pages are new.
#[test]
fn shadows_of_a_group_that_is_gone_count_for_nothing() {
    for name in [PolicyName::ActiveInactive, PolicyName::Mglru] {
        let mut world = World::new(name, 512);
        let gone = world.create(GroupId::ROOT, GroupConfig::limited(60));
        world.read_all(gone, 0..100);
        world.groups.remove(gone).unwrap();
        for page in 0..100 {
            world.discard(page);
        }
        assert!(!world.groups.tree().exists(gone));
        let heir = world.create(GroupId::ROOT, GroupConfig::NONE);
        world.read_all(heir, 0..100);
        let vmstat = world.groups.lruvec(heir).vmstat();
        assert_eq!(vmstat.read(Counter::WorkingsetActivateFile), 0, "{name}");
        world.check();
    }
}
