//! How much a per-CPU list moves at once, and how much it may hold: pure functions of the zone.
//!
//! **Problem.** A batch too small takes the zone's lock too often; lists too long hide memory that
//! other CPUs are out of.
//!
//! **Idea.** Both grow with the zone. The batch is about 1/4096 of it, at most a quarter of 1 MiB,
//! rounded to 2^n - 1, so that batches do not resonate with caches. The most a list may hold comes
//! from the LOW watermark, or from a fraction of the zone, split over the CPUs.
//!
//! ```text
//!   0        batch                  high_min                     high_max
//!   |----------|-------...-------------|-----------...---------------|
//!    one refill         the fixed limit      as far as tuning may go (1/8 of the zone)
//! ```
//!
//! **Data and invariants.** `high_min` is 0 (lists hold nothing) or at least four batches;
//! `high_min <= high_max`.
//!
//! **Tiny zones (ours).** With four batches a CPU the lists of many CPUs could hold a whole tiny
//! zone. When that would be over a quarter of it, the lists hold nothing: each frame goes straight
//! through. Zones of 16 MiB keep their lists up to 256 CPUs.
//!
//! Source: the page allocator specification, section 3 (Linux 6.18).

use crate::ids::Order;
use crate::units::PAGE_BYTES;

/// The largest order with lists by type; above it only the huge order has any.
pub const PCP_ORDER_MAX: Order = Order(3);

/// The largest batch is a quarter of this many bytes.
const BATCH_BYTES_MAX: u64 = 1 << 20;
/// The fraction of the zone all lists together may be tuned up to: an eighth.
const FRACTION_FOR_TUNING: u32 = 8;
/// The lists of all CPUs are turned off when they could hold more than one in this many frames.
const TINY_ZONE_SHARE: u64 = 4;

/// The knob `percpu_pagelist_high_fraction`: lists hold at most 1/fraction of the zone, over all
/// CPUs; or the default, from the LOW watermark.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HighFraction(u32);

/// Why a [`HighFraction`] was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HighFractionError {
    /// A fraction from 1 to 7 would hide more than an eighth of the zone; give 0 or 8 and up.
    #[error("per-CPU list fraction {fraction} is not 0 (default) or at least 8")]
    TooLarge {
        /// What was asked for.
        fraction: u32,
    },
}

impl HighFraction {
    /// From the LOW watermark.
    pub const DEFAULT: HighFraction = HighFraction(0);
    /// The least number but 0: an eighth.
    pub const LEAST: u32 = FRACTION_FOR_TUNING;

    /// The knob's value as people type it: 0 is the default, 8 an eighth, 16 a sixteenth.
    ///
    /// # Errors
    /// [`HighFractionError::TooLarge`]: 1 to 7.
    pub const fn new(fraction: u32) -> Result<HighFraction, HighFractionError> {
        match fraction {
            1..FRACTION_FOR_TUNING => Err(HighFractionError::TooLarge { fraction }),
            _ => Ok(HighFraction(fraction)),
        }
    }
}

/// What the limits are derived from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PcpInputs {
    /// Frames the zone manages.
    pub managed: u64,
    /// The zone's LOW watermark.
    pub low_watermark: u64,
    /// CPUs of the zone's node; 0 when the node has memory only.
    pub nr_cpus_local: u32,
    /// CPUs online in all. Not 0.
    pub nr_cpus_online: u32,
    /// The knob.
    pub fraction: HighFraction,
    /// One CPU's part of its last data cache, in frames; 0 when it is not known.
    pub cache_slice: u32,
}

/// The limits of each per-CPU list set of one zone, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PcpLimits {
    batch: u32,
    high_min: u32,
    high_max: u32,
    keeps_batch_in_runs: bool,
}

impl PcpLimits {
    /// Lists that hold nothing.
    pub const DISABLED: PcpLimits =
        PcpLimits { batch: 1, high_min: 0, high_max: 0, keeps_batch_in_runs: false };

