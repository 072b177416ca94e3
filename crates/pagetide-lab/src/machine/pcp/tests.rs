//! Shorter runs of the workloads.

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

/// Loops of 16 MiB on 16 CPUs in a zone of 4 GiB, short of memory from 100 ms on, with a least
/// limit of four batches. Returns per CPU the idle listed pages before and after, and pages
/// allocated.
fn pressed(tuning: PcpTuning) -> (u64, u64, u64) {
    const NR_CPUS: u32 = 16;
    let mut machine = Machine::new(&MachineConfig {
        nr_cpus: NR_CPUS,
        nr_frames: 1 << 20,
        tuning,
        costs: Costs::HOST,
        seed: 1,
        sample_every: Nanos::from_millis(1),
    })
    .expect("it can be built");
    for cpu in (0..NR_CPUS).map(CpuId) {
        machine.start(cpu, Box::new(FaultLoop::new(4096, Costs::HOST.touch)));
    }
    let (from, nr_free) = (Nanos::from_millis(100), between_low_and_high(machine.nr_managed()));
    machine.start(CpuId(0), Box::new(Neighbour { from, nr_free }));
    machine.run_until(Nanos::from_millis(50));
    machine.start_measuring();
    machine.run_until(from);
    let before = machine.measured().idle_pages;
    machine.run_until(Nanos::from_millis(120));
    machine.start_measuring();
    machine.run_until(Nanos::from_millis(200));
    machine.validate();
    let pressed = machine.measured();
    let in_a_cpu = |nr_pages: u64| nr_pages / u64::from(NR_CPUS);
    (in_a_cpu(before), in_a_cpu(pressed.idle_pages), in_a_cpu(pressed.nr_taken))
}

#[test]
fn under_high_four_batches_a_cpu_are_idle_and_refill_is_not_slower_than_fixed() {
    const BATCH: u64 = 63;
    let (_, _, taken_fixed) = pressed(PcpTuning::Fixed);
    let (before, idle, taken) = pressed(PcpTuning::Refill);
    assert!(before > 4 * BATCH, "{before} pages idle while memory is plenty");
    assert!(idle <= 4 * BATCH, "{idle} pages idle");
    assert!(taken >= taken_fixed, "{taken} pages taken, {taken_fixed} by fixed");
}

#[test]
fn names_are_read_back_and_unknown_ones_refused_with_the_list() {
    for workload in PcpWorkload::ALL {
        assert_eq!(workload.as_str().parse(), Ok(workload));
    }
    let refused = "pcp-kbuil".parse::<PcpWorkload>().expect_err("no such name").to_string();
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
        "allocated_gb_per_s",
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
