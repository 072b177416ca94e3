//! `pagetide demo`: runs each workload under each subject, on real files, at one memory limit.
//!
//! ```text
//!   check disk and memory -> make files -> for each workload, round and subject in turn:
//!        drop files from the kernel's cache -> child process plays -> row
//!   -> tables and verdict (or JSON) on stdout, report.html, files removed
//! ```
//!
//! Data: guards of this process own all folders, cgroups and children.

pub(crate) mod child;
pub(crate) mod job;
mod measure;
pub(crate) mod plan;
mod plots;
mod reference;
mod report;
mod rounds;
mod row;
mod subject;
mod table;
mod tiers;
mod verdict;
mod workload;

use crate::cgroup::MemoryGroup;
use crate::dataset::{self, DataFile};
use crate::document::Document;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::results::ResultsArgs;
use crate::settings::Setting;
use crate::terminal::{self, JsonArgs, Progress};
use crate::{machine, output};
use ::pagetide::Tier;
use child::ChildEnd;
use clap::builder::ArgPredicate;
use job::Job;
use pagetide_core::units::Bytes;
use plan::Workload;
use reference::Reference;
use rounds::Rounds;
use row::{Outcome, Row};
use serde::Serialize;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::Instant;
use subject::SubjectName;
use tiers::{MemoryShape, Tiers};

const MEMORY_MIN: Bytes = Bytes(4 << 20);
/// Program, stacks and tables.
const CHILD_OVERHEAD: Bytes = Bytes(64 << 20);
/// The longest run, in seconds, undisturbed by hosts that trim idle page cache.
const QUIET_SECONDS: f64 = 18.0;

const EXAMPLES: &str = "Examples:
  pagetide demo                                        all of it, about a minute and a half
  pagetide demo --memory 256M --dir /data --seconds 15
  pagetide demo --workloads wschange,wsprotect --subjects linux,mglru
  pagetide demo --tier dram=256M --tier slow=1G,latency=300ns
  pagetide demo --json > rows.json                     one JSON document, notes on stderr";

/// Run the workloads on real files under each subject, print a table, write report.html.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// Memory limit of every subject; the files are 12x as large.
    #[arg(long, default_value = "32M", value_parser = terminal::parse_size)]
    memory: Bytes,
    /// Folder for the files; they are removed at the end, also on Ctrl-C.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Seconds per timed run (zipf-scan, uniform, oltp). In zipf-scan each 4 KiB read is followed
    /// by one 64 KiB call of the scan, so that the workload says how much scan goes with a read.
    #[arg(long, default_value = "1", value_parser = parse_seconds)]
    seconds: f64,
    /// How often each subject plays each workload, by turns; the round of median speed is shown.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Workloads: wschange, wsprotect, zipf-scan, uniform, oltp, and zipf-fit, which is for tiers.
    #[arg(long, value_delimiter = ',')]
    #[arg(default_values_t = Workload::USUAL)]
    #[arg(default_value_if("tier", ArgPredicate::IsPresent, "zipf-fit"))]
    workloads: Vec<Workload>,
    /// Subjects: linux, and the names that `pagetide policies` lists; with tiers, NAME@all-fast and
    /// NAME@fast-only are the same policy in as much fast memory, and in the fast tier alone.
    #[arg(long, value_delimiter = ',')]
    #[arg(default_value = subject::DEFAULT_NAMES)]
    #[arg(default_value_if("tier", ArgPredicate::IsPresent, subject::TIERED_NAMES))]
    subjects: Vec<SubjectName>,
    /// A tier of memory, instead of --memory; may be repeated: dram=256M, numa1=1G,
    /// slow=1G,latency=300ns (DRAM that is made slow) or compressed=1G.
    #[arg(long, conflicts_with = "memory")]
    tier: Vec<Tier>,
    /// Threads of the random workloads.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: u32,
    /// Where all randomness comes from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A knob of Pagetide's subjects, as in readahead_max=0 (docs/config.md); may be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<Setting>,
    /// Where the report goes.
    #[arg(long, default_value = "report.html")]
    report: PathBuf,
    /// Write no report.
    #[arg(long, conflicts_with = "report")]
    no_report: bool,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    results: ResultsArgs,
}

