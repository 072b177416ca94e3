//! The per-CPU lists' workloads: what each tuning makes of each program, in one table.
//!
//! # Problem
//!
//! Whether lists should grow, and when they should shrink again, was argued over with a handful of
//! programs on machines with 56 to 224 CPUs.
//!
//! # Idea
//!
//! The same programs, in virtual time, each with each tuning:
//!
//! ```text
//!   workload x tuning x seed --> Machine: warm-up | measured stretch --> PcpRow, samples
//! ```
//!
//! | name | CPUs | what | memory |
//! |---|---|---|---|
//! | `pcp-page-fault1` | 56 | each takes, touches and frees 128 MiB in a loop | 128 GiB |
//! | `pcp-kbuild` | 224 | compilers of 30000 pages, one a second and CPU, with children | 256 GiB |
//! | `pcp-netperf` | 128 | 64 pairs; nine messages of 10 KiB in ten are freed elsewhere | 128 GiB |
//! | `pcp-pattern-a` | 8 | each takes 2 GiB once, then very little | 64 GiB |
//! | `pcp-pressure` | 56 | page-fault1, while a neighbour keeps free memory under HIGH | 16 GiB |
//! | `pcp-mixed` | 56 | a third of each of the first three | 128 GiB |
//!
//! # Data and invariants
//!
//! One [`PcpRow`] a run, the same for the same seed. A CPU's periodic worker ticks each second.
//!
//! # What it deliberately ignores
//!
//! The seed machines' nodes: all CPUs share one zone here, where 112 did with two sockets, so
//! `pcp-kbuild` and `pcp-netperf` are fought over harder. Memory bandwidth, which bounded the
//! published page_fault1. Network protocols: a message costs what it did on the published machine,
//! all in all, and schedulers: a sleeping task is always woken after the same time.
//!
//! # Sources
//!
//! The benchmark specification, section C (Y. Huang, "mm: PCP high auto-tuning", RFC of July 2023).
//! For netperf, reports of the same robot on the same kind of machine, on the linux-mm list, June
//! and July 2022: `netperf -4 -H 127.0.0.1 -t SCTP_STREAM_MANY -c -C -l 300 -- -m 10K`, with 64
//! processes on 128 CPUs 9078 Mbit/s each, 70 % idle, 1.29 allocations a message.

mod programs;
mod published;

pub use published::{PublishedFigures, published};

use super::clock::Nanos;
use super::costs::Costs;
use super::device::Device;
use super::engine::{Machine, MachineConfig, MachineError};
use super::meter::{Measured, Sample};
use super::workload::TaskId;
use pagetide_core::ids::CpuId;
use pagetide_core::page_alloc::{PcpTuning, WatermarkInputs, WatermarkLevel, Watermarks};
use pagetide_core::units::PAGE_BYTES;
use programs::{Compiler, FaultLoop, Loader, LoaderStage, Neighbour, Receiver, Sender, Worker};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A workload of the per-CPU lists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PcpWorkload {
    /// `pcp-page-fault1`.
    PageFault1,
    /// `pcp-kbuild`.
    Kbuild,
    /// `pcp-netperf`.
    Netperf,
    /// `pcp-pattern-a`.
    PatternA,
    /// `pcp-pressure`.
    Pressure,
    /// `pcp-mixed`.
    Mixed,
}

/// There is no such workload; the message names those there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no such workload: there are {}", PcpWorkload::ALL.map(PcpWorkload::as_str).join(", "))]
pub struct UnknownPcpWorkload;

impl PcpWorkload {
    /// All of them.
    pub const ALL: [PcpWorkload; 6] = [
        PcpWorkload::PageFault1,
        PcpWorkload::Kbuild,
        PcpWorkload::Netperf,
        PcpWorkload::PatternA,
        PcpWorkload::Pressure,
        PcpWorkload::Mixed,
    ];

