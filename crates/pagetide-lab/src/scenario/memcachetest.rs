//! memcachetest: an in-memory key-value store beside growing use-once streams.
//!
//! ```text
//!   memory   |<------------------- 4096 ------------------->|
//!   store    |<------ 0.6, anonymous ------>|                  any page, at any time
//!   stream                        0, 0.1, 0.33 or 0.56 x memory, file pages, read once
//! ```
//!
//! The store takes six tenths of memory, all equally hot. A stream that does not fit beside the
//! store must not swap it out: store pages return, stream pages do not. Each stream is followed by
//! another of new pages.
//!
//! The series' losses came from unfair zones, as its middle column shows. With one zone here, even
//! the older design stays at 100.
//!
//! Source: the thrash detection series of 2013: memcachetest with streams of 0, 375, 1252 and 2130
//! MB. Operations are a share of the run without a stream.

use super::machine::{Host, Layout, Stopped};
use super::stage::{Stage, percent};
use super::{FRAMES, Metric, Scenario, SourceClaim};
use crate::replay::ReplayCosts;
use pagetide_core::vmstat::Counter;

const STORE_PAGES: u32 = FRAMES / 10 * 6;
const SWAP_PAGES: u64 = 4 * FRAMES as u64;
/// Accesses of the store per stream.
const OPS: u32 = 20_000;
const STREAMS: u32 = 4;
/// Stream length in hundredths of memory, and its metrics: operations, faults, pages swapped.
const SIZES: [(u32, [&str; 3]); 4] = [
    (0, ["ops_percent_0x", "store_faults_0x", "swapped_0x"]),
    (10, ["ops_percent_0.1x", "store_faults_0.1x", "swapped_0.1x"]),
    (33, ["ops_percent_0.33x", "store_faults_0.33x", "swapped_0.33x"]),
    (56, ["ops_percent_0.56x", "store_faults_0.56x", "swapped_0.56x"]),
];
const OPS_MEAN: &str = "Speed of the store as a share of its speed without a fault, at 5 us an \
                        access and 17.5 us a fault; 100 is best.";
const FAULTS_MEAN: &str = "Faults of the store, once it was in memory; 0 is best.";
const SWAPPED_MEAN: &str = "Anonymous pages evicted; 0 is best.";
const NO_SWAP: &[SourceClaim] = &[SourceClaim::of_all("2013 series: 0")];

pub(super) const SCENARIO: Scenario = Scenario {
    name: "memcachetest",
    story: "A store of 0.6 x memory, anonymous and hot, beside use-once streams of 0 to 0.56 x.",
    source: "thrash detection series, 2013 (memcachetest)",
    metrics: &[
        Metric::new(SIZES[0].1[0], OPS_MEAN, &[]),
        Metric::new(SIZES[0].1[1], FAULTS_MEAN, NO_SWAP),
        Metric::new(SIZES[0].1[2], SWAPPED_MEAN, NO_SWAP),
        Metric::new(
            SIZES[1].1[0],
            OPS_MEAN,
            &[SourceClaim::of_all("2013 series: 101, before it 102")],
        ),
        Metric::new(SIZES[1].1[1], FAULTS_MEAN, NO_SWAP),
        Metric::new(SIZES[1].1[2], SWAPPED_MEAN, NO_SWAP),
        Metric::new(
            SIZES[2].1[0],
            OPS_MEAN,
            &[SourceClaim::of_all("2013 series: 101, before it 58")],
        ),
        Metric::new(SIZES[2].1[1], FAULTS_MEAN, &[]),
        Metric::new(
            SIZES[2].1[2],
            SWAPPED_MEAN,
            &[SourceClaim::of_all("2013 series: 0, before it 169167 (swaptotal)")],
        ),
        Metric::new(
            SIZES[3].1[0],
            OPS_MEAN,
            &[SourceClaim::of_all("2013 series: 102, before it 17")],
        ),
        Metric::new(SIZES[3].1[1], FAULTS_MEAN, &[]),
        Metric::new(
            SIZES[3].1[2],
            SWAPPED_MEAN,
            &[SourceClaim::of_all("2013 series: 0, before it 278835 (swaptotal)")],
        ),
    ],
    play,
};

fn play(stage: &mut Stage<'_>) -> Result<(), Stopped> {
    let nr_frames = stage.vary_frames(FRAMES);
    for (hundredths, names) in SIZES {
        let seen = run(stage, nr_frames, FRAMES * hundredths / 100)?;
        let values = [seen.ops_percent(), seen.nr_faults as f64, seen.nr_swapped as f64];
        for (name, value) in names.into_iter().zip(values) {
            stage.measure(name, value);
        }
    }
    Ok(())
}

struct Seen {
    nr_ops: u64,
    nr_faults: u64,
    nr_swapped: u64,
}

impl Seen {
    fn ops_percent(&self) -> f64 {
        let ReplayCosts { hit_ns, miss_ns, .. } = ReplayCosts::default();
        let took_ns = (self.nr_ops - self.nr_faults) * hit_ns + self.nr_faults * miss_ns;
        percent(self.nr_ops * hit_ns, took_ns)
    }
}

fn run(stage: &mut Stage<'_>, nr_frames: u32, stream_pages: u32) -> Result<Seen, Stopped> {
    let mut layout = Layout::new();
    let store = layout.anonymous(STORE_PAGES);
    let streams: Vec<_> = (0..STREAMS).map(|_| layout.file(stream_pages)).collect();
    let host = Host::machine(nr_frames).with_swap(SWAP_PAGES);
    let mut machine = stage.machine(&layout, host);
    for index in stage.random.order(STORE_PAGES) {
        machine.touch(store, index)?;
    }
    let call = stage.vary_call();
    let swapped_before = machine.outcome().vmstat.read(Counter::PgstealAnon);
    let mut nr_faults = 0;
    for stream in streams {
        let mut read = 0;
        for nr_ops in 0..OPS {
            nr_faults += u64::from(machine.touch(store, stage.random.index(STORE_PAGES))?);
            // Keeps the stream in step with the operations, within a call or two.
            let due = u64::from(stream_pages) * u64::from(nr_ops) / u64::from(OPS);
            if u64::from(read) < due && stage.random.index(2) == 0 {
                machine.read(stream, read, call)?;
                read += call;
            }
        }
    }
    let nr_swapped = machine.outcome().vmstat.read(Counter::PgstealAnon) - swapped_before;
    stage.end(machine);
    Ok(Seen { nr_ops: u64::from(STREAMS) * u64::from(OPS), nr_faults, nr_swapped })
}
