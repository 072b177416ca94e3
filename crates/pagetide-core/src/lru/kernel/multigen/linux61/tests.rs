//! The rules of Linux 6.1, by worked examples.

use super::super::controller::RefTierCounts;
use super::super::refault::shadow_of;
use super::*;
use crate::folio::Folios;
use crate::ids::FrameId;
use crate::lru::{LruvecId, Marked};

const ANON: PageType = PageType::Anon;
const FILE: PageType = PageType::File;

fn rules() -> Linux61 {
    Linux61::new(Switches::default())
}

fn minimal() -> Linux61 {
    Linux61::new(Switches::default().with(Mechanism::MinimalPatch))
}

fn window(anon: u64, file: u64) -> Window {
    Window { max_seq: 10, min_seq: [anon, file] }
}

#[test]
fn insertion_matches_linux_6_1() {
    let entered = |min, flags| rules().entered_seq(&window(min, min), flags, Entry::Added);
    let unwritten_anon = Flags::ANON.with(Flags::DIRTY);
    assert_eq!(entered(7, Flags::ACTIVE), 10);
    assert_eq!(entered(7, unwritten_anon), 8);
    assert_eq!(entered(7, Flags::ANON), 7, "it has a copy in the store");
    assert_eq!(entered(7, Flags::NONE), 7);
    assert_eq!(entered(7, Flags::WORKINGSET), 7, "history does not matter");
    assert_eq!(entered(8, Flags::NONE), 8);
    assert_eq!(entered(9, unwritten_anon), 10);
    let waiting = Flags::RECLAIM.with(Flags::WRITEBACK);
    assert_eq!(entered(7, waiting), 8);
    assert_eq!(rules().entered_seq(&window(7, 7), Flags::NONE, Entry::Rotated), 7);
    assert_eq!(rules().entered_seq(&window(7, 7), waiting, Entry::Rotated), 8, "falls through");
}

