//! Digests of scenarios, virtual CPUs, fast and slow memory, and groups.

use crate::digest::Digest;
use crate::groups;
use crate::subjects::{self, Design};
use crate::table::Row;
use pagetide_core::group::{GlobalOrder, GroupConfig};
use pagetide_core::page_alloc::PcpTuning;
use pagetide_core::tiering::Stage;
use pagetide_lab::machine::pcp::{self, PcpWorkload};
use pagetide_lab::machine::{Costs, Nanos};
use pagetide_lab::scenario::{Condition, PolicyVariant, Scenario};
use pagetide_lab::tiers::programs::TierWorkload;
use pagetide_lab::tiers::{self, TierSetup};
use rayon::prelude::*;

fn row(what: String, policy: &str, switches: String, frames: u32, counters: Digest) -> Row {
    let policy = policy.to_owned();
    Row { what, policy, switches, frames, hits: None, evictions: None, counters }
}

pub(crate) fn scenarios(designs: &[Design], conditions: &[Condition]) -> Vec<Row> {
    let of_scenario = |scenario| {
        let with = move |condition: &Condition| (scenario, *condition);
        conditions.iter().map(with)
    };
    let runs: Vec<(&Scenario, Condition, Design)> = Scenario::ALL
        .iter()
        .flat_map(of_scenario)
        .flat_map(|(scenario, condition)| designs.iter().map(move |it| (scenario, condition, *it)))
        .collect();
    runs.par_iter()
        .map(|(scenario, condition, design)| {
            let (policy, switches) = (design.policy, design.switches());
            let subject = PolicyVariant { policy, switches, condition: *condition };
            let played = scenario.play(subject, 1, &|_| true).expect("nothing stops it");
            let mut digest = Digest::EMPTY;
            digest.add_count("accesses", played.accesses);
            played.values.iter().for_each(|(name, value)| digest.add_measure(name, *value));
            for course in &played.courses {
                course.values.iter().for_each(|value| digest.add_measure(course.name, *value));
            }
            let what = format!("scenario/{}@{}", scenario.name, condition.as_str());
            row(what, policy.as_str(), design.switches_text(), 0, digest)
        })
        .collect()
}

/// Runs every workload of the per-CPU lists with every tuning, briefly and in a smaller machine.
pub(crate) fn per_cpu_lists(nr_frames: u32, millis: u64) -> Vec<Row> {
    let plan = pcp::PcpPlan {
        nr_frames,
        warm_up: Nanos::from_millis(millis),
        measured: Nanos::from_millis(millis),
    };
    let runs: Vec<(PcpWorkload, PcpTuning)> = PcpWorkload::ALL
        .into_iter()
        .flat_map(|workload| PcpTuning::ALL.map(|tuning| (workload, tuning)))
        .collect();
    let run = |(workload, tuning): &(PcpWorkload, PcpTuning)| {
        let outcome = pcp::run_plan_while(*workload, plan, *tuning, Costs::HOST, 1, |_| true)
            .expect("it can be built")
            .expect("nothing stops it");
        let mut digest = Digest::EMPTY;
        digest.add_count("nr_failed", outcome.nr_failed);
        digest.add_count("batch", outcome.batch.into());
        digest.add_measure("throughput", outcome.row.allocated_gb_per_s);
        digest.add_measure("lock_wait_share", outcome.row.lock_wait_share);
        digest.add_count("alloc_p99_ns", outcome.row.alloc_p99_ns);
        digest.add_count("free_p99_ns", outcome.row.free_p99_ns);
        digest.add_count("zone_pages", outcome.row.zone_pages);
        digest.add_count("idle_pages", outcome.row.idle_pages);
        row(workload.to_string(), &format!("pcp-{tuning}"), "-".to_owned(), plan.nr_frames, digest)
    };
    runs.par_iter().map(run).collect()
}

/// Runs every program over fast and slow memory: each policy with default tiering, two policies in
/// every stage and judge.
pub(crate) fn tiers(policies: [&str; 2], seconds: u64) -> Vec<Row> {
    let (warm_up, measured) = (Nanos::from_secs(seconds * 2), Nanos::from_secs(seconds));
    let setup = TierSetup { warm_up, measured, ..TierSetup::published() };
    let stages = Stage::ALL.map(tiers::Placer::stage);
    let runs: Vec<_> = TierWorkload::ALL
        .into_iter()
        .flat_map(|workload| subjects::policies().map(move |policy| (workload, policy)))
        .flat_map(|(workload, policy)| {
            let is_tried = policies.contains(&policy.as_str());
            let all: Vec<tiers::Placer> = match is_tried {
                true => tiers::Placer::JUDGES.into_iter().chain(stages).collect(),
                false => vec![tiers::Placer::stage(Stage::default())],
            };
            all.into_iter().map(move |subject| (workload, policy, subject))
        })
        .collect();
    runs.par_iter()
        .map(|(workload, policy, subject)| {
            let setup = TierSetup { policy: *policy, ..setup };
            let mut program = workload.program(setup.nr_pages, 1);
            let name = workload.as_str();
            let outcome = tiers::run_while(&setup, name, &mut *program, *subject, |_| true)
                .expect("nothing stops it");
            let mut digest = Digest::EMPTY;
            digest.add_count("threshold_ms", outcome.threshold_ms);
            digest.add_count("migration_bytes", outcome.migration_bytes);
            digest.add_count("hint_faults", outcome.row.hint_faults);
            for (name, measure) in [
                ("score", outcome.row.accesses_per_s),
                ("promotion_mb_per_s", outcome.row.promotion_mb_per_s),
                ("demotion_mb_per_s", outcome.row.demotion_mb_per_s),
                ("fast_share", outcome.row.fast_share),
                ("precision", outcome.row.precision),
                ("recall", outcome.row.recall),
                ("ping_pong", outcome.row.ping_pong),
            ] {
                digest.add_measure(name, measure);
            }
            let switches = format!("tiering={}", subject.as_str());
            row(name.to_owned(), policy.as_str(), switches, setup.nr_frames[0], digest)
        })
        .collect()
}

pub(crate) fn groups() -> Vec<Row> {
    let mut rows = Vec::new();
    for policy in subjects::policies() {
        let mut add = |what: &str, numbers: &[f64]| {
            let mut digest = Digest::EMPTY;
            numbers.iter().for_each(|number| digest.add_measure("", *number));
            let what = format!("groups/{what}");
            rows.push(row(what, policy.as_str(), "-".to_owned(), 0, digest));
        };
        let played = groups::play_out_of_memory(policy);
        let numbers = [played.failed_reads, played.anon_resident, played.anon_gained];
        add("out-of-memory", &numbers.map(|number| number as f64));
        for (name, protection) in [
            ("none", GroupConfig::NONE),
            ("min", GroupConfig { min: 1024, ..GroupConfig::NONE }),
            ("low", GroupConfig { low: 600, ..GroupConfig::NONE }),
        ] {
            let played = groups::play_sibling_protection(policy, protection);
            let numbers = [played.misses_in_last_pass as f64, played.evictions as f64];
            add(&format!("protection-{name}"), &numbers);
        }
        for (name, order) in [("rotation", GlobalOrder::Rotation), ("walk", GlobalOrder::Walk)] {
            let played = groups::play_fairness(policy, order, 5, 1);
            let all = [played.shares_read, played.shares_evicted, played.shares_resident];
            add(&format!("fairness-{name}"), &all.concat());
        }
    }
    rows
}
