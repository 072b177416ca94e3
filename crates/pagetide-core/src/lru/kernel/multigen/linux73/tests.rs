//! The rules of Linux 7.3, by worked examples. Unchanged rules are tested for 6.18.

use super::*;
use crate::lru::{GroupScan, ReclaimKind};

const MARKED: Flags = Flags::REFERENCED;

fn rules() -> Linux73 {
    Linux73::new(Switches::default())
}

fn without(mechanism: Mechanism) -> Linux73 {
    Linux73::new(Switches::default().without(mechanism))
}

fn window(min_seq: u64) -> Window {
    Window { max_seq: 10, min_seq: [min_seq; 2] }
}

#[test]
fn a_marked_folio_enters_one_generation_later() {
    let (ws, active) = (Flags::WORKINGSET, Flags::ACTIVE);
    let entered = |min_seq, flags| rules().entered_seq(&window(min_seq), flags, Entry::Added);
    let of_file = [Flags::NONE, MARKED, ws, MARKED.with(ws), active.with(ws)];
    assert_eq!(of_file.map(|flags| entered(7, flags)), [7, 8, 8, 8, 10]);
    assert_eq!(entered(7, Flags::ANON.with(Flags::DIRTY)), 9);
    assert_eq!([Flags::NONE, MARKED].map(|flags| entered(8, flags)), [8, 8]);
    assert_eq!(of_file.map(|flags| entered(9, flags)), [9, 9, 9, 9, 10]);
    assert_eq!(entered(7, active.with(MARKED)), 9, "active comes first");
    assert_eq!(rules().entered_seq(&window(7), MARKED, Entry::Rotated), 7);
    let off = without(Mechanism::MarkedInsertion);
    assert_eq!(off.entered_seq(&window(7), MARKED, Entry::Added), 7);
}

#[test]
fn a_fault_marks_and_only_the_working_set_is_active() {
    let (ws, active) = (Flags::WORKINGSET, Flags::ACTIVE);
    assert_eq!(rules().arrived(active), Some(MARKED));
    assert_eq!(rules().arrived(active.with_refs(3)), Some(MARKED), "its count starts over");
    assert_eq!(rules().arrived(active.with(ws)), None, "stays active");
    assert_eq!(rules().arrived(MARKED), None, "no fault");
    assert_eq!(rules().arrived(active.with(MARKED)), Some(MARKED.with_refs(1)), "read since");
    let anon = active.with(Flags::ANON);
    assert_eq!(rules().arrived(anon), Some(anon.with(MARKED)), "max-1");
    assert_eq!(without(Mechanism::FaultMarks).arrived(active), None);
}

#[test]
fn a_refault_by_a_fault_counts_as_activated_where_it_is() {
    let shadow = |workingset| References { count: 3, workingset, tier: RefTier(2) };
    let refaulted = |rules: Linux73, workingset, kind| rules.refaulted(shadow(workingset), kind);
    let returned = refaulted(rules(), true, AccessPath::Table);
    assert_eq!((returned.flags, returned.is_activated), (Flags::WORKINGSET, true));
    let returned = refaulted(rules(), false, AccessPath::Table);
    assert_eq!((returned.flags, returned.is_activated), (Flags::NONE.with_refs(2), false));
    let read = refaulted(rules(), false, AccessPath::Descriptor);
    assert_eq!((read.flags, read.is_activated), (Flags::NONE.with_refs(2), false));
    let off = refaulted(without(Mechanism::FaultMarks), false, AccessPath::Table);
    assert_eq!((off.flags, off.is_activated), (Flags::NONE.with_refs(2), true));
}

fn tried(rules: Linux73, flags: Flags) -> Flags {
    rules.survivor(&Window { max_seq: 10, min_seq: [6; 2] }, flags, Refusal::Young)
}

#[test]
fn a_young_victim_is_kept_then_activated_then_of_the_working_set() {
    let (ws, active) = (Flags::WORKINGSET, Flags::ACTIVE);
    assert_eq!(tried(rules(), Flags::NONE.with_refs(2)), MARKED, "kept");
    assert_eq!(tried(rules(), MARKED), MARKED.with(active).with_refs(1));
    assert_eq!(tried(rules(), ws), ws.with(MARKED).with(active));
    assert_eq!(tried(rules(), MARKED.with_refs(1)), ws.with(active));
    assert_eq!(tried(rules(), Flags::EXEC), ws.with(active).with(Flags::EXEC), "at once");
    let swapped = Flags::EXEC.with(Flags::ANON);
    assert_eq!(tried(rules(), swapped), swapped.with(MARKED), "files only");
    assert_eq!(tried(without(Mechanism::ThirdLook), MARKED), ws.with(active));
    let off = without(Mechanism::ExecProtection);
    assert_eq!(tried(off, Flags::EXEC), Flags::EXEC.with(MARKED));
}

