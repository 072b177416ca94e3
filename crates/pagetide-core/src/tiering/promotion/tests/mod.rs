use super::*;
use crate::folio::{Folios, HINT_STAMP_RESET};
use crate::ids::PageType;
use crate::ids::{FrameId, MappingId, PageId, PageIndex};
use crate::tiering::{Stage, frames_per_second};
use alloc::vec::Vec;

mod twin;

/// Frames at HIGH, none to spare.
const FULL: Headroom = Headroom { nr_frames: 1_000_000, nr_free: 5000, high: 2000, promo: 3000 };

/// A fast node, and one armed page in slow memory.
struct World {
    folios: Folios,
    promotion: Promotion,
}

impl World {
    fn new(knobs: TieringKnobs, stage: Stage) -> World {
        let promotion = Promotion::new(&knobs, stage.switches());
        World { folios: Folios::new(1), promotion }
    }

    fn at_rate(mb_per_s: u64) -> World {
        let promote_rate_frames = frames_per_second(mb_per_s);
        let knobs = TieringKnobs { promote_rate_frames, ..TieringKnobs::default() };
        World::new(knobs, Stage::AutoThreshold)
    }

    fn folio(&self) -> &Folio {
        &self.folios[FrameId(0)]
    }

    fn decide(&mut self, now: u64, armed: u64, nr_frames: u64, room: &Headroom) -> Decision {
        let folio = &self.folios[FrameId(0)];
        folio.swap_hint_stamp(hint_stamp(Millis(armed)));
        self.promotion.decide(Millis(now), &HintFault { folio, nr_frames }, room)
    }

    fn hot(&mut self, now: u64, nr_frames: u64) -> Decision {
        self.decide(now, now, nr_frames, &FULL)
    }

    /// Returns the threshold after a period with `nr_candidates`.
    fn adjusted(&mut self, threshold: u64, nr_candidates: u64) -> u64 {
        self.promotion.threshold = threshold;
        self.promotion.adjusting.start = Millis(0);
        self.promotion.adjusting.nr_candidates = self.promotion.nr_candidates();
        self.promotion.vmstat.add(Counter::PgpromoteCandidate, nr_candidates);
        self.promotion.adjust_threshold(Millis(60_001));
        self.promotion.threshold
    }
}

#[test]
fn threshold_follows_the_supply_of_candidates() {
    let mut world = World::at_rate(100);
    let vectors = [
        (2_000_000, 875),
        (1_536_000, 1000),
        (1_689_600, 1000),
        (1_689_601, 875),
        (1_382_400, 1000),
        (1_382_399, 1125),
    ];
    for (nr_candidates, threshold) in vectors {
        assert_eq!(world.adjusted(0, nr_candidates), threshold, "{nr_candidates} candidates");
    }
}

#[test]
fn threshold_stays_between_one_step_and_twice_the_default() {
    let mut world = World::at_rate(100);
    let mut threshold = 0;
    let mut after = |nr_candidates: u64| -> Vec<u64> {
        let next = |_| {
            threshold = world.adjusted(threshold, nr_candidates);
            threshold
        };
        (0..16).map(next).collect()
    };
    let falling = after(2_000_000);
    assert_eq!(falling[..7], [875, 750, 625, 500, 375, 250, 125]);
    assert!(falling[7..].iter().all(|threshold| *threshold == 125));
    let rising = after(0);
    assert_eq!(rising[..3], [250, 375, 500]);
    assert_eq!(rising[13..], [1875, 2000, 2000]);
}

#[test]
fn silence_raises_the_threshold_a_step_a_period() {
    // 64 GiB/s is never reached, so the default drifts up.
    let mut world = World::new(TieringKnobs::default(), Stage::AutoThreshold);
    let thresholds: Vec<u64> = (1..=10)
        .map(|minute| {
            let _ = world.hot(minute * 60_001, 1);
            world.promotion.hot_threshold().0
        })
        .collect();
    assert_eq!(thresholds, [1125, 1250, 1375, 1500, 1625, 1750, 1875, 2000, 2000, 2000]);
}

