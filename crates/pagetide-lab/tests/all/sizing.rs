//! The live estimate of the curve against the exact curve.
//!
//! Each row is a trace and a memory. The error is the mean over 16 sizes from a quarter to four
//! times the memory, evenly spaced by ratio. Memories up to 512 frames are not sampled, with the
//! width of the buckets as error.
//!
//! Not verified: curves of policies other than LRU, which have none.

use crate::support::load_trace;
use pagetide_core::sizing::{PageKey, ReuseSample};
use pagetide_lab::curve::{self, sizes};
use pagetide_lab::trace::{AccessKind, DenseTrace};

fn error(trace: &DenseTrace, nr_frames: u32) -> (f64, f64) {
    let exact = curve::lru(trace);
    let mut sample = ReuseSample::new(nr_frames);
    for (rank, kind) in trace.entries() {
        let page = trace.page(rank);
        let key = PageKey::of(
            u64::from(page.mapping.0 + 1).wrapping_mul(0x9fb2_1c65_1e98_df25),
            page.index,
        );
        match kind {
            AccessKind::Discard => sample.discard(key),
            kind if kind.is_access() => sample.access(key),
            _ => {}
        }
    }
    sample.validate();
    let nr_accesses = exact.nr_accesses();
    let differences: Vec<f64> = sizes(nr_frames / 4, nr_frames * 4, 16)
        .into_iter()
        .map(|frames| {
            let hits = nr_accesses - exact.misses(frames.into());
            let told = sample.counts().hits(frames.into(), nr_accesses);
            (hits.abs_diff(told)) as f64 / nr_accesses as f64 * 100.0
        })
        .collect();
    let mean = differences.iter().sum::<f64>() / differences.len() as f64;
    (mean, differences.iter().copied().fold(0.0, f64::max))
}

fn check(name: &str, trace: &DenseTrace, rows: &[(u32, f64)]) {
    for &(nr_frames, most) in rows {
        let (mean, largest) = error(trace, nr_frames);
        println!("{name}, {nr_frames} frames: off by {mean:.2} points, at most {largest:.2}");
        assert!(mean <= most, "{name}, {nr_frames} frames: {mean:.2} points, {most} allowed");
    }
}

#[test]
fn zipf_curves_are_known_to_a_point() {
    let zipf = zipf(400_000, 0.8, 4_000_000);
    check("zipf 0.8", &zipf, &[(1024, 0.6), (16_384, 1.5), (65_536, 1.5), (131_072, 1.5)]);
}

#[test]
fn the_step_of_a_loop_is_found() {
    let trace = DenseTrace::from_reads((0..2_000_000).map(|step| step % 50_000));
    // At a sharp step, a twentieth of a size counts as all or nothing.
    check("loop", &trace, &[(16_384, 8.0), (65_536, 8.0)]);
}

#[test]
fn curves_of_traces_are_known_to_two_points() {
    let test = "curves_of_traces_are_known_to_two_points";
    let rows: [(&str, &[(u32, f64)]); 5] = [
        ("twitter_cluster52.csv.zst", &[(1024, 1.0), (16_384, 2.0), (65_536, 2.0)]),
        ("arc_P3.lis.zst", &[(1024, 1.0), (16_384, 2.0), (65_536, 2.0)]),
        ("arc_OLTP.lis.zst", &[(1024, 1.0), (8192, 2.0), (16_384, 2.0)]),
        ("cloudPhysicsIO.csv.zst", &[(1024, 1.0), (8192, 2.0)]),
        ("lirs_sprite.trace", &[(512, 1.0), (4096, 2.0)]),
    ];
    for (file, rows) in rows {
        if let Some(trace) = load_trace(test, file) {
            check(file, &trace, rows);
        }
    }
}

/// Returns `nr_accesses` of `nr_pages` pages, with weight n^-`skew` for the n-th most popular.
fn zipf(nr_pages: u64, skew: f64, nr_accesses: u64) -> DenseTrace {
    let mut total = 0.0;
    let sums: Vec<f64> = (1..=nr_pages)
        .map(|rank| {
            total += (rank as f64).powf(-skew);
            total
        })
        .collect();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    DenseTrace::from_reads((0..nr_accesses).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let wanted = (state >> 11) as f64 / (1_u64 << 53) as f64 * total;
        sums.partition_point(|sum| *sum < wanted) as u64
    }))
}
