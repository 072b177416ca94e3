//! The workloads, on shorter stretches than the table's.

use super::*;

fn short(workload: PcpWorkload, tuning: PcpTuning, seed: u64) -> (Machine, Measured) {
    let mut machine = Machine::new(&MachineConfig {
        nr_cpus: workload.nr_cpus(),
        nr_frames: 1 << 21,
        tuning,
        costs: Costs::HOST,
        seed,
        sample_every: STRETCH,
    })
    .expect("it can be built");
    populate(&mut machine, workload, &Costs::HOST);
    machine.run_until(Nanos::from_millis(15));
    machine.start_measuring();
    machine.run_until(Nanos::from_millis(30));
    let measured = machine.measured();
    (machine, measured)
}

#[test]
fn every_workload_runs_repeats_by_seed_and_loses_no_frame() {
    for workload in PcpWorkload::ALL {
        let (machine, measured) = short(workload, PcpTuning::Refill, 3);
        machine.validate();
        assert_eq!(measured.elapsed, Nanos::from_millis(15), "{workload}");
        assert!(measured.busy > Nanos::ZERO && measured.waited < measured.busy, "{workload}");
        assert_eq!(measured, short(workload, PcpTuning::Refill, 3).1, "{workload}");
        if workload != PcpWorkload::PatternA {
            assert_ne!(measured, short(workload, PcpTuning::Refill, 4).1, "{workload}");
        }
    }
}

#[test]
fn names_are_read_back_and_unknown_ones_refused_with_the_list() {
    for workload in PcpWorkload::ALL {
        assert_eq!(workload.as_str().parse(), Ok(workload));
    }
    let refused = "pcp-kbuil".parse::<PcpWorkload>().expect_err("nobody's name").to_string();
    assert!(PcpWorkload::ALL.iter().all(|it| refused.contains(it.as_str())), "{refused}");
}

#[test]
fn rows_have_the_field_names_that_stay() {
    let (_, measured) = short(PcpWorkload::Netperf, PcpTuning::Fixed, 1);
    let row = row(PcpWorkload::Netperf, PcpTuning::Fixed, &measured);
    let value = serde_json::to_value(row).expect("it serializes");
    let fields: Vec<&String> = value.as_object().expect("an object").keys().collect();
    let mut expected = [
        "workload",
        "tuning",
        "cpus",
        "throughput",
        "lock_wait_share",
        "alloc_p99_ns",
        "free_p99_ns",
        "zone_pages",
        "idle_pages",
    ];
    expected.sort_unstable();
    assert_eq!(fields, expected);
    assert!((0.0..=1.0).contains(&row.lock_wait_share));
}

#[test]
fn whoever_says_stop_gets_no_answer() {
    let mut nr_asked = 0;
    let answer = run_while(PcpWorkload::PatternA, PcpTuning::Fixed, Costs::HOST, 1, |share| {
        nr_asked += 1;
        assert!((0.0..=1.0).contains(&share));
        nr_asked < 3
    });
    assert_eq!((answer, nr_asked), (Ok(None), 3));
}
