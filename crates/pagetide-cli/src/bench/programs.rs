//! `bench run`: unmodified programs under `pagetide run`, against the kernel's page cache at the
//! same limit.
//!
//! ```text
//!   zipf      fio psync randread, zipf 0.8 over 4x memory, cold, 1 and 2 jobs: it ends before much
//!             has been evicted
//!   warm      the same with a quarter of memory, timed once that has been full for a while
//!   resident  the same, uniform, over 3/8 of memory; timed once all that is there
//!   seq       fio psync read of the file of 4x memory, 128 KiB, cold, once: a KiB
//!   stream    the same by read(2), which has a position
//!   recorded  warm, with --record, against the same without
//!   sqlite    point queries by rowid in a database of 4x a quarter of memory, cold
//!   small-*, one-pass-*   many small files and calls; a large file, once: see small.rs
//! ```
//!
//! A round is made of several turns, and its time is their mean:
//!
//! ```text
//!   2  a program of one thread that reads at random, held on a CPU: the first that we may use in
//!      one turn, the last in the other. A device's interrupt goes to one of them, and who is on
//!      another waits longer for each read: otherwise the row tells which CPU the scheduler chose
//!   4  seq, stream, recorded, where it is free: what a device does changes within seconds
//!   1  the others
//! ```
//!
//! Subject and reference are held on the same CPU in the same turn, and who is first changes with
//! each; each is first as often as second on each CPU. Only the program is held, neither the run's
//! server nor the kernel's threads.
//!
//! The subject is this very command's `run`, the reference the same program in a memory cgroup.
//! Both begin with the file dropped from the kernel's page cache, and with as much free memory as
//! they may use touched just before: a virtual machine's host takes free memory back, and who then
//! has to wait for it is chance. The programs' own memory is in the cgroup's limit, and not in
//! ours; it is given as much more.
//!
//! Ignored: what the program takes beside its files.

use super::interleave::{Contender, Samples, interleave};
use super::{Bench, Identity, Row, small};
use crate::cgroup::MemoryGroup;
use crate::demo::dataset::drop_from_kernel_cache;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine;
use pagetide_core::lru::PolicyName;
use pagetide_core::units::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::cell::Cell;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

pub(super) const BENCH: &str = "run";
const FILE_TIMES: u64 = 4;
/// How long a program runs on after Ctrl-C.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// What fio measures, and with how many jobs.
const FIO_CASES: [(&str, u32); 8] = [
    ("zipf", 1),
    ("zipf", 2),
    ("warm", 1),
    ("warm", 2),
    ("resident", 1),
    ("seq", 1),
    ("stream", 1),
    ("recorded", 2),
];
/// What the sqlite shell measures.
const SQLITE: &str = "sqlite";
/// The sqlite shell.
const SHELL: &str = "sqlite3";
/// What runs a program on one CPU.
const HOLDER: &str = "taskset";
/// The least that a program can run with in a memory cgroup.
pub(super) const PROGRAM_BYTES_MIN: u64 = 16 << 20;
/// What fio takes beside its file. Measured in the cgroup while fio 3.33 runs one job or two, as
/// all that is no file: `memory.stat` has 5.2 MiB of `rss` and 2.2 MiB of `shmem`, and
/// `memory.kmem.usage_in_bytes` 1.6 MiB.
const FIO_BYTES: u64 = 9_400 << 10;
/// What the sqlite shell takes beside its database, by the same measure: 2.3 MiB and the kernel's
/// 2.4 MiB.
pub(super) const SHELL_BYTES: u64 = 5 << 20;

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    refuse_unknown(&bench.args.cases)?;
    let memory = bench.memory(512 << 20, 16 << 20);
    machine::check_memory(Bytes(memory.0 * 2))?;
    let mut cases = FIO_CASES.to_vec();
    cases.retain(|(case, _)| bench.wants(case));
    let mut rows = Vec::new();
    match why_not(memory, "fio") {
        _ if cases.is_empty() => {}
        None => rows.extend(measure_fio(bench, memory, &cases)?),
        Some(why) => {
            rows.extend(cases.iter().map(|&(case, jobs)| skipped((BENCH, case, jobs), &why)));
        }
    }
    match why_not(memory, SHELL) {
        _ if !bench.wants(SQLITE) => {}
        None => rows.push(measure_sqlite(bench, Bytes(memory.0 / 4))?),
        Some(why) => rows.push(skipped((BENCH, SQLITE, 1), &why)),
    }
    match why_not(memory, "tar").or_else(|| why_not(memory, "grep")) {
        None => rows.extend(small::run(bench, memory)?),
        Some(why) => {
            let names = small::names(bench);
            rows.extend(names.iter().map(|name| skipped((BENCH, name, 1), &why)));
        }
    }
    Ok(rows)
}

