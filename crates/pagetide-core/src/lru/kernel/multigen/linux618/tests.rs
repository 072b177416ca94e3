//! The rules of Linux 6.18, by worked examples.

use super::super::controller::RefTierCounts;
use super::super::refault::shadow_of;
use super::*;
use crate::folio::Folios;
use crate::ids::FrameId;
use crate::lru::{LruvecId, Marked, ReclaimKind};

const ANON: PageType = PageType::Anon;
const FILE: PageType = PageType::File;

fn rules() -> Linux618 {
    Linux618::new(Switches::default())
}

fn without(mechanism: Mechanism) -> Linux618 {
    Linux618::new(Switches::default().without(mechanism))
}

fn window(anon: u64, file: u64) -> Window {
    Window { max_seq: 10, min_seq: [anon, file] }
}

fn entered(min_seq: u64, flags: Flags, entry: Entry) -> u64 {
    rules().entered_seq(&window(min_seq, min_seq), flags, entry)
}

#[test]
fn insertion_matches_linux_6_18() {
    let (ws, active) = (Flags::WORKINGSET, Flags::ACTIVE);
    let unwritten_anon = Flags::ANON.with(Flags::DIRTY);
    assert_eq!(entered(7, active, Entry::Added), 9);
    assert_eq!(entered(7, active.with(ws), Entry::Added), 10);
    assert_eq!(entered(7, unwritten_anon, Entry::Added), 9);
    assert_eq!(entered(7, Flags::NONE, Entry::Added), 7);
    assert_eq!(entered(7, ws, Entry::Added), 8);
    assert_eq!(entered(8, Flags::NONE, Entry::Added), 8);
    assert_eq!(entered(9, unwritten_anon, Entry::Added), 9);
    assert_eq!(entered(7, Flags::ANON, Entry::Added), 7, "with a copy in the store: cold");
}

#[test]
fn folios_that_wait_for_the_flusher_stay_out_of_the_way() {
    let waiting = Flags::RECLAIM.with(Flags::WRITEBACK);
    assert_eq!(entered(7, waiting, Entry::Added), 9);
    assert_eq!(entered(7, Flags::RECLAIM, Entry::Added), 7, "clean again");
    assert_eq!(entered(7, waiting, Entry::Rotated), 7, "the rotation comes first");
    assert_eq!(entered(9, Flags::NONE, Entry::Rotated), 9);
}

#[test]
fn tiers_follow_the_access_count() {
    let folios = Folios::new(1);
    let folio = &folios[FrameId(0)];
    let expected = [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (4, 3), (4, 3), (4, 3)];
    for (nth, (count, tier)) in expected.into_iter().enumerate() {
        let references = rules().references(folio.flags());
        assert_eq!((references.count, references.tier.0), (count, tier), "{nth} accesses");
        assert_eq!(rules().promotes_lazily(references), nth >= 5, "{nth} accesses");
        assert!(!without(Mechanism::LazyPromotion).promotes_lazily(references));
        assert_eq!(Linux618::ACCESS_RULE.mark(&folios, FrameId(0)), Marked::Done);
    }
}

#[test]
fn remembered_references_do_not_count_before_an_access() {
    let references = rules().references(Flags::NONE.with_refs(3));
    assert_eq!((references.count, references.tier.0), (0, 0));
}

#[test]
fn young_words_promote_at_the_second_observation() {
    let once = rules().seen_young(Flags::NONE.with_refs(2));
    assert!(!rules().promotes_young(Flags::NONE.with_refs(2)));
    assert_eq!(once, Flags::REFERENCED);
    assert!(rules().promotes_young(once));
    let twice = rules().seen_young(once);
    assert_eq!(twice, Flags::WORKINGSET);
    assert_eq!(rules().seen_young(twice), Flags::WORKINGSET);
    let at_once = without(Mechanism::TwoStepPromotion);
    assert!(at_once.promotes_young(Flags::NONE));
    assert_eq!(at_once.seen_young(Flags::NONE), Flags::WORKINGSET);
}

