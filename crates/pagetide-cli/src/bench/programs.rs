//! `bench run`: unmodified programs under `pagetide run`, against the kernel's page cache at the
//! same limit.
//!
//! ```text
//!   zipf      fio psync randread, zipf 0.8 over 4x memory, cold, 1 and 2 jobs
//!   resident  the same, uniform, over 3/8 of memory; a second to fill, then timed
//!   seq       fio psync read of the file of 4x memory, 128 KiB, cold, once: a KiB
//!   sqlite    point queries by rowid in a database of 4x a quarter of memory, cold
//! ```
//!
//! The subject is this very command's `run`, the reference the same program in a memory cgroup.
//! Both begin with the file dropped from the kernel's page cache. The sqlite shell's own memory is
//! in the cgroup's limit, and not in ours; it is given as much more.
//!
//! Ignored: what the program takes beside its files.

use super::interleave::{Contender, interleave};
use super::{Bench, Identity, Row};
use crate::cgroup::MemoryGroup;
use crate::demo::dataset::drop_from_kernel_cache;
use crate::failure::Failure;
use crate::machine;
use pagetide_core::units::Bytes;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const BENCH: &str = "run";
const FILE_TIMES: u64 = 4;
/// What the sqlite shell takes beside its database.
const SHELL_BYTES: u64 = 8 << 20;

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let memory = bench.memory(512 << 20, 16 << 20);
    machine::check_memory(Bytes(memory.0 * 2))?;
    let mut rows = Vec::new();
    match why_not(memory, "fio") {
        None => rows.extend(measure_fio(bench, memory)?),
        Some(why) => {
            let cases = [("zipf", 1), ("zipf", 2), ("resident", 1), ("seq", 1)];
            rows.extend(cases.map(|(case, jobs)| skipped((BENCH, case, jobs), &why)));
        }
    }
    match why_not(memory, "sqlite3") {
        None => rows.push(measure_sqlite(bench, Bytes(memory.0 / 4))?),
        Some(why) => rows.push(skipped((BENCH, "sqlite", 1), &why)),
    }
    Ok(rows)
}

fn skipped(identity: Identity<'_>, why: &str) -> Row {
    Row::skipped(identity, "linux", why.to_owned())
}

/// Why this machine cannot measure with `program`, if so.
fn why_not(memory: Bytes, program: &str) -> Option<String> {
    if let Err(why) = MemoryGroup::with_limit(memory) {
        return Some(why);
    }
    if let Err(failure) = crate::run::find_library() {
        return Some(failure.to_string());
    }
    let asked = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    (!asked.is_ok_and(|status| status.success())).then(|| format!("{program} is not installed"))
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
    /// Runs the program under `subject`; what it prints.
    fn run(&self, subject: &str) -> Result<String, Failure> {
        drop_from_kernel_cache(self.file)?;
        let group;
        let mut command = if subject == "linux" {
            let limit = Bytes(self.memory.0 + self.beside);
            group = MemoryGroup::with_limit(limit).map_err(Failure::Refused)?;
            let mut shell = Command::new("sh");
            shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(group.handle().members());
            shell
        } else {
            let own = std::env::current_exe()
                .map_err(|error| Failure::on("find my own executable", &error))?;
            let mut run = Command::new(own);
            run.args(["run", "--memory", &self.memory.0.to_string(), "--policy", subject]);
            for setting in &self.bench.args.set {
                run.arg("--set").arg(setting.to_string());
            }
            run.arg("--");
            run
        };
        let output = command.args(&self.arguments).stdin(Stdio::null()).output();
        self.bench.interrupt.check()?;
        let output = output.map_err(|error| Failure::on("run a program", &error))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let program = Path::new(&self.arguments[0]).display();
        Err(Failure::Refused(format!("{program} under {subject}: {}: {errors}", output.status)))
    }

    /// Subject and reference in turn; `read` makes nanoseconds of what the program printed and of
    /// the seconds it took.
    fn row(
        &self,
        identity: Identity<'_>,
        read: impl Fn(&str, f64) -> Option<f64>,
    ) -> Result<Row, Failure> {
        let read = &read;
        let contender = |subject: &'static str| -> Contender<'_> {
            Box::new(move || {
                let started = Instant::now();
                let printed = self.run(subject)?;
                read(&printed, started.elapsed().as_secs_f64())
                    .ok_or_else(|| Failure::Refused(format!("cannot make sense of: {printed}")))
            })
        };
        let label = format!("run {}, {} jobs", identity.1, identity.2);
        let contenders = [contender(self.bench.args.policy.as_str()), contender("linux")];
        let rounds = (self.bench.args.runs, self.bench.interrupt);
        let [subject, reference] = interleave(&label, rounds.0, rounds.1, contenders)?;
        Ok(Row::measured(identity, "linux", &subject, &reference))
    }
}

fn measure_fio(bench: &Bench<'_>, memory: Bytes) -> Result<Vec<Row>, Failure> {
    let (_folder, data) = bench.make_file(&bench.args.dir, Bytes(memory.0 * FILE_TIMES))?;
    let work = |more: String| {
        let common = format!(
            "fio --name=bench --ioengine=psync --thread --group_reporting --randrepeat=0 \
             --invalidate=0 --output-format=json {more}"
        );
        let mut arguments: Vec<OsString> = common.split_whitespace().map(OsString::from).collect();
        let mut name = OsString::from("--filename=");
        name.push(&data.path);
        arguments.push(name);
        Work { bench, memory, beside: 0, file: &data.path, arguments }
    };
    let millis = |full| bench.duration(full).as_millis();
    let random = "--rw=randread --bs=4k --time_based";
    let zipf = |jobs: u32| {
        let (size, runtime) = (memory.0 * FILE_TIMES, millis(8000));
        work(format!(
            "{random} --random_distribution=zipf:0.8 --size={size} --runtime={runtime}ms \
             --numjobs={jobs}"
        ))
    };
    let (size, whole) = (memory.0 / 8 * 3, memory.0 * FILE_TIMES);
    let (ramp, runtime) = (millis(4000), millis(2000));
    let resident =
        work(format!("{random} --size={size} --ramp_time={ramp}ms --runtime={runtime}ms"));
    let seq = work(format!("--rw=read --bs=128k --size={whole}"));
    let by_operation = |printed: &str, _| Some(1e9 / read_fio(printed, "iops")?);
    // In KiB a second.
    let by_kib = |printed: &str, _| Some(1e9 / read_fio(printed, "bw")?);
    Ok(vec![
        zipf(1).row((BENCH, "zipf", 1), by_operation)?,
        zipf(2).row((BENCH, "zipf", 2), by_operation)?,
        resident.row((BENCH, "resident", 1), by_operation)?,
        seq.row((BENCH, "seq", 1), by_kib)?,
    ])
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
    let made = Command::new("sqlite3").arg(&database).arg(make).stdout(Stdio::null()).status();
    let made = made.map_err(|error| Failure::on("run sqlite3", &error))?;
    bench.interrupt.check()?;
    if !made.success() {
        return Err(Failure::Refused(format!("sqlite3 could not make a database: {made}")));
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
    let arguments = vec!["sqlite3".into(), database.clone().into_os_string(), read.into()];
    let work = Work { bench, memory, beside: SHELL_BYTES, file: &database, arguments };
    let expected = nr_queries as usize;
    work.row((BENCH, "sqlite", 1), |printed, seconds| {
        (printed.lines().count() == expected).then_some(seconds * 1e9 / expected as f64)
    })
}
