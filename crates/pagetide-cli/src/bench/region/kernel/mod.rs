//! Regions against the kernel's mappings, at the same limit.
//!
//! ```text
//!   case         references    nanoseconds of
//!   file-loads   random, mmap  8 bytes of a page, zipf 0.99, of a file of 4x memory
//!   file-stores  random, mmap  the same with 30 % stores
//!   anon-loads   swap          file-loads of anonymous memory of 4x memory, stored to before
//!   anon-stores  swap          file-stores of the same memory
//!   sum          mmap          a page of one pass over a cold file of 4x memory, all words
//!   again        random, mmap  a page of passes over a file of 1.06x memory, after the first
//!   fill         swap          a page of anonymous memory of 7/8 memory, all words stored
//!   fill-more    swap          the same of 4x memory
//!   sort         swap          a word of 4x memory, sorted in place
//!   *-memory     limit         bytes taken by the stores' region at the end, by 4 threads
//! ```
//!
//! *mmap* is a shared mapping of the same file, *random* adds `MADV_RANDOM`, and *swap* is
//! anonymous memory with a swap file in the same folder. Each turn is a child process. The kernel's
//! turns run in a memory cgroup of the limit, at least 16 MiB. Files are dropped from the kernel's
//! page cache before each turn, and no frame is touched beforehand. Random cases are timed once
//! memory is full. Rows also give the ratio of CPU times, without the kernel's own threads.
//!
//! Ignored: the kernel's page tables in the cgroup's limit (0.2 % of the mapping).

mod accesses;
mod items;
mod swap;
mod turn;
mod work;

pub(in crate::bench) use swap::SwapSpace;
pub(crate) use turn::{MappedArgs, serve};

use super::super::interleave::{Samples, TimedRun};
use super::super::mapped_job::{COMMAND, Job, Measured, Under, Work};
use super::super::programs::output_of;
use super::super::{Bench, Row};
use crate::cgroup::MemoryGroup;
use crate::dataset::{DataFile, drop_from_kernel_cache, make_folder};
use crate::failure::Failure;
use crate::machine;
use pagetide_core::lru::PolicyName;
use pagetide_core::units::Bytes;
use rustix::process::Signal;
use std::cell::RefCell;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

const BENCH: &str = "region";
/// The minimum limit, kernel readahead included.
const MEMORY_MIN: u64 = 16 << 20;
/// Contents / memory.
const TIMES: u64 = 4;
const TIMES_QUICK: u64 = 2;

fn times(bench: &Bench<'_>) -> u64 {
    if bench.args.quick { TIMES_QUICK } else { TIMES }
}

struct Case {
    name: &'static str,
    work: Work,
    threads: &'static [u32],
    references: &'static [Under],
}

const OVER_FILES: &[Under] = &[Under::Random, Under::Mmap];
const CASES: [Case; 9] = [
    Case::new("file-loads", Work::Zipf { stores: 0 }, &[1, 2, 4], OVER_FILES),
    Case::new("file-stores", Work::Zipf { stores: 30 }, &[1, 2, 4], OVER_FILES),
    Case::new("sum", Work::Sum, &[1], &[Under::Mmap]),
    Case::new("again", Work::Again, &[1], OVER_FILES),
    Case::new("anon-loads", Work::Zipf { stores: 0 }, &[1, 2, 4], &[Under::Swap]),
    Case::new("anon-stores", Work::Zipf { stores: 30 }, &[1, 2, 4], &[Under::Swap]),
    Case::new("fill", Work::Fill, &[1], &[Under::Swap]),
    Case::new("fill-more", Work::Fill, &[1], &[Under::Swap]),
    Case::new("sort", Work::Sort, &[1], &[Under::Swap]),
];

impl Case {
    const fn new(
        name: &'static str,
        work: Work,
        threads: &'static [u32],
        references: &'static [Under],
    ) -> Case {
        Case { name, work, threads, references }
    }

    fn len(&self, bench: &Bench<'_>, memory: Bytes) -> Bytes {
        let pages = memory.whole_pages();
        Bytes::from_pages(match self.name {
            "again" => pages + pages / 16,
            "fill" => pages / 8 * 7,
            _ => pages * times(bench),
        })
    }

    fn memory_name(&self) -> Option<&'static str> {
        match self.name {
            "file-stores" => Some("file-stores-memory"),
            "anon-stores" => Some("anon-stores-memory"),
            _ => None,
        }
    }

    fn is_over_file(&self) -> bool {
        !self.references.contains(&Under::Swap)
    }

    fn skipped(&self, why: &str) -> Vec<Row> {
        self.threads.iter().flat_map(|&threads| self.skipped_of(threads, why)).collect()
    }

    fn skipped_of(&self, threads: u32, why: &str) -> Vec<Row> {
        let identity = (BENCH, self.name, threads);
        let row = |under: &Under| Row::skipped(identity, under.name(), why.to_owned());
        self.references.iter().map(row).collect()
    }
}

pub(super) fn names() -> impl Iterator<Item = &'static str> + Clone {
    CASES.iter().map(|case| case.name)
}

