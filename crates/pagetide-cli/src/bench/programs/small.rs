//! `bench run`'s small files and single passes: programs whose time is calls, not pages.
//!
//! ```text
//!   small-grep   grep -r over 4,000 files of 0.5 to 20 KB      tree/a
//!   small-tar    tar c of them, and x
//!   small-cp     cp -r of them
//!   small-open   open, read, close of 10,000 files             tree/a and tree/b
//!   small-true   a shell that starts /bin/true 300 times
//!   one-pass-cat, one-pass-grep                                a file of 4x memory, once
//! ```
//!
//! Each in a quarter of the bench's memory, with the kernel in a memory cgroup of the same limit as
//! the reference, by turns. *Cold*: the files are dropped from the kernel's page cache before each
//! turn; what it knows of folders stays. *Warm*: it holds all of them, not charged in the
//! turn. What is timed is the program from its start to its end, `pagetide run` and its end
//! included; what a turn writes is removed before the next.
//!
//! A row's nanoseconds are of one file (call; KiB). Passes also tell what the run read from the
//! device, by its own summary, of each byte of the file.
//!
//! Ignored: programs' own files, which are warm for both.

use super::super::interleave::TimedRun;
use super::super::{Bench, Row};
use super::program::{PROGRAM_BYTES_MIN, Program, Under};
use super::sqlite::SHELL_BYTES;
use super::{BENCH, FILE_TIMES};
use crate::dataset::{drop_from_kernel_cache, make_folder};
use crate::failure::Failure;
use crate::machine;
use pagetide_core::units::Bytes;
use std::cell::Cell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// What small files and passes measure, as `--cases` has them.
pub(super) const CASES: [&str; 7] = [
    "small-grep",
    "small-tar",
    "small-cp",
    "small-open",
    "small-true",
    "one-pass-cat",
    "one-pass-grep",
];
/// The hidden command that `small-open` measures.
pub(crate) const OPEN_EACH: &str = "open-each";
const FOLDER_FILES: u32 = 100;
/// The word that one file of the tree has.
const NEEDLE: &str = "needle";

/// Opens, reads and closes every file below a folder; `bench run` starts itself this way.
#[derive(Debug, clap::Args)]
pub(crate) struct OpenEachArgs {
    folder: PathBuf,
}

/// Runs the hidden command.
///
/// # Errors
/// What the system says of a file or folder.
pub(crate) fn open_each(args: &OpenEachArgs) -> Result<(), Failure> {
    let mut bytes = vec![0; 64 << 10];
    for_each_file(&args.folder, &mut |path| {
        let refuse = |error| Failure::on_path("read", path, &error);
        let mut file = File::open(path).map_err(refuse)?;
        while file.read(&mut bytes).map_err(refuse)? > 0 {}
        Ok(())
    })
}

/// Hands every file below `folder` to `take`.
fn for_each_file(
    folder: &Path,
    take: &mut impl FnMut(&Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let refuse = |error| Failure::on_path("look into", folder, &error);
    for entry in fs::read_dir(folder).map_err(refuse)? {
        let entry = entry.map_err(refuse)?;
        if entry.file_type().map_err(refuse)?.is_dir() {
            for_each_file(&entry.path(), take)?;
        } else {
            take(&entry.path())?;
        }
    }
    Ok(())
}

/// The names of the rows that [`run`] makes.
pub(super) fn names(bench: &Bench<'_>) -> Vec<String> {
    let wanted = CASES.into_iter().filter(|case| bench.wants(case));
    let names = wanted.flat_map(|case| states(case).iter().map(move |state| name(case, state)));
    names.collect()
}

/// What the kernel holds when a case begins; of a file that is read once, no more than its name.
fn states(case: &str) -> &'static [&'static str] {
    match case {
        "small-true" => &["warm"],
        _ if case.starts_with("small") => &["cold", "warm"],
        _ => &[""],
    }
}

fn name(case: &str, state: &str) -> String {
    format!("{case} {state}").trim_end().to_owned()
}

