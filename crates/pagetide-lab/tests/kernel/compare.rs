//! Kernel figures, and the replays compared with them.
//!
//! A row is one limit of a memory group. A comparison checks the mean of some replays against the
//! range of two boots, and is printed.

use crate::support::load_trace;
use pagetide_core::ids::{PageId, PageIndex};
use pagetide_core::lru::{Mechanism, PolicyName};
use pagetide_core::units::Millis;
use pagetide_lab::replay::{self, Memory, Phases, Reader, ReplayClock, ReplayOutcome, Setup};
use pagetide_lab::trace::{Access, AccessKind, DenseTrace};

/// Maximum difference from the kernel's hit ratio.
const MGLRU_TOLERANCE: f64 = 0.0035;
const FRESH_TOLERANCE: f64 = 0.004;
const FOLDED_TOLERANCE: f64 = 0.009;
const NEWEST_TOLERANCE: f64 = 0.003;
/// Reads between two reads of `memory.stat` by the same program.
const FOLD_EVERY: u64 = 500;
/// Maximum difference from the kernel's resident pages. A pass frees 32 to 64 surplus pages, and up
/// to 63 pages are charged ahead.
const RESIDENT_TOLERANCE: u64 = 100;
/// Approximate period of the kernel's folds under the reader of `memory.stat`.
const READ_PERIOD: Millis = Millis(5);
const PERIOD: Millis = Millis(2000);

/// Known larger differences, which may not grow. Unlike the kernel, both rows have live statistics,
/// where a single fold decides. With the reader's folds the differences are 0.04 and 0.02 points.
const FURTHER: [(&str, &str, u32, f64); 2] =
    [("cloudphysics", LIVE, 9795, 0.0095), ("P3", LIVE, 65_536, 0.0145)];
const UNLIMITED: &str = "mglru, unlimited";
const MGLRU: &str = "mglru";
const LIVE: &str = "two lists, live";
const READ: &str = "two lists, read";
const FOLDED: &str = "two lists, folded";
const MGLRU_7_3: &str = "mglru-7.3";
const COUNTED: &str = "two lists, counted";

pub(crate) struct Row {
    limit: u32,
    /// Pages cached at the end, under the multi-gen LRU and under two lists.
    resident: Option<(u64, u64)>,
    /// Hit ratios of two boots, equal if there was one.
    mglru: (f64, f64),
    two_lists: (f64, f64),
    /// Hit ratio with fresh statistics.
    fresh: Option<f64>,
    newest: Option<Newest>,
}

/// Figures of Linux 7.3 at the limit.
pub(crate) struct Newest {
    mglru: (f64, f64),
    resident: u64,
    /// Two lists folded every [`FOLD_EVERY`] reads, in 6.18 and in 7.3 (the rules are equal), and
    /// the cached pages.
    counted: Option<((f64, f64), u64)>,
}

struct Kernel<'a> {
    what: &'a str,
    hit_ratio: (f64, f64),
    tolerance: f64,
    resident: Option<u64>,
}

struct Comparisons<'a> {
    name: &'a str,
    trace: &'a DenseTrace,
    missed: Vec<String>,
}

pub(crate) fn check(name: &str, trace: &DenseTrace, rows: &[Row]) {
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
        if let Some(newest) = &row.newest {
            self.check_newest(row.limit, newest, setup(PolicyName::Mglru73), two_lists);
        }
    }

    fn check_newest(&mut self, limit: u32, newest: &Newest, mglru: Setup, two_lists: Setup) {
        let kernel = Kernel {
            what: MGLRU_7_3,
            hit_ratio: newest.mglru,
            tolerance: NEWEST_TOLERANCE,
            resident: Some(newest.resident),
        };
        self.compare(limit, &kernel, [mglru]);
        if let Some((hit_ratio, resident)) = newest.counted {
            let resident = Some(resident);
            let kernel = Kernel { what: COUNTED, hit_ratio, tolerance: NEWEST_TOLERANCE, resident };
            self.compare(limit, &kernel, two_lists.phases_of_reads(FOLD_EVERY));
        }
    }

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

pub(crate) fn row(
    limit: u32,
    resident: impl Into<Option<(u64, u64)>>,
    mglru: (f64, f64),
    two_lists: (f64, f64),
    fresh: f64,
    newest: Newest,
) -> Row {
    let newest = Some(newest);
    Row { limit, resident: resident.into(), mglru, two_lists, fresh: Some(fresh), newest }
}

pub(crate) fn plain(limit: u32, mglru: (f64, f64), two_lists: (f64, f64)) -> Row {
    Row { limit, resident: None, mglru, two_lists, fresh: None, newest: None }
}

pub(crate) fn newest(
    mglru: (f64, f64),
    resident: u64,
    counted: impl Into<Option<((f64, f64), u64)>>,
) -> Newest {
    Newest { mglru, resident, counted: counted.into() }
}

/// Returns the first `accesses` accesses of a trace as reads of pages numbered by id.
pub(crate) fn load_prefix(test: &str, file: &str, accesses: u64) -> Option<DenseTrace> {
    let trace = load_trace(test, file)?;
    let prefix = || trace.entries().take(accesses as usize);
    let mut pages: Vec<PageId> = prefix().map(|(rank, _)| trace.page(rank)).collect();
    pages.sort_unstable();
    pages.dedup();
    let mut numbered = DenseTrace::default();
    for (rank, _) in prefix() {
        let number = pages.binary_search(&trace.page(rank)).expect("each page has a number");
        let page = PageId { index: PageIndex(number as u64), ..PageId::default() };
        numbered.push(Access { page, kind: AccessKind::Read, thread: 0 });
    }
    Some(numbered)
}
