//! Core's kernel policies, replayed, against the kernel itself: hit ratios within parts of a point.
//!
//! Source of the numbers: Linux 6.18.15, one process reading 4 KiB pages without readahead in a
//! memory group, a fresh boot for each value. The replay runs in such a group, too, whose limit
//! also pays for tree nodes and what else is charged ([`Memory::KernelGroup`]). As in the kernel's
//! runs, pages are numbered in the order of the trace's ids: that says which share a node.
//!
//! Five comparisons; only the first is without the kernel's limit on shadows.
//!
//! ```text
//!   mglru, unlimited  live statistics                 kernels left alone, the range of two boots
//!   mglru             folds every 2 s, 7 phases       the same
//!   two lists, live   live statistics                 kernels whose statistics were read all
//!   two lists, read   folds every 10 ms, 7 phases     the time ("fresh"): folds every 5 to 10 ms
//!   two lists, folded folds every 2 s, 7 phases       kernels left alone, the range of two boots
//! ```
//!
//! Folded ones are means over the phases. Kernels left alone differ from boot to boot by up to 1.25
//! points, as the phases do. Where it is known how many pages the cache held at the end, that
//! is compared, too.
//!
//! Not verified: that the same pages are evicted; only how many hits come of it. The zipf rows are
//! of another random sequence than the kernel's: the same distribution, pages and length.

mod support;

use pagetide_core::ids::{PageId, PageIndex};
use pagetide_core::lru::{Mechanism, PolicyName};
use pagetide_core::units::Millis;
use pagetide_lab::replay::{self, Memory, Phases, Reader, ReplayClock, ReplayOutcome, Setup};
use pagetide_lab::trace::{Access, DenseTrace};
use std::env;
use support::{load_trace, skip};

/// How far from the kernel's figures a replay may be.
const MGLRU_TOLERANCE: f64 = 0.0035;
const FRESH_TOLERANCE: f64 = 0.004;
const FOLDED_TOLERANCE: f64 = 0.009;
/// How far from the kernel's number of resident pages: a pass frees 32 to 64 pages more than are
/// used at once, and up to 63 are charged ahead.
const RESIDENT_TOLERANCE: u64 = 100;
/// How often the reader of `memory.stat` made the kernel fold, about.
const READ_PERIOD: Millis = Millis(10);
/// The kernel's period of folding.
const PERIOD: Millis = Millis(2000);

/// Comparisons that are further off, and how far they may be: nothing else may, and none of these
/// may get worse. Both are of live statistics, which is not what the kernel had, and of workloads
/// where a fold more or less decides: with the reader's folds they are 0.33 and 0.05 points off.
const FURTHER: [(&str, &str, u32, f64); 2] =
    [("cloudphysics", LIVE, 9795, 0.0105), ("P3", LIVE, 65_536, 0.0145)];
const UNLIMITED: &str = "mglru, unlimited";
const MGLRU: &str = "mglru";
const LIVE: &str = "two lists, live";
const READ: &str = "two lists, read";
const FOLDED: &str = "two lists, folded";

/// What the kernel did at one limit of a group.
struct Row {
    /// The limit, in pages.
    limit: u32,
    /// Pages the cache held at the end, under the multi-gen LRU and under two lists.
    resident: Option<(u64, u64)>,
    /// Hit ratios of two boots; once the same where there was one.
    mglru: (f64, f64),
    two_lists: (f64, f64),
    /// With statistics kept fresh.
    fresh: Option<f64>,
}

/// What a replay is compared with.
struct Kernel<'a> {
    what: &'a str,
    hit_ratio: (f64, f64),
    tolerance: f64,
    resident: Option<u64>,
}

/// The comparisons of one trace, printed as they are made.
struct Comparisons<'a> {
    name: &'a str,
    trace: &'a DenseTrace,
    missed: Vec<String>,
}

/// Makes all comparisons of a trace.
fn check(name: &str, trace: &DenseTrace, rows: &[Row]) {
    let mut comparisons = Comparisons { name, trace, missed: Vec::new() };
    rows.iter().for_each(|row| comparisons.check_row(row));
    assert!(comparisons.missed.is_empty(), "{name}: {:?}", comparisons.missed);
}

