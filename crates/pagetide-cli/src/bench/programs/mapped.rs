//! `bench run` with mapped files: loads under `run --mmap cache`, against the kernel's mapping.
//!
//! ```text
//!   mmap-random  4 KiB at random, of a file of 4x memory, 1 and 2 processes      MADV_RANDOM
//!   mmap-loop    a file of 1.06x memory from end to end, after the first pass    no advice
//! ```
//!
//! References are *linux-random*, the kernel's mapping with `MADV_RANDOM` in a cgroup of the same
//! limit, and *linux-default* without advice. The program (`mapped_job`) checks the first word of
//! random loads and the sum of passes. A row's nanoseconds are per page of all processes. An
//! untimed turn adds a row with the peak memory of server and programs against the limit, in bytes.
//!
//! Ignored: the server's use of the program's CPU.

use super::super::mapped_job::{COMMAND, Job, Measured, Under as Mapped, Work};
use super::super::{Bench, Row};
use super::contest::{self, Turn};
use super::program::{Program, Under, why_not_mapped};
use super::{BENCH, FILE_TIMES};
use crate::dataset::{DataFile, drop_from_kernel_cache};
use crate::failure::Failure;
use crate::machine;
use pagetide_core::units::Bytes;
use std::ffi::OsString;
use std::path::Path;

pub(super) const CASES: [&str; 2] = ["mmap-random", "mmap-loop"];
const REFERENCES: [&str; 2] = ["linux-random", "linux-default"];
/// A process's bytes beside its file, and per page of the file. Measured as fio's, while mmap-loop
/// runs at 128 MiB: 0.7 MiB `rss` and 0.5 MiB kernel memory (8 bytes per page of page tables). The
/// page order takes 4 bytes per page.
const BESIDE: (u64, u64) = (900 << 10, 12);
/// Starts a process per job and fails if any job fails.
const START: &str = "work=$1; shift; for job; do \"$0\" \"$work\" \"$job\" & all=\"$all $!\"; done
                     for one in $all; do wait $one || exit; done";

/// Runs only named cases: they are slow.
pub(super) fn run(bench: &Bench<'_>, memory: Bytes) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for case in CASES.into_iter().filter(|case| bench.is_named(case)) {
        let (len, counts): (_, &[u32]) = match case {
            "mmap-random" => (memory.0 * FILE_TIMES, &[1, 2]),
            _ => (memory.0 + memory.0 / 16, &[1]),
        };
        if let Some(why) = why_not_mapped(memory, "taskset") {
            for &nr in counts {
                rows.extend(REFERENCES.map(|it| Row::skipped((BENCH, case, nr), it, why.clone())));
                rows.push(Row::skipped((BENCH, memory_case(case), nr), LIMIT, why.clone()));
            }
            continue;
        }
        let (folder, data) = bench.make_file(&bench.args.dir, Bytes(len))?;
        for &nr in counts {
            rows.extend(measure(bench, memory, (case, nr), folder.path(), &data)?);
        }
    }
    Ok(rows)
}

const LIMIT: &str = "limit";

fn memory_case(case: &str) -> &'static str {
    if case == "mmap-loop" { "mmap-loop-memory" } else { "mmap-random-memory" }
}

/// Returns a row per reference, and the memory's.
fn measure(
    bench: &Bench<'_>,
    memory: Bytes,
    (case, nr): (&'static str, u32),
    folder: &Path,
    data: &DataFile,
) -> Result<Vec<Row>, Failure> {
    let beside = (BESIDE.0 + BESIDE.1 * data.nr_pages) * u64::from(nr);
    let (work, own) = match case {
        "mmap-loop" => (Work::Again, Mapped::Library),
        _ => (Work::Uniform, Mapped::LibraryRandom),
    };
    let program = |mapped| -> Result<Program<'_>, Failure> {
        let arguments = command(bench, memory, (work, mapped), nr, folder, data)?;
        drop_from_kernel_cache(&data.path)?;
        Ok(Program { bench, memory, beside, nr_mappings: nr.into(), arguments })
    };
    let turn = |under| {
        let mapped = match under {
            Under::Run(_) => own,
            Under::Linux(name) if name == REFERENCES[0] => Mapped::LibraryRandom,
            Under::Linux(_) => Mapped::Library,
        };
        let ran = program(mapped)?.run(under, None)?;
        let each: Result<Vec<Measured>, _> =
            ran.printed.lines().map(serde_json::from_str).collect();
        let each = each.map_err(|error| Failure::on("understand the program", &error))?;
        let ns = 1.0 / each.iter().map(|one| 1.0 / one.ns).sum::<f64>();
        Ok(Turn { ns, device_read: None })
    };
    let mut rows = contest::rows(bench, (case, nr), &[bench.policy()], &REFERENCES, &turn)?;
    let most = program(own)?.most_memory()? as f64;
    let (most, limit) = (vec![most].into(), vec![memory.0 as f64].into());
    rows.push(Row::measured((BENCH, memory_case(case), nr), LIMIT, &most, &limit));
    Ok(rows)
}

fn command(
    bench: &Bench<'_>,
    memory: Bytes,
    (work, under): (Work, Mapped),
    nr: u32,
    folder: &Path,
    data: &DataFile,
) -> Result<Vec<OsString>, Failure> {
    let own = machine::own_executable()?;
    let mut arguments: Vec<OsString> =
        vec!["sh".into(), "-c".into(), START.into(), own.into(), COMMAND.into()];
    for seed in 1..=u64::from(nr) {
        let job = Job {
            work,
            under,
            memory: memory.0,
            len: data.len(),
            threads: 1,
            seed: seed << 32,
            millis: bench.duration(700).as_millis() as u64,
            data: Some(data.clone()),
            folder: folder.to_owned(),
            policy: bench.policy().as_str().to_owned(),
            settings: Vec::new(),
            group: None,
        };
        let job = serde_json::to_string(&job);
        arguments.push(job.map_err(|error| Failure::on("write a job", &error))?.into());
    }
    Ok(arguments)
}
