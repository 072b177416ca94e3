//! `bench region`: the costs and savings of region faults.
//!
//! ```text
//!   missing  subject    first touch of a page of an anonymous region that fits
//!            kernel     first touch of a page of the process's own zeroed memory
//!   protect  subject    first store to a page mapped for reading, in a region that fits
//!   minor    subject    load of a page unmapped by aging
//!            missing    the same fault without the memory
//!   evict    subject    CPU time of a fault and an eviction, loads of a file in memory, 4x memory
//!            bare       the same by bare system calls
//!   load     subject    8 bytes of a random page of a region, all mapped
//!            memory     the same of touched anonymous memory on huge pages
//!            pages      the same on small pages
//!   zipf     subject    8 bytes of a page, zipf 0.99, of a region over a file of 4x memory
//!            guard      the same through read guards of another cache
//! ```
//!
//! `kernel` has the cases against kernel mappings. Without userfaultfd, rows are skipped.

mod bare;
mod kernel;

pub(crate) use kernel::{MappedArgs, serve};
pub(super) use kernel::{SwapSpace, run_job};

use super::interleave::{TimedRun, fastest_of, time_threads};
use super::{Bench, Row};
use crate::dataset::DataFile;
use crate::failure::Failure;
use crate::machine;
use crate::pages::{PagePicker, Shuffle, Skew};
use ::pagetide::{CreateRegionError, Detail, PageCache, PolicyName, Region, RegionOptions};
use bare::BareRegion;
use pagetide_core::units::{Bytes, PAGE_BYTES};
use pagetide_sys::huge_buffer::HugeBuffer;
use pagetide_sys::{KernelMapping, read_process_cpu_time_ns};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const WORDS: usize = PAGE_BYTES / 8;
/// File size / memory.
const FILE_TIMES: u64 = 4;
const EXPONENT: f64 = 0.99;
const SEED: u64 = 1;
/// The size that allocators always take fresh from the kernel.
const FRESH_MIN: Bytes = Bytes(64 << 20);
/// Operations per clock read.
const BATCH: u32 = 64;

/// `faults` covers missing, protect and minor.
const CASES: [&str; 4] = ["faults", "load", "evict", "zipf"];

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    bench.refuse_unknown("region", CASES.into_iter().chain(kernel::names()))?;
    let memory = bench.memory(64 << 20, 4 << 20);
    machine::check_memory(Bytes(4 * memory.0))?;
    // Free frames prevent evictions.
    let len = Bytes(memory.0 / 8 * 7);
    let cache = bench.make_untouched_cache(PolicyName::Mglru, memory)?;
    if let Err(CreateRegionError::Memory(why)) = cache.region(RegionOptions::anonymous(len)) {
        return Ok(vec![Row::skipped(("region", "missing", 1), "kernel", why.to_string())]);
    }
    let mut rows = Vec::new();
    if bench.wants("faults") {
        rows.extend(faults(bench, &cache, len)?);
    }
    if bench.wants("load") {
        rows.extend(load(bench, &cache, len)?);
    }
    drop(cache);
    if bench.wants("evict") {
        for nr_threads in [1, 2] {
            rows.push(evict(bench, memory, nr_threads)?);
        }
    }
    if bench.wants("zipf") {
        rows.push(zipf(bench, memory)?);
    }
    rows.extend(kernel::run(bench, memory)?);
    Ok(rows)
}

fn make(cache: &PageCache, options: RegionOptions) -> Result<Region, Failure> {
    cache.region(options).map_err(|error| Failure::on("make a region", &error))
}

