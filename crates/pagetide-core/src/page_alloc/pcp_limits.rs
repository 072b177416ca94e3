//! Batch and maximum length of per-CPU lists.
//!
//! **Problem.** Small batches take the zone's lock too often. Long lists hide memory from other
//! CPUs.
//!
//! **Idea.** Both grow with the zone. The batch is about 1/4096 of the zone, at most a quarter of 1
//! MiB, rounded to 2^n - 1 against cache aliasing. The maximum is the LOW watermark, or a fraction
//! of the zone, divided by CPUs.
//!
//! ```text
//!   0        batch                  high_min                     high_max
//!   |----------|-------...-------------|-----------...---------------|
//!    one refill         the fixed limit      the bound of tuning (1/8 of the zone)
//! ```
//!
//! **Data and invariants.** `high_min` is 0 (no lists) or at least four batches.
//! `high_min <= high_max`.
//!
//! **Tiny zones (original).** If four batches per CPU exceed a quarter of the zone, lists are
//! disabled.
//!
//! **Source.** Linux 6.18's page allocator, and `Documentation/admin-guide/sysctl/vm.rst`
//! (`percpu_pagelist_high_fraction`).

use crate::ids::Order;
use crate::units::PAGE_BYTES;

/// Largest order with a list, except the huge order.
pub const PCP_ORDER_MAX: Order = Order(3);

/// Four times the largest batch, bytes.
const BATCH_BYTES_MAX: u64 = 1 << 20;
/// Divisor of the zone that bounds tuned lists.
const FRACTION_FOR_TUNING: u32 = 8;
/// Divisor of the zone. Lists that could hold more are disabled.
const TINY_ZONE_SHARE: u64 = 4;

/// The knob `percpu_pagelist_high_fraction`: all lists hold at most 1/fraction of the zone. The
/// default is the LOW watermark.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HighFraction(u32);

/// Reason for a rejected [`HighFraction`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HighFractionError {
    /// 1 to 7 would hide over an eighth of the zone. Give 0, or 8 and up.
    #[error("per-CPU list fraction {fraction} is not 0 (default) or at least 8")]
    TooLarge {
        /// Given fraction.
        fraction: u32,
    },
}

impl HighFraction {
    /// The LOW watermark.
    pub const DEFAULT: HighFraction = HighFraction(0);
    /// Least nonzero value: an eighth.
    pub const LEAST: u32 = FRACTION_FOR_TUNING;

    /// Creates the knob: 0 is the default, 8 an eighth, 16 a sixteenth.
    ///
    /// # Errors
    /// [`HighFractionError::TooLarge`] for 1 to 7.
    pub const fn new(fraction: u32) -> Result<HighFraction, HighFractionError> {
        match fraction {
            1..FRACTION_FOR_TUNING => Err(HighFractionError::TooLarge { fraction }),
            _ => Ok(HighFraction(fraction)),
        }
    }
}

/// Inputs of the limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PcpInputs {
    /// Frames managed by the zone.
    pub managed: u64,
    /// LOW watermark of the zone.
    pub low_watermark: u64,
    /// CPUs of the zone's node, 0 for memory only.
    pub nr_cpus_local: u32,
    /// CPUs online, not 0.
    pub nr_cpus_online: u32,
    /// Knob.
    pub fraction: HighFraction,
    /// A CPU's share of the last-level data cache, in frames. 0 if unknown.
    pub cache_slice: u32,
}

/// Limits of each CPU's lists of a zone, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PcpLimits {
    batch: u32,
    high_min: u32,
    high_max: u32,
    keeps_batch_in_runs: bool,
}

impl PcpLimits {
    /// Disabled lists.
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
            // A manual setting disables tuning.
            _ => high_min,
        };
        PcpLimits {
            batch,
            high_min,
            high_max: high_max.max(high_min),
            keeps_batch_in_runs: inputs.cache_slice > 3 * batch,
        }
    }

    /// Creates manual limits.
    ///
    /// # Panics
    /// If `batch` is 0, or `high` is nonzero and below four batches.
    pub const fn fixed(batch: u32, high: u32) -> PcpLimits {
        PcpLimits::tuned(batch, high, high)
    }

    /// Creates manual limits with room for tuning.
    pub const fn tuned(batch: u32, high_min: u32, high_max: u32) -> PcpLimits {
        assert!(batch > 0, "a batch of no frames moves nothing");
        assert!(high_min == 0 || high_min >= 4 * batch, "high is 0 or at least four batches");
        assert!(high_min <= high_max, "the lower bound is above the upper one");
        PcpLimits { batch, high_min, high_max, keeps_batch_in_runs: false }
    }

    #[cfg(test)]
    pub(crate) const fn with_batch_kept_in_runs(self) -> PcpLimits {
        PcpLimits { keeps_batch_in_runs: true, ..self }
    }

    /// Returns the frames moved per visit to the zone, unscaled. At least 1.
    pub const fn batch(&self) -> u32 {
        self.batch
    }

    /// Returns the fixed limit, the lower bound of tuning.
    pub const fn high_min(&self) -> u32 {
        self.high_min
    }

    /// Returns true if a run of frees of order 1 to 3 keeps up to a batch, warm in the cache.
    pub const fn keeps_batch_in_runs(&self) -> bool {
        self.keeps_batch_in_runs
    }

    /// Returns the upper bound of tuning, `high_min` without tuning.
    pub const fn high_max(&self) -> u32 {
        self.high_max
    }
}

/// Returns the batch for `managed` frames: 1 to 63.
pub fn batch_of(managed: u64) -> u32 {
    let quarter = (managed >> 10).min(BATCH_BYTES_MAX / PAGE_BYTES as u64) / 4;
    let quarter = quarter.max(1) as u32;
    let power = 1 << (quarter + quarter / 2).ilog2();
    (power - 1u32).max(1)
}

/// Returns a CPU's limit: a share of LOW or of the fraction, at least four batches.
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
    fn batches_match_linux_6_18() {
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
    fn highs_match_linux_6_18() {
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
        // An eighth over 64 CPUs is 2, the floor 4.
        let limits = PcpLimits::derive(&inputs(1024, 64));
        assert_eq!((limits.batch(), limits.high_min(), limits.high_max()), (1, 4, 4));
        // LOW is more than an eighth.
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
