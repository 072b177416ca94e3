//! Core's kernel policies, replayed, against the kernel itself: hit ratios within parts of a point.
//!
//! Source of the numbers: Linux 6.18.15, one process reading 4 KiB pages without readahead in a
//! memory group, a fresh boot for each value. The frames are those the page cache held at the end,
//! where somebody looked; elsewhere the group's limit less its tree nodes / 7 (of 64 slots, and
//! nothing of them freed) and about 28. Pages are numbered in the order of first appearance.
//!
//! Four comparisons. Multi-gen LRU with the range of two boots. Two lists with live statistics,
//! against a kernel whose statistics somebody read all the time ("fresh"), and with statistics
//! folded as often as that reader came, every 10 ms or less. Two lists with statistics
//! folded every two seconds, the mean of seven phases, against kernels left alone: those differ
//! from boot to boot by up to 1.25 points, as the phase does.
//!
//! Not verified: that the same pages are evicted; only how many hits come of it. The zipf rows are
//! of another random sequence than the kernel's: the same distribution, pages and length.

mod support;

use pagetide_core::lru::PolicyName;
use pagetide_core::units::Millis;
use pagetide_lab::replay::{self, Clock, Outcome, Phases, Reader, Setup, Statistics};
use pagetide_lab::trace::{Access, DenseTrace};
use std::env;
use support::{load_trace, skip};

/// How far from the kernel's figures a replay may be.
const MGLRU_TOLERANCE: f64 = 0.0035;
const FRESH_TOLERANCE: f64 = 0.004;
const FOLDED_TOLERANCE: f64 = 0.009;
/// How often the reader of `memory.stat` made the kernel fold, about.
const READ_PERIOD: Millis = Millis(10);
/// The kernel's period of folding.
const PERIOD: Millis = Millis(2000);

/// Comparisons that are further off, and how far they may be: nothing else may, and none of these
/// may get worse. The live ones are so because live is not what the kernel had: with the reader's
/// folds they come near (P3: from 1.48 points to 0.01). The reason of the others is not known.
const FURTHER: [(&str, &str, u32, f64); 9] = [
    ("OLTP", MGLRU, 14_507, 0.006),
    ("P3", MGLRU, 64_541, 0.0095),
    ("P6", MGLRU, 64_261, 0.0045),
    ("cloudphysics", LIVE, 9651, 0.0105),
    ("OLTP", LIVE, 4606, 0.005),
    ("P3", LIVE, 64_541, 0.0155),
    ("P6", LIVE, 64_261, 0.009),
    ("OLTP", READ, 4606, 0.005),
    ("P6", READ, 64_261, 0.005),
];
const MGLRU: &str = "mglru";
const LIVE: &str = "active-inactive live";
const READ: &str = "active-inactive read";
const FOLDED: &str = "active-inactive folded";

/// What the kernel did at one limit of a group.
struct Row {
    /// What the page cache held, under the multi-gen LRU and under two lists.
    frames: (u32, u32),
    /// Hit ratios of two boots; once the same where there was one.
    mglru: (f64, f64),
    two_lists: (f64, f64),
    /// With statistics kept fresh.
    fresh: Option<f64>,
}

