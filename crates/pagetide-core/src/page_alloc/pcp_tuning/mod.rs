//! Tunings: how long a CPU's lists may grow, and how much each visit to the zone moves.
//!
//! **Problem.** With a short limit, a program that allocates and frees 128 MiB in a loop takes the
//! zone's lock for nearly every frame; with a long one, frames lie on one CPU that others are out
//! of. No number is right for both, and no program says which it is.
//!
//! **Idea.** The lists (`pcp/`) tell their tuning what happens, and it answers with a number of
//! blocks to fetch, or of frames to send back, and moves the limit `high` in between:
//!
//! ```text
//!   note_alloc            every allocation      frames_to_drain   every free   -> 0, or frames
//!   blocks_to_fetch       a list is empty       tick              every second -> 0, or frames
//!
//!   0      batch         high_min      high ->          high_max
//!   |--------|--------------|------------|------------------|
//!                            <- moved between these two ->
//! ```
//!
//! | tuning | `high` | file |
//! |---|---|---|
//! | `fixed` | never moves (Linux before 6.7) | `fixed` |
//! | `depth` | the depth of allocation runs and of free runs, averaged each second | `depth` |
//! | `refill` | grows with each refill, decays with time and pressure (Linux 6.7 on) | `refill` |
//!
//! **Data and invariants.** The choice is an enum: one predictable branch, no pointer. A tuning
//! sees counts only, never frames, and owns nothing but its own few words; `high` stays within
//! `high_min..=high_max`, but for the moment in which the lists' limits were changed.
//!
//! **Deliberately ignored.** What other CPUs do: a tuning knows its own CPU, and the zone's state.
//!
//! Source: the page allocator specification, sections 3 to 7.

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

/// Batches are scaled up to 2^this.
pub const PCP_BATCH_SCALE_MAX: u8 = 5;

crate::named! {
    /// Which tuning the per-CPU lists follow: the knob `pcp_tuning`.
    #[derive(Default)]
    pub enum PcpTuning or UnknownPcpTuning("no such tuning of the per-CPU lists") {
        /// The limit never moves: Linux 5.14 to 6.6.
        Fixed = "fixed",
        /// The limit follows the depth of allocation and free runs, once a second: the first
        /// proposal.
        Depth = "depth",
        /// The limit grows with refills and decays: Linux 6.7 and later.
        #[default]
        Refill = "refill",
    }
}

impl PcpTuning {
    /// The tuning with this number; `None` when there is none.
    pub fn from_index(index: usize) -> Option<PcpTuning> {
        PcpTuning::ALL.get(index).copied()
    }
}

/// What the world knows and a free is told. The world keeps it beside the zone, readable without
/// its lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZoneSignals {
    /// Background reclaim is balancing the zone: lists keep little.
    pub reclaim_active: bool,
    /// The time, as of the last tick or so; only the depth tuning looks at it.
    pub now: Millis,
}

/// How full a CPU's lists are and what bounds them, in frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gauge {
    /// Frames on the lists.
    pub(super) count: u32,
    /// Frames at which a free drains.
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

    /// The most frames one visit moves.
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

    /// The frames to send back when `high` was reached: `wanted`, but at least a batch goes and at
    /// least a batch stays. Lists that are turned off send back what they got.
    fn bounded_drain(&self, wanted: u32, high: u32) -> u32 {
        match high {
            0 => 1,
            // A limit of at least one batch is at least four of them.
            _ => wanted.clamp(self.batch(), high - self.batch()),
        }
    }

    /// Blocks that hold `nr_frames` frames, but at least two of them unless one frame is wanted.
    fn blocks_of(nr_frames: u32, order: Order) -> u32 {
        if nr_frames > 1 { (nr_frames >> order.0).max(2) } else { 1 }
    }
}

/// The state of the zone that a tuning looks at, as a free or a refill finds it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZoneView {
    pub(super) signals: ZoneSignals,
    /// Free frames were under HIGH when last looked at.
    pub(super) below_high: bool,
}

/// What a tuning is asked.
trait Tune {
    /// An allocation of `nr_frames` from the lists begins.
    fn note_alloc(&mut self, gauge: &Gauge, nr_frames: u32);
    /// The list is empty: blocks to ask the zone for, at least 1.
    fn blocks_to_fetch(&mut self, gauge: &mut Gauge, order: Order, below_high: bool) -> u32;
    /// A block was put on its list: frames to send back now.
    fn frames_to_drain(&mut self, gauge: &mut Gauge, order: Order, zone: ZoneView) -> u32;
    /// A base frame is about to come back, and free frames are plenty: as `frames_to_drain` where
    /// that would be 0, but for the count; `false`, and nothing changed, asks for it.
    fn note_kept(&mut self, gauge: &Gauge) -> bool;
    /// Some time has passed: frames to send back now.
    fn tick(&mut self, _gauge: &mut Gauge) -> u32 {
        0
    }
    /// The limits were changed.
    fn follow_limits(&mut self, gauge: &mut Gauge);
}

/// One of the tunings, with its state.
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

/// Whether frees of this order come in runs that are not worth keeping: network buffers and the
/// like, allocated here and freed there, or the other way around.
const fn is_run_order(order: Order) -> bool {
    1 <= order.0 && order.0 <= PCP_ORDER_MAX.0
}

#[cfg(test)]
mod tests;
