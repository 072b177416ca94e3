//! Single steps of the policy.

use super::world::{ANON, FILE, Steps};
use crate::folio::Flags;
use crate::ids::{FrameId, PageType};
use crate::lru::{
    AccessLog, AccessPath, LruvecId, Marked, ReclaimBatch, Refusal, ShadowEntry, Verdict,
};
use crate::reclaim::{ReclaimPass, Step};
use crate::vmstat::Counter;
use alloc::vec::Vec;

const SATURATED: Flags = Flags::REFERENCED.with(Flags::WORKINGSET).with(Flags::REFS);

#[test]
fn a_hundred_clean_folios_go_in_two_batches() {
    let mut steps = Steps::new(None);
    let frames = steps.add(100, PageType::File, Flags::NONE);
    assert_eq!(steps.sizes(FILE), [100, 0, 0, 0]);
    assert_eq!(steps.direct(0), 100, "a direct pass does not look at its target of 32");
    let evicted: Vec<FrameId> = steps.evicted.iter().map(|(frame, _)| *frame).collect();
    assert_eq!(evicted, frames, "oldest first");
    let summary = steps.summary();
    assert_eq!((summary.max_seq, summary.min_seq), (3, [0, 2]), "empty generations are skipped");
    let tokens: Vec<u64> = steps.evicted.iter().map(|(_, shadow)| shadow.token() >> 2).collect();
    assert!(tokens[..64].iter().all(|seq| *seq == 0));
    assert!(tokens[64..].iter().all(|seq| *seq == 2), "the second batch emptied generation 0");
    let tier0 = summary.tiers[FILE][0];
    assert_eq!((tier0.avg_total, tier0.evicted), (32, 36), "64 were folded once");

    let early = steps.evicted[0].1;
    let returning = steps.bind(PageType::File, Flags::NONE);
    let mut log = AccessLog::new();
    steps.lruvec.refault(&mut log, returning, early, AccessPath::Descriptor);
    assert_eq!(steps.summary().tiers[FILE][0].refaulted, 1, "still within the window");

    assert_eq!(steps.direct(12), 0, "nothing to evict: ages to four generations");
    let summary = steps.summary();
    assert_eq!((summary.max_seq, summary.min_seq), (5, [2, 2]), "anon, never evicted, is forced");
    assert_eq!(steps.counter(Counter::LruGenAged), 2);
    let added = steps.add_one(PageType::File, Flags::NONE);
    assert_eq!(steps.seq_of(added), 2);
    steps.lruvec.refault(&mut log, returning, early, AccessPath::Descriptor);
    assert_eq!(steps.summary().tiers[FILE][0].refaulted, 1, "too old by now");
}

#[test]
fn background_stops_at_its_target() {
    let mut steps = Steps::new(None);
    steps.add(1000, PageType::File, Flags::NONE);
    let pass = ReclaimPass::background(&steps.lruvec, 10);
    assert_eq!(steps.run(pass, 0).scan.reclaimed, 64, "one batch");
}

#[test]
fn background_with_a_large_target_starts_lower() {
    let mut steps = Steps::new(None);
    steps.add(2048, PageType::File, Flags::NONE);
    let priority = |target| ReclaimPass::background(&steps.lruvec, target).scan.priority;
    assert_eq!(priority(63), 12);
    assert_eq!(priority(64), 6, "2048 are too few for any other");
    assert_eq!(ReclaimPass::direct(&steps.lruvec).scan.priority, 12);
}

#[test]
fn a_busy_folio_is_tried_twice_and_leaves_the_oldest_generation() {
    let mut steps = Steps::new(None);
    let read_once = steps.add_one(PageType::File, Flags::REFERENCED);
    let of_workingset = steps.add_one(PageType::File, Flags::WORKINGSET);
    steps.refusals.insert(read_once, Refusal::Busy);
    steps.refusals.insert(of_workingset, Refusal::Busy);
    assert_eq!(steps.seq_of(of_workingset), 1);
    assert_eq!(steps.direct(0), 0);
    assert_eq!(steps.trials[&read_once] % 2, 0, "always twice in a row");
    let flags = steps.folio(read_once).flags();
    assert!(!flags.any(Flags::REFERENCED.with(Flags::ACTIVE)), "starts over: {flags:?}");
}