pub(crate) fn run(args: &DemoArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let demo = Demo::of(args)?;
    if !args.no_report {
        output::check("the report", [&args.report])?;
    }
    args.results.check()?;
    let disk_needed =
        plan::files(&args.dir, demo.memory, &args.workloads).iter().map(DataFile::len).sum();
    machine::check_disk(&args.dir, Bytes(disk_needed))?;
    machine::check_memory(Bytes(demo.memory.0.saturating_add(CHILD_OVERHEAD.0)))?;
    warn(args);
    let folder = dataset::make_folder(&args.dir)?;
    let played = play_all(&demo, folder.path(), interrupt)?;
    drop(folder);
    let outcomes: Vec<Outcome> = played.iter().map(Rounds::median).collect();
    let rows: Vec<&Row> = outcomes.iter().map(|outcome| &outcome.row).collect();
    let verdict = verdict::sentences(&rows);
    args.results.append(|| {
        let measured = played.iter().flat_map(|rounds| rounds.to_results(&played)).collect();
        verdict::with_sentences(measured, &rows)
    })?;
    let has_linux = args.subjects.contains(&SubjectName::Linux);
    let reference = has_linux.then(|| Reference::read(&args.dir));
    let text = || {
        let linux = reference.map_or_else(String::new, |linux| format!("{linux}\n"));
        table::render(&rows) + &table::speeds(&rows) + &linux + "\n" + &lines(&verdict)
    };
    let about = Judged { verdicts: &verdict, reference };
    let document = Document::new("pagetide.demo/1", &rows).about(about);
    args.json.print(&document, text)?;
    if args.no_report {
        return Ok(());
    }
    report::write(&args.report, demo.memory, &outcomes)?;
    terminal::note(&format!("report: {}", args.report.display()));
    Ok(())
}

#[derive(Serialize)]
struct Judged<'a> {
    verdicts: &'a [String],
    /// Absent without the subject linux.
    #[serde(flatten)]
    reference: Option<Reference>,
}

fn lines(sentences: &[String]) -> String {
    sentences.iter().map(|sentence| format!("{sentence}\n")).collect()
}

struct Demo<'a> {
    args: &'a DemoArgs,
    memory: Bytes,
    tiers: Option<Tiers>,
}

impl Demo<'_> {
    fn of(args: &DemoArgs) -> Result<Demo<'_>, Failure> {
        let tiers = Tiers::check(&args.tier)?;
        let memory = tiers.as_ref().map_or(args.memory, Tiers::total);
        if memory < MEMORY_MIN {
            return Err(Failure::Usage(format!(
                "a memory of {memory} is too small: the demo's subjects need at least {MEMORY_MIN}"
            )));
        }
        let has_shape = |subject: &&SubjectName| {
            matches!(
                subject,
                SubjectName::Pagetide(_, MemoryShape::AllFast | MemoryShape::FastOnly)
            )
        };
        match args.subjects.iter().find(has_shape) {
            Some(subject) if tiers.is_none() => Err(Failure::Usage(format!(
                "{subject} is part of a comparison of tiers: add --tier dram=64M --tier \
                 slow=256M,latency=300ns"
            ))),
            _ => Ok(Demo { args, memory, tiers }),
        }
    }

    fn memory_of(&self, subject: SubjectName) -> (Vec<String>, Bytes) {
        match (&self.tiers, subject) {
            (Some(tiers), SubjectName::Pagetide(_, shape)) => {
                let typed = tiers.of_shape(shape).iter().map(Tier::to_string).collect();
                (typed, tiers.memory_of_shape(shape))
            }
            _ => (Vec::new(), self.memory),
        }
    }
}

fn warn(args: &DemoArgs) {
    if machine::is_in_memory(&args.dir) {
        terminal::note(&format!(
            "note: {} is a file system in memory: nothing here reads a disk, and the kernel's page \
             cache never misses; use --dir on a disk",
            args.dir.display()
        ));
    }
    if args.seconds > QUIET_SECONDS && args.subjects.contains(&SubjectName::Linux) {
        terminal::note(
            "note: on some virtual machines the host trims idle page cache; runs over 18 s may \
             show it in linux's rows",
        );
    }
}