    /// The name, as typed.
    pub const fn as_str(self) -> &'static str {
        match self {
            PcpWorkload::PageFault1 => "pcp-page-fault1",
            PcpWorkload::Kbuild => "pcp-kbuild",
            PcpWorkload::Netperf => "pcp-netperf",
            PcpWorkload::PatternA => "pcp-pattern-a",
            PcpWorkload::Pressure => "pcp-pressure",
            PcpWorkload::Mixed => "pcp-mixed",
        }
    }

    /// What it is, in a line.
    pub const fn summary(self) -> &'static str {
        match self {
            PcpWorkload::PageFault1 => "56 CPUs take, touch and free 128 MiB each, in a loop",
            PcpWorkload::Kbuild => "224 CPUs compile: 30000 pages up and down each second",
            PcpWorkload::Netperf => "64 pairs on 128 CPUs: 10 KiB taken on one, freed on the other",
            PcpWorkload::PatternA => "8 CPUs take 2 GiB each once, then very little",
            PcpWorkload::Pressure => "page-fault1 while free memory is kept under HIGH",
            PcpWorkload::Mixed => "56 CPUs: loops, compilers and pairs side by side",
        }
    }

    /// The memory it runs in, and for how long.
    pub const fn plan(self) -> PcpPlan {
        const GIB: u32 = 1 << 18;
        let (gib, warm_up_ms, measured_ms) = match self {
            PcpWorkload::PageFault1 => (128, 5000, 500),
            PcpWorkload::Kbuild => (256, 5000, 1000),
            PcpWorkload::Netperf => (128, 2000, 1000),
            PcpWorkload::PatternA => (64, 0, 6000),
            PcpWorkload::Pressure => (16, 3000, 500),
            PcpWorkload::Mixed => (128, 5000, 500),
        };
        PcpPlan {
            nr_frames: gib * GIB,
            warm_up: Nanos::from_millis(warm_up_ms),
            measured: Nanos::from_millis(measured_ms),
        }
    }

    /// Its CPUs.
    pub const fn nr_cpus(self) -> u32 {
        match self {
            PcpWorkload::PageFault1 | PcpWorkload::Pressure | PcpWorkload::Mixed => 56,
            PcpWorkload::Kbuild => 224,
            PcpWorkload::Netperf => 128,
            PcpWorkload::PatternA => 8,
        }
    }

    /// How long the warm-up is, and how long what is measured after it.
    pub const fn stretches(self) -> (Nanos, Nanos) {
        let plan = self.plan();
        (plan.warm_up, plan.measured)
    }

    /// The memory a run takes of the machine it runs on, at most, in bytes.
    pub fn bytes_needed(self) -> u64 {
        const FRAME_BYTES: u64 = 9;
        const HELD_BYTES: u64 = 64 << 20;
        u64::from(self.plan().nr_frames) * FRAME_BYTES + HELD_BYTES
    }
}

impl fmt::Display for PcpWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for PcpWorkload {
    type Err = UnknownPcpWorkload;

    fn from_str(text: &str) -> Result<PcpWorkload, UnknownPcpWorkload> {
        PcpWorkload::ALL.into_iter().find(|it| it.as_str() == text).ok_or(UnknownPcpWorkload)
    }
}

/// How large the machine of a run is, and how long the run takes in virtual time.
#[derive(Clone, Copy, Debug)]
pub struct PcpPlan {
    /// The machine's frames.
    pub nr_frames: u32,
    /// What comes before the measurement.
    pub warm_up: Nanos,
    /// How long that lasts.
    pub measured: Nanos,
}

