//! get-scan: random gets of a few popular pages, beside long scans.
//!
//! ```text
//!   data     |<-------------------- 4 x memory -------------------->|
//!   gets      . ..  :.  .   Zipf 0.9, one page each
//!   scans            |======== 0.5 x memory ========>|   from anywhere, four pages to a get
//! ```
//!
//! A database's mix: look-ups want popular pages, reports read ranges once, unmarked. The same gets
//! without scans show the cost of scans.
//!
//! Source: the classic argument for scan resistance (2Q, 1994, and ARC, 2003). No number is
//! claimed.

use super::machine::{Host, Layout, Stopped};
use super::stage::{Stage, percent};
use super::zipf::Popularity;
use super::{FRAMES, Metric, Scenario};

const DATA_PAGES: u32 = 4 * FRAMES;
const SKEW: f64 = 0.9;
/// Gets before the measurement.
const WARM_GETS: u32 = 40_000;
const GETS: u32 = 120_000;
const SCAN_PAGES: u32 = FRAMES / 2;
/// Scanned pages between two gets.
const SCAN_CALL: u32 = 4;
const PAUSE_GETS: u32 = 2_000;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "get-scan",
    story: "Zipf 0.9 gets over 4 x memory beside scans of 0.5 x memory, one after the other.",
    source: "the argument for scan resistance: 2Q 1994, ARC 2003",
    metrics: &[
        Metric::new("get_hit_percent", "Gets that hit while scans come by; higher is better.", &[]),
        Metric::new("get_hit_percent_alone", "The same gets without scans.", &[]),
        Metric::new("scan_cost_points", "The difference: what scans cost; lower is better.", &[]),
        Metric::new("scan_hit_percent", "Pages of scans that were resident already.", &[]),
    ],
    play,
};

fn play(stage: &mut Stage<'_>) -> Result<(), Stopped> {
    let nr_frames = stage.vary_frames(FRAMES);
    let zipf = Popularity::new(&mut stage.random, DATA_PAGES, SKEW);
    let gets: Vec<u32> = (0..WARM_GETS + GETS).map(|_| zipf.next(&mut stage.random)).collect();
    let beside = run(stage, nr_frames, &gets, Scans::Beside)?;
    let alone = run(stage, nr_frames, &gets, Scans::None)?;
    stage.measure("get_hit_percent", beside.get_hits);
    stage.measure("get_hit_percent_alone", alone.get_hits);
    stage.measure("scan_cost_points", alone.get_hits - beside.get_hits);
    stage.measure("scan_hit_percent", beside.scan_hits);
    stage.course("gets that hit beside scans, in percent", beside.course);
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Scans {
    Beside,
    None,
}

struct Seen {
    get_hits: f64,
    scan_hits: f64,
    course: Vec<f64>,
}

fn run(stage: &mut Stage<'_>, nr_frames: u32, gets: &[u32], scans: Scans) -> Result<Seen, Stopped> {
    /// Gets per point of the time series.
    const STEP: usize = 4_000;
    let mut layout = Layout::new();
    let data = layout.file(DATA_PAGES);
    let mut machine = stage.machine(&layout, Host::group(nr_frames));
    let (warm, counted) = gets.split_at(WARM_GETS as usize);
    for &page in warm {
        machine.read(data, page, 1)?;
    }
    let (mut nr_get_hits, mut nr_scanned, mut nr_scan_misses) = (0, 0, 0);
    let mut course = Vec::new();
    let mut scan_at = 0;
    let mut scan_left = 0;
    let mut pause_left = PAUSE_GETS;
    for step in counted.chunks(STEP) {
        let before = nr_get_hits;
        for &page in step {
            nr_get_hits += u64::from(1 - machine.read(data, page, 1)?);
            if scans == Scans::None {
                continue;
            }
            if scan_left == 0 {
                pause_left -= 1;
                if pause_left == 0 {
                    (scan_left, pause_left) = (SCAN_PAGES, PAUSE_GETS);
                    scan_at = stage.random.index(DATA_PAGES - SCAN_PAGES);
                }
                continue;
            }
            nr_scan_misses += u64::from(machine.read(data, scan_at, SCAN_CALL)?);
            nr_scanned += u64::from(SCAN_CALL);
            (scan_at, scan_left) = (scan_at + SCAN_CALL, scan_left - SCAN_CALL);
        }
        course.push(percent(nr_get_hits - before, step.len() as u64));
    }
    stage.end(machine);
    Ok(Seen {
        get_hits: percent(nr_get_hits, counted.len() as u64),
        scan_hits: percent(nr_scanned - nr_scan_misses, nr_scanned),
        course,
    })
}
