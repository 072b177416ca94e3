//! wsprotect: does an established working set survive a stream that is larger than memory?
//!
//! ```text
//!   memory   |<------------- 4096 ------------->|
//!   set      |<-- 1024 -->|                        read 5 times, then left alone
//!   stream   |<--------------- 4352 -------------->|   read 10 times
//! ```
//!
//! The stream refaults, and no page of it is worth keeping: it can never be cached. The set is not
//! read meanwhile, so nothing but history speaks for it. Played twice: on an empty machine, and on
//! one on which wschange has just ended, whose memory is full of proven pages of files that are
//! gone.
//!
//! The seed varies frames, starts and calls.
//!
//! Sources: the thrash detection series of 2013 (16 GiB, 4 GiB set, 17 GiB stream, 10 times);
//! booted 6.18 kernels (512 MiB, 110 MiB set, 544 MiB stream, 6 times, 5 boots).

use super::machine::{Area, Layout, Machine};
use super::stage::{Stage, Stopped, percent};
use super::wschange::{self, Plan};
use super::{Claim, FRAMES, Metric, Scenario};

const SET_PAGES: u32 = FRAMES / 4;
const SET_READS: u32 = 5;
const STREAM_PAGES: u32 = FRAMES / 16 * 17;
const STREAM_READS: u32 = 10;
/// Reads of a file in the wschange before, as in the booted kernels.
const WSCHANGE_READS_MAX: u32 = 8;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "wsprotect",
    story: "A set of 0.25 x memory read 5 times, then a stream of 1.06 x memory read 10 times.",
    source: "thrash detection series, 2013 (wsprotect); booted 6.18 kernels",
    metrics: &[
        Metric::new(
            "set_resident_percent",
            "How much of the set is resident after the stream, on a fresh machine; 100 is best.",
            &[
                Claim::of("active-inactive-vanilla", "100"),
                Claim::of("active-inactive-2013", "100"),
                Claim::of("active-inactive", "2013 series: 100; 6.18 in 5 boots: 98 0 97 0 95"),
                Claim::of("mglru", "6.18 in 5 boots: 100"),
            ],
        ),
        Metric::new(
            "set_resident_percent_after_wschange",
            "The same on a machine on which wschange has just ended.",
            &[
                Claim::of(
                    "active-inactive",
                    "6.18 in 5 boots: 36 0 0 98 0; fresh statistics: 96 45",
                ),
                Claim::of("mglru", "6.18 in 5 boots: 100"),
            ],
        ),
        Metric::new(
            "stream_missed_percent",
            "Misses of the stream's later reads as a share of its pages; lower is better, and 100 \
             is what a stream that stays out has.",
            &[Claim::of_all("2013 series: 100 (13.4-14.4 s a read throughout)")],
        ),
    ],
    play,
};

fn play(stage: &mut Stage<'_>) -> Result<(), Stopped> {
    let nr_frames = stage.vary_frames(FRAMES);
    let plan = Plan::new(stage, WSCHANGE_READS_MAX);
    let calls = Calls {
        set_start: stage.random.below(SET_PAGES),
        stream_start: stage.random.below(STREAM_PAGES),
        size: stage.vary_call(),
    };
    let mut layout = Layout::new();
    let (set, stream) = (layout.file(SET_PAGES), layout.file(STREAM_PAGES));
    let files = wschange::files(&mut layout);

    let mut fresh = stage.machine(&layout, nr_frames);
    let fresh_seen = calls.protect(&mut fresh, set, stream)?;
    stage.end(fresh);
    let mut worn = stage.machine(&layout, nr_frames);
    plan.wear(&mut worn, files)?;
    let worn_seen = calls.protect(&mut worn, set, stream)?;
    stage.end(worn);

    let last = |resident: &[f64]| resident.last().copied().unwrap_or(0.0);
    let later: u64 = fresh_seen.missed[1..].iter().copied().map(u64::from).sum();
    let later_pages = u64::from(STREAM_PAGES) * (fresh_seen.missed.len() as u64 - 1);
    stage.measure("set_resident_percent", last(&fresh_seen.resident));
    stage.measure("set_resident_percent_after_wschange", last(&worn_seen.resident));
    stage.measure("stream_missed_percent", percent(later, later_pages));
    stage.course("set resident after each stream, in percent", fresh_seen.resident);
    stage.course("the same after wschange", worn_seen.resident);
    Ok(())
}

/// How set and stream are read, as far as the seed decides it.
struct Calls {
    set_start: u32,
    stream_start: u32,
    size: u32,
}

/// What was seen after each read of the stream.
struct Seen {
    /// The set's share, in percent; first before the stream.
    resident: Vec<f64>,
    /// The stream's misses.
    missed: Vec<u32>,
}

impl Calls {
    fn protect(&self, machine: &mut Machine<'_>, set: Area, stream: Area) -> Result<Seen, Stopped> {
        for _ in 0..SET_READS {
            machine.read_all(set, self.set_start, self.size)?;
        }
        let share =
            |machine: &Machine<'_>| percent(machine.nr_resident(set).into(), SET_PAGES.into());
        let mut seen = Seen { resident: vec![share(machine)], missed: Vec::new() };
        for _ in 0..STREAM_READS {
            seen.missed.push(machine.read_all(stream, self.stream_start, self.size)?);
            seen.resident.push(share(machine));
        }
        Ok(seen)
    }
}