/// A line of the table. The field names are what `--json` prints, and stay.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PcpRow {
    /// The workload.
    pub workload: &'static str,
    /// The tuning.
    pub tuning: &'static str,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Pages taken, in GB (10^9 bytes) a second: what page_fault1 counts. Over a long time as many
    /// are freed, but those come in bursts, which a short stretch has one more or less of.
    pub allocated_gb_per_s: f64,
    /// Cycles waiting for the zone's lock, of the cycles not idle: 0 to 1.
    pub lock_wait_share: f64,
    /// The 99th percentile of allocating a page.
    pub alloc_p99_ns: u64,
    /// The 99th percentile of freeing a page.
    pub free_p99_ns: u64,
    /// Pages that entered or left the zone's lists.
    pub zone_pages: u64,
    /// Pages on all per-CPU lists, the mean over the measured stretch.
    pub idle_pages: u64,
}

/// What one run answers.
#[derive(Clone, PartialEq, Debug)]
pub struct PcpOutcome {
    /// The line of the table.
    pub row: PcpRow,
    /// From the beginning of the warm-up on.
    pub samples: Vec<Sample>,
    /// Pages asked for and not got, in the measured stretch.
    pub nr_failed: u64,
    /// Frames in a batch.
    pub batch: u32,
}

/// Virtual time between two calls of `keep_on`, and between samples.
const STRETCH: Nanos = Nanos::from_millis(10);

/// Runs `workload` with `tuning`: `None` when `keep_on`, which is given how much of it is done
/// (0 to 1), said no.
///
/// # Errors
/// As [`Machine::new`]; none with the workloads as they are.
///
/// # Cost
/// 9 bytes a frame of the virtual machine; 1 to 15 seconds.
pub fn run_while(
    workload: PcpWorkload,
    tuning: PcpTuning,
    costs: Costs,
    seed: u64,
    keep_on: impl FnMut(f64) -> bool,
) -> Result<Option<PcpOutcome>, MachineError> {
    run_plan_while(workload, workload.plan(), tuning, costs, seed, keep_on)
}

/// As [`run_while`], by another plan than the workload's own.
///
/// # Errors
/// As [`Machine::new`]: memory too small.
pub fn run_plan_while(
    workload: PcpWorkload,
    plan: PcpPlan,
    tuning: PcpTuning,
    costs: Costs,
    seed: u64,
    keep_on: impl FnMut(f64) -> bool,
) -> Result<Option<PcpOutcome>, MachineError> {
    let mut machine = Machine::new(&MachineConfig {
        nr_cpus: workload.nr_cpus(),
        nr_frames: plan.nr_frames,
        tuning,
        costs,
        seed,
        sample_every: STRETCH,
    })?;
    populate(&mut machine, workload, &costs);
    let Some(measured) = play(&mut machine, &plan, keep_on) else { return Ok(None) };
    Ok(Some(PcpOutcome {
        row: row(workload, tuning, &measured),
        samples: machine.samples().to_vec(),
        nr_failed: measured.nr_failed,
        batch: machine.batch(),
    }))
}

fn play(
    machine: &mut Machine,
    plan: &PcpPlan,
    mut keep_on: impl FnMut(f64) -> bool,
) -> Option<Measured> {
    let end = plan.warm_up + plan.measured;
    let mut run_to = |machine: &mut Machine, to: Nanos| {
        while machine.now() < to {
            machine.run_until(to.min(machine.now() + STRETCH));
            if !keep_on(machine.now().as_secs() / end.as_secs()) {
                return None;
            }
        }
        Some(())
    };
    run_to(machine, plan.warm_up)?;
    machine.start_measuring();
    run_to(machine, end)?;
    Some(machine.measured())
}

fn row(workload: PcpWorkload, tuning: PcpTuning, measured: &Measured) -> PcpRow {
    let bytes = measured.nr_taken as f64 * PAGE_BYTES as f64;
    PcpRow {
        workload: workload.as_str(),
        tuning: tuning.as_str(),
        cpus: workload.nr_cpus(),
        allocated_gb_per_s: bytes / measured.elapsed.0 as f64,
        lock_wait_share: measured.waited.0 as f64 / (measured.busy.0 as f64).max(1.0),
        alloc_p99_ns: measured.alloc_p99.0,
        free_p99_ns: measured.free_p99.0,
        zone_pages: measured.zone_pages,
        idle_pages: measured.idle_pages,
    }
}