/// One comparison that failed, or that is to be printed.
fn check(name: &str, trace: &DenseTrace, rows: &[Row]) {
    let mut missed = Vec::new();
    for row in rows {
        let setup = |policy, frames: u32| Setup {
            clock: Clock::Costs,
            reader: Reader::OneHandle,
            ..Setup::new(policy, frames)
        };
        let mglru = setup(PolicyName::Mglru, row.frames.0);
        let two_lists = setup(PolicyName::ActiveInactive, row.frames.1);
        let mut compare = |what: &str, outcome: &Outcome, (low, high): (f64, f64), tolerance| {
            let hit_ratio = 1.0 - outcome.miss_ratio();
            let (low, high) = (low.min(high), low.max(high));
            let error = (hit_ratio - high).max(0.0) + (hit_ratio - low).min(0.0);
            println!(
                "{name:<14} {what:<22} {:>6} {:.4}..{:.4} {hit_ratio:.4} {:+.2}",
                row.frames.0,
                low,
                high,
                error * 100.0
            );
            let is_it =
                |it: &&(&str, &str, u32, f64)| (it.0, it.1, it.2) == (name, what, row.frames.0);
            let tolerance = FURTHER.iter().find(is_it).map_or(tolerance, |it| it.3);
            if error.abs() > tolerance {
                missed.push(format!("{what} in {} frames: {hit_ratio:.4}", row.frames.0));
            }
        };
        compare(MGLRU, &replay::run_setup(mglru, trace), row.mglru, MGLRU_TOLERANCE);
        if let Some(fresh) = row.fresh {
            let outcome = replay::run_setup(two_lists, trace);
            compare(LIVE, &outcome, (fresh, fresh), FRESH_TOLERANCE);
            let statistics = Statistics::Every { period: READ_PERIOD, phase: Millis(0) };
            let outcome = replay::run_setup(Setup { statistics, ..two_lists }, trace);
            compare(READ, &outcome, (fresh, fresh), FRESH_TOLERANCE);
        }
        let outcomes = two_lists.phases(PERIOD).map(|setup| replay::run_setup(setup, trace));
        let mean = Phases(outcomes.collect()).mean();
        compare(FOLDED, &mean, row.two_lists, FOLDED_TOLERANCE);
    }
    assert!(missed.is_empty(), "{name}: {missed:?}");
}

fn row(frames: (u32, u32), mglru: (f64, f64), two_lists: (f64, f64), fresh: f64) -> Row {
    Row { frames, mglru, two_lists, fresh: Some(fresh) }
}

/// Frames for pages of a group's limit: less tree nodes, and what else the group is charged for.
fn in_limit(limit: u32, trace: &DenseTrace) -> (u32, u32) {
    let leaves = trace.nr_pages().div_ceil(64);
    let nodes = leaves + leaves.div_ceil(64);
    let frames = limit - nodes as u32 / 7 - 28;
    (frames, frames)
}

#[test]
fn cloud_physics_hits_as_in_the_kernel() {
    let test = "cloud_physics_hits_as_in_the_kernel";
    let Some(trace) = load_prefix(test, "cloudPhysicsIO.csv.zst", 113_872) else { return };
    let rows = [
        row((4692, 4722), (0.19605, 0.19541), (0.20673, 0.21354), 0.2015),
        row((9651, 9645), (0.24983, 0.24974), (0.28242, 0.28251), 0.269),
        row((19_440, 19_361), (0.37656, 0.37667), (0.43119, 0.42593), 0.4312),
    ];
    check("cloudphysics", &trace, &rows);
}

#[test]
fn sqlite_hits_as_in_the_kernel() {
    let test = "sqlite_hits_as_in_the_kernel";
    let file = "sqlite_filemap_tracepoint.csv.zst";
    let Some(trace) = load_prefix(test, file, 205_274) else { return };
    let rows = [
        row((5966, 6020), (0.69361, 0.68500), (0.70965, 0.70966), 0.6988),
        row((12_184, 12_159), (0.79442, 0.79443), (0.80372, 0.80459), 0.7961),
    ];
    check("sqlite", &trace, &rows);
}

#[test]
fn twitter_hits_as_in_the_kernel() {
    let test = "twitter_hits_as_in_the_kernel";
    let Some(trace) = load_prefix(test, "twitter_cluster52.csv.zst", 1_000_000) else { return };
    let rows = [
        row((13_972, 13_949), (0.78892, 0.78892), (0.78392, 0.78544), 0.7929),
        row((35_512, 35_513), (0.82929, 0.82929), (0.82932, 0.83029), 0.8308),
    ];
    check("twitter", &trace, &rows);
}

