//! Core's kernel policies, replayed, against the kernel itself: hit ratios within a point.
//!
//! Source of the numbers: Linux 6.18.15, one process reading 4 KiB pages without readahead in a
//! memory group; the frames are those the page cache held at the end. Multi-gen LRU: two boots, the
//! range they span. Two lists: with statistics kept fresh by a reader of `memory.stat`, so that the
//! live counters here compare.
//!
//! Not verified: that the same pages are evicted; only how many hits come of it.

mod support;

use pagetide_core::lru::PolicyName;
use pagetide_lab::replay::{self, Contender};
use support::load_trace;

/// How far from the kernel's figure a replay may be. Seen: at most 0.006 and 0.010.
const TOLERANCE: [(PolicyName, f64); 2] =
    [(PolicyName::Mglru, 0.008), (PolicyName::ActiveInactive, 0.012)];

/// Frames, and the lowest and highest hit ratio measured.
type Row = (u32, f64, f64);

fn check(test: &str, file: &str, mglru: &[Row], two_lists: &[Row]) {
    let Some(trace) = load_trace(test, file) else { return };
    for ((name, tolerance), rows) in TOLERANCE.into_iter().zip([mglru, two_lists]) {
        for &(frames, low, high) in rows {
            let hit_ratio = 1.0 - replay::run(Contender::Policy(name), &trace, frames).miss_ratio();
            let is_near = (low - tolerance..=high + tolerance).contains(&hit_ratio);
            assert!(
                is_near,
                "{name} on {file}, {frames} frames: {hit_ratio:.4}, kernel {low}-{high}"
            );
        }
    }
}

#[test]
fn cloud_physics_hits_as_in_the_kernel() {
    check(
        "cloud_physics_hits_as_in_the_kernel",
        "cloudPhysicsIO.csv.zst",
        &[(4692, 0.19541, 0.19605), (9651, 0.24974, 0.24983), (19_440, 0.37656, 0.37667)],
        &[(4722, 0.2015, 0.2015), (9645, 0.269, 0.269), (19_361, 0.4312, 0.4312)],
    );
}

#[test]
fn sqlite_hits_as_in_the_kernel() {
    check(
        "sqlite_hits_as_in_the_kernel",
        "sqlite_filemap_tracepoint.csv.zst",
        &[(5966, 0.68500, 0.69361), (12_184, 0.79442, 0.79443)],
        &[(6020, 0.6988, 0.6988), (12_159, 0.7961, 0.7961)],
    );
}

#[test]
fn twitter_hits_as_in_the_kernel() {
    check(
        "twitter_hits_as_in_the_kernel",
        "twitter_cluster52.csv.zst",
        &[(13_972, 0.78892, 0.78892), (35_512, 0.82929, 0.82929)],
        &[(13_949, 0.7929, 0.7929), (35_513, 0.8308, 0.8308)],
    );
}

#[test]
fn oltp_hits_as_in_the_kernel() {
    check(
        "oltp_hits_as_in_the_kernel",
        "arc_OLTP.lis.zst",
        &[(4606, 0.45774, 0.45775), (14_507, 0.60990, 0.60990)],
        &[(4599, 0.5332, 0.5332), (14_530, 0.6492, 0.6492)],
    );
}
