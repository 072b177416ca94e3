use super::*;
use crate::folio::Folios;
use crate::ids::FrameId;
use crate::tiering::heat::{log_of, log_of_rate, rate_of};
use alloc::vec::Vec;
use proptest::prelude::*;

const COSTS: TierCosts = TierCosts {
    fast_ns: 100,
    slow_ns: 300,
    hint_fault_ns: 1000,
    move_ns: 6000,
    thread_ns_per_s: 10_000_000,
    nr_slow: 10_000,
};

/// A policy at the end of its first window.
fn auto(costs: TierCosts) -> Auto {
    let mut auto = Auto::new(4096);
    auto.tell_costs(Millis(1000), &costs);
    auto
}

/// Judges one page after these latencies.
fn judged(auto: &mut Auto, latencies: &[u64]) -> Vec<Worth> {
    let folios = Folios::new(1);
    let folio = &folios[FrameId(0)];
    latencies.iter().map(|&latency| auto.judge(Millis(latency), folio)).collect()
}

fn wait(auto: &mut Auto, latency: u64) {
    auto.tell_time(Millis(auto.now.0 + latency));
}

fn end_window(auto: &mut Auto) {
    let costs = auto.costs;
    auto.tell_costs(Millis(auto.now.0.max(auto.window_start.0 + WINDOW.0)), &costs);
}

/// Demotes pages, touched again after `latency` each.
fn demote(auto: &mut Auto, nr: u64, latency: u64) {
    let folios = Folios::new(1);
    let folio = &folios[FrameId(0)];
    for _ in 0..nr {
        auto.note_demoted(folio);
        wait(auto, latency);
        let _ = auto.judge(Millis(latency), folio);
    }
}

#[test]
fn logarithms_and_rates_undo_each_other() {
    assert_eq!(log_of(Millis(0)), 3 * DOUBLING, "half a millisecond");
    assert_eq!(log_of(Millis(2)) - log_of(Millis(0)), 2 * DOUBLING + DOUBLING / 4);
    for rate in [1, 10, 250, 1000, 70_000] {
        let back = rate_of(log_of_rate(rate));
        assert!(back * 100 >= rate * 95 && back * 95 <= (rate + 1) * 100, "{rate}: {back}");
    }
    // A page touched once a second shows half of that, in mean logarithms.
    let seen = log_of(Millis(561));
    assert!((950..1100).contains(&rate_of(seen)), "{}", rate_of(seen));
}

#[test]
fn a_page_that_earns_its_move_back_while_it_stays_is_needed_and_no_hotter() {
    // Pages stay 512 s: 6000 ns at 200 ns each are 30 accesses in 512 s.
    let auto = auto(COSTS);
    assert_eq!(auto.need, 60);
    let idle = Auto::new(4096);
    assert_eq!(idle.need, 60);
    let mut dear = COSTS;
    dear.move_ns *= 10;
    assert_eq!(self::auto(dear).need, 600);
}

#[test]
fn what_leaves_is_added_to_what_is_needed() {
    let mut auto = auto(COSTS);
    // Half are touched after 500 ms: 0.7 accesses per second.
    for _ in 0..200 {
        demote(&mut auto, 1, 500);
        demote(&mut auto, 1, 5000);
    }
    let leaving = auto.leaving();
    assert!((600..800).contains(&leaving), "{leaving}");
    end_window(&mut auto);
    assert_eq!(auto.need, leaving + 60);
}

#[test]
fn a_saturated_fast_node_gets_no_page() {
    let mut slower = COSTS;
    slower.fast_ns = 400;
    assert_eq!(judged(&mut auto(slower), &[1, 1, 1]), [Worth::Cold; 3]);
    assert_eq!(judged(&mut auto(COSTS), &[1]), [Worth::Hot]);
}

#[test]
fn one_short_latency_among_cold_pages_is_looked_at_again() {
    let mut auto = auto(COSTS);
    // Slow memory is touched once in minutes, demoted pages once in ten seconds.
    for _ in 0..200 {
        demote(&mut auto, 1, 900);
        demote(&mut auto, 9, 20_000);
    }
    judged(&mut auto, &[200_000; 400]);
    end_window(&mut auto);
    let seen = judged(&mut auto, &[2000, 2000, 2000, 2000]);
    assert_eq!(seen[0], Worth::Unsure, "{auto:?}");
    assert!(seen.contains(&Worth::Hot), "{seen:?}");
    assert_eq!(judged(&mut auto, &[60_000]), [Worth::Cold]);
}