impl Comparisons<'_> {
    fn check_row(&mut self, row: &Row) {
        let setup = |policy| Setup {
            clock: ReplayClock::Costs,
            reader: Reader::OneHandle,
            ..Setup::new(policy, Memory::KernelGroup { limit_pages: row.limit })
        };
        let (mglru, two_lists) = (setup(PolicyName::Mglru), setup(PolicyName::ActiveInactive));
        let unlimited = mglru.switches.without(Mechanism::ShadowLimit);
        let kernel = Kernel {
            what: UNLIMITED,
            hit_ratio: row.mglru,
            tolerance: MGLRU_TOLERANCE,
            resident: row.resident.map(|resident| resident.0),
        };
        self.compare(row.limit, &kernel, [Setup { switches: unlimited, ..mglru }]);
        self.compare(row.limit, &Kernel { what: MGLRU, ..kernel }, mglru.phases(PERIOD));

        let resident = row.resident.map(|resident| resident.1);
        if let Some(fresh) = row.fresh {
            let (hit_ratio, tolerance) = ((fresh, fresh), FRESH_TOLERANCE);
            let fresh = |what| Kernel { what, hit_ratio, tolerance, resident };
            self.compare(row.limit, &fresh(LIVE), [two_lists]);
            self.compare(row.limit, &fresh(READ), two_lists.phases(READ_PERIOD));
        }
        let (hit_ratio, tolerance) = (row.two_lists, FOLDED_TOLERANCE);
        let folded = Kernel { what: FOLDED, hit_ratio, tolerance, resident };
        self.compare(row.limit, &folded, two_lists.phases(PERIOD));
    }

    /// Compares the mean of these replays with what the kernel did.
    fn compare(
        &mut self,
        limit: u32,
        kernel: &Kernel<'_>,
        setups: impl IntoIterator<Item = Setup>,
    ) {
        let Comparisons { name, trace, .. } = *self;
        let what = kernel.what;
        let outcomes = setups.into_iter().map(|setup| replay::run_setup(setup, trace));
        let mean: ReplayOutcome = Phases(outcomes.collect()).mean();
        let hit_ratio = 1.0 - mean.miss_ratio();
        let low = kernel.hit_ratio.0.min(kernel.hit_ratio.1);
        let high = kernel.hit_ratio.0.max(kernel.hit_ratio.1);
        let error = (hit_ratio - high).max(0.0) + (hit_ratio - low).min(0.0);
        let points = error * 100.0;
        println!(
            "{name:<13} {what:<17} {limit:>6} {low:.4}..{high:.4} {hit_ratio:.4} {points:+.2}"
        );
        let is_it = |it: &&(&str, &str, u32, f64)| (it.0, it.1, it.2) == (name, what, limit);
        let tolerance = FURTHER.iter().find(is_it).map_or(kernel.tolerance, |it| it.3);
        if error.abs() > tolerance {
            self.missed.push(format!("{what} with {limit} pages: {hit_ratio:.4}"));
        }
        let resident = mean.misses - mean.evictions;
        if kernel.resident.is_some_and(|there| there.abs_diff(resident) > RESIDENT_TOLERANCE) {
            self.missed.push(format!("{what} with {limit} pages: {resident} resident"));
        }
    }
}

fn row(
    limit: u32,
    resident: impl Into<Option<(u64, u64)>>,
    mglru: (f64, f64),
    two_lists: (f64, f64),
    fresh: f64,
) -> Row {
    Row { limit, resident: resident.into(), mglru, two_lists, fresh: Some(fresh) }
}