/// Read-ahead in flight has this effect in `wschange` on Linux 6.18.
#[test]
fn folios_in_flight_empty_the_oldest_generation() {
    let mut steps = Steps::new(None);
    let frames = steps.add(40, PageType::File, Flags::NONE);
    for &frame in &frames {
        steps.refusals.insert(frame, Refusal::Busy);
    }
    let mut pass = ReclaimPass::direct(&steps.lruvec);
    pass.scan.priority = 0;
    let mut batch = ReclaimBatch::new();
    assert_eq!(steps.lruvec.isolate(&mut pass, &mut batch), Step::TryEvict);
    assert_eq!(batch.victims_mut().len(), 40);
    steps.lruvec.settle(&mut pass, &mut batch);
    assert_eq!(steps.lruvec.isolate(&mut pass, &mut batch), Step::TryEvict);
    assert_eq!(batch.victims_mut().len(), 40, "all once more");
    steps.lruvec.settle(&mut pass, &mut batch);
    let _ = steps.lruvec.isolate(&mut pass, &mut batch);
    let summary = steps.summary();
    assert_eq!(summary.min_seq[FILE], 2, "the oldest generations are gone");
    assert_eq!(steps.sizes(FILE), [0, 0, 40, 0], "survivors are at max-1");
}

#[test]
fn a_young_victim_is_kept_once_and_activated_the_second_time() {
    let mut steps = Steps::new(None);
    let frame = steps.add_one(PageType::File, Flags::NONE);
    let others = steps.add(30, PageType::File, Flags::REFERENCED);
    steps.refusals.insert(frame, Refusal::Young);
    for other in &others {
        steps.refusals.insert(*other, Refusal::Young);
    }
    let mut pass = ReclaimPass::direct(&steps.lruvec);
    pass.scan.priority = 0;
    let mut batch = ReclaimBatch::new();
    assert_eq!(steps.lruvec.isolate(&mut pass, &mut batch), Step::TryEvict);
    for victim in batch.victims_mut() {
        victim.verdict = Verdict::Refused(Refusal::Young);
    }
    steps.lruvec.settle(&mut pass, &mut batch);
    assert_eq!(steps.seq_of(frame), 2, "kept: max-1");
    assert!(!steps.folio(frame).flags().any(Flags::WORKINGSET));
    for other in others {
        assert_eq!(steps.seq_of(other), 3, "activated, in the working set: max");
        let flags = steps.folio(other).flags();
        assert!(flags.any(Flags::WORKINGSET) && !flags.any(SATURATED.without(Flags::WORKINGSET)));
    }
}

#[test]
fn a_dirty_file_waits_in_the_next_generation_until_written() {
    let mut steps = Steps::new(None);
    let frame = steps.add_one(PageType::File, Flags::DIRTY);
    steps.add(100, PageType::File, Flags::NONE);
    assert!(steps.direct(0) > 0);
    assert!(!steps.trials.contains_key(&frame));
    assert!(steps.folio(frame).flags().any(Flags::RECLAIM));
    assert_eq!(steps.counter(Counter::LruGenUnwritten), 1);
    steps.folio(frame).clear(Flags::DIRTY.with(Flags::RECLAIM));
    steps.log(|log, _| log.rotate(frame));
    assert_eq!(steps.seq_of(frame), steps.summary().min_seq[FILE]);
    assert_eq!(steps.direct(11), 1, "goes next");
}

#[test]
fn a_refused_dirty_page_is_marked_and_kept_young() {
    let mut steps = Steps::new(Some(200));
    let frame = steps.add_one(PageType::Anon, Flags::NONE);
    steps.folio(frame).set(Flags::DIRTY);
    steps.refusals.insert(frame, Refusal::Dirty);
    let mut pass = ReclaimPass::direct(&steps.lruvec);
    pass.scan.priority = 0;
    let mut batch = ReclaimBatch::new();
    assert_eq!(steps.lruvec.isolate(&mut pass, &mut batch), Step::TryEvict);
    batch.victims_mut()[0].verdict = Verdict::Refused(Refusal::Dirty);
    steps.lruvec.settle(&mut pass, &mut batch);
    let flags = steps.folio(frame).flags();
    assert!(flags.any(Flags::RECLAIM), "{flags:?}");
    assert!(batch.victims_mut().is_empty(), "no second trial");
}