/// Pages of page_fault1's 128 MiB.
const FAULT_PAGES: u32 = 32_768;
const COMPILER_PAGES: u32 = 30_000;
const COMPILER_LIFE: Nanos = Nanos::from_secs(1);
/// CPU a message, a side: on the published machine 27 % of 128 CPUs moved 64 times 7136 Mbit/s (as
/// its like elsewhere says, a process), 6.2 us a message, of which the allocator had some 0.2.
const MESSAGE_WORK: Nanos = Nanos(3_000);
/// Pages of 2 GiB.
const LOADER_PAGES: u32 = 524_288;
/// When memory becomes scarce.
const PRESSURE_FROM: Nanos = Nanos::from_secs(2);

fn populate(machine: &mut Machine, workload: PcpWorkload, costs: &Costs) {
    let nr_cpus = workload.nr_cpus();
    for cpu in (0..nr_cpus).map(CpuId) {
        machine.start(cpu, Box::new(Worker::default()));
    }
    let loops = |machine: &mut Machine, cpus: std::ops::Range<u32>| {
        for cpu in cpus.map(CpuId) {
            machine.start(cpu, Box::new(FaultLoop::new(FAULT_PAGES, costs.touch)));
        }
    };
    match workload {
        PcpWorkload::PageFault1 => loops(machine, 0..nr_cpus),
        PcpWorkload::Kbuild => compilers(machine, 0..nr_cpus, costs),
        PcpWorkload::Netperf => pairs(machine, 0..nr_cpus),
        PcpWorkload::PatternA => {
            for cpu in (0..nr_cpus).map(CpuId) {
                let (nr_pages, touch, stage) = (LOADER_PAGES, costs.touch, LoaderStage::Load);
                machine.start(cpu, Box::new(Loader { nr_pages, touch, stage }));
            }
        }
        PcpWorkload::Pressure => {
            loops(machine, 0..nr_cpus);
            let nr_free = between_low_and_high(machine.nr_managed());
            machine.start(CpuId(0), Box::new(Neighbour { from: PRESSURE_FROM, nr_free }));
        }
        PcpWorkload::Mixed => {
            let third = nr_cpus / 3;
            loops(machine, 0..third);
            compilers(machine, third..2 * third, costs);
            pairs(machine, 2 * third..nr_cpus);
        }
    }
}

fn compilers(machine: &mut Machine, cpus: std::ops::Range<u32>, costs: &Costs) {
    // The storage of the machine the other prices are of: 66 us and 1 GiB/s.
    let disk = machine.attach(Device::new(Nanos::from_micros(66), 1 << 30));
    for cpu in cpus.map(CpuId) {
        let compiler = Compiler::new(COMPILER_PAGES, COMPILER_LIFE, costs.touch, disk);
        machine.start(cpu, Box::new(compiler));
    }
}

/// A sender and a receiver on each two neighbouring CPUs.
fn pairs(machine: &mut Machine, cpus: std::ops::Range<u32>) {
    for cpu in cpus.clone().step_by(2).filter(|cpu| cpu + 1 < cpus.end) {
        let receiver = Receiver::new(MESSAGE_WORK);
        let to: TaskId = machine.start(CpuId(cpu + 1), Box::new(receiver));
        machine.start(CpuId(cpu), Box::new(Sender::new(to, MESSAGE_WORK)));
    }
}

/// Half way from LOW to HIGH.
fn between_low_and_high(managed: u64) -> u64 {
    let marks = Watermarks::for_zone(&WatermarkInputs::single_zone(managed));
    let (low, high) = (marks.mark(WatermarkLevel::Low), marks.mark(WatermarkLevel::High));
    low.midpoint(high)
}

#[cfg(test)]
mod tests;
