use super::*;
use crate::tiers::programs::TierWorkload;
use crate::tiers::published::change;
use pagetide_core::units::Millis;

/// The published machine, with durations in seconds.
fn setup(warm_up: u64, measured: u64) -> TierSetup {
    let (warm_up, measured) = (Nanos::from_secs(warm_up), Nanos::from_secs(measured));
    TierSetup { warm_up, measured, ..TierSetup::published() }
}

fn run(setup: &TierSetup, workload: TierWorkload, subject: Placer) -> TierOutcome {
    let mut program = workload.program(setup.nr_pages, 1);
    let outcome = run_while(setup, workload.as_str(), &mut *program, subject, |_| true);
    outcome.expect("it is not stopped")
}

/// Checks the series' claims on a model of its benchmark: directions and rough sizes.
#[test]
fn each_stage_on_pmbench_does_what_its_patch_claims() {
    let setup = setup(3000, 900);
    let rows = Stage::ALL.map(|stage| {
        let outcome = run(&setup, TierWorkload::Pmbench, Placer::stage(stage));
        let row = outcome.row;
        assert_eq!(row.stage, stage.as_str());
        let moved = (row.promotion_mb_per_s + row.demotion_mb_per_s) * 900.0 * 1_048_576.0;
        let bytes = outcome.migration_bytes as f64;
        assert!((bytes / moved - 1.0).abs() < 0.02, "{bytes} moved, {moved} by the rates");
        row
    });
    let score = |later: usize, before: usize| {
        change(rows[before].accesses_per_s, rows[later].accesses_per_s)
    };
    let traffic = |later: usize, before: usize| {
        change(rows[before].promotion_mb_per_s, rows[later].promotion_mb_per_s)
    };
    assert!(score(1, 0) >= 8.0 && traffic(1, 0) <= -20.0, "hot selection: {rows:#?}");
    assert!(score(2, 1) >= -3.0 && traffic(2, 1) <= -50.0, "rate limit: {rows:#?}");
    assert!(score(3, 0) >= 10.0 && traffic(3, 0) <= -70.0, "all three: {rows:#?}");
    assert!(score(4, 3) >= 0.0 && rows[4].recall > rows[3].recall, "no knobs: {rows:#?}");
    assert!(rows.windows(2).all(|pair| pair[1].precision > pair[0].precision - 0.2));
}

#[test]
fn every_subject_is_between_all_slow_and_all_fast_and_a_run_repeats() {
    let setup = setup(300, 100);
    let stages = Stage::ALL.map(Placer::stage);
    let of = |subject| run(&setup, TierWorkload::Oltp, subject).row;
    let (slow, fast) = (of(Placer::AllSlow).accesses_per_s, of(Placer::AllFast).accesses_per_s);
    for subject in Placer::JUDGES.into_iter().chain(stages) {
        let row = of(subject);
        assert!(
            row.accesses_per_s >= slow * 0.95 && row.accesses_per_s <= fast * 1.001,
            "{slow} {fast} {row:?}"
        );
        for share in [row.fast_share, row.precision, row.recall, row.ping_pong] {
            assert!((0.0..=1.0).contains(&share), "{row:?}");
        }
    }
    assert_eq!((of(Placer::Oracle).recall, of(Placer::AllSlow).recall), (1.0, 0.0));
    assert_eq!(of(stages[3]), of(stages[3]));
    assert_eq!(of(stages[4]), of(stages[4]));
}

/// The full grid of settings and programs takes minutes. This is the part where knobs matter most.
#[test]
fn without_knobs_pmbench_runs_as_well_as_with_those_tuned_for_it() {
    let setup = setup(1500, 500);
    let run_stage =
        |stage| run(&setup, TierWorkload::Pmbench, Placer::stage(stage)).row.accesses_per_s;
    let tuned_to = |threshold| {
        let mut setup = setup.with_ratio(Ratio(4)).with_rate_limit(1024);
        setup.knobs.hot_threshold = Millis(threshold);
        setup.knobs.scan_period_max = Millis(480_000);
        let switches =
            TieringSwitches { hot_selection: true, rate_limit: true, ..TieringSwitches::BASE };
        run(&setup, TierWorkload::Pmbench, Placer::Core { switches, name: "tuned" })
            .row
            .accesses_per_s
    };
    let tuned = tuned_to(125).max(tuned_to(1000));
    let auto = run_stage(Stage::Auto);
    assert!(auto >= run_stage(Stage::Base) && auto >= 0.9 * tuned, "{auto}, tuned {tuned}");
}

#[test]
fn a_run_that_is_stopped_has_no_answer() {
    let mut program = TierWorkload::Zipf.program(1000, 1);
    let mut told = Vec::new();
    let keep_on = |share| {
        told.push(share);
        told.len() < 3
    };
    let setup = setup(300, 100);
    let stopped = run_while(&setup, "tier-zipf", &mut *program, Placer::FirstTouch, keep_on);
    assert!(stopped.is_none());
    assert!(told.len() == 3 && told.is_sorted() && told[2] > 0.0, "{told:?}");
}

#[test]
fn a_larger_scale_is_a_larger_machine_with_the_same_model() {
    let small = TierSetup::scaled(1024);
    assert_eq!((small.knobs.scan_pages, small.knobs.promote_rate_frames), (64, 64));
    assert!((small.with_rate_limit(512).rate_limit_mb_per_s() - 512.0).abs() < 1e-9);
    assert_eq!(TierSetup::scaled(SCALE_MAX).knobs.scan_pages, 1);
    assert_eq!(TierSetup::scaled(1).knobs.check(), Ok(()));
}