/// A case nobody has would be a row that is missing without a word.
fn refuse_unknown(cases: &[String]) -> Result<(), Failure> {
    let names = || FIO_CASES.iter().map(|(fio, _)| *fio).chain(small::CASES).chain([SQLITE]);
    let is_known = |case: &&String| names().any(|name| name == *case);
    match cases.iter().find(|case| !is_known(case)) {
        None => Ok(()),
        Some(case) => Err(Failure::Usage(format!("--cases: `bench run` has no case {case}"))),
    }
}

fn skipped(identity: Identity<'_>, why: &str) -> Row {
    Row::skipped(identity, reference_of(identity.1).name(), why.to_owned())
}

/// Whom a program runs under.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Under {
    /// The kernel's page cache, in a memory cgroup.
    Linux,
    /// `pagetide run`.
    Run,
    /// The same with `--record`.
    Recorded,
}

impl Under {
    pub(super) fn name(self) -> &'static str {
        match self {
            Under::Linux => "linux",
            Under::Run => "run",
            Under::Recorded => "recorded",
        }
    }
}

/// What a case is compared with.
fn reference_of(case: &str) -> Under {
    if case == "recorded" { Under::Run } else { Under::Linux }
}

/// Why this machine cannot measure with `program`, if so.
fn why_not(memory: Bytes, program: &str) -> Option<String> {
    if let Err(why) = MemoryGroup::with_limit(memory) {
        return Some(why);
    }
    if let Err(failure) = pagetide_run::launch::find_library() {
        return Some(failure);
    }
    let is_missing = |program: &&str| {
        let asked = Command::new(program).arg("--version").stdout(Stdio::null()).status();
        !asked.is_ok_and(|status| status.success())
    };
    let missing = [program, HOLDER].into_iter().find(is_missing);
    missing.map(|program| format!("{program} is not installed"))
}

/// How often each contender runs in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Turns {
    nr: u32,
    /// On one CPU after the other.
    is_held: bool,
}

impl Turns {
    fn of(case: &str, jobs: u32) -> Turns {
        match case {
            "seq" | "stream" | "recorded" => Turns { nr: 4, is_held: false },
            _ if jobs == 1 => Turns { nr: 2, is_held: true },
            _ => Turns { nr: 1, is_held: false },
        }
    }
}

/// The CPU for a turn, of two: each has two turns in a row, one for each order of the contenders,
/// but the first of all, and so each round of two turns has both.
fn cpu_for(turn: u32, ends: [usize; 2]) -> usize {
    ends[turn.div_ceil(2) as usize % 2]
}

/// The first and the last CPU we may use.
fn end_cpus() -> [usize; 2] {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let first = cpus.next().unwrap_or(0);
    [first, cpus.next_back().unwrap_or(first)]
}

/// Runs `command` to its end, or ends it when somebody wants us to.
pub(super) fn output_of(command: &mut Command, interrupt: &Interrupt) -> Result<Output, Failure> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| Failure::on("run a program", &error))?;
    let pid = Pid::from_child(&child);
    let (sender, ended) = channel();
    // Its result is in the channel; a program that does not listen to TERM is waited for.
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let mut is_told = false;
    let output = loop {
        match ended.recv_timeout(LOOK_EVERY) {
            Err(RecvTimeoutError::Timeout) if interrupt.is_set() && !is_told => {
                // Where it has just ended, nobody is there to be told.
                let _ = kill_process(pid, Signal::TERM);
                is_told = true;
            }
            Err(RecvTimeoutError::Timeout) => {}
            ended => break ended.expect("invariant: the thread sends before it ends"),
        }
    };
    interrupt.check()?;
    output.map_err(|error| Failure::on("run a program", &error))
}

/// The beginning of a command line that runs a program in so much memory (of a cgroup, and so much
/// beside); `of_run` is for `pagetide run`. The group goes with what comes beside the command.
pub(super) fn command_under(
    bench: &Bench<'_>,
    under: Under,
    (memory, beside): (Bytes, u64),
    of_run: &[OsString],
) -> Result<(Command, Option<MemoryGroup>), Failure> {
    if under == Under::Linux {
        let limit = Bytes(memory.0 + beside);
        let group = MemoryGroup::with_limit(limit).map_err(Failure::Refused)?;
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(group.handle().members());
        return Ok((shell, Some(group)));
    }
    let own =
        std::env::current_exe().map_err(|error| Failure::on("find my own executable", &error))?;
    let mut run = Command::new(own);
    run.args(["run", "--memory", &memory.0.to_string(), "--policy", bench.policy().as_str()]);
    run.args(of_run);
    for setting in &bench.args.set {
        run.arg("--set").arg(setting.to_string());
    }
    run.arg("--");
    Ok((run, None))
}