#[test]
fn tiers_follow_the_access_count() {
    let folios = Folios::new(1);
    let folio = &folios[FrameId(0)];
    let expected = [(0, 0), (0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (4, 3)];
    for (nth, (count, tier)) in expected.into_iter().enumerate() {
        let references = rules().references(folio.flags());
        assert_eq!((references.count, references.tier.0), (count, tier), "{nth} accesses");
        assert!(!rules().promotes_lazily(references));
        assert_eq!(Linux61::ACCESS_RULE.mark(&folios, FrameId(0)), Marked::Done);
    }
}

#[test]
fn one_table_access_promotes_and_clears_the_count() {
    let full = ACCESSED.with_refs(3).with(Flags::DIRTY);
    assert!(rules().promotes_young(Flags::NONE));
    assert_eq!(rules().seen_young(full), Flags::DIRTY);
    assert!(!minimal().promotes_young(full) && !minimal().walks_tables());
    assert_eq!(minimal().seen_young(full), full);
}

/// Covers `should_run_aging()`.
#[test]
fn aging_matches_linux_6_1() {
    let needs = |lo: u64, nr_young, nr_old, nr_folios| {
        rules().needs_aging(&EvictableSizes { nr_gens: 10 - lo + 1, nr_folios, nr_young, nr_old })
    };
    assert!(needs(9, 0, 0, 100));
    assert!(!needs(7, 90, 0, 100));
    assert!(needs(8, 51, 30, 100));
    assert!(!needs(8, 50, 25, 100));
    assert!(needs(8, 50, 24, 100));
}

fn scan(kind: ReclaimKind, priority: u8) -> Scan {
    Scan { priority, ..Scan::new(kind, 32) }
}

fn sizes(nr_gens: u64, nr_old: u64) -> EvictableSizes {
    EvictableSizes { nr_gens, nr_folios: 8192, nr_young: 4096, nr_old }
}

/// Covers `get_nr_to_scan()`.
#[test]
fn the_scan_budget_matches_linux_6_1() {
    let direct = |nr_gens, nr_old, priority| {
        let scan = scan(ReclaimKind::Direct, priority);
        rules().plan(&sizes(nr_gens, nr_old), &PassProgress::default(), &scan)
    };
    assert_eq!(direct(3, 2048, 12), Plan::Scan(2));
    assert_eq!(direct(2, 0, 12), Plan::Scan(0));
    assert_eq!(direct(2, 0, 10), Plan::Age(Then::Scan(0)), "the sizes are from before");
    assert_eq!(direct(3, 2048, 10), Plan::Scan(8));
    assert_eq!(direct(3, 2047, 10), Plan::Age(Then::Scan(8)), "the oldest is short");
    assert_eq!(direct(4, 0, 0), Plan::Scan(8192));
}

#[test]
fn background_ages_once_before_each_priority() {
    let background = |has_begun, priority| {
        let done = PassProgress { has_begun, ..PassProgress::default() };
        let scan = scan(ReclaimKind::Background, priority);
        rules().plan(&sizes(2, 0), &done, &scan)
    };
    assert_eq!(background(false, 12), Plan::Age(Then::PlanAgain));
    assert_eq!(background(true, 12), Plan::Scan(0));
    assert_eq!(background(false, 3), Plan::Age(Then::PlanAgain));
    assert_eq!(background(true, 3), Plan::Scan(0), "left to the thread's next round");
}

/// Covers `try_to_inc_min_seq()`.
#[test]
fn file_and_anon_retire_generations_together() {
    assert_eq!(rules().coupled(&window(7, 7), [8, 9]), [8, 8]);
    assert_eq!(rules().coupled(&window(7, 7), [7, 9]), [7, 7]);
    assert_eq!(rules().coupled(&window(7, 8), [9, 8]), [8, 8], "anon does not lead");
    assert_eq!(rules().coupled(&window(7, 8), [7, 8]), [7, 8], "file never goes back");
}

#[test]
fn moving_on_forgets_all_accesses_and_isolation_the_last() {
    let full = ACCESSED.with_refs(3);
    assert_eq!(rules().moved_on(full), Flags::NONE);
    assert_eq!(rules().isolated(full.with(Flags::RECLAIM)), Flags::WORKINGSET.with_refs(3));
    let remembered = Flags::WORKINGSET.with_refs(2);
    assert_eq!(rules().isolated(remembered), Flags::NONE, "not accessed since");
}

#[test]
fn survivors_are_young_unless_they_wait_to_be_written() {
    let survivor = |flags, refusal| rules().survivor(&window(7, 7), flags, refusal);
    for refusal in [Refusal::Young, Refusal::Busy, Refusal::Dirty] {
        assert_eq!(survivor(Flags::NONE, refusal), Flags::ACTIVE);
    }
    let of_workingset = survivor(Flags::WORKINGSET.with_refs(2), Refusal::Young);
    assert_eq!(of_workingset, ACCESSED.with_refs(2).with(Flags::ACTIVE), "its tier stays");
    let waiting = Flags::RECLAIM.with(Flags::DIRTY);
    assert_eq!(survivor(waiting.with(Flags::ACTIVE), Refusal::Dirty), waiting);
    assert!(rules().retries() && !minimal().retries());
}

#[test]
fn a_pass_is_over_for_fairness() {
    let mut scan = scan(ReclaimKind::Direct, 10);
    let aged = |nr_started| PassProgress { nr_started, ..PassProgress::default() };
    let swapped = PassProgress { took_anon: true, ..PassProgress::default() };
    assert!(!rules().is_over(&aged(1), &scan) && rules().is_over(&aged(2), &scan));
    assert!(!rules().is_over(&swapped, &scan));
    scan.reclaimed = 32;
    assert!(rules().is_over(&swapped, &scan) && !rules().is_over(&aged(0), &scan));
    scan.kind = ReclaimKind::Background;
    assert!(rules().is_over(&aged(0), &scan));
    assert!(!minimal().is_over(&aged(2), &scan));
    scan.priority = 11;
    assert!(!rules().is_over(&aged(0), &scan), "little was looked at so far");
}

fn counts(refaulted: u64, evicted: u64) -> RefTierCounts {
    RefTierCounts { refaulted, evicted, ..RefTierCounts::default() }
}

fn controller(rows: &[(PageType, u8, RefTierCounts)]) -> Controller {
    let mut controller = Controller::default();
    for (page_type, tier, counts) in rows {
        *controller.tier_mut(*page_type, RefTier(*tier)) = *counts;
    }
    controller
}

fn chosen(rows: &[(PageType, u8, RefTierCounts)], window: &Window, swappiness: u8) -> Choice {
    rules().choose(&controller(rows), window, swappiness.into())
}

#[test]
fn the_type_choice_matches_linux_6_1() {
    let level = window(7, 7);
    let first = |anon, file| chosen(&[(ANON, 0, anon), (FILE, 0, file)], &level, 60).page_type;
    assert_eq!(first(counts(100, 1000), counts(200, 4000)), FILE);
    assert_eq!(first(counts(10, 1000), counts(2000, 4000)), ANON);
    assert_eq!(first(counts(0, 1_000_000), counts(63, 64)), FILE, "noise");
    assert_eq!(chosen(&[], &window(7, 8), 1).page_type, ANON, "older than file");
    assert_eq!(chosen(&[], &window(7, 8), 0).page_type, FILE, "never anon");
    assert_eq!(chosen(&[], &level, 200).page_type, ANON);
    let busy_tiers = [1, 2, 3].map(|tier| (FILE, tier, counts(900, 1000)));
    assert_eq!(chosen(&busy_tiers, &level, 60).page_type, FILE, "tier 0 alone counts");
}

/// A tier is protected from about twice the refault ratio of tier 0.
#[test]
fn the_tier_limit_matches_linux_6_1() {
    let limit = |refaulted| {
        let rows = [(FILE, 0, counts(100, 2000)), (FILE, 1, counts(refaulted, 1000))];
        rules().tier_limit(&controller(&rows), FILE)
    };
    assert_eq!(limit(97), RefTier(3));
    assert_eq!(limit(98), RefTier(0));
}

#[test]
fn tiers_of_the_chosen_type_are_measured_against_the_other() {
    let rows =
        [(FILE, 0, counts(100, 2000)), (FILE, 1, counts(300, 1000)), (ANON, 0, counts(500, 1000))];
    let level = chosen(&rows, &window(7, 7), 60);
    assert_eq!(level, Choice { page_type: FILE, tier_limit: RefTier(3) });
    let shortcut = chosen(&rows, &window(7, 7), 1);
    assert_eq!(shortcut, Choice { page_type: FILE, tier_limit: RefTier(0) });
}

/// Packs `min_seq` 9, group 5, node 1 with six node bits.
#[test]
fn shadows_match_linux_6_1() {
    let id = LruvecId { group: 5, node: 1 };
    let bits = [0, 1, 3, 4].map(|count| shadow_of(9, counted(count), id).bits());
    assert_eq!(bits, [0x1200_0282, 0x1200_0283, 0x1300_0283, 0x1380_0283]);
    for count in 0..=REFERENCES_MAX {
        assert_eq!(rules().remembered(shadow_of(9, counted(count), id)), counted(count));
    }
}

#[test]
fn a_refault_is_recent_while_its_generation_is_evicted() {
    let token = Token::of(shadow_of(7, counted(0), LruvecId::default()));
    assert!(rules().is_recent(token, &window(0, 7), FILE));
    assert!(!rules().is_recent(token, &window(7, 8), FILE));
    assert!(rules().is_recent(token, &window(7, 8), ANON));
}

#[test]
fn faults_and_full_counts_restore_the_working_set() {
    let (read, fault) = (AccessPath::Descriptor, AccessPath::Table);
    let nothing = RefaultOutcome { flags: Flags::NONE, is_activated: false, is_restored: false };
    let restored =
        RefaultOutcome { flags: Flags::WORKINGSET, is_activated: false, is_restored: true };
    assert_eq!(rules().refaulted(counted(3), read), nothing);
    assert_eq!(rules().refaulted(counted(4), read), restored);
    assert_eq!(rules().refaulted(counted(0), fault), restored);
}

#[test]
fn each_rule_can_be_switched_off() {
    let without = |mechanism| Linux61::new(Switches::default().without(mechanism));
    let cold = |rules: Linux61| rules.entered_seq(&window(7, 7), Flags::NONE, Entry::Added);
    assert_eq!(cold(without(Mechanism::ColdInsertion)), 8);
    let balanced = sizes(3, 2048);
    assert!(without(Mechanism::AgingBySize).needs_aging(&balanced));
    assert!(!without(Mechanism::AgingBySize).needs_aging(&sizes(4, 0)));
    let rows = [(FILE, 0, counts(100, 2000)), (FILE, 1, counts(97, 1000))];
    let even = without(Mechanism::TierMargin).tier_limit(&controller(&rows), FILE);
    assert_eq!(even, RefTier(0));
    assert!(!without(Mechanism::Retry).retries());
}
