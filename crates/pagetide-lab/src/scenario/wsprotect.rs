//! wsprotect: tests if an established working set survives a stream larger than memory.
//!
//! ```text
//!   memory   |<------------- 4096 ------------->|
//!   set      |<-- 1024 -->|                        read 5 times, then left alone
//!   stream   |<--------------- 4352 -------------->|   read 10 times
//! ```
//!
//! The stream can never be cached, and only its history protects the unread set. Played on a fresh
//! machine, and after wschange, with memory full of activated pages of old files.
//!
//! After wschange, the fold of statistics decides for the two lists (`@stale-statistics`): kernels
//! kept 36 0 0 98 0 %. Live statistics keep the whole set here.
//!
//! Not reproduced: losses on a fresh machine (two kernel boots of five), and multi-gen after
//! wschange: kernels kept all of the set, most seeds here nothing.
//!
//! Sources: the thrash detection series of 2013 (16 GiB, 4 GiB set, 17 GiB stream, 10 times).
//! Booted 6.18 kernels (512 MiB, 110 MiB set, 544 MiB stream, 6 times, 5 boots).

use super::machine::{Area, Host, Layout, Machine, Stopped};
use super::stage::{Stage, percent};
use super::wschange::{self, Plan};
use super::{FRAMES, Metric, Scenario, SourceClaim};

/// The series' 4, 17 and 16 GiB.
const FRESH: Sizes = Sizes { set: FRAMES / 4, stream: FRAMES / 16 * 17, stream_reads: 10 };
/// The booted kernels' 110, 544 and 427 MiB. The set fits beside one wschange file.
const WORN: Sizes = Sizes { set: FRAMES * 110 / 427, stream: FRAMES * 544 / 427, stream_reads: 6 };
const WORN_FILE_PAGES: u32 = FRAMES * 300 / 427;
/// Maximum reads of a wschange file.
const WORN_READS_MAX: u32 = 8;
const SET_READS: u32 = 5;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "wsprotect",
    story: "A set of 0.25 x memory read 5 times, then a stream of 1.06 x memory read 10 times.",
    source: "thrash detection series, 2013 (wsprotect); booted 6.18 kernels",
    metrics: &[
        Metric::new(
            "set_resident_percent",
            "How much of the set is resident after the stream, on a fresh machine; 100 is best.",
            &[
                SourceClaim::of("active-inactive-vanilla", "100"),
                SourceClaim::of("active-inactive-2013", "100"),
                SourceClaim::of(
                    "active-inactive",
                    "2013 series: 100; 6.18 in 5 boots: 98 0 97 0 95",
                ),
                SourceClaim::of("mglru", "6.18 in 5 boots: 100"),
            ],
        ),
        Metric::new(
            "set_resident_percent_after_wschange",
            "The same on a machine on which wschange has just ended.",
            &[
                SourceClaim::of(
                    "active-inactive",
                    "6.18 in 5 boots: 36 0 0 98 0; fresh statistics: 96 45",
                ),
                SourceClaim::of("mglru", "6.18 in 5 boots: 100"),
            ],
        ),
        Metric::new(
            "stream_missed_percent",
            "Misses of the stream's later reads as a share of its pages; lower is better, and 100 \
             is what a stream that stays out has.",
            &[SourceClaim::of_all("2013 series: 100 (13.4-14.4 s a read throughout)")],
        ),
    ],
    play,
};

fn play(stage: &mut Stage<'_>) -> Result<(), Stopped> {
    let nr_frames = stage.vary_frames(FRAMES);
    let plan = Plan::new(stage, WORN_FILE_PAGES, WORN_READS_MAX);
    let (start, call) = stage.vary_read(FRESH.set);

    let mut layout = Layout::new();
    let (set, stream) = (layout.file(FRESH.set), layout.file(FRESH.stream));
    let mut machine = stage.machine(&layout, Host::group(nr_frames));
    let fresh = protect(&mut machine, (set, stream), FRESH.stream_reads, (start, call))?;
    stage.end(machine);

    let mut layout = Layout::new();
    let (set, stream) = (layout.file(WORN.set), layout.file(WORN.stream));
    let files = wschange::files(&mut layout, WORN_FILE_PAGES);
    let mut machine = stage.machine(&layout, Host::group(nr_frames));
    plan.wear(&mut machine, files)?;
    let worn = protect(&mut machine, (set, stream), WORN.stream_reads, (start, call))?;
    stage.end(machine);

    let last = |resident: &[f64]| resident.last().copied().unwrap_or(0.0);
    let later: u64 = fresh.missed[1..].iter().copied().map(u64::from).sum();
    let later_pages = u64::from(FRESH.stream) * (fresh.missed.len() as u64 - 1);
    stage.measure("set_resident_percent", last(&fresh.resident));
    stage.measure("set_resident_percent_after_wschange", last(&worn.resident));
    stage.measure("stream_missed_percent", percent(later, later_pages));
    stage.course("set resident after each stream, in percent", fresh.resident);
    stage.course("the same after wschange", worn.resident);
    Ok(())
}

struct Sizes {
    set: u32,
    stream: u32,
    stream_reads: u32,
}

struct Seen {
    /// Resident share of the set, in percent, starting before the stream.
    resident: Vec<f64>,
    missed: Vec<u32>,
}

/// Reads the set, then the stream, both from page `start` in calls of `call` pages.
fn protect(
    machine: &mut Machine<'_>,
    (set, stream): (Area, Area),
    stream_reads: u32,
    (start, call): (u32, u32),
) -> Result<Seen, Stopped> {
    for _ in 0..SET_READS {
        machine.read_all(set, start, call)?;
    }
    let share =
        |machine: &Machine<'_>| percent(machine.nr_resident(set).into(), set.nr_pages.into());
    let mut seen = Seen { resident: vec![share(machine)], missed: Vec::new() };
    for _ in 0..stream_reads {
        seen.missed.push(machine.read_all(stream, start, call)?);
        seen.resident.push(share(machine));
    }
    Ok(seen)
}
