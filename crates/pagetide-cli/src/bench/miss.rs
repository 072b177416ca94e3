//! `bench miss`: what a miss costs beside the device's own time.
//!
//! ```text
//!   subject   file.read_at(random page), memory a sixteenth of the file: 15 of 16 reads miss
//!   direct    O_DIRECT pread of a random page of the same file
//! ```
//!
//! The few hits speed the subject up a little: with a quick device, by at most a sixteenth.

use super::direct::DirectFile;
use super::interleave::{Samples, TimedRun, time_threads};
use super::{Bench, Identity, Row};
use crate::dataset::DataFile;
use crate::failure::Failure;
use crate::machine;
use ::pagetide::File;
use pagetide_core::units::{Bytes, PAGE_BYTES};
use pagetide_sys::AlignedBuf;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// File size over memory.
const FILE_TIMES: u64 = 16;
/// Operations between looks at the clock.
const BATCH: u32 = 16;

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
    Ok(vec![Row::measured(IDENTITY, "direct", &subject, &reference)])
}

/// Random reads of one file, through the page cache and past everything, in turn.
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