/// The rows of the cases that are wanted.
///
/// # Errors
/// A refusal (disk, folder), a program that fails, an interrupt.
pub(super) fn run(bench: &Bench<'_>, memory: Bytes) -> Result<Vec<Row>, Failure> {
    let wanted: Vec<&str> = CASES.into_iter().filter(|case| bench.wants(case)).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let memory = Bytes((memory.0 / 4).max(PROGRAM_BYTES_MIN));
    let folder = make_folder(&bench.args.dir)?;
    let place = folder.path();
    let mut rows = Vec::new();
    if wanted.iter().any(|case| case.starts_with("small")) {
        let tree = Tree::make(bench, place)?;
        for case in wanted.iter().filter(|case| case.starts_with("small")) {
            let case = Small { bench, memory, place, tree: &tree, case };
            rows.extend(case.measure()?);
        }
    }
    for case in wanted.iter().filter(|case| case.starts_with("one-pass")) {
        rows.push(measure_pass(bench, memory, case)?);
    }
    Ok(rows)
}

/// Many small files, from a seed.
struct Tree {
    nr_files: u32,
    nr_more: u32,
}

impl Tree {
    fn make(bench: &Bench<'_>, place: &Path) -> Result<Tree, Failure> {
        let (nr_files, nr_more) = if bench.args.quick { (200, 300) } else { (4000, 6000) };
        machine::check_disk(place, Bytes(u64::from(4 * nr_files + nr_more) * (24 << 10)))?;
        let mut state = 1_u64;
        for (name, nr) in [("a", nr_files), ("b", nr_more)] {
            for file in 0..nr {
                bench.interrupt.check()?;
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let len = 512 + (state >> 33) as usize % (20_000 - 512);
                let mut text = if file == 7 { format!("{NEEDLE}\n") } else { String::new() };
                while text.len() < len {
                    text.push_str(&format!(
                        "{:016x} line of file {file} in {name}\n",
                        state ^ text.len() as u64
                    ));
                }
                text.truncate(len);
                let folder = place.join("tree").join(name).join((file / FOLDER_FILES).to_string());
                let path = folder.join(format!("{file}.txt"));
                fs::create_dir_all(&folder)
                    .and_then(|()| fs::write(&path, text))
                    .map_err(|error| Failure::on_path("make", &path, &error))?;
            }
        }
        Ok(Tree { nr_files, nr_more })
    }
}

/// One case over the tree.
struct Small<'a> {
    bench: &'a Bench<'a>,
    memory: Bytes,
    place: &'a Path,
    tree: &'a Tree,
    case: &'a str,
}

