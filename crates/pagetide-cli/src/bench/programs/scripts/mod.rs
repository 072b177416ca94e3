//! Real programs, each driven by a script beside this file.
//!
//! ```text
//!   check    prints the missing packages
//!   make     makes the files, once           before   before each turn, untimed
//!   run      the timed step; may print `ns` per operation with a count, and its results
//!   after    after each turn, untimed: prints the state of the files
//! ```
//!
//! Arguments: step, folder, bytes of files, operations, the reference's name or `run`, and the
//! folder of `--source`. The output of `run` and `after` is the answer: all turns must agree. The
//! folder's files are dropped from the kernel's page cache before each turn.

use super::super::{Bench, Row};
use super::contest::{self, Turn};
use super::program::{
    LINUX, PROGRAM_BYTES_MIN, Program, Under, output_of, why_not, why_not_mapped,
};
use super::small::for_each_file;
use super::turns::end_cpus;
use super::{BENCH, FILE_TIMES};
use crate::dataset::{drop_from_kernel_cache, make_folder};
use crate::failure::Failure;
use crate::machine;
use pagetide_core::lru::PolicyName;
use pagetide_core::units::Bytes;
use std::cell::RefCell;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

struct Script {
    name: &'static str,
    interpreter: &'static str,
    text: &'static str,
    /// Operations per turn.
    nr: u64,
    /// Memory beside the files, measured as fio's.
    beside: u64,
    references: &'static [&'static str],
    /// The default policies, empty for Pagetide's own.
    policies: &'static [PolicyName],
    is_mapped: bool,
    /// True to pin the single thread to a CPU, then to another.
    is_held: bool,
}

const SQLITE: Script = Script {
    name: "sqlite",
    interpreter: "sh",
    text: include_str!("sqlite.sh"),
    nr: 40_000,
    beside: 5 << 20,
    references: &[LINUX],
    policies: &[],
    is_mapped: false,
    is_held: true,
};

/// References with and without `MADV_RANDOM`.
const MAPPED: &[&str] = &["linux-random", "linux-default"];

const SCRIPTS: [Script; 6] = [
    SQLITE,
    Script {
        name: "sqlite-mapped",
        nr: 10_000,
        references: &["linux-mapped", "linux-read"],
        is_mapped: true,
        ..SQLITE
    },
    Script {
        name: "lmdb",
        interpreter: "python3",
        text: include_str!("lmdb.py"),
        nr: 10_000,
        beside: 4 << 20,
        references: MAPPED,
        is_mapped: true,
        ..SQLITE
    },
    Script {
        name: "vectors",
        interpreter: "python3",
        text: include_str!("vectors.py"),
        nr: 10,
        beside: 22 << 20,
        is_mapped: true,
        ..SQLITE
    },
    Script {
        name: "build",
        text: include_str!("build.sh"),
        nr: 1,
        beside: 75 << 20,
        policies: &[PolicyName::Mglru, PolicyName::Mglru61, PolicyName::ActiveInactive],
        is_held: false,
        ..SQLITE
    },
    Script {
        name: "mariadb",
        text: include_str!("mariadb.sh"),
        nr: 2_000,
        beside: 80 << 20,
        is_held: false,
        ..SQLITE
    },
];

pub(super) fn names() -> impl Iterator<Item = &'static str> + Clone {
    SCRIPTS.iter().map(|script| script.name)
}

/// Runs all cases but sqlite only by name.
pub(super) fn run(bench: &Bench<'_>, memory: Bytes) -> Result<Vec<Row>, Failure> {
    let is_wanted = |script: &&Script| match script.name {
        "sqlite" => bench.wants("sqlite"),
        name => bench.is_named(name),
    };
    let memory = Bytes((memory.0 / 4).max(PROGRAM_BYTES_MIN));
    let mut rows = Vec::new();
    for script in SCRIPTS.iter().filter(is_wanted) {
        let folder = make_folder(&bench.args.dir)?;
        // A server may have another working directory.
        let place = std::path::absolute(folder.path());
        let place = &place.map_err(|error| Failure::on_path("find", folder.path(), &error))?;
        let nr = if bench.args.quick { script.nr.div_ceil(20) } else { script.nr };
        let case = Case { bench, memory, script, folder: place, nr };
        let missing = case.step("check").unwrap_or_else(|failure| failure.to_string());
        let why = missing.lines().next().map(str::to_owned);
        let look = if script.is_mapped { why_not_mapped } else { why_not };
        rows.extend(match why.or_else(|| look(memory, "taskset")) {
            Some(why) => {
                let row =
                    |name: &&'static str| Row::skipped((BENCH, script.name, 1), name, why.clone());
                script.references.iter().map(row).collect()
            }
            None => case.measure()?,
        });
    }
    Ok(rows)
}

