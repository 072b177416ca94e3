//! The judges and the readers against published miss ratios of real traces, to four digits.
//!
//! Source of the numbers: libCacheSim, run once over the same files with object sizes ignored (its
//! LRU, FIFO, CLOCK with one bit, and Belady). The traces: OLTP from Megiddo and Modha, FAST 2003,
//! and 2_pools, sprite and loop from Jiang and Zhang's LIRS distribution.

use crate::support::{find_trace, load_trace};
use pagetide_lab::judge::{naive_clock, naive_fifo, naive_lru, opt};
use pagetide_lab::trace::{Format, Trace};

/// Frames, then miss ratios in units of 1/10,000: LRU, FIFO, clock, OPT.
type Row = (usize, [u64; 4]);

/// Rounds to four digits as the source did, by the exact value of the nearest `f64`.
fn ratio_e4(misses: u64, accesses: u64) -> u64 {
    let digits = format!("{:.4}", misses as f64 / accesses as f64).replace('.', "");
    digits.parse().expect("five digits")
}

fn check(test: &str, file: &str, rows: &[Row]) {
    let Some(trace) = load_trace(test, file) else { return };
    let next_uses = opt::next_uses(&trace);
    for &(frames, golden) in rows {
        let misses = [
            naive_lru::count_misses(&trace, frames),
            naive_fifo::count_misses(&trace, frames),
            naive_clock::count_misses(&trace, frames),
            opt::count_misses_with(&trace, &next_uses, frames),
        ];
        let ratios = misses.map(|misses| ratio_e4(misses, trace.nr_accesses()));
        assert_eq!(ratios, golden, "{file} with {frames} frames: LRU, FIFO, clock, OPT");
    }
}

#[test]
fn oltp_matches_golden() {
    let rows = [
        (1000, [6717, 7147, 6673, 4639]),
        (5000, [4635, 5032, 4617, 3173]),
        (15_000, [3537, 3858, 3523, 2486]),
    ];
    check("oltp_matches_golden", "arc_OLTP.lis.zst", &rows);
}

#[test]
fn two_pools_match_golden() {
    let rows = [
        (100, [7805, 8062, 7613, 4936]),
        (450, [4973, 5848, 4879, 3796]),
        (1000, [4558, 5004, 4555, 3148]),
    ];
    check("two_pools_match_golden", "lirs_2_pools.trace", &rows);
}

#[test]
fn sprite_matches_golden() {
    let rows = [
        (100, [7842, 7770, 7811, 4920]),
        (600, [1681, 2150, 1683, 1005]),
        (1000, [936, 1276, 970, 676]),
    ];
    check("sprite_matches_golden", "lirs_sprite.trace", &rows);
}

#[test]
fn loop_matches_golden() {
    let rows = [
        (100, [10_000, 10_000, 10_000, 9021]),
        (500, [10_000, 10_000, 10_000, 5064]),
        (1000, [10_000, 10_000, 10_000, 129]),
    ];
    check("loop_matches_golden", "lirs_loop.trace", &rows);
}

#[test]
fn real_files_have_their_known_extent() {
    let test = "real_files_have_their_known_extent";
    let files = [
        ("arc_OLTP.lis.zst", Format::ArcLis, 914_145, 186_880),
        ("arc_P3.lis.zst", Format::ArcLis, 3_912_296, 762_543),
        ("cloudPhysicsIO.csv.zst", Format::Csv, 113_872, 48_974),
        ("cloudPhysicsIO.oracleGeneral.bin.zst", Format::OracleGeneral, 113_872, 48_974),
        ("twitter_cluster52.csv.zst", Format::Csv, 1_000_000, 143_542),
        ("lirs_2_pools.trace", Format::Decimal, 100_000, 9939),
    ];
    for (file, format, nr_accesses, nr_pages) in files {
        let Some(trace) = load_trace(test, file) else { continue };
        assert_eq!((trace.nr_accesses(), trace.nr_pages()), (nr_accesses, nr_pages), "{file}");
        let path = find_trace(test, file).expect("it was there");
        assert_eq!(Trace::open(&path, None).expect("opens").format(), format, "{file}");
    }
}
