//! The rows of the table: a trace, a memory size, and the best published policy.

mod tenths;
mod unseen;

pub(crate) use tenths::TENTHS;
pub(crate) use unseen::UNSEEN;

use crate::traces::Source;
use pagetide_core::lru::PolicyName;
use pagetide_lab::made::Made;

/// The best published online policy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Best {
    /// Misses per access.
    pub(crate) miss_ratio: f64,
    pub(crate) policy: PolicyName,
}

/// A trace and a memory size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Row {
    /// Trace and frames, as in "OLTP@1000", after a group and a slash if shown only on request.
    pub(crate) name: &'static str,
    pub(crate) source: Source,
    /// The memory size.
    pub(crate) frames: u32,
    /// The best published result.
    pub(crate) best: Best,
}

/// Rows by group, trace and frames, with the lowest miss ratio and the policy.
macro_rules! rows {
    ($($group:literal { $($trace:literal, $source:ident($made:expr) =>
        $($frames:literal $misses:literal $best:ident),+;)+ })+) => {
        &[$($($(Row {
            name: concat!($group, $trace, "@", $frames),
            source: Source::$source($made),
            frames: $frames,
            best: Best { miss_ratio: $misses, policy: PolicyName::$best },
        }),+),+),+]
    };
}
pub(super) use rows;

/// All rows, grouped by trace. LIRS of cp@9795 is another reading of the paper than core's, 1.2
/// points better there.
pub(crate) const ROWS: &[Row] = rows! {
    "" {
        "OLTP", File("arc_OLTP.lis.zst") =>
            1000 0.5914 S3Fifo, 5000 0.4425 S3Fifo, 15_000 0.3402 S3Fifo;
        "P3", File("arc_P3.lis.zst") =>
            8192 0.9540 WTinyLfu, 65_536 0.6752 Lirs, 262_144 0.3212 S3Fifo;
        "P6", File("arc_P6.lis.zst") =>
            8192 0.9326 WTinyLfu, 65_536 0.4451 WTinyLfu, 262_144 0.0965 S3Fifo;
        "2_pools", File("lirs_2_pools.trace") =>
            100 0.5211 Sieve, 450 0.4826 WTinyLfu, 1000 0.4555 Clock;
        "sprite", File("lirs_sprite.trace") =>
            100 0.7052 WTinyLfu, 600 0.1674 S3Fifo, 1000 0.0936 Lru;
        "loop", File("lirs_loop.trace") => 100 0.9023 Lirs, 500 0.5114 Lirs, 1000 0.0227 Lirs;
        "cp", File("cloudPhysicsIO.csv.zst") =>
            4897 0.7518 Lirs, 9795 0.6437 Lirs, 19_590 0.5190 Lirs;
        "tw52", File("twitter_cluster52.csv.zst") => 14_354 0.1876 S3Fifo, 35_886 0.1640 S3Fifo;
        "zipf90", Habit(Made::Zipf { skew: 0.9 }) => 100_000 0.3127 WTinyLfu;
        "zipf99", Habit(Made::Zipf { skew: 0.99 }) => 100_000 0.2053 WTinyLfu;
        "zscan", Habit(Made::ZipfAndScan) => 100_000 0.6879 WTinyLfu;
        "loop15", Habit(Made::Loop) => 20_000 0.3532 Lirs;
        "shift4", Habit(Made::Shift) => 20_000 0.1558 Clock;
        "zigzag", Habit(Made::Zigzag) => 20_000 0.3467 Lru;
        "slide", Habit(Made::Slide) => 20_000 0.2850 Fifo;
    }
};

/// Returns all rows, groups after the usual ones.
pub(crate) fn all_rows() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().chain(TENTHS).chain(UNSEEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_named_once() {
        let rows: Vec<&Row> = all_rows().collect();
        for (at, row) in rows.iter().enumerate() {
            assert!(rows[..at].iter().all(|other| other.name != row.name), "{}", row.name);
            assert!(row.best.miss_ratio > 0.0 && row.best.miss_ratio < 1.0);
        }
    }
}
