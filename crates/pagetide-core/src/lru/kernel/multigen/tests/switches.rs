//! Effects of the engine's switches. Switches of single rules are tested beside the rules.

use super::world::{ANON, FILE, Steps};
use crate::folio::Flags;
use crate::ids::PageType;
use crate::lru::{AccessLog, AccessPath, LruvecId, Mechanism, PolicyName, ShadowEntry, Switches};
use crate::vmstat::Counter;

const PROFILES: [PolicyName; 2] = [PolicyName::Mglru, PolicyName::Mglru61];

fn without(policy: PolicyName, swappiness: Option<u8>, mechanism: Mechanism) -> Steps {
    Steps::with(policy, swappiness, Switches::default().without(mechanism))
}

#[test]
fn without_generations_recency_has_one_value() {
    for policy in PROFILES {
        let mut steps = without(policy, None, Mechanism::Generations);
        let read = steps.add(3, PageType::File, Flags::NONE);
        let faulted = steps.add(3, PageType::File, Flags::ACTIVE);
        assert_eq!(steps.sizes(FILE), [0, 0, 0, 6], "{policy}: all enter the youngest");
        steps.lruvec.report_young(&read);
        steps.lruvec.report_young(&read);
        for _ in 0..4 {
            let _ = steps.direct(0);
        }
        assert_eq!(steps.walks, 0);
        let evicted: alloc::vec::Vec<_> = steps.evicted.iter().map(|(frame, _)| *frame).collect();
        assert_eq!(evicted, [read, faulted].concat(), "{policy}: in order of arrival");
    }
}

fn refault_tier_1(steps: &mut Steps, page_type: PageType, token: u64, workingset: bool) {
    let mut log = AccessLog::new();
    let shadow = ShadowEntry::new(token, LruvecId::default(), workingset);
    let returning = steps.bind(page_type, Flags::NONE);
    for _ in 0..100 {
        steps.lruvec.refault(&mut log, returning, shadow, AccessPath::Descriptor);
    }
}

fn protects_tier_1(policy: PolicyName, switches: Switches) -> bool {
    let mut steps = Steps::with(policy, None, switches);
    match policy {
        PolicyName::Mglru => refault_tier_1(&mut steps, PageType::File, 1, false),
        _ => refault_tier_1(&mut steps, PageType::File, 0, true),
    }
    let twice = match policy {
        PolicyName::Mglru => Flags::REFERENCED.with_refs(1),
        _ => Flags::REFERENCED.with(Flags::WORKINGSET),
    };
    steps.add_one(PageType::File, twice);
    steps.add(70, PageType::File, Flags::NONE);
    let _ = steps.direct(0);
    steps.counter(Counter::LruGenProtected) > 0
}

#[test]
fn tiers_controller_and_memory_are_all_needed_to_protect() {
    for policy in PROFILES {
        assert!(protects_tier_1(policy, Switches::default()), "{policy}");
        for mechanism in [Mechanism::Tiers, Mechanism::Controller, Mechanism::RefaultMemory] {
            let switches = Switches::default().without(mechanism);
            assert!(!protects_tier_1(policy, switches), "{policy} without {mechanism}");
        }
    }
}

#[test]
fn without_the_controller_swappiness_alone_chooses_the_type() {
    for policy in PROFILES {
        for (swappiness, first) in [(100, PageType::File), (101, PageType::Anon)] {
            let mut steps = without(policy, Some(swappiness), Mechanism::Controller);
            // The controller would spare the preferred type.
            refault_tier_1(&mut steps, first, 0, false);
            steps.add(10, PageType::Anon, Flags::NONE);
            steps.add(10, PageType::File, Flags::NONE);
            let _ = steps.direct(0);
            let taken = steps.folio(steps.evicted[0].0).flags().page_type();
            assert_eq!(taken, first, "{policy} at {swappiness}");
        }
    }
}

#[test]
fn without_a_memory_returning_pages_are_strangers() {
    for policy in PROFILES {
        let mut steps = without(policy, None, Mechanism::RefaultMemory);
        let page = steps.bind(PageType::File, Flags::NONE);
        let shadow = ShadowEntry::new(3, LruvecId::default(), true);
        let mut log = AccessLog::new();
        steps.lruvec.refault(&mut log, page, shadow, AccessPath::Table);
        assert_eq!(steps.folio(page).flags(), Flags::NONE, "{policy}");
        assert_eq!(steps.summary().tiers[FILE], steps.summary().tiers[ANON]);
        assert_eq!(steps.counter(Counter::WorkingsetRefaultFile), 1, "still a statistic");
        assert_eq!(steps.counter(Counter::WorkingsetRestoreFile), 0);
    }
}

#[test]
fn without_retries_a_busy_folio_is_tried_once() {
    for policy in PROFILES {
        for (switches, nr_trials) in
            [(Switches::default(), 2), (Switches::default().without(Mechanism::Retry), 1)]
        {
            let mut steps = Steps::with(policy, None, switches);
            let busy = steps.add_one(PageType::File, Flags::NONE);
            steps.add(63, PageType::File, Flags::NONE);
            steps.refusals.insert(busy, crate::lru::Refusal::Busy);
            assert_eq!(steps.direct(0), 63, "{policy}");
            assert_eq!(steps.trials[&busy], nr_trials, "{policy}");
        }
    }
}