#[test]
fn a_write_back_that_ended_meanwhile_means_another_trial() {
    let mut steps = Steps::new(None);
    let frame = steps.add_one(PageType::File, Flags::RECLAIM);
    let mut pass = ReclaimPass::direct(&steps.lruvec);
    pass.scan.priority = 0;
    let mut batch = ReclaimBatch::new();
    assert_eq!(steps.lruvec.isolate(&mut pass, &mut batch), Step::TryEvict);
    assert!(!steps.folio(frame).flags().any(Flags::RECLAIM), "its turn has come");
    batch.victims_mut()[0].verdict = Verdict::Refused(Refusal::Dirty);
    steps.lruvec.settle(&mut pass, &mut batch);
    assert_eq!(steps.lruvec.isolate(&mut pass, &mut batch), Step::TryEvict);
    assert_eq!(batch.victims_mut()[0].frame, frame);
    assert!(!steps.folio(frame).flags().any(Flags::RECLAIM), "nothing would rotate it");
}

#[test]
fn tables_are_walked_before_a_generation_starts() {
    let mut steps = Steps::new(None);
    let mapped = steps.add_one(PageType::File, Flags::ACTIVE);
    assert_eq!(steps.seq_of(mapped), 2, "faulted in: max-1");
    steps.young = [mapped].to_vec();
    assert_eq!(steps.direct(0), 0, "skips two empty generations, comes back, and ages twice");
    assert_eq!((steps.walks, steps.counter(Counter::LruGenAged)), (2, 2));
    assert!(steps.folio(mapped).flags().any(Flags::WORKINGSET), "seen young twice");
    assert_eq!(steps.counter(Counter::LruGenWalkPromoted), 1);
    assert_eq!(steps.seq_of(mapped), 4, "promoted by the walk before the second generation");
}

#[test]
fn a_direct_pass_ages_its_way_to_young_folios() {
    let mut steps = Steps::new(None);
    steps.add(200, PageType::File, Flags::ACTIVE);
    assert!(steps.direct(12) >= 32);
}

#[test]
fn a_promoted_folio_is_sorted_when_eviction_meets_it() {
    let mut steps = Steps::new(None);
    let promoted = steps.add_one(PageType::File, Flags::NONE);
    steps.add(99, PageType::File, Flags::NONE);
    steps.lruvec.report_young(&[promoted]);
    assert_eq!(steps.sizes(FILE), [100, 0, 0, 0], "the first observation is a note");
    steps.lruvec.report_young(&[promoted]);
    assert_eq!(steps.sizes(FILE), [99, 0, 0, 1], "belongs to the youngest");
    assert_eq!(steps.counter(Counter::LruGenSorted), 0, "but is linked where it was");
    steps.lruvec.validate();
    assert_eq!(steps.direct(0), 99);
    assert_eq!(steps.counter(Counter::LruGenSorted), 1);
    assert!(!steps.trials.contains_key(&promoted));
}

#[test]
fn a_promoted_folio_can_be_dropped_before_it_is_sorted() {
    let mut steps = Steps::new(None);
    let promoted = steps.add_one(PageType::File, Flags::REFERENCED);
    steps.add(9, PageType::File, Flags::NONE);
    steps.lruvec.report_young(&[promoted]);
    steps.lruvec.discard(promoted);
    steps.lruvec.validate();
    assert_eq!(steps.sizes(FILE), [9, 0, 0, 0]);
}

#[test]
fn saturated_folios_move_on_without_counting_as_protected() {
    let mut steps = Steps::new(None);
    let frames = steps.add(80, PageType::File, Flags::NONE);
    for _ in 0..5 {
        for &frame in &frames[..10] {
            assert_eq!(steps.lruvec.access_rule().mark(&steps.folios, frame), Marked::Done);
        }
    }
    let pass = ReclaimPass::background(&steps.lruvec, 10);
    assert_eq!(steps.run(pass, 0).scan.reclaimed, 64);
    assert_eq!(steps.sizes(FILE), [6, 10, 0, 0]);
    assert_eq!(steps.counter(Counter::LruGenPromotedLazily), 10);
    assert_eq!(steps.summary().tiers[FILE].map(|tier| tier.protected), [0; 4]);
    assert_eq!(steps.folio(frames[0]).flags().without(Flags::LINK).refs(), 0);
    assert!(steps.folio(frames[0]).flags().any(Flags::WORKINGSET), "but its history stays");
}