    /// Derives the limits.
    pub fn derive(inputs: &PcpInputs) -> PcpLimits {
        let batch = batch_of(inputs.managed);
        let high_min = high_from(inputs, batch, inputs.fraction);
        if u64::from(high_min) * u64::from(nr_cpus(inputs)) > inputs.managed / TINY_ZONE_SHARE {
            return PcpLimits::DISABLED;
        }
        let high_max = match inputs.fraction {
            HighFraction::DEFAULT => high_from(inputs, batch, HighFraction(FRACTION_FOR_TUNING)),
            // A knob set by hand turns tuning off.
            _ => high_min,
        };
        PcpLimits {
            batch,
            high_min,
            high_max: high_max.max(high_min),
            keeps_batch_in_runs: inputs.cache_slice > 3 * batch,
        }
    }

    /// Limits set by hand, which do not follow from a zone: for experiments.
    ///
    /// # Panics
    /// When `batch` is 0, or `high` is not 0 and under four batches.
    pub const fn fixed(batch: u32, high: u32) -> PcpLimits {
        PcpLimits::tuned(batch, high, high)
    }

    /// Limits set by hand with room for tuning: for experiments.
    pub const fn tuned(batch: u32, high_min: u32, high_max: u32) -> PcpLimits {
        assert!(batch > 0, "a batch of no frames moves nothing");
        assert!(high_min == 0 || high_min >= 4 * batch, "high is 0 or at least four batches");
        assert!(high_min <= high_max, "the lower bound is above the upper one");
        PcpLimits { batch, high_min, high_max, keeps_batch_in_runs: false }
    }

    /// The same limits for a CPU whose data cache holds more than three batches: see
    /// [`PcpLimits::keeps_batch_in_runs`].
    #[cfg(test)]
    pub(crate) const fn with_batch_kept_in_runs(self) -> PcpLimits {
        PcpLimits { keeps_batch_in_runs: true, ..self }
    }

    /// Frames moved per visit to the zone, before scaling. At least 1.
    pub const fn batch(&self) -> u32 {
        self.batch
    }

    /// The fixed limit, and the lower bound of a tuned one.
    pub const fn high_min(&self) -> u32 {
        self.high_min
    }

    /// Whether a run of frees of order 1 to 3 leaves less than a batch alone: the data cache keeps
    /// that much warm.
    pub const fn keeps_batch_in_runs(&self) -> bool {
        self.keeps_batch_in_runs
    }

    /// The upper bound of a tuned limit; equal to `high_min` when there is no tuning.
    pub const fn high_max(&self) -> u32 {
        self.high_max
    }
}

/// The batch for a zone of `managed` frames: 1 to 63.
pub fn batch_of(managed: u64) -> u32 {
    let quarter = (managed >> 10).min(BATCH_BYTES_MAX / PAGE_BYTES as u64) / 4;
    let quarter = quarter.max(1) as u32;
    let power = 1 << (quarter + quarter / 2).ilog2();
    (power - 1u32).max(1)
}

/// The most a CPU's lists may hold: its part of the LOW watermark or of a fraction of the zone, but
/// at least four batches.
fn high_from(inputs: &PcpInputs, batch: u32, fraction: HighFraction) -> u32 {
    let total = inputs.managed.checked_div(u64::from(fraction.0)).unwrap_or(inputs.low_watermark);
    let share = (total / u64::from(nr_cpus(inputs))).min(u64::from(u32::MAX)) as u32;
    share.max(4 * batch)
}

fn nr_cpus(inputs: &PcpInputs) -> u32 {
    assert!(inputs.nr_cpus_online > 0, "no CPU is online");
    match inputs.nr_cpus_local {
        0 => inputs.nr_cpus_online,
        local => local,
    }
}

#[cfg(test)]
mod tests {
    use super::super::watermark::{WatermarkInputs, WatermarkLevel, Watermarks};
    use super::*;

    const MIB: u64 = 256;
    const GIB: u64 = 1024 * MIB;

