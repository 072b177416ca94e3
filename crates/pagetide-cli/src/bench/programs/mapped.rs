//! Mapped files of `bench run`: loads under `run --mmap cache`, and of the kernel's mapping.
//!
//! ```text
//!   mmap-random  4 KiB by chance, of a file of 4x memory, by 1 and 2 processes   MADV_RANDOM
//!   mmap-loop    a file of 1.06x memory from end to end, after the first pass    no advice
//! ```
//!
//! Two references take turns with the run: *linux-random*, the kernel's mapping with `MADV_RANDOM`
//! in a cgroup of the same limit, and *linux-default*, without. The run has the advice above. The
//! program is this one (`mapped_job`), which checks the first word of what it loads by chance, and
//! the sum of what it loads over and over. A row's nanoseconds are of a page; of two processes,
//! those of both together. A row more has the most memory that the run took, server and programs
//! together, in one turn that is looked at and not timed: against the limit, in bytes.
//!
//! Ignored: the CPU time of the run's server, which takes it from the program here.

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
/// What a process takes beside its file, and for each page of that. Measured as fio's, while
/// mmap-loop runs at 128 MiB: 0.7 MiB of `rss`, and 0.5 MiB of the kernel's, of which 8 bytes a
/// page are page tables; the order of pages takes 4 bytes each.
const BESIDE: (u64, u64) = (900 << 10, 12);
/// Starts a process for each job, and fails if one of them does.
const START: &str = "work=$1; shift; for job; do \"$0\" \"$work\" \"$job\" & all=\"$all $!\"; done
                     for one in $all; do wait $one || exit; done";

/// The rows of the cases that are asked for by name: they are slow.
///
/// # Errors
/// A refusal (disk, cgroup), a process that fails, a mapping that the run did not serve, an
/// interrupt.
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

/// What a run's memory is compared with.
const LIMIT: &str = "limit";

/// The case of a case's memory.
fn memory_case(case: &str) -> &'static str {
    if case == "mmap-loop" { "mmap-loop-memory" } else { "mmap-random-memory" }
}

/// The rows of a case in so many processes: one for each reference, and that of its memory.
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

/// The command line of so many processes.
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