#[test]
fn unevictable_folios_wait_apart_until_touched() {
    let mut steps = Steps::new(None);
    let frames = steps.add(20, PageType::File, Flags::NONE);
    let locked_early = steps.add_one(PageType::File, Flags::UNEVICTABLE);
    let locked_later = frames[0];
    steps.folio(locked_later).set(Flags::UNEVICTABLE);
    assert_eq!(steps.direct(0), 19);
    assert_eq!(steps.lruvec.nr_folios(), 2);
    for frame in [locked_early, locked_later] {
        steps.log(|log, _| log.touch(frame));
        assert_eq!(steps.folio(frame).flags().generation(), None, "still locked");
        steps.folio(frame).clear(Flags::UNEVICTABLE);
        steps.log(|log, _| log.touch(frame));
    }
    assert_eq!(steps.sizes(FILE).iter().sum::<u64>(), 2);
    steps.lruvec.validate();
}

#[test]
fn the_other_type_is_taken_when_the_first_has_nothing() {
    let mut steps = Steps::new(Some(1));
    steps.add(10, PageType::Anon, Flags::NONE);
    assert_eq!(steps.direct(0), 10);
    let mut without_swap = Steps::new(None);
    without_swap.add(10, PageType::Anon, Flags::NONE);
    assert_eq!(without_swap.direct(12), 0);
    assert!(without_swap.trials.is_empty());
    assert_eq!(without_swap.lruvec.nr_folios(), 10);
}

#[test]
fn aging_leaves_stranded_anon_where_it_is() {
    let mut steps = Steps::new(None);
    let stranded = steps.add(10, PageType::Anon, Flags::NONE);
    steps.add(100, PageType::File, Flags::NONE);
    assert_eq!(steps.direct(0), 100);
    assert_eq!(steps.direct(12), 0, "no file is left: two generations are started");
    assert_eq!(steps.summary().min_seq[ANON], 2);
    assert_eq!(steps.seq_of(stranded[0]), 4);
    assert_eq!(steps.sizes(ANON), [0, 0, 10, 0]);
}

#[test]
fn refaults_count_by_tier_and_restore_the_working_set() {
    let mut steps = Steps::new(None);
    let id = LruvecId::default();
    let mut log = AccessLog::new();
    let hot = steps.bind(PageType::File, Flags::NONE);
    steps.lruvec.refault(&mut log, hot, ShadowEntry::new(3, id, true), AccessPath::Table);
    assert_eq!(steps.folio(hot).flags(), Flags::WORKINGSET);
    assert_eq!(steps.counter(Counter::WorkingsetRestoreFile), 1);
    assert_eq!(steps.counter(Counter::WorkingsetActivateFile), 1);

    let warm = steps.bind(PageType::File, Flags::NONE);
    steps.lruvec.refault(&mut log, warm, ShadowEntry::new(2, id, false), AccessPath::Descriptor);
    assert_eq!(steps.folio(warm).flags(), Flags::NONE.with_refs(2), "remembered, not referenced");
    assert_eq!(steps.summary().tiers[FILE].map(|tier| tier.refaulted), [0, 0, 1, 1]);

    let stranger = LruvecId { group: 1, node: 0 };
    let foreign = ShadowEntry::new(3, stranger, true);
    steps.lruvec.refault(&mut log, warm, foreign, AccessPath::Descriptor);
    assert_eq!(steps.counter(Counter::WorkingsetRefaultFile), 2, "another group's is ignored");
}

#[test]
fn sorting_alone_ends_each_priority_until_victims_are_reached() {
    let mut steps = Steps::new(None);
    let saturated = steps.add(600, PageType::File, Flags::NONE);
    for frame in saturated {
        steps.folio(frame).set(SATURATED);
    }
    steps.add(600, PageType::File, Flags::NONE);
    let pass = ReclaimPass::direct(&steps.lruvec);
    let pass = steps.run(pass, 12);
    assert_eq!(steps.counter(Counter::LruGenPromotedLazily), 600);
    // 1200 >> priority adds up to 596 down to priority 2. At priority 1, rounds of 64 victims meet
    // the shrinking budget, 632 - 32 * rounds, after the seventh.
    assert_eq!((pass.scan.priority, pass.scan.reclaimed), (1, 7 * 64));
}