fn plan(nr_gens: u64, nr_folios: u64, priority: u8) -> Plan {
    let scan = Scan { priority, ..Scan::new(ReclaimKind::Direct, 32) };
    let sizes = EvictableSizes { nr_gens, nr_folios, ..EvictableSizes::default() };
    rules().plan(&sizes, &PassProgress::default(), &scan)
}

#[test]
fn the_scan_budget_doubles_with_each_priority() {
    assert_eq!(plan(3, 8192, 12), Plan::Scan(2));
    let budgets = [12, 11, 10, 9].map(|priority| plan(4, 9600, priority));
    assert_eq!(budgets, [2, 4, 9, 18].map(Plan::Scan));
}

/// Covers `should_run_aging()`.
#[test]
fn too_few_generations_are_aged_below_the_first_priority() {
    assert_eq!(plan(3, 8192, 10), Plan::Age(Then::EndPriority));
    assert_eq!(plan(2, 8192, 10), Plan::Age(Then::EndPriority));
    assert_eq!(plan(2, 8192, 12), Plan::Scan(0));
    assert_eq!(plan(4, 8192, 10), Plan::Scan(8));
}

#[test]
fn background_passes_start_where_their_target_is() {
    let initial = |reclaimable, target| rules().initial_priority(reclaimable, target);
    assert_eq!(initial(1 << 20, 64), 12);
    assert_eq!(initial(1 << 18, 1024), 8);
    assert_eq!(initial(1 << 16, 4096), 6);
    assert_eq!(initial(1 << 18, 63), 12, "small targets start at the top");
    assert_eq!(initial(0, 1024), 6);
}

/// Covers `try_to_inc_min_seq()`.
#[test]
fn a_type_waits_at_the_third_youngest_generation_for_the_other() {
    assert_eq!(rules().coupled(&window(7, 7), [8, 9]), [8, 9]);
    assert_eq!(rules().coupled(&window(7, 7), [7, 9]), [7, 8], "the leader waits at max-2");
    assert_eq!(rules().coupled(&window(7, 7), [9, 7]), [8, 7]);
    assert_eq!(rules().coupled(&window(7, 9), [7, 9]), [7, 9], "never back");
    let in_step = without(Mechanism::IndependentTypes);
    assert_eq!(in_step.coupled(&window(7, 7), [8, 9]), [8, 8]);
}

#[test]
fn the_working_set_mark_outlives_a_move() {
    let saturated = SEEN.with_refs(3);
    assert_eq!(rules().moved_on(saturated), Flags::WORKINGSET);
    assert_eq!(without(Mechanism::StickyWorkingset).moved_on(saturated), Flags::NONE);
}

