//! `bench evict`: CPU time per clean page evicted, isolate to free, by policy.
//!
//! ```text
//!   uniform 4 KiB reads over 4x memory: 3 of 4 miss, each miss evicts a clean page
//!   (the file is read once before, so that every frame is taken)
//!   subject_ns = CPU time that threads spent in reclaim / pages evicted, by the cache's counters
//! ```
//!
//! Policies are each other's reference, because the kernel does not account eviction. Ignored:
//! dirty pages.

use super::interleave::{TimedRun, interleave_all, time_threads};
use super::{Bench, Row, policies};
use crate::dataset::DataFile;
use crate::failure::Failure;
use crate::machine;
use pagetide_core::lru::{PolicyName, Switches};
use pagetide_core::units::{Bytes, PAGE_BYTES};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// File size / memory.
const FILE_TIMES: u64 = 4;
/// Bytes per read of the fill.
const FILL_BYTES: usize = 64 << 10;
/// Operations per clock read.
const BATCH: u32 = 16;
/// The maximum of turns. On a busy machine, a turn's reads may all fit the freed frames.
const TURNS_MAX: u64 = 50;

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let file = CleanFile::make(bench)?;
    let measured = if bench.args.policy.is_empty() { PolicyName::ALL } else { &bench.args.policy };
    let timed_run = |&policy: &PolicyName| -> TimedRun<'_> {
        let file = &file;
        Box::new(move || time_evictions(bench, file, policy, Switches::default()))
    };
    let timed_runs = measured.iter().map(timed_run).collect();
    let samples = interleave_all("evict", bench.args.runs, bench.interrupt, timed_runs)?;
    Ok(policies::rows(("evict", "", 1), measured, &samples, &[]))
}

pub(super) struct CleanFile {
    _folder: tempfile::TempDir,
    data: DataFile,
    memory: Bytes,
}

impl CleanFile {
    pub(super) fn make(bench: &Bench<'_>) -> Result<CleanFile, Failure> {
        let memory = bench.memory(64 << 20, 4 << 20);
        machine::check_memory(memory)?;
        let (_folder, data) = bench.make_file(&bench.args.dir, Bytes(memory.0 * FILE_TIMES))?;
        Ok(CleanFile { _folder, data, memory })
    }
}

/// Nanoseconds of CPU time.
pub(super) fn time_evictions(
    bench: &Bench<'_>,
    CleanFile { data, memory, .. }: &CleanFile,
    policy: PolicyName,
    switches: Switches,
) -> Result<f64, Failure> {
    let refuse = |error: std::io::Error| Failure::on_path("read", &data.path, &error);
    let cache = bench.make_cache_with(policy, switches, *memory)?;
    let file = bench.open_random(&cache, data)?;
    fill(bench, data, |page, offset| {
        file.read_at(page, offset).map_err(|error| refuse(error.into()))
    })?;
    let before = cache.stats();
    for seed in 0..TURNS_MAX {
        let state = vec![(SmallRng::seed_from_u64(seed), vec![0; PAGE_BYTES])];
        time_threads((bench.duration(1000), BATCH), state, |(random, page)| {
            let offset = Bytes::from_pages(random.random_range(0..data.nr_pages)).0;
            file.read_at(page, offset).map(drop).map_err(|error| refuse(error.into()))
        })?;
        let after = cache.stats();
        let nr_evicted = after.evictions - before.evictions;
        if nr_evicted > 0 {
            let spent = after.reclaim_cpu_ns - before.reclaim_cpu_ns;
            return Ok(spent as f64 / nr_evicted as f64);
        }
    }
    Err(Failure::Refused(format!("{policy} evicted nothing; use a smaller --memory")))
}

/// Reads the whole file, so that every frame is taken and reclaim works.
fn fill(
    bench: &Bench<'_>,
    data: &DataFile,
    read: impl Fn(&mut [u8], u64) -> Result<usize, Failure>,
) -> Result<(), Failure> {
    let mut buffer = vec![0; FILL_BYTES];
    for offset in (0..data.len()).step_by(FILL_BYTES) {
        bench.interrupt.check()?;
        read(&mut buffer, offset)?;
    }
    Ok(())
}
