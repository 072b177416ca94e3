//! The law for fast and slow memory: the same pages move, up and down, at the same entries.
//!
//! Time is told by hand. The knobs are a hundred times as fast as a kernel's, so that a short run
//! has many scans.

use crate::pin_thread;
use crate::run::{Run, play};
use crate::scripts::{SCRIPTS, everything};
use pagetide::{
    Builder, Bytes, Millis, PageCache, PolicyName, Stage, Tier, TieringKnobs, TieringOptions,
};
use std::time::Duration;

/// Frames of fast and slow memory: the least there can be, few, and enough for leaves and batches.
const SIZES: [(u64, u64); 3] = [(16, 16), (40, 130), (300, 900)];

/// The policies that know tiers.
pub(crate) fn policies() -> impl Iterator<Item = PolicyName> {
    PolicyName::ALL.iter().copied().filter(|policy| *policy != PolicyName::Lirs)
}

fn slow(nr_frames: u64) -> Tier {
    Tier::emulated(Bytes::from_pages(nr_frames), Duration::from_nanos(50))
}

fn options(stage: Stage) -> TieringOptions {
    let knobs = TieringKnobs {
        scan_period_min: Millis(10),
        scan_period_max: Millis(60),
        scan_pages: 64,
        scan_delay: Millis(20),
        hot_threshold: Millis(40),
        promote_rate_frames: 400,
        rate_window: Millis(50),
        free_space_frames: 16,
        ..TieringKnobs::default()
    };
    TieringOptions { knobs, ..TieringOptions::from(stage) }
}

fn tiered(nr_fast: u64, nr_slow: u64, stage: Stage) -> Builder {
    let fast = Tier::dram(Bytes::from_pages(nr_fast));
    PageCache::builder().tier(fast).tier(slow(nr_slow)).tiering(options(stage))
}

fn nr_moved(run: &Run) -> (u64, u64) {
    let tiering = run.stats.tiering.as_ref().expect("tiers");
    (tiering.promoted, tiering.demoted)
}

#[test]
fn a_replayed_run_moves_the_pages_that_the_run_did() {
    if !pin_thread("a_replayed_run_moves_the_pages_that_the_run_did") {
        return;
    }
    let (mut nr_promoted, mut nr_demoted) = (0, 0);
    for (nr_fast, nr_slow) in SIZES {
        for (name, script) in SCRIPTS {
            for policy in policies() {
                let what = format!("{name}, {policy}, {nr_fast} and {nr_slow} frames");
                let builder = tiered(nr_fast, nr_slow, Stage::default()).policy(policy);
                let builder = builder.readahead_max(Bytes(64 << 10));
                let run = Run::record_with(builder, |cache| play(cache, script, 0));
                run.check(&what);
                nr_promoted += nr_moved(&run).0;
                nr_demoted += nr_moved(&run).1;
            }
        }
    }
    assert!(nr_promoted > 10_000 && nr_demoted > 10_000, "{nr_promoted} up, {nr_demoted} down");
}

#[test]
fn every_stage_of_promotion_is_replayed() {
    if !pin_thread("every_stage_of_promotion_is_replayed") {
        return;
    }
    for stage in Stage::ALL {
        for (seed, policy) in (0..).zip(policies()) {
            let builder = tiered(60, 300, stage).policy(policy);
            let run = Run::record_with(builder, |cache| play(cache, everything, seed));
            run.check(&format!("{stage}, {policy}"));
            assert!(nr_moved(&run).0 > 0, "{stage}, {policy}: nothing is promoted");
        }
    }
}
