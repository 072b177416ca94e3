//! `bench run`'s small files and single passes, dominated by call overhead.
//!
//! ```text
//!   small-open     open, read, close of 10,000 files of 0.5 to 20 KB, cold and warm
//!   one-pass-cat   a file of 4x memory, once
//! ```
//!
//! Both have a quarter of the bench's memory. The reference is the kernel in a memory cgroup of the
//! same limit. *Cold* drops the files, but not folders, from the kernel's page cache before each
//! turn. *Warm* keeps all of them, not charged in the turn. The time includes `pagetide run`'s
//! start and end.
//!
//! A row's nanoseconds are per file or per KiB. The pass also reports device bytes read per byte of
//! the file, by the run's summary.
//!
//! Ignored: the programs' own files, warm for both.

use super::super::interleave::TimedRun;
use super::super::{Bench, Row};
use super::program::{LINUX, PROGRAM_BYTES_MIN, Program, Under};
use super::{BENCH, FILE_TIMES};
use crate::dataset::{drop_from_kernel_cache, make_folder};
use crate::failure::Failure;
use crate::machine;
use pagetide_core::units::Bytes;
use std::cell::Cell;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

const OPEN: &str = "small-open";
const PASS: &str = "one-pass-cat";
pub(super) const CASES: [&str; 2] = [OPEN, PASS];
/// Cases with row names.
pub(super) const ROWS: [(&str, &str); 3] =
    [(OPEN, "small-open cold"), (OPEN, "small-open warm"), (PASS, PASS)];
pub(crate) const OPEN_EACH: &str = "open-each";
/// Bytes beside the files, measured as fio's.
const BESIDE: u64 = 5 << 20;
const FOLDER_FILES: u32 = 100;

/// Opens, reads and closes every file below a folder; `bench run` starts itself this way.
#[derive(Debug, clap::Args)]
pub(crate) struct OpenEachArgs {
    folder: PathBuf,
}

pub(crate) fn open_each(args: &OpenEachArgs) -> Result<(), Failure> {
    let mut bytes = vec![0; 64 << 10];
    for_each_file(&args.folder, &mut |path| {
        let refuse = |error| Failure::on_path("read", path, &error);
        let mut file = File::open(path).map_err(refuse)?;
        while file.read(&mut bytes).map_err(refuse)? > 0 {}
        Ok(())
    })
}

pub(super) fn for_each_file(
    folder: &Path,
    take: &mut impl FnMut(&Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let refuse = |error| Failure::on_path("look into", folder, &error);
    for entry in fs::read_dir(folder).map_err(refuse)? {
        let entry = entry.map_err(refuse)?;
        let kind = entry.file_type().map_err(refuse)?;
        if kind.is_dir() {
            for_each_file(&entry.path(), take)?;
        } else if kind.is_file() {
            take(&entry.path())?;
        }
    }
    Ok(())
}

pub(super) fn run(bench: &Bench<'_>, memory: Bytes) -> Result<Vec<Row>, Failure> {
    let memory = Bytes((memory.0 / 4).max(PROGRAM_BYTES_MIN));
    let mut rows = Vec::new();
    if bench.wants(OPEN) {
        rows.extend(measure_opens(bench, memory)?);
    }
    if bench.wants(PASS) {
        rows.push(measure_pass(bench, memory)?);
    }
    Ok(rows)
}

fn measure_opens(bench: &Bench<'_>, memory: Bytes) -> Result<[Row; 2], Failure> {
    let folder = make_folder(&bench.args.dir)?;
    let nr_files = if bench.args.quick { 500 } else { 10_000 };
    make_tree(bench, folder.path(), nr_files)?;
    let own = machine::own_executable()?;
    let arguments = vec![own.into(), OPEN_EACH.into(), folder.path().as_os_str().to_owned()];
    let program = &Program { bench, memory, beside: BESIDE, nr_mappings: 0, arguments };
    let measure = |is_warm: bool| {
        let name = ROWS[usize::from(is_warm)].1;
        let timed_run = |under: Under| -> TimedRun<'_> {
            let folder = folder.path();
            Box::new(move || {
                if is_warm {
                    open_each(&OpenEachArgs { folder: folder.to_owned() })?;
                } else {
                    for_each_file(folder, &mut |path| drop_from_kernel_cache(path))?;
                }
                Ok(program.run(under, None)?.seconds * 1e9 / f64::from(nr_files))
            })
        };
        let timed_runs = [timed_run(Under::Run(bench.policy())), timed_run(Under::Linux(LINUX))];
        let [subject, reference] = bench.interleave(&format!("run {name}"), timed_runs)?;
        Ok(Row::measured((BENCH, name, 1), LINUX, &subject, &reference))
    };
    Ok([measure(false)?, measure(true)?])
}

/// Makes seeded files.
fn make_tree(bench: &Bench<'_>, place: &Path, nr_files: u32) -> Result<(), Failure> {
    machine::check_disk(place, Bytes(u64::from(nr_files) * (24 << 10)))?;
    let mut state = 1_u64;
    for file in 0..nr_files {
        bench.interrupt.check()?;
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let len = 512 + (state >> 33) as usize % (20_000 - 512);
        let mut text = String::new();
        while text.len() < len {
            text.push_str(&format!("{:016x} line of file {file}\n", state ^ text.len() as u64));
        }
        text.truncate(len);
        let folder = place.join((file / FOLDER_FILES).to_string());
        let path = folder.join(format!("{file}.txt"));
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| Failure::on_path("make", &path, &error))?;
    }
    Ok(())
}

/// Measures one pass over a file of [`FILE_TIMES`] the memory.
fn measure_pass(bench: &Bench<'_>, memory: Bytes) -> Result<Row, Failure> {
    let len = memory.0 * FILE_TIMES;
    let (_folder, data) = bench.make_file(&bench.args.dir, Bytes(len))?;
    let file = data.path.clone().into_os_string();
    let arguments = vec!["sh".into(), "-c".into(), "cat \"$0\" >/dev/null".into(), file];
    let program = Program { bench, memory, beside: BESIDE, nr_mappings: 0, arguments };
    let nr_read = Cell::new(0_u64);
    let timed_run = |under: Under| -> TimedRun<'_> {
        let (program, nr_read, path) = (&program, &nr_read, &data.path);
        Box::new(move || {
            drop_from_kernel_cache(path)?;
            let ran = program.run(under, None)?;
            if matches!(under, Under::Run(_)) {
                nr_read.set(nr_read.get().max(ran.device_read));
            }
            Ok(ran.seconds * 1e9 / (len >> 10) as f64)
        })
    };
    let timed_runs = [timed_run(Under::Run(bench.policy())), timed_run(Under::Linux(LINUX))];
    let [subject, reference] = bench.interleave(&format!("run {PASS}"), timed_runs)?;
    Ok(Row {
        device_bytes_per_byte: Some(nr_read.get() as f64 / len as f64),
        ..Row::measured((BENCH, PASS, 1), LINUX, &subject, &reference)
    })
}