#[test]
fn adjustment_needs_more_than_a_period() {
    let mut world = World::at_rate(100);
    let _ = world.hot(60_000, 1);
    assert_eq!(world.promotion.hot_threshold(), Millis(1000));
    let _ = world.hot(60_001, 1);
    assert_eq!(world.promotion.hot_threshold(), Millis(1125));
    assert_eq!(world.promotion.adjusting.start, Millis(60_001));
    assert_eq!(world.promotion.adjusting.nr_candidates, 1, "the count before this fault's own");
}

#[test]
fn candidates_over_the_rate_are_counted_and_refused() {
    let mut world = World::at_rate(2);
    let nr_accepted =
        (0..2000).filter(|_| world.hot(5000, 1) == Decision::Promote(PromotionReason::Hot)).count();
    assert_eq!(nr_accepted, 512);
    assert_eq!(world.promotion.nr_candidates(), 2000);
    assert_eq!(world.hot(5500, 1), Decision::RateLimited);
    assert_eq!(world.hot(6000, 1), Decision::RateLimited, "a window is over after a second");
    assert_eq!(world.hot(6001, 1), Decision::Promote(PromotionReason::Hot));
    assert_eq!(world.promotion.nr_candidates(), 2003);
    assert_eq!(world.promotion.limiting, Window { start: Millis(6001), nr_candidates: 2003 });
}

#[test]
fn large_folios_count_by_their_frames() {
    let mut world = World::at_rate(4);
    // The first starts the window uncounted. The third reaches 1024.
    assert_eq!(world.hot(5000, 512), Decision::Promote(PromotionReason::Hot));
    assert_eq!(world.hot(5000, 512), Decision::Promote(PromotionReason::Hot));
    assert_eq!(world.hot(5000, 512), Decision::RateLimited);
    assert_eq!(world.promotion.nr_candidates(), 1536);
}

#[test]
fn latency_at_the_threshold_is_too_long() {
    let mut world = World::new(TieringKnobs::default(), Stage::HotSelection);
    assert_eq!(world.decide(5999, 5000, 1, &FULL), Decision::Promote(PromotionReason::Hot));
    assert_eq!(world.promotion.nr_candidates(), 1);
    assert_eq!(world.decide(6000, 5000, 1, &FULL), Decision::TooCold);
    assert_eq!(world.promotion.nr_candidates(), 1, "a cold page is no candidate");
    assert_eq!(world.folio().hint_stamp(), 6000, "a judged fault renews the stamp");
}

#[test]
fn room_to_spare_promotes_and_touches_neither_count_nor_stamp() {
    let mut world = World::at_rate(2);
    world.promotion.threshold = 375;
    let ample = Headroom { nr_free: 3000 + 262_144 + 1, ..FULL };
    assert_eq!(world.decide(90_000, 5, 4, &ample), Decision::Promote(PromotionReason::FreeSpace));
    assert_eq!(world.promotion.threshold, 0);
    assert_eq!(world.promotion.nr_candidates(), 0);
    assert_eq!(world.folio().hint_stamp(), 5);
    assert_eq!(world.promotion.adjusting, Window::default());
    assert_eq!(world.promotion.vmstat().read(Counter::PgpromoteCandidateNrl), 4);
    // With one frame less, the page is judged. The fault is 90 s late.
    let short = Headroom { nr_free: ample.nr_free - 1, ..ample };
    assert_eq!(world.decide(90_000, 5, 4, &short), Decision::TooCold);
}

#[test]
fn a_sixteenth_of_a_large_node_is_room_to_spare() {
    let large = Headroom { nr_frames: 16 << 20, nr_free: 3000 + (1 << 20), ..FULL };
    assert!(!large.is_ample(262_144));
    assert!(Headroom { nr_free: large.nr_free + 1, ..large }.is_ample(262_144));
}

#[test]
fn destination_keeps_its_high_watermark() {
    let mut world = World::at_rate(100);
    let tight = Headroom { nr_free: 2001, ..FULL };
    let decision = world.decide(5000, 5000, 1, &tight);
    assert_eq!(decision, Decision::NoRoom);
    assert!(decision.wakes_reclaim());
    assert_eq!(world.promotion.nr_candidates(), 1, "hot all the same");
    let roomy = Headroom { nr_free: 2002, ..FULL };
    assert_eq!(world.decide(5000, 5000, 1, &roomy), Decision::Promote(PromotionReason::Hot));
    let decision = world.decide(5000, 5000, 2, &roomy);
    assert_eq!(decision, Decision::NoRoom);
    let none = Headroom { nr_frames: 0, nr_free: 0, high: 0, promo: 0 };
    assert_eq!(world.decide(5000, 5000, 1, &none), Decision::NoTarget);
    assert!(!Decision::NoTarget.wakes_reclaim());
    assert_eq!(world.promotion.nr_candidates(), 4, "nothing is counted without a destination");
}

