//! `bench tier`: skewed reads from fast and slow memory, against all-fast memory.
//!
//! ```text
//!   zipf 0.99, 4 KiB reads at random, all resident: fast memory F over slow memory 4 F, where a
//!   page takes 300 ns longer; warmed, and then timed
//!   zipf auto           by cost and benefit                   reference: 5 F of fast memory
//!   zipf hot-selection  as Linux, without limits              (all-fast)
//!   zipf oracle         placed by true rank; no page moves
//!   zipf still          placed as loaded; no page moves
//!   fits                the file fits in fast memory: the overhead of tiers
//! ```
//!
//! Slow memory is DRAM with busy waits. Tiering intervals are a tenth of the kernel's. Warm-up ends
//! when the fast share of accesses stops growing, or after a minute. The oracle's row is the upper
//! bound. Each row's fast share in the timed part is printed.
//!
//! Ignored: the lower bandwidth of slow memory.

use super::interleave::{TimedRun, time_threads};
use super::{Bench, Row};
use crate::dataset::DataFile;
use crate::failure::Failure;
use crate::machine;
use crate::pages::{PagePicker, Shuffle, Skew};
use crate::settings;
use crate::terminal;
use ::pagetide::{Advice, File, Millis, PageCache, Stage, Tier, TieringKnobs, TieringOptions};
use pagetide_core::units::{Bytes, PAGE_BYTES};
use std::hint::black_box;
use std::time::Duration;

/// Slow / fast.
const SLOW_TIMES: u64 = 4;
/// Extra latency of a slow page.
const LATENCY: Duration = Duration::from_nanos(300);
const EXPONENT: f64 = 0.99;
const SEED: u64 = 1;
/// Operations per clock read.
const BATCH: u32 = 1024;
/// Maximum warm-up rounds, and the minimum gain of a round.
const ROUNDS_MAX: u64 = 40;
const GAIN_MIN: f64 = 0.001;
const IDLE_ROUNDS: u32 = 3;
const CASES: [Case; 5] = [
    Case { name: "zipf auto", fits: false, moves: Some(Stage::Auto), by_rank: false },
    Case { name: "zipf hot-selection", fits: false, moves: Some(SELECTION), by_rank: false },
    Case { name: "zipf oracle", fits: false, moves: None, by_rank: true },
    Case { name: "zipf still", fits: false, moves: None, by_rank: false },
    Case { name: "fits", fits: true, moves: Some(Stage::Auto), by_rank: false },
];
const SELECTION: Stage = Stage::HotSelection;

struct Case {
    name: &'static str,
    fits: bool,
    moves: Option<Stage>,
    /// True to load the hottest pages first.
    by_rank: bool,
}

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let fast = bench.memory(128 << 20, 4 << 20);
    let all = Bytes(fast.0 * (1 + SLOW_TIMES));
    machine::check_memory(Bytes(2 * all.0))?;
    let mut rows = Vec::new();
    for case in &CASES {
        let len = if case.fits { fast } else { all };
        // Free frames prevent evictions.
        let (_folder, data) = bench.make_file(&bench.args.dir, Bytes(len.0 / 8 * 7))?;
        let tiered = tiered(bench, fast, case)?;
        let plain = bench.make_cache(bench.policy(), all)?;
        let shuffle = Shuffle::new(data.nr_pages as u32, SEED);
        let order = case.by_rank.then_some(&shuffle);
        let warmed = [
            open_warm(bench, &tiered, &data, &shuffle, order)?,
            open_warm(bench, &plain, &data, &shuffle, None)?,
        ];
        let before = served(&tiered);
        let timed_run = |file: &File| -> TimedRun<'_> {
            let (file, shuffle, mut round) = (file.clone(), shuffle.clone(), SEED);
            let duration = bench.duration(1000);
            Box::new(move || {
                round += 1;
                time_reads(&file, &shuffle, round, duration)
            })
        };
        let timed_runs = [timed_run(&warmed[0]), timed_run(&warmed[1])];
        let label = format!("tier {}", case.name);
        let [subject, reference] = bench.interleave(&label, timed_runs)?;
        if let Some(stats) = tiered.stats().tiering {
            let share = 100.0 * share_since(before, served(&tiered));
            let moves = stats.to_string().replace('\n', "; ");
            terminal::note(&format!("{label}: {share:.1} % served fast while timed; {moves}"));
        }
        rows.push(Row::measured(("tier", case.name, 1), "all-fast", &subject, &reference));
    }
    Ok(rows)
}