/// One program, and what is to be forgotten before it runs.
struct Work<'a> {
    bench: &'a Bench<'a>,
    memory: Bytes,
    /// What the cgroup gets more.
    beside: u64,
    file: &'a Path,
    arguments: Vec<OsString>,
}

impl Work<'_> {
    /// Runs the program, on `cpu` if there is one; what it prints.
    fn run(&self, under: Under, cpu: Option<usize>) -> Result<String, Failure> {
        drop_from_kernel_cache(self.file)?;
        drop(self.bench.make_cache(PolicyName::Fifo, self.memory)?);
        let record = ["--record".into(), self.file.with_extension("ptt").into_os_string()];
        let of_run = if under == Under::Recorded { &record[..] } else { &[] };
        let room = (self.memory, self.beside);
        let (mut command, _group) = command_under(self.bench, under, room, of_run)?;
        if let Some(cpu) = cpu {
            command.args([HOLDER, "--cpu-list", &cpu.to_string()]);
        }
        let output = output_of(command.args(&self.arguments), self.bench.interrupt)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let program = Path::new(&self.arguments[0]).display();
        let under = under.name();
        Err(Failure::Refused(format!("{program} under {under}: {}: {errors}", output.status)))
    }

    /// Subject and reference in turn; `read` makes nanoseconds of what the program printed and of
    /// the seconds it took.
    fn row(
        &self,
        identity: Identity<'_>,
        read: impl Fn(&str, f64) -> Option<f64>,
    ) -> Result<Row, Failure> {
        let read = &read;
        let turns = Turns::of(identity.1, identity.2);
        let ends = end_cpus();
        let contender = |under: Under| -> Contender<'_> {
            let turn = Cell::new(0);
            Box::new(move || {
                let cpu = turns.is_held.then(|| cpu_for(turn.replace(turn.get() + 1), ends));
                let started = Instant::now();
                let printed = self.run(under, cpu)?;
                read(&printed, started.elapsed().as_secs_f64())
                    .ok_or_else(|| Failure::Refused(format!("cannot make sense of: {printed}")))
            })
        };
        let label = format!("run {}, {} jobs", identity.1, identity.2);
        let against = reference_of(identity.1);
        let own = if against == Under::Linux { Under::Run } else { Under::Recorded };
        let contenders = [contender(own), contender(against)];
        let nr_turns = self.bench.args.runs * turns.nr;
        let samples = interleave(&label, nr_turns, self.bench.interrupt, contenders)?;
        let [subject, reference] = samples.map(|one: Samples| one.means_of(turns.nr));
        Ok(Row::measured(identity, against.name(), &subject, &reference))
    }
}

