//! `bench miss`: the cost of a miss against the device's own time.
//!
//! ```text
//!   subject   file.read_at(random page), memory a sixteenth of the file: 15 of 16 reads miss
//!   direct    O_DIRECT pread of a random page of the same file
//!
//!   depth-8, depth-32: file.read_many of 8 or 32 random pages; fio, io_uring, O_DIRECT
//! ```
//!
//! Hits speed the subject up by at most a sixteenth.

use super::direct::DirectFile;
use super::interleave::{Samples, TimedRun, time_threads};
use super::programs::{output_of, read_fio, why_not_there};
use super::{Bench, Identity, Row};
use crate::dataset::DataFile;
use crate::failure::Failure;
use crate::machine;
use ::pagetide::File;
use pagetide_core::units::{Bytes, PAGE_BYTES};
use pagetide_sys::AlignedBuf;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::process::Command;

/// File size / memory.
const FILE_TIMES: u64 = 16;
/// Operations per clock read.
const BATCH: u32 = 16;

/// Pages per request.
const DEPTHS: [(&str, usize); 2] = [("depth-8", 8), ("depth-32", 32)];
const FIO: &str = "io_uring";

const IDENTITY: Identity<'static> = ("miss", "random", 1);

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let memory = bench.memory(64 << 20, 4 << 20);
    machine::check_memory(memory)?;
    let (_folder, data) = bench.make_file(&bench.args.dir, Bytes(memory.0 * FILE_TIMES))?;
    let direct = match DirectFile::open(&data.path, IDENTITY) {
        Ok(file) => file,
        Err(skipped) => return Ok(vec![*skipped]),
    };
    let cache = bench.make_cache(bench.policy(), memory)?;
    let file = bench.open_random(&cache, &data)?;
    let [subject, reference] = measure(bench, &data, &file, &direct)?;
    let mut rows = vec![Row::measured(IDENTITY, "direct", &subject, &reference)];
    for (case, depth) in DEPTHS {
        rows.push(measure_many(bench, &data, &file, (case, depth))?);
    }
    Ok(rows)
}

/// Compares with fio at as many requests in flight.
fn measure_many(
    bench: &Bench<'_>,
    data: &DataFile,
    file: &File,
    (case, depth): (&'static str, usize),
) -> Result<Row, Failure> {
    let identity = ("miss", case, 1);
    let mut command = fio(bench, data, depth);
    if let Some(why) = why_not_there("fio") {
        return Ok(Row::skipped(identity, FIO, why));
    }
    let mut random = SmallRng::seed_from_u64(3);
    let mut pages = vec![[0; PAGE_BYTES]; depth];
    let many: TimedRun<'_> = Box::new(|| {
        let threads = vec![(&mut random, &mut pages)];
        let nanoseconds = time_threads((bench.duration(1500), 1), threads, |(random, pages)| {
            let offset = |random: &mut SmallRng| random.random_range(0..data.nr_pages);
            let mut ranges: Vec<_> = pages
                .iter_mut()
                .map(|page| (Bytes::from_pages(offset(random)).0, &mut page[..]))
                .collect();
            file.read_many(&mut ranges)
                .map_err(|error| Failure::on_path("read", &data.path, &error.into()))
        })?;
        Ok(nanoseconds / depth as f64)
    });
    let raw: TimedRun<'_> = Box::new(|| {
        let output = output_of(&mut command, bench.interrupt)?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let per_second = read_fio(&printed, "iops")
            .ok_or_else(|| Failure::Refused(format!("cannot make sense of fio's: {printed}")))?;
        Ok(1e9 / per_second)
    });
    let [subject, reference] = bench.interleave(case, [many, raw])?;
    Ok(Row::measured(identity, FIO, &subject, &reference))
}

fn fio(bench: &Bench<'_>, data: &DataFile, depth: usize) -> Command {
    let mut command = Command::new("fio");
    let runtime = bench.duration(1500).as_millis();
    command
        .args(["--name=bench", "--readonly", "--rw=randread", "--bs=4k", "--direct=1"])
        .args(["--ioengine=io_uring", "--norandommap", "--randrepeat=0", "--time_based"])
        .args([format!("--iodepth={depth}"), format!("--runtime={runtime}ms")])
        .args(["--output-format=json", "--filename"])
        .arg(&data.path);
    command
}

/// Alternates between page cache and device.
fn measure(
    bench: &Bench<'_>,
    data: &DataFile,
    file: &File,
    direct: &DirectFile,
) -> Result<[Samples; 2], Failure> {
    let duration = bench.duration(1500);
    let refuse = |error: std::io::Error| Failure::on_path("read", &data.path, &error);
    let offset = |random: &mut SmallRng| Bytes::from_pages(random.random_range(0..data.nr_pages)).0;
    let [mut first, mut second] = [1, 2].map(SmallRng::seed_from_u64);
    let through: TimedRun<'_> = Box::new(|| {
        let threads = vec![(&mut first, vec![0; PAGE_BYTES])];
        time_threads((duration, BATCH), threads, |(random, page)| {
            file.read_at(page, offset(random)).map(drop).map_err(|error| refuse(error.into()))
        })
    });
    let past: TimedRun<'_> = Box::new(|| {
        let threads = vec![(&mut second, AlignedBuf::zeroed(PAGE_BYTES))];
        time_threads((duration, BATCH), threads, |(random, page)| {
            direct.read(page, offset(random)).map_err(refuse)
        })
    });
    bench.interleave("miss", [through, past])
}
