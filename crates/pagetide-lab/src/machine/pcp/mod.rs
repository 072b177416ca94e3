//! Workloads of the per-CPU lists: compares tunings across programs in one table.
//!
//! # Problem
//!
//! The growing and shrinking of lists was argued with a few programs on machines with 56 to 224
//! CPUs.
//!
//! # Idea
//!
//! The same programs in virtual time, each with each tuning:
//!
//! ```text
//!   workload x tuning x seed --> Machine: warm-up | measured stretch --> PcpRow, samples
//! ```
//!
//! | name | CPUs | load | memory |
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
//! NUMA nodes: all CPUs share one zone, where 112 shared one on two sockets, so `pcp-kbuild` and
//! `pcp-netperf` contend more. Memory bandwidth, which bounded the published page_fault1. Network
//! protocols: a message has the published total cost. Schedulers: wake-ups take a fixed time.
//!
//! # Sources
//!
//! Y. Huang, "mm: PCP high auto-tuning", RFC of July 2023.
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

/// An unknown workload. The message lists all names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no such workload: there are {}", PcpWorkload::ALL.map(PcpWorkload::as_str).join(", "))]
pub struct UnknownPcpWorkload;

impl PcpWorkload {
    /// All workloads.
    pub const ALL: [PcpWorkload; 6] = [
        PcpWorkload::PageFault1,
        PcpWorkload::Kbuild,
        PcpWorkload::Netperf,
        PcpWorkload::PatternA,
        PcpWorkload::Pressure,
        PcpWorkload::Mixed,
    ];

    /// Returns the name on the command line.
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

    /// Returns a one-line description.
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

    /// Returns the memory and duration of a run.
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

    /// Returns the number of CPUs.
    pub const fn nr_cpus(self) -> u32 {
        match self {
            PcpWorkload::PageFault1 | PcpWorkload::Pressure | PcpWorkload::Mixed => 56,
            PcpWorkload::Kbuild => 224,
            PcpWorkload::Netperf => 128,
            PcpWorkload::PatternA => 8,
        }
    }

    /// Returns the durations of the warm-up and the measurement.
    pub const fn stretches(self) -> (Nanos, Nanos) {
        let plan = self.plan();
        (plan.warm_up, plan.measured)
    }

    /// Returns the maximum memory of a run on the real machine, in bytes.
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

/// Machine size and virtual duration of a run.
#[derive(Clone, Copy, Debug)]
pub struct PcpPlan {
    /// The machine's frames.
    pub nr_frames: u32,
    /// Duration before the measurement.
    pub warm_up: Nanos,
    /// Duration of the measurement.
    pub measured: Nanos,
}

/// A row of the table. `--json` prints the field names, so they are stable.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PcpRow {
    /// The workload.
    pub workload: &'static str,
    /// The tuning.
    pub tuning: &'static str,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Pages allocated, in GB (10^9 bytes) a second, as page_fault1 counts. Frees come in bursts,
    /// too uneven to measure.
    pub allocated_gb_per_s: f64,
    /// Share of busy cycles spent waiting for the zone's lock, 0 to 1.
    pub lock_wait_share: f64,
    /// 99th percentile of a page allocation.
    pub alloc_p99_ns: u64,
    /// 99th percentile of a page free.
    pub free_p99_ns: u64,
    /// Pages that entered or left the zone.
    pub zone_pages: u64,
    /// Mean number of pages on all per-CPU lists.
    pub idle_pages: u64,
}

/// The result of one run.
#[derive(Clone, PartialEq, Debug)]
pub struct PcpOutcome {
    /// The row of the table.
    pub row: PcpRow,
    /// Samples from the start of the warm-up.
    pub samples: Vec<Sample>,
    /// Failed page requests during the measurement.
    pub nr_failed: u64,
    /// Frames in a batch.
    pub batch: u32,
}

/// Virtual time between samples, and between calls of `keep_on`.
const STRETCH: Nanos = Nanos::from_millis(10);

/// Runs `workload` with `tuning`. `keep_on` gets the finished share (0 to 1), and ends the run with
/// `None` by returning `false`.
///
/// # Errors
/// As [`Machine::new`]. The built-in workloads cause none.
///
/// # Cost
/// 9 bytes a frame of the virtual machine. 1 to 15 seconds.
pub fn run_while(
    workload: PcpWorkload,
    tuning: PcpTuning,
    costs: Costs,
    seed: u64,
    keep_on: impl FnMut(f64) -> bool,
) -> Result<Option<PcpOutcome>, MachineError> {
    run_plan_while(workload, workload.plan(), tuning, costs, seed, keep_on)
}

/// Runs like [`run_while`], with another plan.
///
/// # Errors
/// As [`Machine::new`]: memory too small.
pub fn run_plan_while(
    workload: PcpWorkload,
    plan: PcpPlan,
    tuning: PcpTuning,
    costs: Costs,
    seed: u64,
    mut keep_on: impl FnMut(f64) -> bool,
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
    let Some(measured) = play(&mut machine, &plan, &mut keep_on) else { return Ok(None) };
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
    keep_on: &mut dyn FnMut(f64) -> bool,
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
/// CPU time per message and side. On the published machine 27 % of 128 CPUs moved 64 times 7136
/// Mbit/s: 6.2 us a message, some 0.2 us of it in the allocator.
const MESSAGE_WORK: Nanos = Nanos(3_000);
/// Pages of 2 GiB.
const LOADER_PAGES: u32 = 524_288;
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
    // The storage of the machine that `Costs::HOST` describes: 66 us and 1 GiB/s.
    let disk = machine.attach(Device::new(Nanos::from_micros(66), 1 << 30));
    for cpu in cpus.map(CpuId) {
        let compiler = Compiler::new(COMPILER_PAGES, COMPILER_LIFE, costs.touch, disk);
        machine.start(cpu, Box::new(compiler));
    }
}

/// Starts a sender and a receiver on each two neighbouring CPUs.
fn pairs(machine: &mut Machine, cpus: std::ops::Range<u32>) {
    for cpu in cpus.clone().step_by(2).filter(|cpu| cpu + 1 < cpus.end) {
        let receiver = Receiver::new(MESSAGE_WORK);
        let to: TaskId = machine.start(CpuId(cpu + 1), Box::new(receiver));
        machine.start(CpuId(cpu), Box::new(Sender::new(to, MESSAGE_WORK)));
    }
}

fn between_low_and_high(managed: u64) -> u64 {
    let marks = Watermarks::for_zone(&WatermarkInputs::single_zone(managed));
    let (low, high) = (marks.mark(WatermarkLevel::Low), marks.mark(WatermarkLevel::High));
    low.midpoint(high)
}

#[cfg(test)]
mod tests;