fn measure_fio(
    bench: &Bench<'_>,
    memory: Bytes,
    cases: &[(&'static str, u32)],
) -> Result<Vec<Row>, Failure> {
    let (_folder, data) = bench.make_file(&bench.args.dir, Bytes(memory.0 * FILE_TIMES))?;
    let fio = Fio { bench, memory, file: &data.path };
    cases.iter().map(|&(case, jobs)| fio.measure(case, jobs)).collect()
}

/// What fio's cases have in common: a file of [`FILE_TIMES`] the memory.
struct Fio<'a> {
    bench: &'a Bench<'a>,
    memory: Bytes,
    file: &'a Path,
}

impl Fio<'_> {
    fn measure(&self, case: &str, jobs: u32) -> Result<Row, Failure> {
        let whole = self.memory.0 * FILE_TIMES;
        let quarter = Bytes((self.memory.0 / 4).max(PROGRAM_BYTES_MIN));
        let part = whole.min(quarter.0 * FILE_TIMES);
        let zipf = |timed: String| format!("--random_distribution=zipf:0.8 {timed}");
        let work = match case {
            "zipf" => self.random(self.memory, whole, jobs, &zipf(self.timed(0, 8000))),
            "warm" => self.random(quarter, part, jobs, &zipf(self.timed(6000, 4000))),
            "recorded" => self.random(quarter, part, jobs, &zipf(self.timed(1500, 1500))),
            // 49,152 misses at 512M, of 70 to 100 us each.
            "resident" => {
                self.random(self.memory, self.memory.0 / 8 * 3, jobs, &self.timed(7000, 2000))
            }
            "stream" => self.whole("sync"),
            _ => self.whole("psync"),
        };
        // Of what is read from one end to the other, KiB count; of the rest, reads.
        let number = if matches!(case, "seq" | "stream") { "bw" } else { "iops" };
        work.row((BENCH, case, jobs), |printed, _| Some(1e9 / read_fio(printed, number)?))
    }

    /// Reads of pages by chance, `len` bytes of the file.
    fn random(&self, memory: Bytes, len: u64, jobs: u32, more: &str) -> Work<'_> {
        let common = "--ioengine=psync --rw=randread --bs=4k --time_based";
        self.work(memory, &format!("{common} --size={len} --numjobs={jobs} {more}"))
    }

    /// One read of the file from one end to the other.
    fn whole(&self, engine: &str) -> Work<'_> {
        let len = self.memory.0 * FILE_TIMES;
        self.work(self.memory, &format!("--ioengine={engine} --rw=read --bs=128k --size={len}"))
    }

    /// How long it runs before it is timed, and while it is.
    fn timed(&self, ramp: u64, run: u64) -> String {
        let [ramp, run] = [ramp, run].map(|full| self.bench.duration(full).as_millis());
        format!("--ramp_time={ramp}ms --runtime={run}ms")
    }

    fn work(&self, memory: Bytes, more: &str) -> Work<'_> {
        let common = format!(
            "fio --name=bench --thread --group_reporting --randrepeat=0 --invalidate=0 \
             --output-format=json {more}"
        );
        let mut arguments: Vec<OsString> = common.split_whitespace().map(OsString::from).collect();
        let mut name = OsString::from("--filename=");
        name.push(self.file);
        arguments.push(name);
        Work { bench: self.bench, memory, beside: FIO_BYTES, file: self.file, arguments }
    }
}

/// A number of fio's about its reads.
fn read_fio(printed: &str, name: &str) -> Option<f64> {
    // Warnings may come first.
    let document = &printed[printed.find('{')?..];
    let mut documents = serde_json::Deserializer::from_str(document).into_iter();
    let document: serde_json::Value = documents.next()?.ok()?;
    document["jobs"][0]["read"][name].as_f64().filter(|number| *number > 0.0)
}

fn measure_sqlite(bench: &Bench<'_>, memory: Bytes) -> Result<Row, Failure> {
    let folder = crate::demo::dataset::make_folder(&bench.args.dir)?;
    let database = folder.path().join("bench.db");
    // About a page each.
    let nr_rows = memory.0 * FILE_TIMES / 4096;
    let make = format!(
        "pragma journal_mode=off; pragma synchronous=off; create table t(a integer primary key, \
         b blob); with recursive n(i) as (select 1 union all select i + 1 from n where i < \
         {nr_rows}) insert into t select i, randomblob(3900) from n;"
    );
    let made = output_of(Command::new(SHELL).arg(&database).arg(make), bench.interrupt)?;
    if !made.status.success() {
        let status = made.status;
        return Err(Failure::Refused(format!("sqlite3 could not make a database: {status}")));
    }
    let nr_queries = if bench.args.quick { 2_000 } else { 40_000 };
    let queries = folder.path().join("queries.sql");
    // Every query a row by chance, the same for subject and reference.
    let mut state = 1_u64;
    let mut text = String::new();
    for _ in 0..nr_queries {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!(
            "select length(b) from t where a={};\n",
            1 + (state >> 33) % nr_rows
        ));
    }
    std::fs::write(&queries, text).map_err(|error| Failure::on_path("write", &queries, &error))?;
    let read = format!(".read {}", queries.display());
    let arguments = vec![SHELL.into(), database.clone().into_os_string(), read.into()];
    let work = Work { bench, memory, beside: SHELL_BYTES, file: &database, arguments };
    let expected = nr_queries as usize;
    work.row((BENCH, SQLITE, 1), |printed, seconds| {
        (printed.lines().count() == expected).then_some(seconds * 1e9 / expected as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_both_cpus_and_each_has_both_orders() {
        let cpus: Vec<usize> = (0..8).map(|turn| cpu_for(turn, [3, 7])).collect();
        assert!(cpus.chunks(2).all(|round| round.contains(&3) && round.contains(&7)));
        // The order of the contenders changes with each turn.
        let nr_first = |cpu| (0..8).step_by(2).filter(|turn| cpus[*turn] == cpu).count();
        assert_eq!((nr_first(3), nr_first(7)), (2, 2));
    }
}