    fn inputs(managed: u64, nr_cpus: u32) -> PcpInputs {
        let marks = Watermarks::for_zone(&WatermarkInputs::single_zone(managed));
        PcpInputs {
            managed,
            low_watermark: marks.mark(WatermarkLevel::Low),
            nr_cpus_local: nr_cpus,
            nr_cpus_online: nr_cpus,
            fraction: HighFraction::DEFAULT,
            cache_slice: 0,
        }
    }

    #[test]
    fn batches_match_the_specification_table() {
        for (managed, batch) in [
            (1, 1),
            (1024, 1),
            (4096, 1),
            (8192, 1),
            (12288, 3),
            (16384, 3),
            (65536, 15),
            (131_072, 31),
            (262_144, 63),
            (1 << 28, 63),
        ] {
            assert_eq!(batch_of(managed), batch, "{managed} frames");
        }
    }

    #[test]
    fn highs_match_the_specification_table() {
        for (managed, high_min, high_max) in [
            (64 * MIB, 40, 256),
            (512 * MIB, 124, 2048),
            (4 * GIB, 387, 16384),
            (16 * GIB, 1036, 65536),
        ] {
            let limits = PcpLimits::derive(&inputs(managed, 8));
            assert_eq!((limits.high_min(), limits.high_max()), (high_min, high_max), "{managed}");
        }
    }

    #[test]
    fn a_fraction_set_by_hand_fixes_the_limit() {
        let fraction = HighFraction::new(16).unwrap();
        let limits = PcpLimits::derive(&PcpInputs { fraction, ..inputs(4 * GIB, 8) });
        assert_eq!((limits.high_min(), limits.high_max()), (8192, 8192));
        let fraction = HighFraction::new(8).unwrap();
        let limits = PcpLimits::derive(&PcpInputs { fraction, ..inputs(16 * GIB, 8) });
        assert_eq!((limits.high_min(), limits.high_max()), (65536, 65536));
    }

    #[test]
    fn fractions_above_an_eighth_are_refused() {
        assert_eq!(HighFraction::new(0), Ok(HighFraction::DEFAULT));
        for fraction in 1..8 {
            assert_eq!(HighFraction::new(fraction), Err(HighFractionError::TooLarge { fraction }));
        }
        assert!(HighFraction::new(8).is_ok() && HighFraction::new(u32::MAX).is_ok());
    }

    #[test]
    fn a_node_without_cpus_splits_over_all_of_them() {
        let inputs = PcpInputs { nr_cpus_local: 0, nr_cpus_online: 16, ..inputs(4 * GIB, 8) };
        assert_eq!(PcpLimits::derive(&inputs).high_min(), 252, "3096 / 16 is under four batches");
        let inputs = PcpInputs { nr_cpus_online: 4, ..inputs };
        assert_eq!(PcpLimits::derive(&inputs).high_min(), 774);
    }

    #[test]
    fn four_batches_are_the_floor_and_the_tuned_limit_is_never_below_the_fixed_one() {
        // 1024 frames, 64 CPUs: an eighth over 64 CPUs is 2, the floor 4.
        let limits = PcpLimits::derive(&inputs(1024, 64));
        assert_eq!((limits.batch(), limits.high_min(), limits.high_max()), (1, 4, 4));
        // One CPU, 16 frames, a steep knob: LOW alone would be more than an eighth.
        let limits = PcpLimits::derive(&PcpInputs { low_watermark: 256, ..inputs(1024, 1) });
        assert_eq!((limits.high_min(), limits.high_max()), (256, 256));
    }

    #[test]
    fn tiny_zones_hold_nothing_in_lists_when_that_would_be_a_quarter_of_them() {
        assert_eq!(PcpLimits::derive(&inputs(16, 2)), PcpLimits::DISABLED);
        assert_eq!(PcpLimits::derive(&inputs(1, 1)), PcpLimits::DISABLED);
        assert_eq!(PcpLimits::derive(&inputs(32, 2)).high_min(), 4);
        for nr_cpus in [1, 2, 8, 256] {
            assert_ne!(PcpLimits::derive(&inputs(4096, nr_cpus)), PcpLimits::DISABLED);
        }
    }
}