/// Plays all rounds in table order.
fn play_all(demo: &Demo<'_>, folder: &Path, interrupt: &Interrupt) -> Result<Vec<Rounds>, Failure> {
    let args = demo.args;
    let files = plan::files(folder, demo.memory, &args.workloads);
    let (anew, kept): (Vec<&DataFile>, Vec<&DataFile>) =
        files.iter().partition(|file| file.path.ends_with(plan::OLTP_FILE));
    let steps = Steps::new(args);
    make_files(&kept, interrupt)?;
    let mut all = Vec::new();
    for &workload in &args.workloads {
        let is_used =
            |file: &&DataFile| workload.file_names().iter().any(|name| file.path.ends_with(name));
        let used: Vec<DataFile> = files.iter().filter(is_used).cloned().collect();
        let mut played: Vec<Rounds> = args.subjects.iter().map(|_| Rounds::default()).collect();
        for round in 0..args.rounds {
            steps.begin(&format!("{workload}, round {} of {}", round + 1, args.rounds));
            for turn in 0..played.len() {
                let at = if round % 2 == 0 { turn } else { played.len() - 1 - turn };
                if workload == Workload::Oltp {
                    make_files(&anew, interrupt)?;
                }
                for file in &used {
                    dataset::drop_from_kernel_cache(&file.path)?;
                }
                let subject = args.subjects[at];
                let progress = Progress::new(steps.next_run(workload, subject));
                let outcome =
                    play_one(demo, workload, subject, used.clone(), &progress, interrupt)?;
                played[at].push(outcome);
            }
        }
        all.append(&mut played);
    }
    for file in anew {
        dataset::remove(&file.path);
    }
    Ok(all)
}

/// A bar on a terminal, otherwise occasional lines.
struct Steps {
    start: Instant,
    nr_runs: usize,
    nr_begun: Cell<usize>,
}

impl Steps {
    fn new(args: &DemoArgs) -> Steps {
        let nr_runs = args.workloads.len() * args.subjects.len() * args.rounds as usize;
        let steps = Steps { start: Instant::now(), nr_runs, nr_begun: Cell::new(0) };
        steps.begin(&format!(
            "{nr_runs} runs: {} workloads, {} subjects, {} rounds; making files",
            args.workloads.len(),
            args.subjects.len(),
            args.rounds
        ));
        steps
    }

    fn begin(&self, what: &str) {
        let seconds = self.start.elapsed().as_secs();
        let share = 100 * self.nr_begun.get() / self.nr_runs.max(1);
        terminal::step(&format!("{seconds:>4} s {share:>3} %  {what}"));
    }

    fn next_run(&self, workload: Workload, subject: SubjectName) -> String {
        self.nr_begun.set(self.nr_begun.get() + 1);
        format!("{}/{} {workload}, {subject}", self.nr_begun.get(), self.nr_runs)
    }
}

fn make_files(files: &[&DataFile], interrupt: &Interrupt) -> Result<(), Failure> {
    let total: u64 = files.iter().map(|file| file.nr_pages).sum();
    let progress =
        Progress::new(format!("making {} of files", machine::rounded(Bytes::from_pages(total).0)));
    let mut before = 0;
    for file in files {
        file.create(interrupt, |pages| progress.set((before + pages) as f64 / total as f64))?;
        before += file.nr_pages;
    }
    Ok(())
}

/// Returns a row with the reason for an unavailable subject.
fn play_one(
    demo: &Demo<'_>,
    workload: Workload,
    subject: SubjectName,
    files: Vec<DataFile>,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<Outcome, Failure> {
    let args = demo.args;
    let (tiers, memory) = demo.memory_of(subject);
    let group = match subject {
        SubjectName::Linux => match MemoryGroup::with_limit(memory) {
            Ok(group) => Some(group),
            Err(reason) => return Ok(Outcome::skipped(workload, subject.to_string(), &reason)),
        },
        SubjectName::Pagetide(..) => None,
    };
    let job = Job {
        workload,
        subject: subject.to_string(),
        memory_bytes: demo.memory.0,
        limit_bytes: memory.0,
        tiers,
        seconds: args.seconds,
        nr_threads: args.threads,
        seed: args.seed,
        settings: args.set.clone(),
        files,
        group: group.as_ref().map(|group| group.handle().clone()),
    };
    match child::run(&job, interrupt, |share| progress.set(share))? {
        ChildEnd::Done(outcome) => Ok(*outcome),
        ChildEnd::Killed(signal) if group.is_some() => {
            let reason =
                format!("killed by signal {signal}: {memory} is too little for this cgroup");
            Ok(Outcome::skipped(workload, job.subject, &reason))
        }
        ChildEnd::Killed(signal) => Err(Failure::Refused(format!(
            "{workload} under {subject} was killed by signal {signal}"
        ))),
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 =
        text.parse().map_err(|_| "write a number of seconds, as in 8 or 0.5".to_owned())?;
    if (0.05..=3600.0).contains(&seconds) {
        return Ok(seconds);
    }
    Err(format!("{seconds} seconds are out of range: 0.05 to 3600"))
}