#[test]
fn dirty_file_pages_stay_where_they_are() {
    let mut world = World::at_rate(100);
    let page = PageId { mapping: MappingId(0), index: PageIndex(0) };
    let mut decide = |page_type, flags| {
        world.folio().bind(page, page_type, flags);
        world.hot(5000, 1)
    };
    assert_eq!(decide(PageType::File, Flags::DIRTY), Decision::Unmovable);
    assert_eq!(decide(PageType::Anon, Flags::DIRTY), Decision::Promote(PromotionReason::Hot));
    assert_eq!(decide(PageType::Anon, Flags::WRITEBACK), Decision::Unmovable);
    assert_eq!(world.promotion.nr_candidates(), 3);
}

#[test]
fn base_promotes_whatever_was_touched() {
    let mut world = World::new(TieringKnobs::default(), Stage::Base);
    assert_eq!(world.decide(90_000, 5, 1, &FULL), Decision::Promote(PromotionReason::Touched));
    assert_eq!(world.promotion.nr_candidates(), 0);
    let full = Headroom { nr_free: 0, ..FULL };
    assert_eq!(world.decide(90_000, 5, 1, &full), Decision::NoRoom);
}

#[test]
fn mechanisms_work_alone() {
    let knobs = TieringKnobs { promote_rate_frames: 10, ..TieringKnobs::default() };
    let only_rate = TieringSwitches { rate_limit: true, ..TieringSwitches::BASE };
    let mut world = World::new(knobs, Stage::Base);
    world.promotion.switches = only_rate;
    let nr_promoted = (0..50)
        .filter(|_| matches!(world.decide(90_000, 5, 1, &FULL), Decision::Promote(_)))
        .count();
    assert_eq!(nr_promoted, 10, "cold pages too, at the rate");
    world.promotion.switches =
        TieringSwitches { hot_selection: true, auto_threshold: true, ..TieringSwitches::BASE };
    assert_eq!(world.hot(90_000, 1), Decision::Promote(PromotionReason::Hot), "no limit");
    assert_eq!(world.promotion.hot_threshold(), Millis(1125), "50 of 600 candidates");
}

#[test]
fn turning_tiering_on_starts_afresh() {
    let mut world = World::at_rate(100);
    let _ = world.hot(60_001, 7);
    assert_eq!(world.promotion.hot_threshold(), Millis(1125));
    world.promotion.restart(Millis(70_000));
    assert_eq!(world.promotion.hot_threshold(), Millis(1000));
    assert_eq!(world.promotion.adjusting, Window { start: Millis(70_000), nr_candidates: 7 });
}

#[test]
fn a_page_no_scan_has_stamped_looks_as_old_as_the_clock_says() {
    let mut world = World::at_rate(100);
    world.folio().swap_hint_stamp(HINT_STAMP_RESET);
    let fault = HintFault { folio: &world.folios[FrameId(0)], nr_frames: 1 };
    let decision = world.promotion.decide(Millis(5000), &fault, &FULL);
    assert_eq!(decision, Decision::TooCold, "5001 ms after the wrap");
}

#[test]
fn counters_have_the_kernels_names() {
    let mut world = World::at_rate(100);
    world.promotion.count_hint_fault(true);
    world.promotion.count_hint_fault(false);
    world.promotion.count_armed(5);
    world.promotion.count_promoted(3);
    let counted: Vec<_> = world.promotion.vmstat().iter().filter(|(_, nr)| *nr > 0).collect();
    assert_eq!(
        counted,
        [
            ("numa_pte_updates", 5),
            ("numa_hint_faults", 2),
            ("numa_hint_faults_local", 1),
            ("numa_pages_migrated", 3),
            ("pgpromote_success", 3),
        ]
    );
}