fn tiered(bench: &Bench<'_>, fast: Bytes, case: &Case) -> Result<PageCache, Failure> {
    let knobs = TieringKnobs::default();
    let tenth = |time: Millis| Millis(time.0 / 10);
    let knobs = TieringKnobs {
        scan_period_min: tenth(knobs.scan_period_min),
        scan_period_max: tenth(knobs.scan_period_max),
        scan_delay: tenth(knobs.scan_delay),
        hot_threshold: tenth(knobs.hot_threshold),
        ..knobs
    };
    let options = TieringOptions {
        knobs,
        promotion: case.moves.is_some(),
        demotion: case.moves.is_some(),
        ..TieringOptions::from(case.moves.unwrap_or_default())
    };
    let slow = Tier::emulated(Bytes(fast.0 * SLOW_TIMES), LATENCY);
    settings::apply(PageCache::builder().pretouch(true), &bench.args.set)
        .map_err(|error| Failure::on("set a knob", &error))?
        .tier(Tier::dram(fast))
        .tier(slow)
        .tiering(options)
        .policy(bench.policy())
        .build()
        .map_err(|error| Failure::on(&format!("make a cache of {fast} and {slow}"), &error))
}

/// Returns (fast, all) accesses.
fn served(cache: &PageCache) -> [u64; 2] {
    let tiers = cache.stats().tiering.map_or(Vec::new(), |stats| stats.tiers);
    let all: u64 = tiers.iter().map(|tier| tier.served).sum();
    [tiers.first().map_or(0, |fast| fast.served), all]
}

fn share_since(before: [u64; 2], now: [u64; 2]) -> f64 {
    (now[0] - before[0]) as f64 / (now[1] - before[1]).max(1) as f64
}

/// Loads the file in file order or by `order`, then reads until the fast share stops growing.
fn open_warm(
    bench: &Bench<'_>,
    cache: &PageCache,
    data: &DataFile,
    shuffle: &Shuffle,
    order: Option<&Shuffle>,
) -> Result<File, Failure> {
    let refuse = |error: std::io::Error| Failure::on_path("read", &data.path, &error);
    let file = bench.open(cache, data)?;
    let mut page = vec![0; PAGE_BYTES];
    if order.is_some() {
        // Readahead would load neighbours of any rank.
        file.advise(Advice::Random, 0, 0).map_err(|error| refuse(error.into()))?;
    }
    for nth in 0..data.nr_pages {
        bench.interrupt.check()?;
        let index = order.map_or(nth, |shuffle| shuffle.page_of(nth as usize).into());
        let offset = Bytes::from_pages(index).0;
        file.read_at(&mut page, offset).map_err(|error| refuse(error.into()))?;
        data.check_word(index, 0, &page, 0).map_err(|wrong| data.failure(wrong))?;
    }
    file.advise(Advice::Random, 0, 0).map_err(|error| refuse(error.into()))?;
    let (mut best, mut nr_idle) = (0.0, 0);
    for round in 0..ROUNDS_MAX {
        bench.interrupt.check()?;
        let before = served(cache);
        time_reads(&file, shuffle, round, bench.duration(1500))?;
        let share = share_since(before, served(cache));
        nr_idle = if share > best + GAIN_MIN { 0 } else { nr_idle + 1 };
        best = f64::max(best, share);
        if nr_idle == IDLE_ROUNDS {
            break;
        }
    }
    Ok(file)
}

fn time_reads(
    file: &File,
    shuffle: &Shuffle,
    seed: u64,
    duration: Duration,
) -> Result<f64, Failure> {
    let picker = PagePicker::new(shuffle, Skew::Zipf(EXPONENT), SEED ^ (seed << 8));
    let states = vec![(picker, vec![0; PAGE_BYTES])];
    time_threads((duration, BATCH), states, |(picker, page)| {
        let offset = Bytes::from_pages(picker.pick().into()).0;
        file.read_at(page, offset).map_err(|error| Failure::on("read", &error))?;
        black_box(&page);
        Ok(())
    })
}