pub(super) fn run(bench: &Bench<'_>, memory: Bytes) -> Result<Vec<Row>, Failure> {
    let wanted = || CASES.iter().filter(|case| bench.wants(case.name));
    let memory = Bytes(memory.0.max(MEMORY_MIN));
    if let Err(why) = MemoryGroup::with_limit(memory) {
        return Ok(wanted().flat_map(|case| case.skipped(&why)).collect());
    }
    let mut rows = Vec::new();
    for case in wanted().filter(|case| case.is_over_file()) {
        let (folder, data) = bench.make_file(&bench.args.dir, case.len(bench, memory))?;
        rows.extend(measure(bench, memory, case, folder.path(), Some(&data))?);
    }
    if wanted().all(Case::is_over_file) {
        return Ok(rows);
    }
    // Evicted pages of our regions take as much again.
    machine::check_disk(&bench.args.dir, Bytes(memory.0 * 2 * (times(bench) + 1)))?;
    let folder = make_folder(&bench.args.dir)?;
    let swap = SwapSpace::make(folder.path(), Bytes(memory.0 * (times(bench) + 1)));
    for case in wanted().filter(|case| !case.is_over_file()) {
        rows.extend(match &swap {
            Ok(_) => measure(bench, memory, case, folder.path(), None)?,
            Err(why) => case.skipped(why),
        });
    }
    Ok(rows)
}

/// Returns a row per number of threads and reference, measured alternately.
fn measure(
    bench: &Bench<'_>,
    memory: Bytes,
    case: &Case,
    folder: &Path,
    data: Option<&DataFile>,
) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for &threads in case.threads {
        let contenders = || [Under::Pagetide].into_iter().chain(case.references.iter().copied());
        let cpu: Vec<RefCell<Vec<f64>>> = contenders().map(|_| RefCell::default()).collect();
        let (killed, taken) = (RefCell::new(None), RefCell::new(Vec::new()));
        let timed_run = |(under, cpu)| -> TimedRun<'_> {
            let job = Job {
                work: case.work,
                under,
                memory: memory.0,
                len: case.len(bench, memory).0,
                threads,
                seed: 1,
                millis: bench.duration(400).as_millis() as u64,
                data: data.cloned(),
                folder: folder.to_owned(),
                policy: bench.policy().as_str().to_owned(),
                settings: bench.args.set.clone(),
                group: None,
            };
            let (cpu, killed, taken): (&RefCell<Vec<f64>>, _, _) = (cpu, &killed, &taken);
            Box::new(move || {
                let measured = run_job(bench, job.clone(), killed)?;
                cpu.borrow_mut().push(measured.cpu_ns);
                if under == Under::Pagetide {
                    taken.borrow_mut().push(measured.memory as f64);
                }
                Ok(measured.ns)
            })
        };
        let label = format!("region {}, {threads} threads", case.name);
        let timed_runs = contenders().zip(&cpu).map(timed_run).collect();
        let samples = bench.interleave_all(&label, timed_runs);
        if let Some(why) = killed.into_inner() {
            rows.extend(case.skipped_of(threads, &why));
            continue;
        }
        let samples = samples?;
        if let Some(name) = case.memory_name().filter(|_| threads == 4) {
            let limit = Samples::from(vec![memory.0 as f64; taken.borrow().len()]);
            let taken = taken.take().into();
            rows.push(Row::measured((BENCH, name, threads), "limit", &taken, &limit));
        }
        let cpu: Vec<Samples> = cpu.into_iter().map(|cpu| cpu.into_inner().into()).collect();
        for (under, (other, its_cpu)) in contenders().zip(samples.iter().zip(&cpu)).skip(1) {
            let identity = (BENCH, case.name, threads);
            rows.push(Row {
                cpu_ratio: Some(cpu[0].ratios_to(its_cpu).median()),
                ..Row::measured(identity, under.name(), &samples[0], other)
            });
        }
    }
    Ok(rows)
}

/// Runs one turn in a child process. Sets `killed` if the cgroup killed the child.
pub(in crate::bench) fn run_job(
    bench: &Bench<'_>,
    mut job: Job,
    killed: &RefCell<Option<String>>,
) -> Result<Measured, Failure> {
    let memory = Bytes(job.memory);
    if let Some(data) = &job.data {
        drop_from_kernel_cache(&data.path)?;
    }
    // Takes free memory back from a virtual machine's host before the turn.
    drop(bench.make_cache(PolicyName::Fifo, memory)?);
    let group = match job.under {
        Under::Pagetide => None,
        _ => Some(MemoryGroup::with_limit(memory).map_err(Failure::Refused)?),
    };
    job.group = group.as_ref().map(|group| group.handle().clone());
    let own = machine::own_executable()?;
    let text = serde_json::to_string(&job).map_err(|error| Failure::on("write a job", &error))?;
    let output = output_of(Command::new(own).args([COMMAND, &text]), bench.interrupt)?;
    let under = job.under.name();
    if group.is_some() && output.status.signal() == Some(Signal::KILL.as_raw()) {
        *killed.borrow_mut() = Some(format!("{memory} is too little for {under}: it was killed"));
    }
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::Refused(format!(
            "{:?} under {under}: {}: {errors}",
            job.work, output.status
        )));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::on("understand the child process", &error))
}