#[test]
fn survivors_leave_the_oldest_generation() {
    let survivor = |flags, refusal| rules().survivor(&window(7, 7), flags, refusal);
    assert_eq!(survivor(Flags::REFERENCED, Refusal::Busy), Flags::ACTIVE);
    assert_eq!(survivor(Flags::WORKINGSET, Refusal::Busy), Flags::WORKINGSET, "enters max-2");
    assert_eq!(survivor(Flags::NONE, Refusal::Young), Flags::ACTIVE, "kept");
    let again = survivor(Flags::REFERENCED, Refusal::Young);
    assert_eq!(again, Flags::WORKINGSET.with(Flags::ACTIVE), "activated");
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

fn chosen_by(rules: Linux618, rows: &[(PageType, u8, RefTierCounts)], swappiness: u8) -> PageType {
    rules.choose(&controller(rows), &window(7, 9), swappiness.into()).page_type
}

#[test]
fn the_type_that_refaults_less_is_evicted() {
    let chosen = |anon, file| chosen_by(rules(), &[(ANON, 0, anon), (FILE, 0, file)], 60);
    assert_eq!(chosen(counts(100, 1000), counts(200, 4000)), FILE);
    assert_eq!(chosen(counts(10, 1000), counts(2000, 4000)), ANON);
    assert_eq!(chosen(counts(0, 1_000_000), counts(63, 64)), FILE, "noise");
}

#[test]
fn type_choice_sums_all_tiers() {
    let anon = (ANON, 0, counts(10, 1000));
    let mut rows = [1, 2, 3].map(|tier| (FILE, tier, counts(500, 1000))).to_vec();
    rows.push(anon);
    assert_eq!(chosen_by(rules(), &rows, 60), ANON);
    assert_eq!(chosen_by(without(Mechanism::TypeByAllTiers), &rows, 60), FILE);
}

#[test]
fn the_ends_of_swappiness_ignore_refaults() {
    assert_eq!(chosen_by(rules(), &[(FILE, 0, counts(4000, 4000))], 1), FILE);
    assert_eq!(chosen_by(rules(), &[(ANON, 0, counts(4000, 4000))], 200), ANON);
}

#[test]
fn a_tier_is_protected_from_one_and_a_half_times_the_base_ratio() {
    let limit = |rules: Linux618, refaulted| {
        let rows = [(FILE, 0, counts(100, 2000)), (FILE, 1, counts(refaulted, 1000))];
        rules.tier_limit(&controller(&rows), FILE)
    };
    assert_eq!(limit(rules(), 73), RefTier(3));
    assert_eq!(limit(rules(), 74), RefTier(0));
    assert_eq!(limit(without(Mechanism::TierMargin), 73), RefTier(0));
}

#[test]
fn tiers_above_the_first_protected_one_are_protected_too() {
    let controller = controller(&[(FILE, 0, counts(100, 2000)), (FILE, 2, counts(900, 1000))]);
    assert_eq!(rules().tier_limit(&controller, FILE), RefTier(1));
    assert_eq!(rules().tier_limit(&controller, ANON), RefTier(3), "types are apart");
}

#[test]
fn a_cold_start_evicts_files_and_protects_nothing() {
    let controller = Controller::default();
    assert_eq!(chosen_by(rules(), &[], 60), FILE);
    assert_eq!(PageType::ALL.map(|t| rules().tier_limit(&controller, t)), [RefTier(3); 2]);
}

fn shadow(min_seq: u64, count: u32, workingset: bool) -> ShadowEntry {
    shadow_of(min_seq, counted(count, workingset), LruvecId { group: 5, node: 1 })
}

#[test]
fn shadows_match_linux_6_18() {
    assert_eq!(shadow(9, 4, true).bits(), 0x1380_0283);
    assert_eq!(shadow(9, 0, false).bits(), 0x1200_0282);
    assert_eq!(shadow(9, 1, false).bits(), 0x1200_0282);
}

#[test]
fn a_window_later_is_not_recent() {
    let is_recent = |rules: Linux618, min_seq, max_seq| {
        let window = Window { max_seq, min_seq: [max_seq - 1; 2] };
        rules.is_recent(Token::of(shadow(min_seq, 1, false)), &window, FILE)
    };
    assert!(is_recent(rules(), 7, 10) && !is_recent(rules(), 7, 11));
    assert!(is_recent(rules(), 8, 11) && !is_recent(rules(), 8, 12));
    let brief = without(Mechanism::RefaultWindow);
    assert!(is_recent(brief, 9, 10) && !is_recent(brief, 8, 10));
}

#[test]
fn the_tier_comes_back() {
    let tiers = [(0, false), (1, false), (2, false), (3, false), (4, false), (4, true)]
        .map(|(count, workingset)| rules().remembered(shadow(7, count, workingset)).tier.0);
    assert_eq!(tiers, [0, 0, 1, 2, 2, 3]);
}

#[test]
fn cold_folios_may_enter_one_generation_later() {
    let late = without(Mechanism::ColdInsertion);
    assert_eq!(late.entered_seq(&window(7, 7), Flags::NONE, Entry::Added), 8);
    assert!(!without(Mechanism::Retry).retries());
}