#[test]
fn a_walk_promotes_code_at_once_and_all_else_the_second_time() {
    assert!(!rules().promotes_young(Flags::NONE) && rules().promotes_young(MARKED));
    assert!(rules().promotes_young(Flags::EXEC));
    assert_eq!(rules().seen_young(Flags::EXEC), Flags::EXEC.with(Flags::WORKINGSET));
    assert!(!without(Mechanism::ExecProtection).promotes_young(Flags::EXEC));
}

fn plan(rules: Linux73, nr_gens: u64, nr_folios: u64, priority: u8) -> Plan {
    let scan = Scan { priority, ..Scan::new(ReclaimKind::Direct, 32) };
    let sizes = EvictableSizes { nr_gens, nr_folios, ..EvictableSizes::default() };
    rules.plan(&sizes, &PassProgress::default(), &scan)
}

#[test]
fn aging_is_part_of_the_pass() {
    let then = |budget| Plan::Age(Then::Scan(budget));
    assert_eq!(plan(rules(), 2, 8192, 12), then(2));
    assert_eq!(plan(rules(), 2, 8192, 5), then(256));
    assert_eq!(plan(rules(), 3, 8192, 12), Plan::Scan(2));
    assert_eq!(plan(rules(), 3, 8192, 11), then(4));
    assert_eq!(plan(rules(), 4, 8192, 0), Plan::Scan(8192));
    assert_eq!(plan(rules(), 2, 4000, 12), Plan::Scan(0), "nothing to look at, nothing to age for");
    let off = without(Mechanism::AgingInLoop);
    assert_eq!(plan(off, 3, 8192, 11), Plan::Age(Then::EndPriority));
}

#[test]
fn a_budget_is_computed_once_and_spent_in_short_scans() {
    let scan = Scan { priority: 8, ..Scan::new(ReclaimKind::Direct, 32) };
    let sizes = EvictableSizes { nr_gens: 4, nr_folios: 38_400, ..EvictableSizes::default() };
    let mut done = PassProgress::default();
    assert_eq!(rules().plan(&sizes, &done, &scan), Plan::Scan(150));
    done.budget = Some(150);
    let fewer = EvictableSizes { nr_folios: 20_000, ..sizes };
    assert_eq!(rules().plan(&fewer, &done, &scan), Plan::Scan(150));
    let scans = [0, 64, 128].map(|progress| {
        let done = PassProgress { progress, ..done };
        rules().scan_max(150, &done, &scan)
    });
    assert_eq!(scans, [64, 64, 22]);
    assert_eq!(without(Mechanism::ShortScans).scan_max(150, &done, &scan), 150);
}

/// A pass ends at its target. A global pass also ends after aging.
#[test]
fn a_pass_ends_between_two_scans() {
    let is_over = |rules: Linux73, progress, nr_started, reclaimed, is_global| {
        let done = PassProgress { progress, nr_started, ..PassProgress::default() };
        let group = GroupScan { is_global, ..GroupScan::default() };
        rules.is_over(&done, &Scan { reclaimed, group, ..Scan::new(ReclaimKind::Direct, 32) })
    };
    assert!(is_over(rules(), 64, 0, 32, false) && !is_over(rules(), 64, 0, 31, false));
    assert!(!is_over(rules(), 0, 1, 32, true), "one scan is always made");
    assert!(is_over(rules(), 64, 1, 0, true) && !is_over(rules(), 64, 1, 0, false));
    let off = without(Mechanism::StopAtTarget);
    assert!(!is_over(off, 64, 0, 32, false) && is_over(off, 64, 0, 32, true));
}

#[test]
fn dirty_victims_come_back_with_the_active() {
    let reclaim = Flags::RECLAIM.with(Flags::DIRTY);
    let back = |rules: Linux73, flags| {
        let flags = rules.survivor(&window(7), flags, Refusal::Dirty);
        rules.entered_seq(&window(7), flags, Entry::Added)
    };
    assert_eq!(back(rules(), reclaim), 9);
    assert_eq!(back(rules(), reclaim.with(Flags::WORKINGSET)), 10);
    assert_eq!(back(rules(), Flags::RECLAIM.with(Flags::WRITEBACK)), 9);
    assert!(rules().takes_unwritten() && !without(Mechanism::DirtyVictims).takes_unwritten());
    assert_eq!(rules().isolated(reclaim.with_refs(2)), reclaim, "still wanted");
    assert_eq!(without(Mechanism::DirtyVictims).isolated(reclaim), Flags::DIRTY);
}
