//! Tunings: length of per-CPU lists, and frames moved per visit to the zone.
//!
//! **Problem.** With a short limit, a loop that allocates and frees 128 MiB takes the zone's lock
//! for nearly every frame. A long limit keeps frames from other CPUs.
//!
//! **Idea.** The lists (`pcp/`) report events to a tuning, which returns blocks to fetch or frames
//! to drain, and adapts the limit `high`:
//!
//! ```text
//!   note_alloc            every allocation      frames_to_drain   every free   -> 0, or frames
//!   blocks_to_fetch       a list is empty       tick              every second -> 0, or frames
//!
//!   0      batch         high_min      high ->          high_max
//!   |--------|--------------|------------|------------------|
//!                            <- tuned in between ->
//! ```
//!
//! | tuning | `high` | file |
//! |---|---|---|
//! | `fixed` | never moves (Linux before 6.7) | `fixed` |
//! | `depth` | the depth of allocation runs and of free runs, averaged each second | `depth` |
//! | `refill` | grows with each refill, decays with time and pressure (Linux 6.7 on) | `refill` |
//!
//! **Data and invariants.** The choice is an enum: one predictable branch. A tuning sees counts,
//! never frames. `high` stays within `high_min..=high_max`, except while limits change.
//!
//! **Ignored.** Other CPUs.
//!
//! **Source.** Y. Huang, "mm: PCP high auto-tuning": the RFC of July 2023, and version 3 of October
//! 2023, merged in Linux 6.7.

use super::pcp_limits::{PCP_ORDER_MAX, PcpLimits};
use crate::ids::Order;
use crate::units::Millis;

mod depth;
mod fixed;
mod refill;
mod traffic;

use depth::Depth;
use fixed::Fixed;
use refill::Refill;

/// Maximum shift of batch scaling.
pub const PCP_BATCH_SCALE_MAX: u8 = 5;

crate::named! {
    /// Tuning of the per-CPU lists: the knob `pcp_tuning`.
    #[derive(Default)]
    pub enum PcpTuning or UnknownPcpTuning("no such tuning of the per-CPU lists") {
        /// Constant limit: Linux 5.14 to 6.6.
        Fixed = "fixed",
        /// Limit follows the depth of allocation and free runs, each second: the first proposal.
        Depth = "depth",
        /// Limit grows with refills and decays: Linux 6.7 and later.
        #[default]
        Refill = "refill",
    }
}

impl PcpTuning {
    /// Returns the tuning with this number.
    pub fn from_index(index: usize) -> Option<PcpTuning> {
        PcpTuning::ALL.get(index).copied()
    }
}

/// Signals for a free, readable without the zone's lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZoneSignals {
    /// True while background reclaim balances the zone: lists keep little.
    pub reclaim_active: bool,
    /// Time of about the last tick, for the depth tuning.
    pub now: Millis,
}

/// Fill level and limits of a CPU's lists, in frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gauge {
    pub(super) count: u32,
    /// Limit at which a free drains.
    pub(super) high: u32,
    pub(super) limits: PcpLimits,
}

impl Gauge {
    fn batch(&self) -> u32 {
        self.limits.batch()
    }

    fn high_min(&self) -> u32 {
        self.limits.high_min()
    }

    pub(super) fn batch_max(&self) -> u32 {
        self.batch() << PCP_BATCH_SCALE_MAX
    }

    fn is_tunable(&self) -> bool {
        self.limits.high_min() != self.limits.high_max()
    }

    fn set_high(&mut self, high: u32) {
        self.high = high.clamp(self.limits.high_min(), self.limits.high_max());
    }

    fn raise_high(&mut self, by: u32) {
        self.set_high(self.high.saturating_add(by));
    }

    fn lower_high(&mut self, by: u32) {
        self.set_high(self.high.saturating_sub(by));
    }

    /// Bounds a drain: at least a batch goes, at least a batch stays.
    fn bounded_drain(&self, wanted: u32, high: u32) -> u32 {
        match high {
            0 => 1,
            // A nonzero limit is at least four batches.
            _ => wanted.clamp(self.batch(), high - self.batch()),
        }
    }

    /// Returns the blocks for `nr_frames` frames, at least two for more than one frame.
    fn blocks_of(nr_frames: u32, order: Order) -> u32 {
        if nr_frames > 1 { (nr_frames >> order.0).max(2) } else { 1 }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ZoneView {
    pub(super) signals: ZoneSignals,
    /// True if free frames were last seen below HIGH.
    pub(super) below_high: bool,
}

trait Tune {
    fn note_alloc(&mut self, gauge: &Gauge, nr_frames: u32);
    /// Returns the blocks to fetch for an empty list, at least 1.
    fn blocks_to_fetch(&mut self, gauge: &mut Gauge, order: Order, below_high: bool) -> u32;
    /// Returns the frames to drain after a free.
    fn frames_to_drain(&mut self, gauge: &mut Gauge, order: Order, zone: ZoneView) -> u32;
    /// Fast path of `frames_to_drain` for a base frame while free frames are plenty. Returns false,
    /// without a change, if it does not apply.
    fn note_kept(&mut self, gauge: &Gauge) -> bool;
    /// Returns the frames to drain after some time.
    fn tick(&mut self, _gauge: &mut Gauge) -> u32 {
        0
    }
    fn follow_limits(&mut self, gauge: &mut Gauge);
}

#[derive(Debug)]
pub(super) enum Tuning {
    Fixed(Fixed),
    Depth(Depth),
    Refill(Refill),
}

macro_rules! dispatch {
    ($self:ident, $tuning:ident => $call:expr) => {
        match $self {
            Tuning::Refill($tuning) => $call,
            Tuning::Fixed($tuning) => $call,
            Tuning::Depth($tuning) => $call,
        }
    };
}

impl Tuning {
    pub(super) fn new(choice: PcpTuning) -> Tuning {
        match choice {
            PcpTuning::Fixed => Tuning::Fixed(Fixed::default()),
            PcpTuning::Depth => Tuning::Depth(Depth::default()),
            PcpTuning::Refill => Tuning::Refill(Refill::default()),
        }
    }

    #[inline]
    pub(super) fn note_alloc(&mut self, gauge: &Gauge, nr_frames: u32) {
        dispatch!(self, tuning => tuning.note_alloc(gauge, nr_frames));
    }

    pub(super) fn blocks_to_fetch(
        &mut self,
        gauge: &mut Gauge,
        order: Order,
        below_high: bool,
    ) -> u32 {
        dispatch!(self, tuning => tuning.blocks_to_fetch(gauge, order, below_high))
    }

    #[inline]
    pub(super) fn frames_to_drain(
        &mut self,
        gauge: &mut Gauge,
        order: Order,
        zone: ZoneView,
    ) -> u32 {
        dispatch!(self, tuning => tuning.frames_to_drain(gauge, order, zone))
    }

    #[inline]
    pub(super) fn note_kept(&mut self, gauge: &Gauge) -> bool {
        gauge.count + 1 < gauge.high && dispatch!(self, tuning => tuning.note_kept(gauge))
    }

    pub(super) fn tick(&mut self, gauge: &mut Gauge) -> u32 {
        dispatch!(self, tuning => tuning.tick(gauge))
    }

    pub(super) fn follow_limits(&mut self, gauge: &mut Gauge) {
        dispatch!(self, tuning => tuning.follow_limits(gauge));
    }
}

/// Returns true for orders freed in runs that lists should not keep, such as network buffers.
const fn is_run_order(order: Order) -> bool {
    1 <= order.0 && order.0 <= PCP_ORDER_MAX.0
}

#[cfg(test)]
mod tests;