fn faults(bench: &Bench<'_>, cache: &PageCache, len: Bytes) -> Result<Vec<Row>, Failure> {
    let fresh = || make(cache, RegionOptions::anonymous(len));
    let [missing, kernel, protect, minor] = bench.interleave(
        "region faults",
        [
            Box::new(|| Ok(time_loads(&fresh()?))),
            Box::new(|| Ok(time_first_touch(len.max(FRESH_MIN)))),
            Box::new(|| {
                let region = fresh()?;
                time_loads(&region);
                Ok(time_each(&region, |page| region.words()[page].store(1, Relaxed)))
            }),
            Box::new(|| {
                let region = fresh()?;
                time_loads(&region);
                age(cache)?;
                Ok(time_loads(&region))
            }),
        ],
    )?;
    Ok(vec![
        Row::measured(("region", "missing", 1), "kernel", &missing, &kernel),
        Row::alone(("region", "protect", 1), &protect),
        Row::measured(("region", "minor", 1), "missing", &minor, &missing),
    ])
}

/// Nanoseconds per page, on the page's first word.
fn time_each(region: &Region, touch: impl Fn(usize)) -> f64 {
    let first_words = (0..region.words().len()).step_by(WORDS);
    let nr_pages = first_words.len();
    let started = Instant::now();
    first_words.for_each(touch);
    started.elapsed().as_nanos() as f64 / nr_pages as f64
}

fn time_loads(region: &Region) -> f64 {
    time_each(region, |word| {
        black_box(region.words()[word].load(Relaxed));
    })
}

fn time_first_touch(len: Bytes) -> f64 {
    let mut memory = vec![0_u8; len.0 as usize];
    let started = Instant::now();
    memory.chunks_exact_mut(PAGE_BYTES).for_each(|page| page[0] = black_box(1));
    let elapsed = started.elapsed();
    black_box(&memory);
    elapsed.as_nanos() as f64 / len.whole_pages() as f64
}

/// Ages twice, which unmaps every page: pages may have come in since the last generation began.
fn age(cache: &PageCache) -> Result<(), Failure> {
    for _ in 0..2 {
        let text = cache.describe_lru_gen(Detail::Sizes);
        let numbers = text.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok());
        let youngest: u64 = numbers.max().unwrap_or(0);
        let command = format!("+ 0 0 {youngest} 0 1");
        cache.command_lru_gen(&command).map_err(|error| Failure::on("age", &error))?;
    }
    Ok(())
}

fn load(bench: &Bench<'_>, cache: &PageCache, len: Bytes) -> Result<[Row; 2], Failure> {
    let region = make(cache, RegionOptions::anonymous(len))?;
    time_loads(&region);
    let refused = |error| Failure::on("map memory to load from", &error);
    let memory = HugeBuffer::new(len.0 as usize).map_err(refused)?;
    let pages = KernelMapping::anonymous(len.0 as usize).map_err(refused)?;
    pages.words().iter().step_by(WORDS).for_each(|word| word.store(1, Relaxed));
    let (nr_pages, duration) = (len.whole_pages() as usize, bench.duration(300));
    let time = |load: &(dyn Fn(usize) -> u64 + Sync)| {
        fastest_of(duration, |duration| {
            let states = vec![SmallRng::seed_from_u64(SEED)];
            time_threads((duration, 16 * BATCH), states, |random| {
                black_box(load(random.random_range(0..nr_pages)));
                Ok(())
            })
        })
    };
    let load_region = |page: usize| region.words()[page * WORDS].load(Relaxed);
    // Repeats until the pages have become huge.
    for _ in 0..4 {
        time(&load_region)?;
    }
    let word = |page: usize| {
        let bytes = &memory[page * PAGE_BYTES..][..8];
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    };
    let [subject, on_huge, on_small] = bench.interleave(
        "region load",
        [
            Box::new(|| time(&load_region)),
            Box::new(|| time(&word)),
            Box::new(|| time(&|page| pages.words()[page * WORDS].load(Relaxed))),
        ],
    )?;
    let row = |name, other| Row::measured(("region", "load", 1), name, &subject, other);
    Ok([row("memory", &on_huge), row("pages", &on_small)])
}

const RAM: &str = "/dev/shm";

