//! `bench zipf`: skewed reads against the kernel's page cache at the same limit.
//!
//! ```text
//!   zipf 0.8 over 4x memory, 4 KiB; warmed with 3 reads per frame, then timed
//!   disk   files under --dir, 1 thread
//!   ram    files on ext4 on a loop device on tmpfs, 1 and 2 threads: mostly the cache's cost
//! ```
//!
//! Subject and reference run in child processes, the kernel's in a memory cgroup. Without a cgroup
//! or a loop device, rows are skipped with a reason.

use super::interleave::TimedRun;
use super::ram_disk::RamDisk;
use super::{Bench, Row};
use crate::cgroup::MemoryGroup;
use crate::dataset::{DataFile, drop_from_kernel_cache};
use crate::demo::child::{self, ChildEnd};
use crate::demo::job::Job;
use crate::demo::plan::Workload;
use crate::failure::Failure;
use crate::machine;
use pagetide_core::units::Bytes;
use std::path::Path;

/// File size / memory.
const FILE_TIMES: u64 = 4;

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let memory = bench.memory(128 << 20, 8 << 20);
    machine::check_memory(Bytes(memory.0 * (FILE_TIMES + 1)))?;
    let mut rows = measure_in(bench, &bench.args.dir, "disk", &[1], memory)?;
    match RamDisk::with_room(Bytes(memory.0 * FILE_TIMES), bench.interrupt) {
        Ok(disk) => rows.extend(measure_in(bench, disk.path(), "ram", &[1, 2], memory)?),
        Err(why) => {
            bench.interrupt.check()?;
            rows.extend(
                [1, 2].map(|threads| Row::skipped(("zipf", "ram", threads), "linux", why.clone())),
            );
        }
    }
    Ok(rows)
}

fn measure_in(
    bench: &Bench<'_>,
    dir: &Path,
    case: &str,
    threads: &[u32],
    memory: Bytes,
) -> Result<Vec<Row>, Failure> {
    if let Err(why) = MemoryGroup::with_limit(memory) {
        let row = |&threads: &u32| Row::skipped(("zipf", case, threads), "linux", why.clone());
        return Ok(threads.iter().map(row).collect());
    }
    let (_folder, data) = bench.make_file(dir, Bytes(memory.0 * FILE_TIMES))?;
    let mut rows = Vec::new();
    for &threads in threads {
        let timed_run = |subject: &'static str| -> TimedRun<'_> {
            let data = &data;
            Box::new(move || time_child(bench, subject, data, threads, memory))
        };
        let label = format!("zipf {case}, {threads} threads");
        let timed_runs = [timed_run(bench.policy().as_str()), timed_run("linux")];
        let [subject, reference] = bench.interleave(&label, timed_runs)?;
        rows.push(Row::measured(("zipf", case, threads), "linux", &subject, &reference));
    }
    Ok(rows)
}

/// Nanoseconds per read of one thread.
fn time_child(
    bench: &Bench<'_>,
    subject: &str,
    data: &DataFile,
    threads: u32,
    memory: Bytes,
) -> Result<f64, Failure> {
    drop_from_kernel_cache(&data.path)?;
    let group = match subject {
        "linux" => Some(MemoryGroup::with_limit(memory).map_err(Failure::Refused)?),
        _ => None,
    };
    let job = Job {
        workload: Workload::ZipfBare,
        subject: subject.to_owned(),
        memory_bytes: memory.0,
        limit_bytes: memory.0,
        tiers: Vec::new(),
        seconds: bench.duration(2500).as_secs_f64(),
        nr_threads: threads,
        seed: 1,
        settings: bench.args.set.clone(),
        files: vec![data.clone()],
        group: group.as_ref().map(|group| group.handle().clone()),
    };
    match child::run(&job, bench.interrupt, |_| ())? {
        ChildEnd::Done(outcome) => {
            let time = outcome.row.detail.get("ns_per_op").and_then(|value| value.as_f64());
            time.ok_or_else(|| Failure::Refused("the child process measured nothing".to_owned()))
        }
        ChildEnd::Killed(signal) => Err(Failure::Refused(format!(
            "{subject} was killed by signal {signal}: {memory} is too little; use a larger --memory"
        ))),
    }
}