#[test]
fn the_bar_rises_while_promotions_disappoint_and_falls_when_they_do_not() {
    let mut auto = auto(COSTS);
    let folios = Folios::new(1);
    let folio = &folios[FrameId(0)];
    let promote = |auto: &mut Auto, latency: u64| {
        for _ in 0..40 {
            folio.set_heat(Heat(auto.cut - 1).0);
            auto.note_promoted(folio);
            assert_eq!(Heat(folio.heat()).moved(), Moved::Barely);
            wait(auto, latency);
            while auto.note_fast(Millis(latency), folio) {}
        }
        end_window(auto);
    };
    (0..40).for_each(|_| promote(&mut auto, 100_000));
    let raised = auto.bar;
    assert!(raised >= 100, "{raised}");
    (0..200).for_each(|_| promote(&mut auto, 40));
    assert!(auto.bar < raised, "{} after {raised}", auto.bar);
    let cut = log_of_rate(auto.need) - auto.bar.unsigned_abs();
    assert_eq!(auto.cut, cut);
}

#[test]
fn an_access_that_goes_on_says_nothing() {
    let mut auto = auto(COSTS);
    let folios = Folios::new(1);
    let folio = &folios[FrameId(0)];
    let _ = auto.judge(Millis(10_000), folio);
    auto.note_promoted(folio);
    let again: Vec<bool> = (0..5).map(|_| auto.note_fast(Millis(0), folio)).collect();
    assert_eq!(again, [true, true, true, false, false], "so often and no oftener");
    let _ = auto.judge(Millis(10_000), folio);
    auto.note_promoted(folio);
    assert!(!auto.note_fast(Millis(9000), folio));
}

#[test]
fn what_is_known_of_demoted_pages_ages_and_gives_way_to_what_stays() {
    let mut auto = auto(COSTS);
    demote(&mut auto, 400, 10);
    let before = auto.leaving();
    assert!(before > 10_000, "{before}");
    (6..3000).for_each(|second| auto.tell_costs(Millis(second * 1000), &COSTS));
    assert!(auto.leaving() * 4 < before, "{} of {before}", auto.leaving());

    let mut auto = self::auto(COSTS);
    demote(&mut auto, 400, 10);
    let before = auto.leaving();
    let nr_armed = (0..400).filter(|page| auto.wants_fast(*page)).count();
    assert!((100..=134).contains(&nr_armed), "{nr_armed}: an eighth of the slow pages");
    wait(&mut auto, 4000);
    end_window(&mut auto);
    assert!(auto.leaving() < before, "none was touched: the hot set has moved");
}

#[test]
fn the_scan_hurries_while_it_finds_something() {
    let mut auto = auto(COSTS);
    // 10000 faults of 1 us are a second of the threads' 10 ms a second.
    let quiet = auto.pass();
    assert_eq!(quiet, Millis(64_000), "a 64th of their time");
    let folios = Folios::new(1);
    let folio = &folios[FrameId(0)];
    for window in 2..20 {
        for _ in 0..100 {
            folio.set_heat(Heat(log_of(Millis(100))).0);
            auto.note_promoted(folio);
            wait(&mut auto, 10);
            while auto.note_fast(Millis(10), folio) {}
        }
        auto.tell_costs(Millis(window * 1000), &COSTS);
    }
    let busy = auto.pass();
    assert!(busy < Millis(quiet.0 / 2) && busy >= Millis(16_000), "{busy:?}");
    (20..600).for_each(|window| auto.tell_costs(Millis(window * 1000), &COSTS));
    assert_eq!(auto.pass(), quiet);
}

proptest! {
    #[test]
    fn windows_are_kept_and_runs_repeat(
        events in prop::collection::vec((0u8..5, 0u64..100_000), 1..600),
        slow_ns in 0u64..2000,
        nr_slow in 0u64..1 << 40,
        thread_ns_per_s in 0u64..1 << 40,
    ) {
        let costs = TierCosts { slow_ns, nr_slow, thread_ns_per_s, ..COSTS };
        let play = || {
            let folios = Folios::new(8);
            let mut auto = Auto::new(1 << 20);
            let (mut now, mut nr_promoted, mut seen) = (0, 0, Vec::new());
            for (kind, number) in &events {
                let folio = &folios[FrameId((number % 8) as u32)];
                let latency = Millis(*number);
                auto.tell_time(Millis(now));
                match kind {
                    0 => now += number,
                    1 => auto.note_demoted(folio),
                    2 => seen.push(auto.note_fast(latency, folio)),
                    3 => seen.push(auto.wants_fast(*number)),
                    _ if auto.judge(latency, folio) == Worth::Hot && auto.is_affordable() => {
                        auto.note_promoted(folio);
                        nr_promoted += 1;
                    }
                    _ => {}
                }
                assert!(nr_promoted <= auto.moves_max(), "{nr_promoted}");
                let before = auto.nr_windows;
                auto.tell_costs(Millis(now), &costs);
                if auto.nr_windows != before || auto.costs != costs {
                    nr_promoted = auto.nr_promoted;
                }
                assert!((0..=BAR_MAX).contains(&auto.bar));
                assert!(auto.pass() >= Millis(1));
            }
            (seen, auto.cut, auto.pass(), auto.threshold())
        };
        prop_assert_eq!(play(), play());
    }
}