impl Small<'_> {
    /// Cold, then warm; of what reads no file, once.
    fn measure(&self) -> Result<Vec<Row>, Failure> {
        states(self.case).iter().map(|state| self.row(state)).collect()
    }

    fn row(&self, state: &str) -> Result<Row, Failure> {
        let (arguments, nr) = self.command()?;
        let Small { bench, memory, .. } = *self;
        let program = Program { bench, memory, beside: SHELL_BYTES, arguments };
        let timed_run = |under: Under| -> TimedRun<'_> {
            let program = &program;
            Box::new(move || {
                self.prepare(state == "warm")?;
                let (seconds, _) = program.run(under, &[], None)?;
                Ok(seconds * 1e9 / f64::from(nr))
            })
        };
        let name = name(self.case, state);
        let timed_runs = [timed_run(Under::Run), timed_run(Under::Linux)];
        let label = format!("run {name}");
        let [subject, reference] = bench.interleave(&label, timed_runs)?;
        Ok(Row::measured((BENCH, &name, 1), Under::Linux.name(), &subject, &reference))
    }

    /// What runs, and how many files or calls it is.
    fn command(&self) -> Result<(Vec<OsString>, u32), Failure> {
        let Tree { nr_files, nr_more } = *self.tree;
        let own = std::env::current_exe()
            .map_err(|error| Failure::on("find my own executable", &error))?;
        let at = |name: &str| self.place.join(name).into_os_string();
        let shell = |line: &str| vec!["sh".into(), "-c".into(), line.into(), at("")];
        Ok(match self.case {
            "small-grep" => {
                (vec!["grep".into(), "-rl".into(), NEEDLE.into(), at("tree/a")], nr_files)
            }
            "small-tar" => (
                shell("cd \"$0\" && mkdir out && tar cf out.tar tree/a && tar xf out.tar -C out"),
                nr_files,
            ),
            "small-cp" => (vec!["cp".into(), "-r".into(), at("tree/a"), at("out")], nr_files),
            "small-open" => (vec![own.into(), OPEN_EACH.into(), at("tree")], nr_files + nr_more),
            _ => {
                let nr = if self.bench.args.quick { 20 } else { 300 };
                let line = format!("i=0; while [ $i -lt {nr} ]; do /bin/true; i=$((i+1)); done");
                (shell(&line), nr)
            }
        })
    }

    /// Nothing of the last turn is left, and the kernel holds all of the files, or none.
    fn prepare(&self, is_warm: bool) -> Result<(), Failure> {
        for left in ["out", "out.tar"].map(|name| self.place.join(name)) {
            let removed = match fs::symlink_metadata(&left) {
                Ok(it) if it.is_dir() => fs::remove_dir_all(&left),
                Ok(_) => fs::remove_file(&left),
                Err(_) => Ok(()),
            };
            removed.map_err(|error| Failure::on_path("remove", &left, &error))?;
        }
        let tree = self.place.join("tree");
        if is_warm {
            return open_each(&OpenEachArgs { folder: tree });
        }
        for_each_file(&tree, &mut |path| drop_from_kernel_cache(path))
    }
}

/// A file of [`FILE_TIMES`] the memory, read once.
fn measure_pass(bench: &Bench<'_>, memory: Bytes, case: &str) -> Result<Row, Failure> {
    let len = memory.0 * FILE_TIMES;
    let (folder, data) = bench.make_file(&bench.args.dir, Bytes(len))?;
    let file = data.path.clone().into_os_string();
    let line = match case {
        "one-pass-cat" => "cat \"$0\" >/dev/null",
        _ => "grep -ac a \"$0\"",
    };
    let arguments = vec!["sh".into(), "-c".into(), line.into(), file];
    let program = Program { bench, memory, beside: SHELL_BYTES, arguments };
    let summary = folder.path().join("summary.json");
    let of_run: Vec<OsString> = vec!["--json".into(), summary.clone().into_os_string()];
    let nr_read = Cell::new(0_u64);
    let timed_run = |under: Under| -> TimedRun<'_> {
        let (program, of_run, summary, nr_read) = (&program, &of_run, &summary, &nr_read);
        let path = &data.path;
        Box::new(move || {
            drop_from_kernel_cache(path)?;
            let of_run = if under == Under::Run { &of_run[..] } else { &[] };
            let (seconds, _) = program.run(under, of_run, None)?;
            if under == Under::Run {
                nr_read.set(nr_read.get().max(summary_number(summary, "device_read_bytes")?));
            }
            Ok(seconds * 1e9 / (len >> 10) as f64)
        })
    };
    let timed_runs = [timed_run(Under::Run), timed_run(Under::Linux)];
    let label = format!("run {case}");
    let [subject, reference] = bench.interleave(&label, timed_runs)?;
    Ok(Row {
        device_bytes_per_byte: Some(nr_read.get() as f64 / len as f64),
        ..Row::measured((BENCH, case, 1), Under::Linux.name(), &subject, &reference)
    })
}

/// A number of a run's summary.
pub(super) fn summary_number(summary: &Path, name: &str) -> Result<u64, Failure> {
    let text = fs::read(summary).map_err(|error| Failure::on_path("read", summary, &error))?;
    let document: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| Failure::on("read a summary", &error))?;
    document[name]
        .as_u64()
        .ok_or_else(|| Failure::Refused(format!("the run's summary has no {name}")))
}
