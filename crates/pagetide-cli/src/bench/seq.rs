//! `bench seq`: a cold sequential read with readahead.
//!
//! ```text
//!   subject   a new cache, file.read_at in 64 KiB calls from start to end
//!   direct    O_DIRECT reads of 1 MiB from start to end
//! ```
//!
//! Times are per 4 KiB page. The file is 16 times the memory, to include eviction.

use super::direct::DirectFile;
use super::{Bench, Row};
use crate::dataset::{DataFile, drop_from_kernel_cache};
use crate::failure::Failure;
use crate::machine;
use pagetide_core::units::Bytes;
use pagetide_sys::AlignedBuf;
use std::time::Instant;

/// File size / memory.
const FILE_TIMES: u64 = 16;
/// The subject's.
const CALL_BYTES: usize = 64 << 10;
/// The reference's.
const DIRECT_BYTES: usize = 1 << 20;

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let memory = bench.memory(64 << 20, 4 << 20);
    machine::check_memory(memory)?;
    let (_folder, data) = bench.make_file(&bench.args.dir, Bytes(memory.0 * FILE_TIMES))?;
    let identity = ("seq", "cold", 1);
    let direct = match DirectFile::open(&data.path, identity) {
        Ok(file) => file,
        Err(skipped) => return Ok(vec![*skipped]),
    };
    let [subject, reference] = bench.interleave(
        "seq",
        [
            Box::new(|| time_subject(bench, &data, memory)),
            Box::new(|| time_direct(bench, &data, &direct)),
        ],
    )?;
    Ok(vec![Row::measured(identity, "direct", &subject, &reference)])
}

fn time_subject(bench: &Bench<'_>, data: &DataFile, memory: Bytes) -> Result<f64, Failure> {
    drop_from_kernel_cache(&data.path)?;
    let cache = bench.make_cache(bench.policy(), memory)?;
    let file = bench.open(&cache, data)?;
    let mut buffer = vec![0; CALL_BYTES];
    let start = Instant::now();
    for offset in (0..data.len()).step_by(CALL_BYTES) {
        bench.interrupt.check()?;
        let got = file.read_at(&mut buffer, offset);
        got.map_err(|error| Failure::on_path("read", &data.path, &error.into()))?;
    }
    let nanoseconds = start.elapsed().as_nanos() as f64;
    data.check_word(data.nr_pages - 1, 0, &buffer[CALL_BYTES - 4096..], 5)
        .map_err(|wrong| data.failure(wrong))?;
    Ok(nanoseconds / data.nr_pages as f64)
}

fn time_direct(bench: &Bench<'_>, data: &DataFile, direct: &DirectFile) -> Result<f64, Failure> {
    let mut buffer = AlignedBuf::zeroed(DIRECT_BYTES);
    let start = Instant::now();
    for offset in (0..data.len()).step_by(DIRECT_BYTES) {
        bench.interrupt.check()?;
        direct
            .read(&mut buffer, offset)
            .map_err(|error| Failure::on_path("read", &data.path, &error))?;
    }
    Ok(start.elapsed().as_nanos() as f64 / data.nr_pages as f64)
}