#[test]
fn cloud_physics_hits_as_in_the_kernel() {
    let test = "cloud_physics_hits_as_in_the_kernel";
    let Some(trace) = load_prefix(test, "cloudPhysicsIO.csv.zst", 113_872) else { return };
    let rows = [
        row(4897, (4692, 4722), (0.19605, 0.19541), (0.20673, 0.21354), 0.2015),
        row(9795, (9651, 9645), (0.24983, 0.24974), (0.28242, 0.28251), 0.269),
        row(19_590, (19_440, 19_361), (0.37656, 0.37667), (0.43119, 0.42593), 0.4312),
    ];
    check("cloudphysics", &trace, &rows);
}

#[test]
fn sqlite_hits_as_in_the_kernel() {
    let test = "sqlite_hits_as_in_the_kernel";
    let file = "sqlite_filemap_tracepoint.csv.zst";
    let Some(trace) = load_prefix(test, file, 205_274) else { return };
    let rows = [
        row(6136, (5966, 6020), (0.69361, 0.68500), (0.70965, 0.70966), 0.6988),
        row(12_273, (12_184, 12_159), (0.79442, 0.79443), (0.80372, 0.80459), 0.7961),
    ];
    check("sqlite", &trace, &rows);
}

#[test]
fn twitter_hits_as_in_the_kernel() {
    let test = "twitter_hits_as_in_the_kernel";
    let Some(trace) = load_prefix(test, "twitter_cluster52.csv.zst", 1_000_000) else { return };
    let rows = [
        row(14_354, (13_972, 13_949), (0.78892, 0.78892), (0.78392, 0.78544), 0.7929),
        row(35_885, (35_512, 35_513), (0.82929, 0.82929), (0.82932, 0.83029), 0.8308),
    ];
    check("twitter", &trace, &rows);
}

#[test]
fn oltp_hits_as_in_the_kernel() {
    let test = "oltp_hits_as_in_the_kernel";
    let Some(trace) = load_prefix(test, "arc_OLTP.lis.zst", 914_145) else { return };
    let rows = [
        row(5000, (4606, 4599), (0.45775, 0.45774), (0.51893, 0.50644), 0.5332),
        row(15_000, (14_507, 14_530), (0.60990, 0.60990), (0.63424, 0.63253), 0.6492),
        row(46_720, None, (0.73122, 0.73122), (0.73370, 0.73370), 0.74),
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
        let rows = [row(65_536, None, (0.17002, 0.17002), (0.18459, 0.18459), 0.2083)];
        check("P3", &trace, &rows);
    }
    if let Some(trace) = load_prefix(test, "arc_P6.lis.zst", 3_000_000) {
        let rows = [row(65_536, None, (0.21461, 0.21461), (0.29657, 0.29657), 0.2891)];
        check("P6", &trace, &rows);
    }
}

#[test]
fn synthetic_traces_hit_as_in_the_kernel() {
    let plain =
        |mglru, two_lists| Row { limit: 32_768, resident: None, mglru, two_lists, fresh: None };
    let reads = zipf(65_521, 0.8, 300_000);
    check("zipf-0.8", &reads, &[plain((0.7469, 0.7455), (0.7561, 0.7559))]);
    let reads = zipf(65_521, 0.99, 300_000);
    check("zipf-0.99", &reads, &[plain((0.8584, 0.8583), (0.8612, 0.8612))]);
    let cyclic = DenseTrace::from_reads((0..110_000).map(|step| step % 36_000));
    check("cyclic-36000", &cyclic, &[plain((0.0003, 0.0005), (0.0010, 0.0011))]);
}

/// The first `accesses` accesses of a trace, its pages numbered in the order of their ids.
fn load_prefix(test: &str, file: &str, accesses: u64) -> Option<DenseTrace> {
    let trace = load_trace(test, file)?;
    let prefix = || trace.entries().take(accesses as usize);
    let mut pages: Vec<PageId> = prefix().map(|(rank, _)| trace.page(rank)).collect();
    pages.sort_unstable();
    pages.dedup();
    let mut numbered = DenseTrace::default();
    for (rank, kind) in prefix() {
        let number = pages.binary_search(&trace.page(rank)).expect("each page has a number");
        let page = PageId { index: PageIndex(number as u64), ..PageId::default() };
        numbered.push(Access { page, kind, thread: 0 });
    }
    Some(numbered)
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
