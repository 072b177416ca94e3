//! The driver's order, levels and verdicts, on a toy world.

use super::*;
use crate::group::{GroupConfig, Grouping, NodePass};
use crate::ids::GroupId;
use crate::lru::PolicyName;
use ::alloc::vec;
use toy::{Call, NR_FRAMES, Toy};

mod toy;

fn one_node(policy: PolicyName, nr_free: usize) -> Toy {
    let mut toy = Toy::new(policy, 1, Grouping::Off);
    toy.fill_node(0, 0, nr_free);
    toy
}

fn two_nodes(free: [usize; 2]) -> Toy {
    let mut toy = Toy::new(PolicyName::Fifo, 2, Grouping::Off);
    toy.fill_node(0, 0, free[0]);
    toy.fill_node(1, 1000, free[1]);
    toy
}

/// Evicted pages, in order.
fn evicted(toy: &Toy) -> Vec<u64> {
    toy.shadows.keys().copied().collect()
}

fn background(toy: &mut Toy, target: u64) -> Scan {
    let mut pass = toy.lists.first_mut().map(|lists| NodePass::background(lists, target)).unwrap();
    reclaim(toy, FIRST, &mut pass);
    *pass.scan()
}

#[test]
fn the_fastest_node_above_low_gives_and_nothing_is_woken() {
    let mut toy = two_nodes([9, 9]);
    assert_eq!(take_above_low(&mut toy).map(|frame| frame.0 / NR_FRAMES), Some(0));
    assert_eq!(take_above_low(&mut toy).map(|frame| frame.0 / NR_FRAMES), Some(1));
    assert_eq!((take_above_low(&mut toy), toy.calls), (None, vec![]));
}

#[test]
fn below_low_the_slowest_node_is_tried_first_after_the_background_is_woken() {
    let mut toy = two_nodes([8, 8]);
    let frame = alloc_slowly(&mut toy).unwrap();
    assert_eq!((frame.0 / NR_FRAMES, toy.calls), (1, vec![Call::Wake]));
}

#[test]
fn an_allocation_gives_up_after_it_drained_every_cpu_and_reclaimed_again() {
    let mut toy = one_node(PolicyName::Fifo, 0);
    toy.pinned = toy.frame_of.keys().copied().collect();
    assert_eq!(alloc_slowly(&mut toy), None);
    let direct = Call::Pass(0, ReclaimKind::Direct);
    let calls = [Call::Wake, direct, Call::DrainFrames(0), Call::DrainLogs(0), direct];
    assert_eq!(toy.calls, calls);
    toy.validate();
}

#[test]
fn words_are_published_in_the_victims_order_and_frames_are_freed_after_them() {
    let mut toy = one_node(PolicyName::Fifo, 0);
    assert_eq!(background(&mut toy, 3).reclaimed, 3);
    let oldest: Vec<FrameId> = (0..3).map(FrameId).collect();
    let words = oldest.iter().map(|frame| Call::Evict(*frame));
    let frames = oldest.iter().map(|frame| Call::Free(*frame));
    let end = [Call::Pass(0, ReclaimKind::Background)];
    assert_eq!(toy.calls, words.chain(frames).chain(end).collect::<Vec<_>>());
    toy.validate();
}

#[test]
fn dirty_pinned_and_young_victims_stay_and_dirty_ones_wake_the_flusher() {
    let mut toy = one_node(PolicyName::Fifo, 0);
    (0..8).for_each(|page| toy.dirty(page));
    toy.about_to_be_dirty.insert(8);
    toy.pinned.insert(9);
    toy.young.insert(10);
    let scan = background(&mut toy, 2);
    assert_eq!((evicted(&toy), scan.dirty), (vec![11, 12], 9));
    assert_eq!(toy.calls.last(), Some(&Call::WakeFlusher));
    assert!(toy.young.is_empty(), "a trial takes the young bit");
    toy.validate();
}

#[test]
fn a_mapped_victim_is_asked_whether_it_is_young_before_it_is_refused_as_dirty() {
    let mut toy = one_node(PolicyName::Fifo, 0);
    for page in 0..4 {
        toy.dirty(page);
        toy.folios[toy.frame_of[&page]].set(Flags::MAPPED);
    }
    toy.young = [0, 1].into();
    let scan = background(&mut toy, 2);
    assert_eq!((evicted(&toy), scan.dirty), (vec![4, 5], 2));
    assert!(toy.young.is_empty(), "they were asked");
    let waits = |page| toy.folios[toy.frame_of[&page]].flags().any(Flags::RECLAIM);
    assert_eq!([0, 1, 2, 3].map(waits), [false, false, true, true]);
    toy.validate();
}