struct Case<'a> {
    bench: &'a Bench<'a>,
    memory: Bytes,
    script: &'a Script,
    folder: &'a Path,
    nr: u64,
}

impl Case<'_> {
    fn measure(&self) -> Result<Vec<Row>, Failure> {
        let Case { bench, script, .. } = self;
        machine::check_disk(&bench.args.dir, Bytes(3 * FILE_TIMES * self.memory.0))?;
        self.step("make")?;
        let own = [bench.policy()];
        let asked = if bench.args.policy.is_empty() { script.policies } else { &own };
        let policies = if asked.is_empty() { &own } else { asked };
        let answer = RefCell::default();
        let cpus = if script.is_held { end_cpus().map(Some).to_vec() } else { vec![None] };
        let turn = |under| {
            let turns = cpus.iter().map(|cpu| self.turn(under, *cpu, &answer));
            let turns: Vec<Turn> = turns.collect::<Result<_, _>>()?;
            let nr = turns.len() as f64;
            let device_read: Option<f64> = turns.iter().map(|turn| turn.device_read).sum();
            let ns = turns.iter().map(|turn| turn.ns).sum::<f64>() / nr;
            Ok(Turn { ns, device_read: device_read.map(|bytes| bytes / nr) })
        };
        contest::rows(bench, (script.name, 1), policies, script.references, &turn)
    }

    fn turn(
        &self,
        under: Under,
        cpu: Option<usize>,
        answer: &RefCell<Option<String>>,
    ) -> Result<Turn, Failure> {
        let Case { bench, memory, script, .. } = *self;
        self.step("before")?;
        rustix::fs::sync();
        for_each_file(self.folder, &mut |path| drop_from_kernel_cache(path))?;
        let reference = if let Under::Linux(name) = under { name } else { "run" };
        let arguments = self.command("run", reference);
        let nr_mappings = script.is_mapped.into();
        let program = Program { bench, memory, beside: script.beside, nr_mappings, arguments };
        let ran = program.run(under, cpu)?;
        let after = self.step("after")?;
        let printed = ran.printed.lines().chain(after.lines());
        let (times, found): (Vec<&str>, Vec<&str>) =
            printed.partition(|line| line.starts_with("ns "));
        let found = found.join("\n");
        let mut answer = answer.borrow_mut();
        let expected = answer.get_or_insert_with(|| found.clone());
        if found != *expected {
            let why = format!("{}: {found:.200} instead of {expected:.200}", script.name);
            return Err(Failure::Refused(why));
        }
        let said: Vec<f64> =
            times.iter().flat_map(|line| line.split(' ')).flat_map(str::parse).collect();
        let (ns, nr) = match said[..] {
            [ns, nr] => (ns, nr),
            _ => (ran.seconds * 1e9 / self.nr as f64, self.nr as f64),
        };
        Ok(Turn { ns, device_read: Some(ran.device_read as f64 / nr) })
    }

    fn command(&self, step: &str, reference: &str) -> Vec<OsString> {
        let Script { name, interpreter, text, .. } = self.script;
        // A shell script's name precedes its arguments. Python has -c.
        let name = (*interpreter == "sh").then_some(*name);
        let words = [*interpreter, "-c", text].into_iter().chain(name).chain([step]);
        let mut command: Vec<OsString> = words.map(OsString::from).collect();
        let numbers = [self.memory.0 * FILE_TIMES, self.nr].map(|number| number.to_string());
        command.push(self.folder.into());
        command.extend(numbers.map(OsString::from));
        command
            .extend([reference.into(), self.bench.args.source.clone().unwrap_or_default().into()]);
        command
    }

    fn step(&self, step: &str) -> Result<String, Failure> {
        let words = self.command(step, "");
        let mut command = Command::new(&words[0]);
        let output = output_of(command.args(&words[1..]).env("LC_ALL", "C"), self.bench.interrupt)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let why = format!("{}, {step}: {}: {errors}", self.script.name, output.status);
        Err(Failure::Refused(why))
    }
}