#[test]
fn oltp_hits_as_in_the_kernel() {
    let test = "oltp_hits_as_in_the_kernel";
    let Some(trace) = load_prefix(test, "arc_OLTP.lis.zst", 914_145) else { return };
    let rows = [
        row((4606, 4599), (0.45775, 0.45774), (0.51893, 0.50644), 0.5332),
        row((14_507, 14_530), (0.60990, 0.60990), (0.63424, 0.63253), 0.6492),
        row(in_limit(46_720, &trace), (0.73122, 0.73122), (0.73370, 0.73370), 0.74),
    ];
    check("OLTP", &trace, &rows);
}

#[test]
fn long_traces_hit_as_in_the_kernel() {
    let test = "long_traces_hit_as_in_the_kernel";
    if !wants_long(test) {
        return;
    }
    if let Some(trace) = load_prefix(test, "arc_P3.lis.zst", 2_000_000) {
        let frames = in_limit(65_536, &trace);
        let rows = [row(frames, (0.17002, 0.17002), (0.18459, 0.18459), 0.2083)];
        check("P3", &trace, &rows);
    }
    if let Some(trace) = load_prefix(test, "arc_P6.lis.zst", 3_000_000) {
        let frames = in_limit(65_536, &trace);
        let rows = [row(frames, (0.21461, 0.21461), (0.29657, 0.29657), 0.2891)];
        check("P6", &trace, &rows);
    }
}

#[test]
fn synthetic_traces_hit_as_in_the_kernel() {
    let plain = |trace: &DenseTrace, mglru, two_lists| Row {
        frames: in_limit(32_768, trace),
        mglru,
        two_lists,
        fresh: None,
    };
    let reads = zipf(65_521, 0.8, 300_000);
    check("zipf-0.8", &reads, &[plain(&reads, (0.7469, 0.7455), (0.7561, 0.7559))]);
    let reads = zipf(65_521, 0.99, 300_000);
    check("zipf-0.99", &reads, &[plain(&reads, (0.8584, 0.8583), (0.8612, 0.8612))]);
    let cyclic = DenseTrace::from_reads((0..110_000).map(|step| step % 36_000));
    check("cyclic-36000", &cyclic, &[plain(&cyclic, (0.0003, 0.0005), (0.0010, 0.0011))]);
}

/// The first `accesses` accesses of a trace.
fn load_prefix(test: &str, file: &str, accesses: u64) -> Option<DenseTrace> {
    let trace = load_trace(test, file)?;
    if trace.nr_accesses() <= accesses {
        return Some(trace);
    }
    let mut prefix = DenseTrace::default();
    for (rank, kind) in trace.entries().take(accesses as usize) {
        prefix.push(Access { page: trace.page(rank), kind, thread: 0 });
    }
    Some(prefix)
}

/// Whether tests of many seconds are wanted; otherwise says that `test` is skipped.
fn wants_long(test: &str) -> bool {
    let wants = env::var_os("PAGETIDE_LONG").is_some_and(|set| set == "1");
    if !wants {
        skip(test, "it takes long, and PAGETIDE_LONG=1 is not set");
    }
    wants
}

/// Independent reads, the page of rank r with weight `r^-exponent`, from a fixed seed.
fn zipf(nr_pages: u32, exponent: f64, nr_reads: usize) -> DenseTrace {
    let mut sum = 0.0;
    let mut sums = Vec::new();
    for rank in 1..=nr_pages {
        sum += f64::from(rank).powf(-exponent);
        sums.push(sum);
    }
    let mut state = 11_u64;
    let mut reads = || {
        // SplitMix64; its upper 53 bits are an even step of the whole.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let draw = ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64 * sum;
        sums.partition_point(|upto| *upto <= draw) as u64
    };
    DenseTrace::from_reads((0..nr_reads).map(|_| reads()))
}