#[test]
fn a_policy_that_ages_by_tables_has_the_pages_beside_a_young_victim_looked_at() {
    for (policy, looks) in [(PolicyName::Mglru, true), (PolicyName::Fifo, false)] {
        let mut toy = one_node(policy, 0);
        toy.young = (0..u64::from(NR_FRAMES)).collect();
        background(&mut toy, 4);
        let looked = toy.calls.iter().any(|call| matches!(call, Call::ReadAround(_)));
        assert_eq!(looked, looks, "{policy}");
        toy.validate();
    }
}

#[test]
fn victims_move_down_while_there_is_room_dirty_or_not_and_hot_ones_stay() {
    let mut toy = two_nodes([0, 7]);
    toy.dirty(0);
    toy.hot.insert(1);
    toy.dirty(3);
    toy.dirty(4);
    background(&mut toy, 4);
    let on_slow = |page: u64| toy.frame_of.get(&page).is_some_and(|frame| frame.0 >= NR_FRAMES);
    assert_eq!([0, 1, 2, 3, 4].map(on_slow), [true, false, true, true, false]);
    // There was room for three. Then dirty pages stay and clean pages go.
    assert_eq!(evicted(&toy), [5]);
    toy.validate();
}

#[test]
fn on_demand_even_hot_pages_go() {
    let mut toy = two_nodes([0, 64]);
    toy.hot = (0..64).collect();
    assert_eq!(background(&mut toy, 4).reclaimed, 0);
    assert_eq!(reclaim_on_demand(&mut toy, FIRST, 4), 4);
    toy.validate();
}

#[test]
fn the_background_sees_to_slower_nodes_first_and_ends_at_its_target() {
    let mut toy = two_nodes([0, 0]);
    toy.woken = Woken::Caller;
    wake_background(&mut toy);
    assert!(toy.free.iter().all(|free| free.len() >= 12), "both are at HIGH");
    let node_of_pass = |call: &Call| match call {
        Call::Pass(node, ReclaimKind::Background) => Some(*node),
        _ => None,
    };
    let passes: Vec<u8> = toy.calls.iter().filter_map(node_of_pass).collect();
    assert_eq!((passes.first(), passes.last()), (Some(&1), Some(&1)));
    assert!(passes.contains(&0));
    let is_active = |node| {
        let last = toy.calls.iter().rev().find_map(|call| match call {
            Call::Active(of, is_active) if *of == node => Some(*is_active),
            _ => None,
        });
        last == Some(true)
    };
    assert!(!is_active(0) && !is_active(1));
    toy.validate();
}

#[test]
fn a_caller_whose_part_is_a_batch_frees_no_more() {
    let mut toy = one_node(PolicyName::Fifo, 0);
    toy.free[0].clear();
    toy.woken = Woken::CallerForBatch;
    wake_background(&mut toy);
    assert_eq!(toy.free[0].len(), 12, "HIGH is less than a batch");
    let batch = [Call::Pass(0, ReclaimKind::Background)];
    assert_eq!(toy.calls.iter().filter(|call| matches!(call, Call::Pass(..))).count(), 1);
    assert!(toy.calls.ends_with(&batch) && !toy.calls.contains(&Call::Active(0, true)));
    toy.validate();
}

#[test]
fn a_brief_allocation_makes_one_direct_pass_and_leaves_the_rest_to_others() {
    let mut toy = one_node(PolicyName::Fifo, 5);
    let direct = Call::Pass(0, ReclaimKind::Direct);
    assert!(alloc_briefly(&mut toy).is_some(), "above MIN");
    assert_eq!(toy.calls, [Call::Wake]);
    assert!(alloc_briefly(&mut toy).is_some(), "freed by the pass");
    assert_eq!((toy.calls[1], toy.calls.last()), (Call::Wake, Some(&direct)));
    toy.calls.clear();
    toy.pinned = toy.frame_of.keys().copied().collect();
    assert_eq!(alloc_briefly(&mut toy), None);
    assert_eq!(toy.calls, [Call::Wake, direct]);
}

/// All pages were touched before each pass.
#[test]
fn a_pass_that_may_not_walk_ends_where_a_walk_is_due_and_another_goes_on() {
    let mut toy = one_node(PolicyName::Mglru, 0);
    let age = |toy: &mut Toy| {
        toy.young = toy.frame_of.keys().copied().collect();
        background(toy, 4);
        toy.validate();
        toy.calls.contains(&Call::Walk)
    };
    toy.may_walk = false;
    assert!((0..4).all(|_| !age(&mut toy)));
    toy.may_walk = true;
    assert!(age(&mut toy));
    assert!(background(&mut toy, 4).reclaimed >= 4);
    toy.validate();
}

#[test]
fn a_background_that_frees_nothing_ends() {
    let mut toy = one_node(PolicyName::Fifo, 0);
    toy.pinned = toy.frame_of.keys().copied().collect();
    reclaim_in_background(&mut toy, FIRST);
    let passes = toy.calls.iter().filter(|call| matches!(call, Call::Pass(..))).count();
    assert_eq!(passes, 1);
}