/// Measures faults on a file in memory, with clean victims.
fn evict(bench: &Bench<'_>, memory: Bytes, nr_threads: u32) -> Result<Row, Failure> {
    let dir = Some(Path::new(RAM)).filter(|ram| ram.is_dir()).unwrap_or(&bench.args.dir);
    let (_folder, data) = bench.make_file(dir, Bytes(FILE_TIMES * memory.0))?;
    let cache = bench.make_cache(bench.policy(), memory)?;
    let region = make(&cache, RegionOptions::over(&data.path))?;
    let nr_frames = memory.whole_pages() as u32;
    let bare = BareRegion::new(&data.path, data.nr_pages, nr_frames)?;
    let duration = bench.duration(500);
    let time = |words: &[AtomicU64], nr_faults: &dyn Fn() -> u64| {
        let seeds: Vec<_> =
            (0..nr_threads).map(|nth| SmallRng::seed_from_u64(nth.into())).collect();
        let (faults, cpu_ns) = (nr_faults(), read_process_cpu_time_ns());
        time_threads((duration, BATCH), seeds, |random| {
            let page = random.random_range(0..data.nr_pages as usize);
            black_box(words[page * WORDS].load(Relaxed));
            Ok(())
        })?;
        let cpu_ns = read_process_cpu_time_ns() - cpu_ns;
        Ok(cpu_ns as f64 / (nr_faults() - faults) as f64)
    };
    let [subject, reference] = bench.interleave(
        "region evict",
        [
            Box::new(|| time(region.words(), &|| region.stats().missing_faults)),
            Box::new(|| time(bare.words(), &|| bare.nr_faults())),
        ],
    )?;
    Ok(Row::measured(("region", "evict", nr_threads), "bare", &subject, &reference))
}

fn zipf(bench: &Bench<'_>, memory: Bytes) -> Result<Row, Failure> {
    let (_folder, data) = bench.make_file(&bench.args.dir, Bytes(FILE_TIMES * memory.0))?;
    let refuse = |error: std::io::Error| Failure::on_path("read", &data.path, &error);
    let under_guards = bench.make_cache(bench.policy(), memory)?;
    let file = bench.open(&under_guards, &data)?;
    let cache = bench.make_cache(bench.policy(), memory)?;
    let region = make(&cache, RegionOptions::over(&data.path))?;
    let shuffle = Shuffle::new(data.nr_pages as u32, SEED);
    let guard = |index: u64| -> Result<u64, Failure> {
        let page = file.page(index).map_err(|error| refuse(error.into()))?;
        Ok(u64::from_le_bytes(page[..8].try_into().expect("eight bytes")))
    };
    let word = |index: u64| Ok(region.words()[index as usize * WORDS].load(Relaxed));
    let duration = bench.duration(1000);
    let (mut word_round, mut guard_round) = (SEED, SEED);
    let timed_runs: [TimedRun<'_>; 2] = [
        Box::new(|| {
            word_round += 1;
            time_zipf(&data, &shuffle, word_round, duration, &word)
        }),
        Box::new(|| {
            guard_round += 1;
            time_zipf(&data, &shuffle, guard_round, duration, &guard)
        }),
    ];
    let [subject, reference] = bench.interleave("region zipf", timed_runs)?;
    Ok(Row::measured(("region", "zipf", 1), "guard", &subject, &reference))
}

/// Loads and checks a page's first 8 bytes.
fn time_zipf(
    data: &DataFile,
    shuffle: &Shuffle,
    seed: u64,
    duration: Duration,
    load: &(dyn Fn(u64) -> Result<u64, Failure> + Sync),
) -> Result<f64, Failure> {
    let picker = PagePicker::new(shuffle, Skew::Zipf(EXPONENT), SEED ^ (seed << 8));
    time_threads((duration, BATCH), vec![picker], |picker| {
        let index = picker.pick().into();
        let word = load(index)?.to_ne_bytes();
        data.check_word(index, 0, &word, 0).map_err(|wrong| data.failure(wrong))
    })
}