#[test]
fn steps_of_a_background_thread_are_the_passes_made_at_once() {
    let (mut at_once, mut stepped) = (one_node(PolicyName::Fifo, 0), one_node(PolicyName::Fifo, 0));
    reclaim_in_background(&mut at_once, FIRST);
    let (mut thread, mut batch) = (BackgroundThread::default(), ReclaimBatch::new());
    thread.wake(&mut stepped);
    let mut nr_scanned = 0;
    while thread.is_awake() {
        nr_scanned += thread.step(&mut stepped, &mut batch);
    }
    assert_eq!((nr_scanned, &stepped.calls), (12, &at_once.calls));
    assert_eq!(thread.step(&mut stepped, &mut batch), 0, "it sleeps");
}

#[test]
fn a_full_group_gives_a_page_for_its_own_and_a_removed_one_leaves_the_bill_to_the_root() {
    let mut toy = Toy::new(PolicyName::Fifo, 1, Grouping::On);
    let groups = toy.lists[0].groups_mut().unwrap();
    let group = groups.create(GroupId::ROOT, GroupConfig::limited(4)).unwrap();
    for page in 0..6 {
        assert_eq!(charge_group(&mut toy, || group), Some(group));
        let frame = take_above_low(&mut toy).unwrap();
        toy.fill(page, frame, group);
    }
    assert_eq!(evicted(&toy), [0, 1]);
    toy.pinned = toy.frame_of.keys().copied().collect();
    assert_eq!(charge_group(&mut toy, || group), None, "nothing can be taken");
    toy.pinned.clear();
    assert_eq!(reclaim_from_group(&mut toy, group, 1), 1);
    toy.lists[0].groups_mut().unwrap().remove(group).unwrap();
    assert_eq!(charge_group(&mut toy, || group), Some(GroupId::ROOT));
}

#[test]
fn a_shrink_writes_back_when_nothing_can_be_taken_and_gives_up_in_the_end() {
    let mut toy = one_node(PolicyName::Fifo, 2);
    (0..10).for_each(|page| toy.dirty(page));
    toy.pinned = (20..62).collect();
    let nr_now = toy.take_out_of_service(FIRST, 20);
    assert_eq!(shrink_node(&mut toy, FIRST, nr_now, 20), 42, "all but the pinned pages");
    assert_eq!(toy.nr_write_backs, 8, "once for the dirty pages, then in vain");
    toy.pinned.clear();
    assert_eq!(shrink_node(&mut toy, FIRST, 42, 20), 20);
}

#[test]
fn a_shrink_makes_room_for_demotions_and_evicts_the_rest() {
    let mut toy = two_nodes([0, 0]);
    assert_eq!(shrink_node(&mut toy, FIRST, NR_FRAMES, NR_FRAMES - 10), NR_FRAMES - 10);
    let nr = |call: fn(&Call) -> bool| toy.calls.iter().filter(|it| call(it)).count();
    assert_eq!(nr(|it| matches!(it, Call::ListDemoted(_))), 6, "MIN stays free in the slow node");
    assert_eq!(nr(|it| matches!(it, Call::Evict(_))), 10 + 4, "of the slow node, and the rest");
}

#[test]
fn reclaim_for_runs_keeps_the_lists_of_the_cpus_short() {
    let mut toy = one_node(PolicyName::Fifo, 0);
    assert_eq!(reclaim_for_runs(&mut toy, 5), 5);
    let passes = toy.calls.iter().filter(|call| matches!(call, Call::Active(..) | Call::Pass(..)));
    let pass = Call::Pass(0, ReclaimKind::Background);
    assert!(passes.eq(&[Call::Active(0, true), pass, Call::Active(0, false)]));
}

#[test]
fn a_fill_waits_for_writes_of_others_and_ends_after_failures_in_a_row() {
    let (mut nr_fills, mut nr_waits) = (0, 0);
    let outcomes = [(3, 1), (0, 2), (0, 0), (1, 0), (0, 1), (0, 1), (0, 1)];
    let mut outcome = outcomes.into_iter();
    let fill = || {
        nr_fills += 1;
        None::<()>
    };
    assert_eq!(wait_for_room(2, fill, || outcome.next().unwrap(), || nr_waits += 1), None);
    assert_eq!((nr_fills, nr_waits), (7, 1));
    let mut left = 2;
    let fill = || {
        left -= 1;
        (left == 0).then_some("filled")
    };
    assert_eq!(wait_for_room(0, fill, || (1, 0), || panic!("no wait")), Some("filled"));
}

/// The multi-gen LRU tries a busy victim once more.
#[test]
fn no_victim_is_off_the_lists_when_they_are_unlocked() {
    for &name in PolicyName::ALL {
        let mut toy = one_node(name, 0);
        toy.pinned = (0..64).step_by(3).collect();
        toy.young = (1..64).step_by(3).collect();
        let scan = background(&mut toy, 64);
        assert!(scan.reclaimed >= 20, "{name}: {scan:?}");
        toy.validate();
    }
}
